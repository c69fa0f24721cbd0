// Elementary functions over one Highway vector, compiled once per target by math.cpp.
//
// Polynomials and rationals are minimax fits (Remez exchange, relative error) made for the
// intervals named beside them; "fit" is the error of the exact polynomial, before rounding.
// Code here must hold with and without fused multiply-add: where a product has to be exact,
// the constant is short enough.

// Include guard, once per target.
#if defined(TENSORGRAD_CPU_VECTOR_MATH_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TENSORGRAD_CPU_VECTOR_MATH_HPP
#undef TENSORGRAD_CPU_VECTOR_MATH_HPP
#else
#define TENSORGRAD_CPU_VECTOR_MATH_HPP
#endif

#include <cmath>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tensorgrad::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// maxps and minps give their second operand if either is NaN.
#undef TENSORGRAD_MAX_GIVES_SECOND
#define TENSORGRAD_MAX_GIVES_SECOND \
  (HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)

// c0 + c1 x + c2 x^2 + ..., as two interleaved Horner chains in x^2: the chains are what
// the machine waits for, not the number of operations.
template <class D, class V, class T>
HWY_INLINE V every_other(D d, V, T c) {
  return hn::Set(d, c);
}
template <class D, class V, class T>
HWY_INLINE V every_other(D d, V, T c, T) {
  return hn::Set(d, c);
}
template <class D, class V, class T, class... Rest>
HWY_INLINE V every_other(D d, V x2, T c, T, Rest... rest) {
  return hn::MulAdd(every_other(d, x2, rest...), x2, hn::Set(d, c));
}
template <class D, class V, class T, class... Rest>
HWY_INLINE V polynomial(D d, V x, T c0, Rest... rest) {
  const auto x2 = hn::Mul(x, x);
  return hn::MulAdd(every_other(d, x2, rest...), x, every_other(d, x2, c0, rest...));
}

// y 2^k for whole k in [-252, 254], rounded once, even into the subnormals.
template <class D, class V>
HWY_INLINE V scale_by_power_of_2(D d, V y, V k) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (hn::MaxLanes(D()) == 16) return V{_mm512_scalef_ps(y.raw, k.raw)};
#endif
  // Two factors, because 2^k alone may not be a normal float.
  const hn::RebindToSigned<D> di;
  const auto whole = hn::ConvertTo(di, k);
  const auto half = hn::ShiftRight<1>(whole);
  const auto one = hn::Set(di, 0x3F800000);
  const auto first = hn::BitCast(d, hn::Add(hn::ShiftLeft<23>(half), one));
  const auto second = hn::BitCast(d, hn::Add(hn::ShiftLeft<23>(hn::Sub(whole, half)), one));
  return hn::Mul(hn::Mul(y, first), second);
}

// x = k ln 2 + r with whole k and |r| <= ln 2 / 2; returns expm1(r). |x| < 128.
template <class D, class V>
HWY_INLINE V reduced_expm1(D d, V x, V& k) {
  const auto magic = hn::Set(d, 0x1.8p23f);  // adding it rounds to a whole number
  k = hn::Sub(hn::MulAdd(x, hn::Set(d, 0x1.715476p0f), magic), magic);
  // ln 2 in two parts: the first has 10 bits, so k times it is exact.
  auto r = hn::NegMulAdd(k, hn::Set(d, 0x1.63p-1f), x);
  r = hn::NegMulAdd(k, hn::Set(d, -0x1.bd0106p-13f), r);
  // Fit 2^-26.1 of expm1 on |r| <= 1.002 ln 2 / 2.
  const auto p = polynomial(d, r, 0x1.fffffep-2f, 0x1.5554aep-3f, 0x1.555676p-5f, 0x1.122886p-7f,
                            0x1.6bebdcp-10f);
  return hn::MulAdd(hn::Mul(r, r), p, r);
}

