// kernel softmax_2x2500
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
  let load0_0 = in0[2500u * i0 + i1_0];
  max1_part = tg_max(max1_part, load0_0);
  let j_1 = 256u + lane;
  let i1_1 = j_1;
  let load0_1 = in0[2500u * i0 + i1_1];
  max1_part = tg_max(max1_part, load0_1);
  let j_2 = 512u + lane;
  let i1_2 = j_2;
  let load0_2 = in0[2500u * i0 + i1_2];
  max1_part = tg_max(max1_part, load0_2);
  let j_3 = 768u + lane;
  let i1_3 = j_3;
  let load0_3 = in0[2500u * i0 + i1_3];
  max1_part = tg_max(max1_part, load0_3);
  let j_4 = 1024u + lane;
  let i1_4 = j_4;
  let load0_4 = in0[2500u * i0 + i1_4];
  max1_part = tg_max(max1_part, load0_4);
  let j_5 = 1280u + lane;
  let i1_5 = j_5;
  let load0_5 = in0[2500u * i0 + i1_5];
  max1_part = tg_max(max1_part, load0_5);
  let j_6 = 1536u + lane;
  let i1_6 = j_6;
  let load0_6 = in0[2500u * i0 + i1_6];
  max1_part = tg_max(max1_part, load0_6);
  let j_7 = 1792u + lane;
  let i1_7 = j_7;
  let load0_7 = in0[2500u * i0 + i1_7];
  max1_part = tg_max(max1_part, load0_7);
  let j_8 = 2048u + lane;
  let i1_8 = j_8;
  let load0_8 = in0[2500u * i0 + i1_8];
  max1_part = tg_max(max1_part, load0_8);
  let inside_9 = 2304u + lane < 2500u;
  let j_9 = min(2304u + lane, 2499u);
  let i1_9 = j_9;
  let load0_9 = in0[2500u * i0 + i1_9];
  if (inside_9) {
    max1_part = tg_max(max1_part, load0_9);
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
  sum4_part = sum4_part + exp3_3;
  let sub2_4 = load0_4 - max1;
  let exp3_4 = exp(sub2_4);
  sum4_part = sum4_part + exp3_4;
  let sub2_5 = load0_5 - max1;
  let exp3_5 = exp(sub2_5);
  sum4_part = sum4_part + exp3_5;
  let sub2_6 = load0_6 - max1;
  let exp3_6 = exp(sub2_6);
  sum4_part = sum4_part + exp3_6;
  let sub2_7 = load0_7 - max1;
  let exp3_7 = exp(sub2_7);
  sum4_part = sum4_part + exp3_7;
  let sub2_8 = load0_8 - max1;
  let exp3_8 = exp(sub2_8);
  sum4_part = sum4_part + exp3_8;
  let sub2_9 = load0_9 - max1;
  let exp3_9 = exp(sub2_9);
  if (inside_9) {
    sum4_part = sum4_part + exp3_9;
  }
  let sum4 = team_sum_f32(sum4_part, local, lane);
  // pass 3 of 3
  let div5_0 = exp3_0 / sum4;
  out1[2500u * i0 + i1_0] = div5_0;
  let div5_1 = exp3_1 / sum4;
  out1[2500u * i0 + i1_1] = div5_1;
  let div5_2 = exp3_2 / sum4;
  out1[2500u * i0 + i1_2] = div5_2;
  let div5_3 = exp3_3 / sum4;
  out1[2500u * i0 + i1_3] = div5_3;
  let div5_4 = exp3_4 / sum4;
  out1[2500u * i0 + i1_4] = div5_4;
  let div5_5 = exp3_5 / sum4;
  out1[2500u * i0 + i1_5] = div5_5;
  let div5_6 = exp3_6 / sum4;
  out1[2500u * i0 + i1_6] = div5_6;
  let div5_7 = exp3_7 / sum4;
  out1[2500u * i0 + i1_7] = div5_7;
  let div5_8 = exp3_8 / sum4;
  out1[2500u * i0 + i1_8] = div5_8;
  let div5_9 = exp3_9 / sum4;
  if (inside_9) {
    out1[2500u * i0 + i1_9] = div5_9;
  }
}
// 2 x 1 x 1 workgroups of 256 threads, 1024 bytes shared
