// kernel exponentials
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<f32>;
@group(0) @binding(2) var<storage, read_write> out2: array<f32>;
@group(0) @binding(3) var<storage, read_write> out3: array<f32>;
@group(0) @binding(4) var<storage, read_write> out4: array<f32>;
@group(0) @binding(5) var<storage, read_write> out5: array<f32>;
@group(0) @binding(6) var<storage, read_write> out6: array<f32>;
@group(0) @binding(7) var<storage, read_write> out7: array<f32>;

var<private> tg_inf_bits: u32 = 0x7f800000u;

fn tg_inf() -> f32 {
  return bitcast<f32>(tg_inf_bits);
}

fn tg_is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// expm1(r) and k.
fn tg_expm1_parts(x: f32) -> vec2<f32> {
  let k = round(x * 1.44269502);
  let r = (x - k * 0.693359375) - k * -0.000212194442;
  let p = 0.49999997 + r * (0.16666542 + r * (0.0416672044 + r * (0.00836664718 + r * 0.00138824969)));
  return vec2<f32>(r + r * r * p, k);
}

// y 2^k for whole k from -126 to 128.
fn tg_scale(y: f32, k: f32) -> f32 {
  let power = bitcast<f32>((min(i32(k), 127) + 127) << 23u);
  return select(y, y + y, k > 127.0) * power;
}

// 1 ulp; 0 below -87.3365.
fn tg_exp(x: f32) -> f32 {
  let parts = tg_expm1_parts(x);
  let y = tg_scale(1.0 + parts.x, parts.y);
  return select(select(y, 0.0, x < -87.3365), tg_inf(), x > 88.73);
}

// 2 ulp: 2^k expm1(r) + (2^k - 1), which is expm1(x) itself for k = 0.
fn tg_expm1(x: f32) -> f32 {
  let parts = tg_expm1_parts(x);
  let power = bitcast<f32>((i32(parts.y) + 127) << 23u);
  let y = power * parts.x + (power - 1.0);
  let large = select(tg_scale(1.0 + parts.x, parts.y), tg_inf(), x > 88.73);
  return select(select(y, -1.0, x < -18.0), large, x > 60.0);
}

// 3 ulp
fn tg_sigmoid(x: f32) -> f32 {
  let e = tg_exp(-abs(x));
  return select(1.0, e, x < 0.0) / (1.0 + e);
}

// 2 ulp: a polynomial up to 0.625, then 1 - 2 / (e^2x + 1).
fn tg_tanh(x: f32) -> f32 {
  let z = x * x;
  let p = -0.333333284 + z * (0.133327693 + z * (-0.053850811 + z * (0.0209967047 + z * -0.00609602313)));
  let near = x + x * z * p;
  let far = 1.0 - 2.0 / (tg_exp(2.0 * min(abs(x), 10.0)) + 1.0);
  return select(near, select(far, -far, x < 0.0), abs(x) > 0.625);
}

// 2 ulp: a polynomial up to 0.93, then 1 - 2^q with q = log2(1 - erf).
fn tg_erf(x: f32) -> f32 {
  let z = x * x;
  let p = 0.128379151 + z * (-0.376124799 + z * (0.112816744 + z * (-0.026761435
      + z * (0.00498552248 + z * -0.00059516175))));
  let near = x + x * p;
  let a = min(abs(x), 3.96);
  let q = -0.000146315622 + a * (-1.62781096 + a * (-0.916851759 + a * (-0.153198063
      + a * (0.0345546417 + a * (-0.00547284726 + a * (0.000532322272 + a * -2.36436426e-05))))));
  let far = 1.0 - exp2(q);
  return select(near, select(far, -far, x < 0.0), abs(x) > 0.93);
}

// e ln 2 + log1p(f)
fn tg_log_parts(e: f32, f: f32) -> f32 {
  let z = f * f;
  let p = 0.333333075 + f * (-0.249999732 + f * (0.200025111 + f * (-0.166703492 + f * (0.142134458
      + f * (-0.123589702 + f * (0.118863896 + f * (-0.119621202 + f * 0.0710521638)))))));
  let y = (z * f * p + e * -0.000212194442) - 0.5 * z;
  return e * 0.693359375 + (f + y);
}

// For x > -1, finite. The exponent comes from the rounded sum 1 + x, but 1 + f = 2^-e (1 + x) is
// not made from it: that would lose the low bits of x.
fn tg_log1p_inside(x: f32) -> f32 {
  let bits = bitcast<i32>(1.0 + x);
  let k = (bits - 0x3f3504f3) >> 23u;
  let power = bitcast<f32>((127 - k) << 23u);
  let small = x * power + (power - 1.0);
  let large = bitcast<f32>(bits - (k << 23u)) - 1.0;
  return tg_log_parts(f32(k), select(small, large, k > 30));
}

// 2 ulp: max(x, 0) + log1p(exp(-|x|))
fn tg_softplus(x: f32) -> f32 {
  let y = max(x, 0.0) + tg_log1p_inside(tg_exp(-abs(x)));
  return select(y, x, tg_is_nan(x));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let point = block * 64u + local;
  if (point >= 70u) {
    return;
  }
  let i0 = point;
  let load0 = in0[point];
  let exp2 = tg_exp(load0);
  let expm13 = tg_expm1(load0);
  let tanh4 = tg_tanh(load0);
  let erf5 = tg_erf(load0);
  let sigmoid6 = tg_sigmoid(load0);
  let softplus7 = tg_softplus(load0);
  out2[point] = exp2;
  out3[point] = expm13;
  out4[point] = tanh4;
  out5[point] = erf5;
  out6[point] = sigmoid6;
  out7[point] = softplus7;
}
// 2 x 1 x 1 workgroups of 64 threads, 0 bytes shared
