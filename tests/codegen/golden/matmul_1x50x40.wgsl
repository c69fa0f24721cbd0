// kernel matmul_1x50x40
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<f32>;
@group(0) @binding(2) var<storage, read_write> out2: array<f32>;

var<workgroup> team_f32: array<f32, 64>;

// Joins the parts of a team.
fn team_sum_f32(part: f32, id: u32, lane: u32) -> f32 {
  workgroupBarrier();
  team_f32[id] = part;
  workgroupBarrier();
  for (var level = 0u; level < 5u; level++) {
    let half = 16u >> level;
    if (lane < half) {
      let other = id + half;
      team_f32[id] = team_f32[id] + team_f32[other];
    }
    workgroupBarrier();
  }
  return team_f32[id - lane];
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let lane = local % 32u;
  let row = block * 2u + local / 32u;
  let i2 = row;
  var sum3_part: f32 = 0.0;
  // pass 1 of 1
  for (var step = 0u; step < 2u; step++) {
    let j = step * 32u + lane;
    if (j < 40u) {
      let i3 = j;
      let load0 = in0[i3];
      let load1 = in1[i2 + 50u * i3];
      let mul2 = load0 * load1;
      sum3_part = sum3_part + mul2;
    }
  }
  let sum3 = team_sum_f32(sum3_part, local, lane);
  if (lane == 0u) {
    out2[row] = sum3;
  }
}
// 25 x 1 x 1 workgroups of 64 threads, 256 bytes shared
