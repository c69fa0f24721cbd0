// kernel constants
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read_write> out1: array<f32>;
@group(0) @binding(2) var<storage, read_write> out2: array<f32>;
@group(0) @binding(3) var<storage, read_write> out3: array<f32>;
@group(0) @binding(4) var<storage, read_write> out4: array<i32>;
@group(0) @binding(5) var<storage, read_write> out5: array<i32>;
@group(0) @binding(6) var<storage, read_write> out6: array<f32>;

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

// NaN if either is NaN.
fn tg_min(a: f32, b: f32) -> f32 {
  return select(b, a, a < b || tg_is_nan(a));
}

// Towards zero; x / 0 is 0 and the quotient that overflows wraps.
fn tg_div_i32(a: i32, b: i32) -> i32 {
  let wraps = b == -1 && a == -2147483648;
  return select(a / select(b, 1, b == 0 || wraps), 0, b == 0);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let point = block * 64u + local;
  if (point >= 3u) {
    return;
  }
  let i0 = point;
  let const0 = 3e+38;
  let const1 = 10.0;
  let mul2 = const0 * const1;
  let const3 = 2147483647;
  let const4 = 1;
  let add5 = const3 + const4;
  let load7 = in0[point];
  let minimum8 = tg_min(mul2, load7);
  let load10 = in0[point];
  let maximum11 = tg_max((-tg_inf()), load10);
  let const6 = 3.4028234663852886e+38;
  let const12 = tg_inf();
  let minimum13 = tg_min(const6, const12);
  let at14 = i32(point);
  let div16 = tg_div_i32(at14, 0);
  let at17 = i32(i0 + 1u);
  let cast18 = f32(at17);
  out1[point] = minimum8;
  out2[point] = maximum11;
  out3[point] = minimum13;
  out4[point] = add5;
  out5[point] = div16;
  out6[point] = cast18;
}
// 1 x 1 x 1 workgroups of 64 threads, 0 bytes shared
