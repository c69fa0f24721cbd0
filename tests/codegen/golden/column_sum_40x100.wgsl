// kernel column_sum_40x100
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read_write> out1: array<f32>;
@group(0) @binding(2) var<storage, read_write> out2: array<i32>;

var<workgroup> team_f32: array<f32, 256>;
var<workgroup> team_u32: array<u32, 256>;

fn tg_is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
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

// The position of the first among a team's best values.
fn team_argmax_f32(best: f32, at: u32, id: u32, lane: u32) -> u32 {
  var value = best;
  var place = at;
  workgroupBarrier();
  team_f32[id] = value;
  team_u32[id] = place;
  workgroupBarrier();
  let first = id - lane * 16u;
  value = team_f32[first];
  place = team_u32[first];
  for (var k = 1u; k < 16u; k++) {
    let other = first + k * 16u;
    if (tg_first_max(team_f32[other], team_u32[other], value, place)) {
      value = team_f32[other];
      place = team_u32[other];
    }
  }
  return place;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let lane = local / 16u;
  let live = block * 16u + local % 16u < 100u;
  let row = min(block * 16u + local % 16u, 99u);
  let i0 = row;
  var sum2_part: f32 = 0.0;
  var argmax3_part_best: f32;
  var argmax3_part_at = 0xffffffffu;
  // pass 1 of 1
  for (var step = 0u; step < 3u; step++) {
    let j = step * 16u + lane;
    if (j < 40u) {
      let i1 = j;
      let load0 = in0[i0 + 100u * i1];
      let mul1 = load0 * load0;
      sum2_part = sum2_part + mul1;
      if (tg_first_max(load0, j, argmax3_part_best, argmax3_part_at)) {
        argmax3_part_best = load0;
        argmax3_part_at = j;
      }
    }
  }
  let sum2 = team_sum_f32(sum2_part, local, lane);
  let argmax3 = i32(team_argmax_f32(argmax3_part_best, argmax3_part_at, local, lane));
  if (lane == 0u && live) {
    out1[row] = sum2;
    out2[row] = argmax3;
  }
}
// 7 x 1 x 1 workgroups of 256 threads, 2048 bytes shared