template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  V k;
  // exp(89) overflows and exp(-104) is less than half of the smallest subnormal.
  const auto inside = hn::Min(hn::Set(d, 89.0f), hn::Max(hn::Set(d, -104.0f), x));
  const auto p = reduced_expm1(d, inside, k);
  const auto y = scale_by_power_of_2(d, hn::Add(p, hn::Set(d, 1.0f)), k);
#if TENSORGRAD_MAX_GIVES_SECOND
  return y;  // NaN came through
#else
  return hn::IfThenElse(hn::IsNaN(x), x, y);
#endif
}

// 2^k expm1(r) + (2^k - 1). For k = 0 that is expm1(r) itself: no cancellation.
template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
  V k;
  const hn::RebindToSigned<D> di;
  const auto inside = hn::Min(hn::Max(x, hn::Set(d, -20.0f)), hn::Set(d, 89.0f));
  const auto p = reduced_expm1(d, inside, k);
  // Half of 2^k, because 2^128 is not a float: exp(88.7) = 2^128 (1 - small).
  const auto half_scale =
      hn::BitCast(d, hn::Add(hn::ShiftLeft<23>(hn::ConvertTo(di, k)), hn::Set(di, 0x3F000000)));
  const auto half = hn::MulAdd(half_scale, p, hn::Sub(half_scale, hn::Set(d, 0.5f)));
  const auto y = hn::CopySign(hn::Add(half, half), x);  // the sign of -0
  // expm1(x) is x there; half of it might be subnormal.
  const auto keep = hn::Or(hn::IsNaN(x), hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-26f)));
  return hn::IfThenElse(keep, x, y);
}

// exponent ln 2 + log1p(f) for sqrt(1/2) - 1 <= f <= sqrt(2) - 1.
template <class D, class V>
HWY_INLINE V log_from_parts(D d, V exponent, V f) {
  const auto z = hn::Mul(f, f);
  // Fit 2^-30: log1p(f) = f - f^2 / 2 + f^3 p(f).
  const auto p =
      polynomial(d, f, 0x1.555544p-2f, -0x1.ffffdcp-3f, 0x1.99a6c4p-3f, -0x1.5568a4p-3f,
                 0x1.231764p-3f, -0x1.fa3932p-4f, 0x1.e6ddd4p-4f, -0x1.e9f7ecp-4f, 0x1.230798p-4f);
  auto y = hn::Mul(hn::Mul(z, f), p);
  y = hn::MulAdd(exponent, hn::Set(d, -0x1.bd0106p-13f), y);
  y = hn::NegMulAdd(hn::Set(d, 0.5f), z, y);
  return hn::MulAdd(exponent, hn::Set(d, 0x1.63p-1f), hn::Add(f, y));
}

// Where log(1 + x) is not an ordinary number: `at` is the pole, above it only +inf is left.
template <class D, class V>
HWY_INLINE V log_special(D d, V x, float at) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto low = hn::IfThenElse(hn::Eq(x, hn::Set(d, at)), hn::Set(d, -inf), hn::Set(d, nan));
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, at)), x, low);
}

// Whole e with sqrt(1/2) <= u 2^-e < sqrt(2), for a positive normal u; as bits << 23.
template <class DI, class VI>
HWY_INLINE VI exponent_bits(DI di, VI u_bits) {
  const auto e = hn::ShiftRight<23>(hn::Sub(u_bits, hn::Set(di, 0x3F3504F3)));  // sqrt(1/2)
  return hn::ShiftLeft<23>(e);
}

template <class D, class V>
HWY_INLINE V log(D d, V x) {
  const hn::RebindToSigned<D> di;
  const float inf = std::numeric_limits<float>::infinity();
  const auto one = hn::Set(d, 1.0f);
  const auto subnormal = hn::Lt(x, hn::Set(d, 0x1p-126f));
  const auto u = hn::BitCast(di, hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, 0x1p24f)), x));
  const auto e = exponent_bits(di, u);
  const auto exponent = hn::Sub(hn::ConvertTo(d, hn::ShiftRight<23>(e)),
                                hn::IfThenElseZero(subnormal, hn::Set(d, 24.0f)));
  const auto y = log_from_parts(d, exponent, hn::Sub(hn::BitCast(d, hn::Sub(u, e)), one));
  const auto ordinary = hn::And(hn::Gt(x, hn::Zero(d)), hn::Lt(x, hn::Set(d, inf)));
  if (HWY_LIKELY(hn::AllTrue(d, ordinary))) return y;
  return hn::IfThenElse(ordinary, y, log_special(d, x, 0.0f));
}

