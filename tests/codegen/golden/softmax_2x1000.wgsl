// kernel softmax_2x1000
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read_write> out1: array<f32>;

var<workgroup> team_f32: array<f32, 256>;

var<private> tg_inf_bits: u32 = 0x7f800000u;

fn tg_inf() -> f32 {
  return bitcast<f32>(tg_inf_bits);
}

fn tg_is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// NaN if either is NaN.
fn tg_max(a: f32, b: f32) -> f32 {
  return select(b, a, a > b || tg_is_nan(a));
}

// Joins the parts of a team.
fn team_max_f32(part: f32, id: u32, lane: u32) -> f32 {
  var value = part;
  workgroupBarrier();
  team_f32[id] = value;
  workgroupBarrier();
  if (lane < 16u) {
    for (var k = 1u; k < 16u; k++) {
      let other = id + k * 16u;
      value = tg_max(value, team_f32[other]);
    }
    team_f32[id] = value;
  }
  workgroupBarrier();
  let first = id - lane;
  value = team_f32[first];
  for (var k = 1u; k < 16u; k++) {
    let other = first + k;
    value = tg_max(value, team_f32[other]);
  }
  return value;
}

// Joins the parts of a team.
fn team_sum_f32(part: f32, id: u32, lane: u32) -> f32 {
  var value = part;
  workgroupBarrier();
  team_f32[id] = value;
  workgroupBarrier();
  if (lane < 16u) {
    for (var k = 1u; k < 16u; k++) {
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

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let lane = local;
  let row = block;
  let i0 = row;
  var max1_part: f32 = -tg_inf();
  // pass 1 of 3
  let j_0 = lane;
  let i1_0 = j_0;
  let load0_0 = in0[1000u * i0 + i1_0];
  max1_part = tg_max(max1_part, load0_0);
  let j_1 = 256u + lane;
  let i1_1 = j_1;
  let load0_1 = in0[1000u * i0 + i1_1];
  max1_part = tg_max(max1_part, load0_1);
  let j_2 = 512u + lane;
  let i1_2 = j_2;
  let load0_2 = in0[1000u * i0 + i1_2];
  max1_part = tg_max(max1_part, load0_2);
  let inside_3 = 768u + lane < 1000u;
  let j_3 = min(768u + lane, 999u);
  let i1_3 = j_3;
  let load0_3 = in0[1000u * i0 + i1_3];
  if (inside_3) {
    max1_part = tg_max(max1_part, load0_3);
  }
  let max1 = team_max_f32(max1_part, local, lane);
  var sum4_part: f32 = 0.0;
  // pass 2 of 3
  let sub2_0 = load0_0 - max1;
  let exp3_0 = exp(sub2_0);
  sum4_part = sum4_part + exp3_0;
  let sub2_1 = load0_1 - max1;
  let exp3_1 = exp(sub2_1);
  sum4_part = sum4_part + exp3_1;
  let sub2_2 = load0_2 - max1;
  let exp3_2 = exp(sub2_2);
  sum4_part = sum4_part + exp3_2;
  let sub2_3 = load0_3 - max1;
  let exp3_3 = exp(sub2_3);
  if (inside_3) {
    sum4_part = sum4_part + exp3_3;
  }
  let sum4 = team_sum_f32(sum4_part, local, lane);
  // pass 3 of 3
  let div5_0 = exp3_0 / sum4;
  out1[1000u * i0 + i1_0] = div5_0;
  let div5_1 = exp3_1 / sum4;
  out1[1000u * i0 + i1_1] = div5_1;
  let div5_2 = exp3_2 / sum4;
  out1[1000u * i0 + i1_2] = div5_2;
  let div5_3 = exp3_3 / sum4;
  if (inside_3) {
    out1[1000u * i0 + i1_3] = div5_3;
  }
}
// 2 x 1 x 1 workgroups of 256 threads, 1024 bytes shared
