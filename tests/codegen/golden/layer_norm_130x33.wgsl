// kernel layer_norm_130x33
@group(0) @binding(0) var<storage, read_write> out0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<f32>;
@group(0) @binding(2) var<storage, read_write> out2: array<f32>;
@group(0) @binding(3) var<storage, read_write> out3: array<f32>;

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
  let i0 = row;
  var sum2_part: f32 = 0.0;
  // pass 1 of 3
  for (var step = 0u; step < 2u; step++) {
    let j = step * 32u + lane;
    if (j < 33u) {
      let i1 = j;
      let load0 = out0[33u * i0 + i1];
      let add15 = load0 + 1.0;
      sum2_part = sum2_part + load0;
      out3[33u * i0 + i1] = add15;
    }
  }
  let sum2 = team_sum_f32(sum2_part, local, lane);
  let mul3 = sum2 * 0.030303031;
  var sum6_part: f32 = 0.0;
  // pass 2 of 3
  for (var step = 0u; step < 2u; step++) {
    let j = step * 32u + lane;
    if (j < 33u) {
      let i1 = j;
      let load0 = out0[33u * i0 + i1];
      let sub4 = load0 - mul3;
      let mul5 = sub4 * sub4;
      sum6_part = sum6_part + mul5;
    }
  }
  let sum6 = team_sum_f32(sum6_part, local, lane);
  let mul7 = sum6 * 0.030303031;
  let add9 = mul7 + 1e-05;
  let rsqrt10 = inverseSqrt(add9);
  // pass 3 of 3
  for (var step = 0u; step < 2u; step++) {
    let j = step * 32u + lane;
    if (j < 33u) {
      let i1 = j;
      let load0 = out0[33u * i0 + i1];
      let sub4 = load0 - mul3;
      let mul11 = sub4 * rsqrt10;
      let load12 = in1[i1];
      let mul13 = mul11 * load12;
      out0[33u * i0 + i1] = mul13;
    }
  }
  if (lane == 0u) {
    out2[row] = mul3;
  }
}
// 65 x 1 x 1 workgroups of 64 threads, 256 bytes shared