// log(1 + x) for x > -1. The exponent e comes from the rounded sum 1 + x, but the mantissa
// minus one is 2^-e x + (2^-e - 1), which does not lose the low bits of x.
template <class D, class V>
HWY_INLINE V log1p_ordinary(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto one = hn::Set(d, 1.0f);
  const auto u = hn::Add(x, one);
  const auto e = exponent_bits(di, hn::BitCast(di, u));
  const auto scale = hn::BitCast(d, hn::Sub(hn::BitCast(di, one), e));
  const auto small = hn::MulAdd(x, scale, hn::Sub(scale, one));
  const auto large = hn::Sub(hn::BitCast(d, hn::Sub(hn::BitCast(di, u), e)), one);
  const auto f = hn::IfThenElse(hn::Gt(u, hn::Set(d, 0x1p30f)), large, small);
  return log_from_parts(d, hn::ConvertTo(d, hn::ShiftRight<23>(e)), f);
}

template <class D, class V>
HWY_INLINE V log1p(D d, V x) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto y = hn::CopySign(log1p_ordinary(d, x), x);  // the sign of -0
  const auto ordinary = hn::And(hn::Gt(x, hn::Set(d, -1.0f)), hn::Lt(x, hn::Set(d, inf)));
  if (HWY_LIKELY(hn::AllTrue(d, ordinary))) return y;
  return hn::IfThenElse(ordinary, y, log_special(d, x, -1.0f));
}

// max(x, 0) + log1p(exp(-|x|))
template <class D, class V>
HWY_INLINE V softplus(D d, V x) {
  const auto positive = hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  return hn::Add(positive, log1p_ordinary(d, exp(d, hn::Neg(hn::Abs(x)))));
}

