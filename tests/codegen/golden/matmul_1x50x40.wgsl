// kernel matmul_1x50x40
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<f32>;
@group(0) @binding(2) var<storage, read_write> out2: array<f32>;

var<workgroup> team_f32: array<f32, 256>;

// Joins the parts of a team.
fn team_sum_f32(part: f32, id: u32, lane: u32) -> f32 {
  var value = part;
  workgroupBarrier();
  team_f32[id] = value;
  workgroupBarrier();
  let first = id - lane * 16u;
  value = team_f32[first];
  for (var k = 1u; k < 16u; k++) {
    let other = first + k * 16u;
    value = value + team_f32[other];
  }
  return value;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let lane = local / 16u;
  let live = block * 16u + local % 16u < 50u;
  let row = min(block * 16u + local % 16u, 49u);
  let i2 = row;
  var sum3_part: f32 = 0.0;
  // pass 1 of 1
  for (var step = 0u; step < 3u; step++) {
    let j = step * 16u + lane;
    if (j < 40u) {
      let i3 = j;
      let load0 = in0[i3];
      let load1 = in1[i2 + 50u * i3];
      let mul2 = load0 * load1;
      sum3_part = sum3_part + mul2;
    }
  }
  let sum3 = team_sum_f32(sum3_part, local, lane);
  if (lane == 0u && live) {
    out2[row] = sum3;
  }
}
// 4 x 1 x 1 workgroups of 256 threads, 1024 bytes shared
