// kernel layer_norm_130x33
@group(0) @binding(0) var<storage, read_write> out0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<f32>;
@group(0) @binding(2) var<storage, read_write> out2: array<f32>;
@group(0) @binding(3) var<storage, read_write> out3: array<f32>;

var<workgroup> team_f32: array<f32, 64>;

// Joins the parts of a team.
fn team_sum_f32(part: f32, id: u32, lane: u32) -> f32 {
  var value = part;
  workgroupBarrier();
  team_f32[id] = value;
  workgroupBarrier();
  if (lane < 16u) {
    for (var k = 1u; k < 2u; k++) {
      let other = id + k * 16u;
      value = value + team_f32[other];
    }
    team_f32[id] = value;
  }
  workgroupBarrier();
  let first = id - lane;
  value = team_f32[first];
  for (var k = 1u; k < 16u; k++) {
    let other = first + k;
    value = value + team_f32[other];
  }
  return value;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let lane = local % 32u;
  let row = block * 2u + local / 32u;
  let i0 = row;
  var sum2_part: f32 = 0.0;
  // pass 1 of 3
  let j_0 = lane;
  let i1_0 = j_0;
  let load0_0 = out0[33u * i0 + i1_0];
  let add15_0 = load0_0 + 1.0;
  sum2_part = sum2_part + load0_0;
  out3[33u * i0 + i1_0] = add15_0;
  let inside_1 = 32u + lane < 33u;
  let j_1 = min(32u + lane, 32u);
  let i1_1 = j_1;
  let load0_1 = out0[33u * i0 + i1_1];
  let add15_1 = load0_1 + 1.0;
  if (inside_1) {
    sum2_part = sum2_part + load0_1;
  }
  if (inside_1) {
    out3[33u * i0 + i1_1] = add15_1;
  }
  let sum2 = team_sum_f32(sum2_part, local, lane);
  let mul3 = sum2 * 0.030303031;
  var sum6_part: f32 = 0.0;
  // pass 2 of 3
  let sub4_0 = load0_0 - mul3;
  let mul5_0 = sub4_0 * sub4_0;
  sum6_part = sum6_part + mul5_0;
  let sub4_1 = load0_1 - mul3;
  let mul5_1 = sub4_1 * sub4_1;
  if (inside_1) {
    sum6_part = sum6_part + mul5_1;
  }
  let sum6 = team_sum_f32(sum6_part, local, lane);
  let mul7 = sum6 * 0.030303031;
  let add9 = mul7 + 1e-05;
  let rsqrt10 = inverseSqrt(add9);
  // pass 3 of 3
  let mul11_0 = sub4_0 * rsqrt10;
  let load12_0 = in1[i1_0];
  let mul13_0 = mul11_0 * load12_0;
  out0[33u * i0 + i1_0] = mul13_0;
  let mul11_1 = sub4_1 * rsqrt10;
  let load12_1 = in1[i1_1];
  let mul13_1 = mul11_1 * load12_1;
  if (inside_1) {
    out0[33u * i0 + i1_1] = mul13_1;
  }
  if (lane == 0u) {
    out2[row] = mul3;
  }
}
// 65 x 1 x 1 workgroups of 64 threads, 256 bytes shared