// With e = exp(-|x|): 1 / (1 + e) on the right, e / (1 + e) on the left.
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const auto one = hn::Set(d, 1.0f);
  const auto e = exp(d, hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

// t / (t + 2) with t = expm1(2|x|): no cancellation at either end. tanh(9.05) rounds to 1.
template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  V k;
  const hn::RebindToSigned<D> di;
  const auto one = hn::Set(d, 1.0f);
  const auto ax = hn::Min(hn::Abs(x), hn::Set(d, 9.05f));
  const auto p = reduced_expm1(d, hn::Add(ax, ax), k);
  const auto scale =
      hn::BitCast(d, hn::Add(hn::ShiftLeft<23>(hn::ConvertTo(di, k)), hn::BitCast(di, one)));
  const auto t = hn::MulAdd(scale, p, hn::Sub(scale, one));
  const auto y = hn::CopySign(hn::Div(t, hn::Add(t, hn::Set(d, 2.0f))), x);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

#if HWY_TARGET == HWY_AVX3
// erf by a table in registers: 16 pieces around k 33/128, each c0 + r p(r) with r = |x| - k 33/128
// (fit 2^-24.7). In the first, c0 is r.
template <class D, class V>
HWY_INLINE V erf_by_table(D d, V x) {
  HWY_ALIGN static constexpr float kTable[6][16] = {
      {0.0f, 0x1.236bfp-2f, 0x1.117892p-1f, 0x1.73b102p-1f, 0x1.b5e63p-1f, 0x1.dd0788p-1f,
       0x1.f14e82p-1f, 0x1.fa84fep-1f, 0x1.fe308p-1f, 0x1.ff789ep-1f, 0x1.ffdd18p-1f, 0x1.fff81p-1f,
       0x1.fffe68p-1f, 0x1.ffffb8p-1f, 0x1.fffff4p-1f, 0x1.fffffep-1f},
      {0x1.06eba8p-3f, 0x1.0e4a08p+0f, 0x1.bada5ap-1f, 0x1.3da26ep-1f, 0x1.8eed36p-2f,
       0x1.b6a856p-3f, 0x1.a64de6p-4f, 0x1.63f3f6p-5f, 0x1.06ae14p-6f, 0x1.536fc2p-8f,
       0x1.8005f2p-10f, 0x1.7c62ap-12f, 0x1.49e182p-14f, 0x1.f4f152p-17f, 0x1.4d025cp-19f,
       0x1.37ceap-22f},
      {0x1.edddd8p-23f, -0x1.16baaap-2f, -0x1.c8af2cp-2f, -0x1.eb564ap-2f, -0x1.9b64fp-2f,
       -0x1.1abb64p-2f, -0x1.46a1bp-3f, -0x1.41323cp-4f, -0x1.0ee34p-5f, -0x1.89c8a2p-7f,
       -0x1.eefadp-9f, -0x1.0da26ep-10f, -0x1.fe1db2p-13f, -0x1.a384e4p-15f, -0x1.2c42c4p-17f,
       0x1.87173ep-18f},
      {-0x1.812adcp-2f, -0x1.3879b4p-2f, -0x1.147f32p-3f, 0x1.4cb4e4p-5f, 0x1.2bb5c2p-3f,
       0x1.53b846p-3f, 0x1.0a7362p-3f, 0x1.471cb6p-4f, 0x1.48b2p-5f, 0x1.144b18p-6f, 0x1.896864p-8f,
       0x1.de27c2p-10f, 0x1.f2b142p-12f, 0x1.bff9d4p-14f, 0x1.5b8f58p-16f, 0x1.8d59bcp-15f},
      {0x1.191a8ep-12f, 0x1.0847d2p-3f, 0x1.753bcep-3f, 0x1.262d8cp-3f, 0x1.e07556p-5f,
       -0x1.d5aa36p-7f, -0x1.813adap-5f, -0x1.76d33ep-5f, -0x1.f1ab44p-6f, -0x1.002c2cp-6f,
       -0x1.aca828p-8f, -0x1.2a4bep-9f, -0x1.5df68ap-11f, -0x1.5d125cp-13f, -0x1.29c22p-15f,
       -0x1.792d5p-11f},
      {0x1.c6cb6cp-4f, 0x1.3e72cap-4f, 0x1.7269fap-9f, -0x1.cd8ba8p-5f, -0x1.152edap-4f,
       -0x1.586b0cp-5f, -0x1.411376p-7f, 0x1.289cf2p-7f, 0x1.a80c28p-7f, 0x1.3340b4p-7f,
       0x1.40f0acp-8f, 0x1.07b8e4p-9f, 0x1.61c9bcp-11f, 0x1.8b1dd2p-13f, 0x1.73c74p-15f,
       -0x1.47d27ap-8f},
  };
  const auto ax = V{_mm512_min_ps(_mm512_set1_ps(3.94f), hn::Abs(x).raw)};  // NaN stays NaN
  const auto magic = hn::Set(d, 0x1.8p23f);  // leaves k in the low bits
  const auto shifted = hn::MulAdd(ax, hn::Set(d, 128.0f / 33), magic);
  const auto whole = hn::Sub(shifted, magic);
  const auto r = hn::NegMulAdd(whole, hn::Set(d, 33.0f / 128), ax);
  const __m512i k = _mm512_castps_si512(shifted.raw);  // the machine looks at 4 bits of it
  const auto c = [&](int i) HWY_ATTR -> V {
    return V{_mm512_permutexvar_ps(k, _mm512_load_ps(kTable[i]))};
  };
  auto p = hn::MulAdd(c(5), r, c(4));
  p = hn::MulAdd(p, r, c(3));
  p = hn::MulAdd(p, r, c(2));
  p = hn::MulAdd(p, r, c(1));
  const auto first = hn::Eq(whole, hn::Zero(d));
  return hn::CopySign(hn::MulAdd(p, r, hn::IfThenElse(first, ax, c(0))), x);
}
#endif

// Two polynomials and no division: |x| + |x| p(x^2) up to 0.93 (fit 2^-25.7), and beyond it
// 1 - 2^q(|x|) with q = log2 of 1 - erf (fit 2^-26.5 up to 3.96, where erf rounds to 1).
template <class D, class V>
HWY_INLINE V erf(D d, V x) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (hn::MaxLanes(D()) == 16) return erf_by_table(d, x);
#endif
  const hn::RebindToSigned<D> di;
  const auto one = hn::Set(d, 1.0f);
  const auto ax = hn::Min(hn::Abs(x), hn::Set(d, 3.96f));
  const auto p = polynomial(d, hn::Mul(ax, ax), 0x1.06eba6p-3f, -0x1.8126dcp-2f, 0x1.ce18eep-4f,
                            -0x1.b67598p-6f, 0x1.46bb30p-8f, -0x1.380942p-11f);
  const auto near = hn::MulAdd(ax, p, ax);

  const auto q =
      polynomial(d, ax, -0x1.32d89ap-13f, -0x1.a0b838p0f, -0x1.d56d98p-1f, -0x1.39bfe8p-3f,
                 0x1.1b1256p-5f, -0x1.66ab24p-8f, 0x1.171716p-11f, -0x1.8cacacp-16f);
  const auto magic = hn::Set(d, 0x1.8p23f);  // leaves k = round(q) in the low bits
  const auto shifted = hn::Add(q, magic);
  const auto f = hn::Sub(q, hn::Sub(shifted, magic));
  const auto g = polynomial(d, f, 0x1.000002p0f, 0x1.62e428p-1f, 0x1.ebf916p-3f, 0x1.c6b6e6p-5f,
                            0x1.3d0c84p-7f, 0x1.5c08b2p-10f);  // 2^f on |f| <= 1/2
  const auto tail = hn::BitCast(                               // 2^k g, a normal number
      d, hn::Add(hn::BitCast(di, g), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
  const auto far = hn::Sub(one, tail);

  const auto y = hn::IfThenElse(hn::Lt(ax, hn::Set(d, 0.93f)), near, far);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(y, x));
}

// sin and cos work in double, on half as many lanes: x = q pi/2 + r, and q mod 4 chooses
// sin or cos of r and the sign. pi/2 is split 33 + 53 bits, so that q times the first part
// is exact for |x| <= 2^20. `quarter` is 0 for sin and 1 for cos (sin(x + pi/2)).
template <class D, class V>
HWY_INLINE V sin_or_cos(D d, V x, int quarter) {
  const hn::Rebind<double, D> dd;
  const hn::RebindToUnsigned<decltype(dd)> du;
  const auto wide = hn::PromoteTo(dd, x);
  const auto magic = hn::Set(dd, 0x1.8p52);  // adding it leaves q in the low bits
  const auto shifted = hn::MulAdd(wide, hn::Set(dd, 0x1.45f306dc9c883p-1), magic);
  const auto q = hn::Sub(shifted, magic);
  auto r = hn::NegMulAdd(q, hn::Set(dd, 0x1.921fb544p0), wide);
  r = hn::NegMulAdd(q, hn::Set(dd, 0x1.0b4611a626331p-34), r);
  const auto t = hn::Mul(r, r);
  // Fits 2^-36.8 and 2^-32.2 on |r| <= pi/4.
  const auto s = hn::MulAdd(hn::Mul(r, t),
                            polynomial(dd, t, -0x1.5555554d9d565p-3, 0x1.111108766678dp-7,
                                       -0x1.a00f385b33419p-13, 0x1.6cb727932463bp-19),
                            r);
  const auto c = polynomial(dd, t, 1.0, -0.5, 0x1.55554ee108effp-5, -0x1.6c0e77b70c685p-10,
                            0x1.9a6f17ef9f680p-16);
  const auto turn = hn::Add(hn::BitCast(du, shifted), hn::Set(du, static_cast<uint64_t>(quarter)));
  const auto odd = hn::Eq(hn::And(turn, hn::Set(du, 1)), hn::Set(du, 1));
  const auto magnitude = hn::IfThenElse(hn::RebindMask(dd, odd), c, s);
  const auto sign = hn::ShiftLeft<62>(hn::And(turn, hn::Set(du, 2)));
  return hn::DemoteTo(d, hn::Xor(magnitude, hn::BitCast(dd, sign)));
}

// Lanes that are huge, infinite or NaN, one by one. Out of line: it is rare.
template <class D, class V>
HWY_NOINLINE V sin_or_cos_of_huge(D d, V x, V y, int quarter) {
  HWY_ALIGN float xs[hn::MaxLanes(D())], ys[hn::MaxLanes(D())];
  hn::Store(x, d, xs);
  hn::Store(y, d, ys);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (std::fabs(xs[i]) <= 0x1p20f) continue;
    ys[i] = static_cast<float>(quarter == 0 ? std::sin(static_cast<double>(xs[i]))
                                            : std::cos(static_cast<double>(xs[i])));
  }
  return hn::Load(d, ys);
}

