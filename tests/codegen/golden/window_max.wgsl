// kernel window_max
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read_write> out1: array<f32>;
@group(0) @binding(2) var<storage, read_write> out2: array<i32>;

var<workgroup> team_f32: array<f32, 64>;
var<workgroup> team_u32: array<u32, 64>;

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

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let lane = local % 8u;
  let live = block * 8u + local / 8u < 7u;
  let row = min(block * 8u + local / 8u, 6u);
  let i0 = row;
  var max4_part: f32 = -tg_inf();
  var argmin5_part_best: f32;
  var argmin5_part_at = 0xffffffffu;
  // pass 1 of 1
  for (var step = 0u; step < 2u; step++) {
    let j = step * 8u + lane;
    if (j < 15u) {
      let i1 = j / 3u;
      let i2 = j % 3u;
      var load0 = 0.0;
      if (2u * i2 - 1u < 4u) {
        load0 = in0[4u * i0 + 28u * i1 + 2u * i2 - 1u];
      }
      let test1 = 2u * i2 - 1u < 4u;
      let where3 = select((-1e+30), load0, test1);
      max4_part = tg_max(max4_part, where3);
      if (tg_first_min(where3, j, argmin5_part_best, argmin5_part_at)) {
        argmin5_part_best = where3;
        argmin5_part_at = j;
      }
    }
  }
  let max4 = team_max_f32(max4_part, local, lane);
  let argmin5 = i32(team_argmin_f32(argmin5_part_best, argmin5_part_at, local, lane));
  if (lane == 0u && live) {
    out1[row] = max4;
    out2[row] = argmin5;
  }
}
// 1 x 1 x 1 workgroups of 64 threads, 512 bytes shared
