// kernel reductions_5x10
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<i32>;
@group(0) @binding(2) var<storage, read_write> out2: array<f32>;
@group(0) @binding(3) var<storage, read_write> out3: array<i32>;
@group(0) @binding(4) var<storage, read_write> out4: array<i32>;
@group(0) @binding(5) var<storage, read_write> out5: array<i32>;
@group(0) @binding(6) var<storage, read_write> out6: array<i32>;
@group(0) @binding(7) var<storage, read_write> out7: array<i32>;

var<workgroup> team_f32: array<f32, 64>;
var<workgroup> team_u32: array<u32, 64>;
var<workgroup> team_i32: array<i32, 64>;

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

// Whether a at i goes before b at j: larger, or NaN, or as large and earlier.
fn tg_first_max(a: f32, i: u32, b: f32, j: u32) -> bool {
  if (i == 0xffffffffu || j == 0xffffffffu) {
    return i < j;
  }
  if (tg_is_nan(a) || tg_is_nan(b)) {
    return tg_is_nan(a) && (!tg_is_nan(b) || i < j);
  }
  return a > b || (a == b && i < j);
}

fn tg_first_min(a: f32, i: u32, b: f32, j: u32) -> bool {
  return tg_first_max(-a, i, -b, j);
}

fn tg_first_max_i32(a: i32, i: u32, b: i32, j: u32) -> bool {
  if (i == 0xffffffffu || j == 0xffffffffu) {
    return i < j;
  }
  return a > b || (a == b && i < j);
}

fn tg_first_min_i32(a: i32, i: u32, b: i32, j: u32) -> bool {
  return tg_first_max_i32(~a, i, ~b, j);
}

// Joins the parts of a team.
fn team_max_f32(part: f32, id: u32, lane: u32) -> f32 {
  var value = part;
  workgroupBarrier();
  team_f32[id] = value;
  workgroupBarrier();
  let first = id - lane;
  value = team_f32[first];
  for (var k = 1u; k < 8u; k++) {
    let other = first + k;
    value = tg_max(value, team_f32[other]);
  }
  return value;
}

// The position of the first among a team's best values.
fn team_argmax_f32(best: f32, at: u32, id: u32, lane: u32) -> u32 {
  var value = best;
  var place = at;
  workgroupBarrier();
  team_f32[id] = value;
  team_u32[id] = place;
  workgroupBarrier();
  let first = id - lane;
  value = team_f32[first];
  place = team_u32[first];
  for (var k = 1u; k < 8u; k++) {
    let other = first + k;
    if (tg_first_max(team_f32[other], team_u32[other], value, place)) {
      value = team_f32[other];
      place = team_u32[other];
    }
  }
  return place;
}

// The position of the first among a team's best values.
fn team_argmin_f32(best: f32, at: u32, id: u32, lane: u32) -> u32 {
  var value = best;
  var place = at;
  workgroupBarrier();
  team_f32[id] = value;
  team_u32[id] = place;
  workgroupBarrier();
  let first = id - lane;
  value = team_f32[first];
  place = team_u32[first];
  for (var k = 1u; k < 8u; k++) {
    let other = first + k;
    if (tg_first_min(team_f32[other], team_u32[other], value, place)) {
      value = team_f32[other];
      place = team_u32[other];
    }
  }
  return place;
}

// The position of the first among a team's best values.
fn team_argmax_i32(best: i32, at: u32, id: u32, lane: u32) -> u32 {
  var value = best;
  var place = at;
  workgroupBarrier();
  team_i32[id] = value;
  team_u32[id] = place;
  workgroupBarrier();
  let first = id - lane;
  value = team_i32[first];
  place = team_u32[first];
  for (var k = 1u; k < 8u; k++) {
    let other = first + k;
    if (tg_first_max_i32(team_i32[other], team_u32[other], value, place)) {
      value = team_i32[other];
      place = team_u32[other];
    }
  }
  return place;
}

// The position of the first among a team's best values.
fn team_argmin_i32(best: i32, at: u32, id: u32, lane: u32) -> u32 {
  var value = best;
  var place = at;
  workgroupBarrier();
  team_i32[id] = value;
  team_u32[id] = place;
  workgroupBarrier();
  let first = id - lane;
  value = team_i32[first];
  place = team_u32[first];
  for (var k = 1u; k < 8u; k++) {
    let other = first + k;
    if (tg_first_min_i32(team_i32[other], team_u32[other], value, place)) {
      value = team_i32[other];
      place = team_u32[other];
    }
  }
  return place;
}

// Joins the parts of a team.
fn team_sum_i32(part: i32, id: u32, lane: u32) -> i32 {
  var value = part;
  workgroupBarrier();
  team_i32[id] = value;
  workgroupBarrier();
  let first = id - lane;
  value = team_i32[first];
  for (var k = 1u; k < 8u; k++) {
    let other = first + k;
    value = value + team_i32[other];
  }
  return value;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let lane = local % 8u;
  let live = block * 8u + local / 8u < 5u;
  let row = min(block * 8u + local / 8u, 4u);
  let i0 = row;
  var max2_part: f32 = -tg_inf();
  var argmax3_part_best: f32;
  var argmax3_part_at = 0xffffffffu;
  var argmin4_part_best: f32;
  var argmin4_part_at = 0xffffffffu;
  var argmax5_part_best: i32;
  var argmax5_part_at = 0xffffffffu;
  var argmin6_part_best: i32;
  var argmin6_part_at = 0xffffffffu;
  var sum7_part: i32 = 0;
  // pass 1 of 1
  for (var step = 0u; step < 2u; step++) {
    let j = step * 8u + lane;
    if (j < 10u) {
      let i1 = j;
      let load0 = in0[10u * i0 + i1];
      let load1 = in1[10u * i0 + i1];
      max2_part = tg_max(max2_part, load0);
      if (tg_first_max(load0, j, argmax3_part_best, argmax3_part_at)) {
        argmax3_part_best = load0;
        argmax3_part_at = j;
      }
      if (tg_first_min(load0, j, argmin4_part_best, argmin4_part_at)) {
        argmin4_part_best = load0;
        argmin4_part_at = j;
      }
      if (tg_first_max_i32(load1, j, argmax5_part_best, argmax5_part_at)) {
        argmax5_part_best = load1;
        argmax5_part_at = j;
      }
      if (tg_first_min_i32(load1, j, argmin6_part_best, argmin6_part_at)) {
        argmin6_part_best = load1;
        argmin6_part_at = j;
      }
      sum7_part = sum7_part + load1;
    }
  }
  let max2 = team_max_f32(max2_part, local, lane);
  let argmax3 = i32(team_argmax_f32(argmax3_part_best, argmax3_part_at, local, lane));
  let argmin4 = i32(team_argmin_f32(argmin4_part_best, argmin4_part_at, local, lane));
  let argmax5 = i32(team_argmax_i32(argmax5_part_best, argmax5_part_at, local, lane));
  let argmin6 = i32(team_argmin_i32(argmin6_part_best, argmin6_part_at, local, lane));
  let sum7 = team_sum_i32(sum7_part, local, lane);
  if (lane == 0u && live) {
    out2[row] = max2;
    out3[row] = argmax3;
    out4[row] = argmin4;
    out5[row] = argmax5;
    out6[row] = argmin6;
    out7[row] = sum7;
  }
}
// 1 x 1 x 1 workgroups of 64 threads, 768 bytes shared