template <class D, class V>
HWY_INLINE V sin_or_cos_any(D d, V x, int quarter) {
  const auto y = sin_or_cos(d, x, quarter);
  const auto ordinary = hn::Le(hn::Abs(x), hn::Set(d, 0x1p20f));
  if (HWY_LIKELY(hn::AllTrue(d, ordinary))) return y;
  return sin_or_cos_of_huge(d, x, y, quarter);
}

template <class D, class V>
HWY_INLINE V sin(D d, V x) {
  const auto tiny = hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-13f));  // keeps the sign of -0
  return hn::IfThenElse(tiny, x, sin_or_cos_any(d, x, 0));
}

template <class D, class V>
HWY_INLINE V cos(D d, V x) {
  return sin_or_cos_any(d, x, 1);
}

// |x|^y = 2^(y log2|x|) in double, on half as many lanes, for positive finite |x|.
// The exponent is clamped to where the result is surely 0 or infinite.
template <class D, class V>
HWY_INLINE V positive_pow(D d, V ax, V y) {
  const hn::Rebind<double, D> dd;
  const hn::RebindToUnsigned<decltype(dd)> du;
  const auto one = hn::Set(dd, 1.0);
  // |x| = 2^e m, sqrt(1/2) <= m < sqrt(2). `biased` is e + 1023.
  const auto bits = hn::BitCast(du, hn::PromoteTo(dd, ax));
  const auto one_bits = hn::Set(du, uint64_t{0x3FF0000000000000});
  const auto biased = hn::ShiftRight<52>(
      hn::Add(bits, hn::Set(du, uint64_t{0x3FF0000000000000 - 0x3FE6A09E667F3BCD})));
  const auto m = hn::BitCast(dd, hn::Add(hn::Sub(bits, hn::ShiftLeft<52>(biased)), one_bits));
  // 2^52 + biased as a double has `biased` in its low bits.
  const auto e = hn::Sub(hn::BitCast(dd, hn::Or(biased, hn::Set(du, uint64_t{0x4330000000000000}))),
                         hn::Set(dd, 0x1p52 + 1023));
  // log2(m) = s p(s^2) with s = (m - 1) / (m + 1); fit 2^-45.
  const auto s = hn::Div(hn::Sub(m, one), hn::Add(m, one));
  const auto p =
      polynomial(dd, hn::Mul(s, s), 0x1.71547652b8251p1, 0x1.ec709dc53c9c5p-1, 0x1.2776c292fc64ap-1,
                 0x1.a61a2f02120bap-2, 0x1.47954c98132d0p-2, 0x1.21b17bb6cb2e0p-2);
  const auto product = hn::Mul(hn::PromoteTo(dd, y), hn::MulAdd(s, p, e));
  const auto t = hn::Min(hn::Max(product, hn::Set(dd, -160.0)), hn::Set(dd, 160.0));
  // 2^t = 2^k 2^f, |f| <= 1/2; fit 2^-34.5.
  const auto magic = hn::Set(dd, 0x1.8p52);
  const auto shifted = hn::Add(t, magic);
  const auto f = hn::Sub(t, hn::Sub(shifted, magic));
  const auto g = polynomial(dd, f, 0x1.ffffffffab9c9p-1, 0x1.62e42ff116c26p-1, 0x1.ebfbe0a4f0e3dp-3,
                            0x1.c6b08aae4debap-5, 0x1.3b29dc156d4f8p-7, 0x1.5d8a710a51cd9p-10,
                            0x1.446a4344d5f59p-13, 0x1.fe175b9e17213p-17);
  const auto scale =
      hn::BitCast(dd, hn::Add(hn::ShiftLeft<52>(hn::BitCast(du, shifted)), one_bits));
  const auto result = hn::DemoteTo(d, hn::Mul(g, scale));
  // Highway's scalar DemoteTo saturates instead of giving infinity.
  const auto overflow = hn::Ge(hn::DemoteTo(d, t), hn::Set(d, 128.0f));
  return hn::IfThenElse(overflow, hn::Set(d, std::numeric_limits<float>::infinity()), result);
}

