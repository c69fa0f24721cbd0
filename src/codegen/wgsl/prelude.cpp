// Polynomials are minimax fits for the intervals named beside them; those that the CPU has too are
// the same (runtime/cpu/vector_math.hpp).
#include "codegen/wgsl/prelude.hpp"

#include <algorithm>
#include <sstream>

#include "tensorgrad/error.hpp"

namespace tensorgrad::wgsl {

namespace {

constexpr PreludeFunction kFunctions[] = {
    // ---- infinity and NaN: no constant may have these values, but a variable's bits may.
    {"tg_inf", "", R"(
var<private> tg_inf_bits: u32 = 0x7f800000u;

fn tg_inf() -> f32 {
  return bitcast<f32>(tg_inf_bits);
}
)"},
    {"tg_nan", "tg_inf", R"(
fn tg_nan() -> f32 {
  return bitcast<f32>(tg_inf_bits | 0x400000u);
}
)"},
    {"tg_is_nan", "", R"(
fn tg_is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
)"},

    // ---- exact ones
    {"tg_max", "tg_is_nan", R"(
// NaN if either is NaN.
fn tg_max(a: f32, b: f32) -> f32 {
  return select(b, a, a > b || tg_is_nan(a));
}
)"},
    {"tg_min", "tg_is_nan", R"(
// NaN if either is NaN.
fn tg_min(a: f32, b: f32) -> f32 {
  return select(b, a, a < b || tg_is_nan(a));
}
)"},
    {"tg_sign", "", R"(
// NaN stays NaN.
fn tg_sign(x: f32) -> f32 {
  return select(select(x, -1.0, x < 0.0), 1.0, x > 0.0);
}
)"},
    {"tg_relu", "tg_is_nan", R"(
// NaN stays NaN, even where a compiler takes `x <= 0 ? 0 : x` for the maximum.
fn tg_relu(x: f32) -> f32 {
  return select(max(x, 0.0), x, tg_is_nan(x));
}
)"},
    {"tg_div_i32", "", R"(
// Towards zero; x / 0 is 0 and the quotient that overflows wraps.
fn tg_div_i32(a: i32, b: i32) -> i32 {
  let wraps = b == -1 && a == -2147483648;
  return select(a / select(b, 1, b == 0 || wraps), 0, b == 0);
}
)"},
    {"tg_random", "", R"(
// Threefry-2x32 with 20 rounds, counter (index, 0); its first word as a number in [0, 1).
fn tg_random(index: i32, key0: i32, key1: i32) -> f32 {
  let keys = vec3u(u32(key0), u32(key1), 0x1BD11BDAu ^ u32(key0) ^ u32(key1));
  var x = u32(index) + keys.x;
  var y = keys.y;
  x += y; y = ((y << 13u) | (y >> 19u)) ^ x;
  x += y; y = ((y << 15u) | (y >> 17u)) ^ x;
  x += y; y = ((y << 26u) | (y >> 6u)) ^ x;
  x += y; y = ((y << 6u) | (y >> 26u)) ^ x;
  x += keys.y; y += keys.z + 1u;
  x += y; y = ((y << 17u) | (y >> 15u)) ^ x;
  x += y; y = ((y << 29u) | (y >> 3u)) ^ x;
  x += y; y = ((y << 16u) | (y >> 16u)) ^ x;
  x += y; y = ((y << 24u) | (y >> 8u)) ^ x;
  x += keys.z; y += keys.x + 2u;
  x += y; y = ((y << 13u) | (y >> 19u)) ^ x;
  x += y; y = ((y << 15u) | (y >> 17u)) ^ x;
  x += y; y = ((y << 26u) | (y >> 6u)) ^ x;
  x += y; y = ((y << 6u) | (y >> 26u)) ^ x;
  x += keys.x; y += keys.y + 3u;
  x += y; y = ((y << 17u) | (y >> 15u)) ^ x;
  x += y; y = ((y << 29u) | (y >> 3u)) ^ x;
  x += y; y = ((y << 16u) | (y >> 16u)) ^ x;
  x += y; y = ((y << 24u) | (y >> 8u)) ^ x;
  x += keys.y; y += keys.z + 4u;
  x += y; y = ((y << 13u) | (y >> 19u)) ^ x;
  x += y; y = ((y << 15u) | (y >> 17u)) ^ x;
  x += y; y = ((y << 26u) | (y >> 6u)) ^ x;
  x += y; y = ((y << 6u) | (y >> 26u)) ^ x;
  x += keys.z; y += keys.x + 5u;
  return f32(x >> 8u) * 0x1p-24;
}
)"},
    {"tg_to_i32", "tg_is_nan", R"(
// Towards zero, to the nearest i32 where there is none; 0 of NaN.
fn tg_to_i32(x: f32) -> i32 {
  let inside = i32(clamp(x, -2147483648.0, 2147483520.0));
  return select(select(inside, 2147483647, x >= 2147483648.0), 0, tg_is_nan(x));
}
)"},

    // ---- which of two elements of a row an argmax or argmin takes. A position of 0xffffffff means
    // that there is none.
    {"tg_first_max", "tg_is_nan", R"(
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
)"},
    {"tg_first_min", "tg_first_max", R"(
fn tg_first_min(a: f32, i: u32, b: f32, j: u32) -> bool {
  return tg_first_max(-a, i, -b, j);
}
)"},
    {"tg_first_max_i32", "", R"(
fn tg_first_max_i32(a: i32, i: u32, b: i32, j: u32) -> bool {
  if (i == 0xffffffffu || j == 0xffffffffu) {
    return i < j;
  }
  return a > b || (a == b && i < j);
}
)"},
    {"tg_first_min_i32", "tg_first_max_i32", R"(
fn tg_first_min_i32(a: i32, i: u32, b: i32, j: u32) -> bool {
  return tg_first_max_i32(~a, i, ~b, j);
}
)"},

    // ---- exponentials: x = k ln 2 + r with whole k and |r| <= ln 2 / 2
    {"tg_expm1_parts", "", R"(
// expm1(r) and k.
fn tg_expm1_parts(x: f32) -> vec2<f32> {
  let k = round(x * 1.44269502);
  let r = (x - k * 0.693359375) - k * -0.000212194442;
  let p = 0.49999997 + r * (0.16666542 + r * (0.0416672044 + r * (0.00836664718 + r * 0.00138824969)));
  return vec2<f32>(r + r * r * p, k);
}
)"},
    {"tg_scale", "", R"(
// y 2^k for whole k from -126 to 128.
fn tg_scale(y: f32, k: f32) -> f32 {
  let power = bitcast<f32>((min(i32(k), 127) + 127) << 23u);
  return select(y, y + y, k > 127.0) * power;
}
)"},
    {"tg_exp", "tg_inf tg_expm1_parts tg_scale", R"(
// 1 ulp; 0 below -87.3365.
fn tg_exp(x: f32) -> f32 {
  let parts = tg_expm1_parts(x);
  let y = tg_scale(1.0 + parts.x, parts.y);
  return select(select(y, 0.0, x < -87.3365), tg_inf(), x > 88.73);
}
)"},
    {"tg_expm1", "tg_inf tg_expm1_parts tg_scale", R"(
// 2 ulp: 2^k expm1(r) + (2^k - 1), which is expm1(x) itself for k = 0.
fn tg_expm1(x: f32) -> f32 {
  let parts = tg_expm1_parts(x);
  let power = bitcast<f32>((i32(parts.y) + 127) << 23u);
  let y = power * parts.x + (power - 1.0);
  let large = select(tg_scale(1.0 + parts.x, parts.y), tg_inf(), x > 88.73);
  return select(select(y, -1.0, x < -18.0), large, x > 60.0);
}
)"},
    {"tg_sigmoid", "tg_exp", R"(
// 3 ulp
fn tg_sigmoid(x: f32) -> f32 {
  let e = tg_exp(-abs(x));
  return select(1.0, e, x < 0.0) / (1.0 + e);
}
)"},
    {"tg_tanh", "tg_exp", R"(
// 2 ulp: a polynomial up to 0.625, then 1 - 2 / (e^2x + 1).
fn tg_tanh(x: f32) -> f32 {
  let z = x * x;
  let p = -0.333333284 + z * (0.133327693 + z * (-0.053850811 + z * (0.0209967047 + z * -0.00609602313)));
  let near = x + x * z * p;
  let far = 1.0 - 2.0 / (tg_exp(2.0 * min(abs(x), 10.0)) + 1.0);
  return select(near, select(far, -far, x < 0.0), abs(x) > 0.625);
}
)"},
    {"tg_erf", "", R"(
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
)"},

    // ---- logarithms: x = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2)
    {"tg_log_parts", "", R"(
// e ln 2 + log1p(f)
fn tg_log_parts(e: f32, f: f32) -> f32 {
  let z = f * f;
  let p = 0.333333075 + f * (-0.249999732 + f * (0.200025111 + f * (-0.166703492 + f * (0.142134458
      + f * (-0.123589702 + f * (0.118863896 + f * (-0.119621202 + f * 0.0710521638)))))));
  let y = (z * f * p + e * -0.000212194442) - 0.5 * z;
  return e * 0.693359375 + (f + y);
}
)"},
    {"tg_log", "tg_inf tg_nan tg_log_parts", R"(
// 2 ulp; subnormal numbers too, where the device has them.
fn tg_log(x: f32) -> f32 {
  var bits = bitcast<i32>(x);
  if (bits <= 0 || bits >= 0x7f800000) {
    if (bits >= 0x7f800000) {
      return x;
    }
    return select(tg_nan(), -tg_inf(), x == 0.0);
  }
  var e = 0.0;
  if (bits < 0x800000) {  // a multiple of 2^-149
    bits = bitcast<i32>(f32(bits));
    e = -149.0;
  }
  let k = (bits - 0x3f3504f3) >> 23u;
  return tg_log_parts(e + f32(k), bitcast<f32>(bits - (k << 23u)) - 1.0);
}
)"},
    {"tg_log1p_inside", "tg_log_parts", R"(
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
)"},
    {"tg_log1p", "tg_inf tg_nan tg_log1p_inside", R"(
// 2 ulp
fn tg_log1p(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  if (bits >= 0xbf800000u) {  // -1 and below
    if (bits == 0xbf800000u) {
      return -tg_inf();
    }
    return tg_nan();
  }
  return select(tg_log1p_inside(x), x, bits >= 0x7f800000u && bits < 0x80000000u);
}
)"},
    {"tg_softplus", "tg_is_nan tg_exp tg_log1p_inside", R"(
// 2 ulp: max(x, 0) + log1p(exp(-|x|))
fn tg_softplus(x: f32) -> f32 {
  let y = max(x, 0.0) + tg_log1p_inside(tg_exp(-abs(x)));
  return select(y, x, tg_is_nan(x));
}
)"},

    // ---- sine and cosine: x = q pi/2 + r with whole q and |r| <= pi/4
    {"tg_mul_high", "", R"(
// The upper half of a 64-bit product.
fn tg_mul_high(a: u32, b: u32) -> u32 {
  let a0 = a & 0xffffu;
  let a1 = a >> 16u;
  let b0 = b & 0xffffu;
  let b1 = b >> 16u;
  let middle = a1 * b0 + ((a0 * b0) >> 16u);
  return a1 * b1 + (middle >> 16u) + ((a0 * b1 + (middle & 0xffffu)) >> 16u);
}
)"},
    {"tg_angle", "tg_nan tg_mul_high", R"(
struct TgAngle {
  r: f32,
  q: u32,
}

// By Payne and Hanek: the 96 bits of 2/pi that matter for x = m 2^e, times m, in whole numbers.
fn tg_huge_angle(x: f32) -> TgAngle {
  var two_over_pi = array<u32, 8>(0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u,
      0x3c439041u, 0xfe5163abu);
  let bits = bitcast<u32>(x) & 0x7fffffffu;
  if (bits >= 0x7f800000u) {
    return TgAngle(tg_nan(), 0u);
  }
  let m = (bits & 0x7fffffu) | 0x800000u;
  let first = (bits >> 23u) - 120u;  // the bit of the table whose place value is 2: e + 30
  let word = min(first >> 5u, 4u);
  let shift = first & 31u;
  let back = (32u - shift) & 31u;
  let keep = select(0xffffffffu, 0u, shift == 0u);
  let w0 = (two_over_pi[word] << shift) | ((two_over_pi[word + 1u] >> back) & keep);
  let w1 = (two_over_pi[word + 1u] << shift) | ((two_over_pi[word + 2u] >> back) & keep);
  let w2 = (two_over_pi[word + 2u] << shift) | ((two_over_pi[word + 3u] >> back) & keep);
  // m times w0:w1:w2, whose upper two bits are q and the rest r.
  var low = m * w1;
  let carried = tg_mul_high(m, w2);
  low += carried;
  var high = m * w0 + tg_mul_high(m, w1) + select(0u, 1u, low < carried);
  var q = high >> 30u;
  high = (high << 2u) | (low >> 30u);
  low = low << 2u;
  let above = high >= 0x80000000u;  // nearer to the next quarter turn
  if (above) {
    q += 1u;
    high = ~high + select(0u, 1u, low == 0u);
    low = ~low + 1u;
  }
  let turn = f32(high) * 2.32830644e-10 + f32(low) * 5.42101086e-20;
  let r = turn * 1.57079637 + turn * -4.37113883e-08;
  let negative = x < 0.0;
  return TgAngle(select(r, -r, above != negative), select(q, 0u - q, negative));
}

fn tg_angle(x: f32) -> TgAngle {
  if (abs(x) < 8192.0) {
    // pi/2 in parts of 11 bits: q times them is exact.
    let q = round(x * 0.636619747);
    let r = ((x - q * 1.5703125) - q * 0.000483751297) - q * 7.54953362e-08;
    return TgAngle(r - q * 2.56334407e-12, bitcast<u32>(i32(q)));
  }
  return tg_huge_angle(x);
}

// The sine of r + q quarter turns.
fn tg_angle_sin(r: f32, q: u32) -> f32 {
  let z = r * r;
  let s = r + r * z * (-0.166666642 + z * (0.00833274703 + z * -0.00019587639));
  let c = 1.0 + (z * z * (0.0416666642 + z * (-0.00138883013 + z * 2.45476895e-05)) - 0.5 * z);
  let y = select(s, c, (q & 1u) != 0u);
  return select(y, -y, (q & 2u) != 0u);
}
)"},
    {"tg_sin", "tg_angle", R"(
// 2.5 ulp for every finite x.
fn tg_sin(x: f32) -> f32 {
  let angle = tg_angle(x);
  return tg_angle_sin(angle.r, angle.q);
}
)"},
    {"tg_cos", "tg_angle", R"(
// 2.5 ulp for every finite x.
fn tg_cos(x: f32) -> f32 {
  let angle = tg_angle(x);
  return tg_angle_sin(angle.r, angle.q + 1u);
}
)"},

    // ---- powers
    {"tg_pow_positive", "tg_inf tg_expm1_parts tg_scale", R"(
// The upper 12 bits: products of two such numbers are exact.
fn tg_upper(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
}

// exp(y log x) for finite x > 0, the product to about 32 bits. log x = l1 + l2, where l1 is exact: a
// multiple of 2^-16, or, where x is near 1, short.
fn tg_pow_positive(x: f32, y: f32) -> f32 {
  var bits = bitcast<i32>(x);
  var e = 0.0;
  if (bits < 0x800000) {  // a multiple of 2^-149
    bits = bitcast<i32>(f32(bits));
    e = -149.0;
  }
  let k = (bits - 0x3f3504f3) >> 23u;
  e += f32(k);
  let f = bitcast<f32>(bits - (k << 23u)) - 1.0;
  // log1p(f) = 2 s + s^3 p(s^2), s = f / (2 + f) = s1 + s2
  let s = f / (2.0 + f);
  let s1 = select(round(s * 131072.0) * 7.62939453e-06, tg_upper(s), e == 0.0);
  let f1 = bitcast<f32>(bitcast<u32>(f) & 0xffff8000u);  // 9 bits, for s1 may have 15
  let s2 = (((f - 2.0 * s1) - s1 * f1) - s1 * (f - f1)) / (2.0 + f);
  let z = s * s;
  let tail = s * z * (0.666666687 + z * (0.400001228 + z * (0.285507083 + z * 0.233335063)));
  let l1 = e * 0.693145752 + 2.0 * s1;
  let l2 = e * 1.42860677e-06 + (2.0 * s2 + tail);
  // y log x = p1 + p2, where p1 is exact
  let y1 = tg_upper(y);
  let l11 = tg_upper(l1);
  let p1 = y1 * l11;
  let p2 = ((y - y1) * l1 + y1 * (l1 - l11)) + y * l2;
  let p = p1 + p2;
  let n = round(p * 1.44269502);
  let r = ((p1 - n * 0.693359375) + p2) - n * -0.000212194442;
  let result = tg_scale(1.0 + tg_expm1_parts(r).x, n);
  return select(select(result, 0.0, p < -87.3365), tg_inf(), p > 88.73);
}
)"},
    {"tg_pow", "tg_inf tg_nan tg_is_nan tg_pow_positive", R"(
// 2.5 ulp. An odd whole exponent keeps the sign of the base; any other of a negative base is NaN or
// even; anything^0 and 1^anything are 1.
fn tg_pow(x: f32, y: f32) -> f32 {
  if (y == 0.0 || x == 1.0) {
    return 1.0;
  }
  if (tg_is_nan(x) || tg_is_nan(y)) {
    return tg_nan();
  }
  let a = abs(x);
  let endless = bitcast<u32>(a) == 0x7f800000u;
  let endless_y = (bitcast<u32>(y) & 0x7fffffffu) == 0x7f800000u;
  var result: f32;
  if (a == 0.0 || endless || endless_y) {
    result = select(0.0, tg_inf(), (a > 1.0) == (y > 0.0));
    result = select(result, 1.0, a == 1.0);
  } else {
    result = tg_pow_positive(a, y);
  }
  let whole = floor(y) == y;
  let odd = whole && floor(0.5 * y) != 0.5 * y;
  let negative = (bitcast<u32>(x) >> 31u) != 0u;
  if (negative && !whole && a != 0.0 && !endless) {
    return tg_nan();
  }
  return select(result, -result, negative && odd);
}
)"},
};

bool contains(const std::set<std::string>& names, const char* name) {
  return names.count(name) > 0;
}

}  // namespace

std::span<const PreludeFunction> prelude() { return kFunctions; }

std::string prelude_source(const std::set<std::string>& names) {
  std::set<std::string> needed = names;
  for (std::size_t i = std::size(kFunctions); i-- > 0;) {  // users come after what they use
    if (!contains(needed, kFunctions[i].name)) continue;
    std::istringstream others(kFunctions[i].needs);
    for (std::string other; others >> other;) needed.insert(other);
  }
  std::string source;
  for (const PreludeFunction& f : kFunctions) {
    if (needed.erase(f.name) > 0) source += f.source;
  }
  if (!needed.empty()) throw InternalError("wgsl: the prelude has no function " + *needed.begin());
  return source;
}

}  // namespace tensorgrad::wgsl
