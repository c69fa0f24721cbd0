// kernel softmax_70x3
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read_write> out1: array<f32>;

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

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let row = block * 64u + local;
  if (row >= 70u) {
    return;
  }
  let i0 = row;
  var max1: f32 = -tg_inf();
  // pass 1 of 3
  let i1_0 = 0u;
  let load0_0 = in0[3u * i0 + i1_0];
  max1 = tg_max(max1, load0_0);
  let i1_1 = 1u;
  let load0_1 = in0[3u * i0 + i1_1];
  max1 = tg_max(max1, load0_1);
  let i1_2 = 2u;
  let load0_2 = in0[3u * i0 + i1_2];
  max1 = tg_max(max1, load0_2);
  var sum4: f32 = 0.0;
  // pass 2 of 3
  let sub2_0 = load0_0 - max1;
  let exp3_0 = exp(sub2_0);
  sum4 = sum4 + exp3_0;
  let sub2_1 = load0_1 - max1;
  let exp3_1 = exp(sub2_1);
  sum4 = sum4 + exp3_1;
  let sub2_2 = load0_2 - max1;
  let exp3_2 = exp(sub2_2);
  sum4 = sum4 + exp3_2;
  // pass 3 of 3
  let div5_0 = exp3_0 / sum4;
  out1[3u * i0 + i1_0] = div5_0;
  let div5_1 = exp3_1 / sum4;
  out1[3u * i0 + i1_1] = div5_1;
  let div5_2 = exp3_2 / sum4;
  out1[3u * i0 + i1_2] = div5_2;
}
// 2 x 1 x 1 workgroups of 64 threads, 0 bytes shared