template <class D, class V>
HWY_INLINE V pow(D d, V x, V y) {
  const auto zero = hn::Zero(d);
  const auto one = hn::Set(d, 1.0f);
  const auto inf = hn::Set(d, std::numeric_limits<float>::infinity());
  const auto nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  const auto ax = hn::Abs(x);

  auto magnitude = positive_pow(d, ax, y);
  magnitude = hn::IfThenElse(hn::Eq(ax, one), one, magnitude);  // |y| may be infinite
  const auto from_zero = hn::IfThenElse(hn::Lt(y, zero), inf, zero);
  const auto from_inf = hn::IfThenElse(hn::Lt(y, zero), zero, inf);
  magnitude = hn::IfThenElse(hn::Eq(ax, zero), from_zero, magnitude);
  magnitude = hn::IfThenElse(hn::Eq(ax, inf), from_inf, magnitude);

  // An odd exponent keeps the sign of the base; a fraction of a negative number is NaN.
  const auto half = hn::Mul(y, hn::Set(d, 0.5f));
  const auto fraction = hn::Ne(hn::Floor(y), y);
  const auto even = hn::Eq(hn::Floor(half), half);
  const auto sign = hn::IfThenZeroElse(hn::Or(fraction, even), hn::Xor(x, ax));
  auto result = hn::Or(magnitude, sign);
  const auto negative = hn::And(hn::Lt(x, zero), hn::Lt(ax, inf));
  result = hn::IfThenElse(hn::And(negative, fraction), nan, result);

  result = hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), nan, result);
  return hn::IfThenElse(hn::Or(hn::Eq(y, zero), hn::Eq(x, one)), one, result);
}

// The larger (smaller) of two; NaN if either is NaN.
template <class D, class V>
HWY_INLINE V maximum(D, V a, V b) {
#if TENSORGRAD_MAX_GIVES_SECOND
  return hn::IfThenElse(hn::IsNaN(a), a, hn::Max(a, b));
#else
  return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, hn::Max(a, b)));
#endif
}
template <class D, class V>
HWY_INLINE V minimum(D, V a, V b) {
#if TENSORGRAD_MAX_GIVES_SECOND
  return hn::IfThenElse(hn::IsNaN(a), a, hn::Min(a, b));
#else
  return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, hn::Min(a, b)));
#endif
}

// -1, 0 or 1 with the sign of x; NaN and zero stay as they are.
template <class D, class V>
HWY_INLINE V sign(D d, V x) {
  const auto zero = hn::Zero(d);
  const auto nonzero = hn::Or(hn::Lt(x, zero), hn::Gt(x, zero));
  return hn::IfThenElse(nonzero, hn::CopySign(hn::Set(d, 1.0f), x), x);
}

}  // namespace tensorgrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
