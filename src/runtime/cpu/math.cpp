// The loops around vector_math.hpp and the table of them, compiled once per vector unit.
#include "runtime/cpu/math.hpp"

#include <cstring>
#include <limits>

#include "runtime/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/math.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "runtime/cpu/vector_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace tensorgrad::cpu::HWY_NAMESPACE {
namespace {

using F32 = hn::ScalableTag<float>;
using I32 = hn::ScalableTag<int32_t>;
// As many floats as there are doubles in a vector.
using HalfF32 = hn::Rebind<float, hn::ScalableTag<double>>;

constexpr size_t kMaxLanes = HWY_MAX_BYTES / 4;

// The first n lanes at p, n < Lanes(d), without touching memory behind them.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_first(D d, const T* p, size_t n) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T lanes[kMaxLanes] = {};
  std::memcpy(lanes, p, n * sizeof(T));
  return hn::Load(d, lanes);
#else
  return hn::MaskedLoad(hn::FirstN(d, n), d, p);
#endif
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_first(hn::Vec<D> v, D d, T* p, size_t n) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T lanes[kMaxLanes];
  hn::Store(v, d, lanes);
  std::memcpy(p, lanes, n * sizeof(T));
#else
  hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#endif
}

// How an operand gives its i-th vector: a block, or a broadcast scalar.
template <class D>
struct Block {
  using T = hn::TFromD<D>;
  HWY_INLINE Block(D, const void* p) : p_(static_cast<const T*>(p)) {}
  HWY_INLINE hn::Vec<D> at(D d, size_t i) const { return hn::LoadU(d, p_ + i); }
  HWY_INLINE hn::Vec<D> first(D d, size_t i, size_t n) const { return load_first(d, p_ + i, n); }
  const T* p_;
};
template <class D>
struct Scalar {
  using T = hn::TFromD<D>;
  HWY_INLINE Scalar(D d, const void* p) : v_(hn::Set(d, *static_cast<const T*>(p))) {}
  HWY_INLINE hn::Vec<D> at(D, size_t) const { return v_; }
  HWY_INLINE hn::Vec<D> first(D, size_t, size_t) const { return v_; }
  hn::Vec<D> v_;
};

// out[i] = op(operands[i]...); DOut is the lane type of the result, as many lanes as D.
template <class D, class DOut, class Op, class... Operands>
HWY_INLINE void map(D d, DOut dout, void* out, size_t n, Op op, Operands... operands) {
  const size_t lanes = hn::Lanes(d);
  auto* to = static_cast<hn::TFromD<DOut>*>(out);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(op(d, operands.at(d, i)...), dout, to + i);
  if (i < n) store_first(op(d, operands.first(d, i, n - i)...), dout, to + i, n - i);
}

// Functions are structs with a static call, so that a table entry is one instantiation.
#define TENSORGRAD_OP1(Name, expression)         \
  struct Name {                                  \
    template <class D, class V>                  \
    HWY_INLINE auto operator()(D d, V x) const { \
      (void)d;                                   \
      return expression;                         \
    }                                            \
  };
#define TENSORGRAD_OP2(Name, expression)              \
  struct Name {                                       \
    template <class D, class V>                       \
    HWY_INLINE auto operator()(D d, V a, V b) const { \
      (void)d;                                        \
      return expression;                              \
    }                                                 \
  };

template <class D, class M>
HWY_INLINE auto as_bool(D, M mask) {
  const hn::RebindToSigned<D> di;
  return hn::IfThenElseZero(hn::RebindMask(di, mask), hn::Set(di, 1));
}

TENSORGRAD_OP1(Neg, hn::Neg(x))
TENSORGRAD_OP1(Abs, hn::Abs(x))
TENSORGRAD_OP1(Sqrt, hn::Sqrt(x))
TENSORGRAD_OP1(Floor, hn::CopySign(hn::Floor(x), x))  // scalar Highway loses the sign of -0
TENSORGRAD_OP1(Sign, sign(d, x))
TENSORGRAD_OP1(Relu, hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x))
TENSORGRAD_OP1(Reciprocal, hn::Div(hn::Set(d, 1.0f), x))
TENSORGRAD_OP1(Square, hn::Mul(x, x))
TENSORGRAD_OP1(Rsqrt, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x)))
TENSORGRAD_OP1(Exp, exp(d, x))
TENSORGRAD_OP1(Expm1, expm1(d, x))
TENSORGRAD_OP1(Log, log(d, x))
TENSORGRAD_OP1(Log1p, log1p(d, x))
TENSORGRAD_OP1(Sin, sin(d, x))
TENSORGRAD_OP1(Cos, cos(d, x))
TENSORGRAD_OP1(Tanh, tanh(d, x))
TENSORGRAD_OP1(Erf, erf(d, x))
TENSORGRAD_OP1(Sigmoid, sigmoid(d, x))
TENSORGRAD_OP1(Softplus, softplus(d, x))
TENSORGRAD_OP1(SignI32, hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1),
                                       hn::IfThenElseZero(hn::Lt(x, hn::Zero(d)), hn::Set(d, -1))))
TENSORGRAD_OP1(Not, hn::Xor(x, hn::Set(d, 1)))
TENSORGRAD_OP1(NonZero, as_bool(d, hn::Not(hn::Eq(x, hn::Zero(d)))))  // hn::Ne is false of NaN
TENSORGRAD_OP1(ToF32, hn::ConvertTo(F32(), x))
// NaN gives 0, and goes before the conversion: without vectors that would be undefined.
TENSORGRAD_OP1(ToI32, hn::ConvertTo(I32(), hn::IfThenElseZero(hn::Eq(x, x), x)))

TENSORGRAD_OP2(Add, hn::Add(a, b))
TENSORGRAD_OP2(Sub, hn::Sub(a, b))
TENSORGRAD_OP2(Mul, hn::Mul(a, b))
TENSORGRAD_OP2(Div, hn::Div(a, b))
TENSORGRAD_OP2(Minimum, minimum(d, a, b))
TENSORGRAD_OP2(Maximum, maximum(d, a, b))
TENSORGRAD_OP2(Pow, pow(d, a, b))
TENSORGRAD_OP2(Less, as_bool(d, hn::Lt(a, b)))
TENSORGRAD_OP2(LessEqual, as_bool(d, hn::Le(a, b)))
TENSORGRAD_OP2(Equal, as_bool(d, hn::Eq(a, b)))
TENSORGRAD_OP2(MinI32, hn::Min(a, b))
TENSORGRAD_OP2(MaxI32, hn::Max(a, b))
TENSORGRAD_OP2(LessEqualI32, hn::Xor(as_bool(d, hn::Lt(b, a)), hn::Set(d, 1)))
TENSORGRAD_OP2(And, hn::And(a, b))
TENSORGRAD_OP2(Or, hn::Or(a, b))

#undef TENSORGRAD_OP1
#undef TENSORGRAD_OP2

struct Fma {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, V c) const {
    return hn::MulAdd(a, b, c);
  }
};
struct MulSub {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, V c) const {
    return hn::MulSub(a, b, c);
  }
};
struct NegMulAdd {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, V c) const {
    return hn::NegMulAdd(a, b, c);
  }
};
template <class First, class Second>
struct Then {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b, V c) const {
    return Second()(d, First()(d, a, b), c);
  }
};
struct Select {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b, V c) const {
    return hn::IfThenElse(hn::Ne(a, hn::Zero(d)), b, c);
  }
};
struct Random {
  template <int kBy, class V>
  static HWY_INLINE void round(V& x, V& y) {
    x = hn::Add(x, y);
    y = hn::Xor(hn::Or(hn::ShiftLeft<kBy>(y), hn::ShiftRight<32 - kBy>(y)), x);
  }
  template <class D, class V>
  HWY_INLINE auto operator()(D, V index, V key0, V key1) const {
    const hn::RebindToUnsigned<D> d;
    auto x = hn::BitCast(d, index), y = hn::BitCast(d, key1);
    const auto k0 = hn::BitCast(d, key0), k1 = y;
    const auto k2 = hn::Xor(hn::Set(d, 0x1BD11BDAu), hn::Xor(k0, k1));
    const auto odd = [&] { round<13>(x, y), round<15>(x, y), round<26>(x, y), round<6>(x, y); };
    const auto even = [&] { round<17>(x, y), round<29>(x, y), round<16>(x, y), round<24>(x, y); };
    const auto inject = [&](auto to_x, auto to_y, uint32_t group) {
      x = hn::Add(x, to_x);
      y = hn::Add(y, hn::Add(to_y, hn::Set(d, group)));
    };
    x = hn::Add(x, k0);
    odd(), inject(k1, k2, 1);
    even(), inject(k2, k0, 2);
    odd(), inject(k0, k1, 3);
    even(), inject(k1, k2, 4);
    odd(), inject(k2, k0, 5);
    // Below 2^24 a number is the same signed or not, and exact as a float.
    const auto top = hn::BitCast(hn::RebindToSigned<D>(), hn::ShiftRight<8>(x));
    return hn::Mul(hn::ConvertTo(F32(), top), hn::Set(F32(), 0x1p-24f));
  }
};

template <class Op, class D = F32, class DOut = D>
void call1(const void* x, void* out, size_t n) {
  map(D(), DOut(), out, n, Op(), Block<D>(D(), x));
}
template <class Op, class D, class DOut, template <class> class A, template <class> class B>
void call2(const void* a, const void* b, void* out, size_t n) {
  if (n != 0) map(D(), DOut(), out, n, Op(), A<D>(D(), a), B<D>(D(), b));
}
template <class Op, class D, class DOut, template <class> class B, template <class> class C>
void call3(const void* a, const void* b, const void* c, void* out, size_t n) {
  if (n != 0) map(D(), DOut(), out, n, Op(), Block<D>(D(), a), B<D>(D(), b), C<D>(D(), c));
}

template <class Op, class D = F32, class DOut = D>
Forms2 forms2() {
  return {call2<Op, D, DOut, Block, Block>, call2<Op, D, DOut, Block, Scalar>,
          call2<Op, D, DOut, Scalar, Block>};
}
template <class Op, class D, class DOut = D>
Forms3 forms3() {
  return {call3<Op, D, DOut, Block, Block>, call3<Op, D, DOut, Block, Scalar>,
          call3<Op, D, DOut, Scalar, Block>, call3<Op, D, DOut, Scalar, Scalar>};
}

// Small whole exponents are products: faster, and no less exact.
void pow_scalar_exponent(const void* x, const void* y, void* out, size_t n) {
  if (n == 0) return;
  const float exponent = *static_cast<const float*>(y);
  if (exponent == 2.0f) return call1<Square>(x, out, n);
  if (exponent == 1.0f) return copy_lanes(x, out, n);
  if (exponent == -1.0f) return call1<Reciprocal>(x, out, n);
  call2<Pow, HalfF32, HalfF32, Block, Scalar>(x, y, out, n);
}

// Integer division has no vector form. In 64 bits INT32_MIN / -1 does not trap, and wraps.
HWY_INLINE int32_t divide(int32_t a, int32_t b) {
  return b == 0 ? 0 : static_cast<int32_t>(static_cast<uint32_t>(int64_t{a} / b));
}
template <bool kScalarA, bool kScalarB>
void div_i32(const void* a, const void* b, void* out, size_t n) {
  const auto* as = static_cast<const int32_t*>(a);
  const auto* bs = static_cast<const int32_t*>(b);
  auto* to = static_cast<int32_t*>(out);
  if (n == 0) return;
  const int32_t a0 = as[0], b0 = bs[0];
  for (size_t i = 0; i < n; ++i) to[i] = divide(kScalarA ? a0 : as[i], kScalarB ? b0 : bs[i]);
}

// Folds a block with four accumulators, then their lanes: the order depends on n alone.
// Lanes behind the end are `identity`.
template <class D, class T = hn::TFromD<D>, class Op>
HWY_INLINE T fold(D d, const T* x, size_t n, T identity, Op op) {
  const size_t lanes = hn::Lanes(d);
  auto a0 = hn::Set(d, identity), a1 = a0, a2 = a0, a3 = a0;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a0 = op(d, a0, hn::LoadU(d, x + i));
    a1 = op(d, a1, hn::LoadU(d, x + i + lanes));
    a2 = op(d, a2, hn::LoadU(d, x + i + 2 * lanes));
    a3 = op(d, a3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) a0 = op(d, a0, hn::LoadU(d, x + i));
  HWY_ALIGN T last[kMaxLanes];
  if (i < n) {
    hn::Store(hn::Set(d, identity), d, last);
    std::memcpy(last, x + i, (n - i) * sizeof(T));
    a1 = op(d, a1, hn::Load(d, last));
  }
  hn::Store(op(d, op(d, a0, a1), op(d, a2, a3)), d, last);
  const hn::CappedTag<T, 1> d1;
  for (size_t width = lanes / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) {
      const auto both = op(d1, hn::LoadU(d1, last + j), hn::LoadU(d1, last + j + width));
      hn::StoreU(both, d1, last + j);
    }
  }
  return last[0];
}

float sum_f32(const float* x, size_t n) {
  constexpr size_t kPairwiseAbove = 4096;
  if (n <= kPairwiseAbove) return fold(F32(), x, n, 0.0f, Add());
  const size_t half = n / 2 / 64 * 64;
  return sum_f32(x, half) + sum_f32(x + half, n - half);
}
float prod_f32(const float* x, size_t n) { return fold(F32(), x, n, 1.0f, Mul()); }
float max_f32(const float* x, size_t n) {
  return fold(F32(), x, n, -std::numeric_limits<float>::infinity(), Maximum());
}
float min_f32(const float* x, size_t n) {
  return fold(F32(), x, n, std::numeric_limits<float>::infinity(), Minimum());
}
int32_t sum_i32(const int32_t* x, size_t n) { return fold(I32(), x, n, 0, Add()); }
int32_t prod_i32(const int32_t* x, size_t n) { return fold(I32(), x, n, 1, Mul()); }
int32_t max_i32(const int32_t* x, size_t n) {
  return fold(I32(), x, n, std::numeric_limits<int32_t>::min(), MaxI32());
}
int32_t min_i32(const int32_t* x, size_t n) {
  return fold(I32(), x, n, std::numeric_limits<int32_t>::max(), MinI32());
}

// The first i with match(x[i]); n if there is none.
template <class D, class T = hn::TFromD<D>, class Match>
HWY_INLINE size_t find(D d, const T* x, size_t n, Match match) {
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto hit = hn::FindFirstTrue(d, match(d, hn::LoadU(d, x + i)));
    if (hit >= 0) return i + static_cast<size_t>(hit);
  }
  const hn::CappedTag<T, 1> d1;
  for (; i < n; ++i) {
    if (hn::AllTrue(d1, match(d1, hn::LoadU(d1, x + i)))) return i;
  }
  return n;
}

template <class T>
struct EqualTo {
  T value;
  template <class D, class V>
  HWY_INLINE auto operator()(D d, V x) const {
    return hn::Eq(x, hn::Set(d, value));
  }
};
struct IsNan {
  template <class D, class V>
  HWY_INLINE auto operator()(D, V x) const {
    return hn::IsNaN(x);
  }
};

size_t find_extreme(const float* x, size_t n, float extreme) {
  if (n == 0) return 0;
  if (extreme != extreme) return find(F32(), x, n, IsNan());
  return find(F32(), x, n, EqualTo<float>{extreme});
}
size_t find_extreme(const int32_t* x, size_t n, int32_t extreme) {
  return n == 0 ? 0 : find(I32(), x, n, EqualTo<int32_t>{extreme});
}
size_t argmax_f32(const float* x, size_t n) { return find_extreme(x, n, max_f32(x, n)); }
size_t argmin_f32(const float* x, size_t n) { return find_extreme(x, n, min_f32(x, n)); }
size_t argmax_i32(const int32_t* x, size_t n) { return find_extreme(x, n, max_i32(x, n)); }
size_t argmin_i32(const int32_t* x, size_t n) { return find_extreme(x, n, min_i32(x, n)); }

// Branch-free, so that the compiler vectorises it. x != x is false of integers.
template <bool kMax, class T>
void arg_step(T* HWY_RESTRICT best, int32_t* HWY_RESTRICT index, const T* HWY_RESTRICT x,
              int32_t row, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const T old = best[i], now = x[i];
    const bool beats = (kMax ? now > old : now < old) | ((now != now) & (old == old));
    best[i] = beats ? now : old;
    index[i] = beats ? row : index[i];
  }
}

Math make_table() {
  Math m{};
  m.target = hwy::TargetName(HWY_TARGET);
  m.neg = call1<Neg>;
  m.abs = call1<Abs>;
  m.sqrt = call1<Sqrt>;
  m.floor = call1<Floor>;
  m.sign = call1<Sign>;
  m.relu = call1<Relu>;
  m.reciprocal = call1<Reciprocal>;
  m.square = call1<Square>;
  m.rsqrt = call1<Rsqrt>;
  m.exp = call1<Exp>;
  m.expm1 = call1<Expm1>;
  m.log = call1<Log>;
  m.log1p = call1<Log1p>;
  m.sin = call1<Sin, HalfF32>;
  m.cos = call1<Cos, HalfF32>;
  m.tanh = call1<Tanh>;
  m.erf = call1<Erf>;
  m.sigmoid = call1<Sigmoid>;
  m.softplus = call1<Softplus>;

  m.add = forms2<Add>();
  m.sub = forms2<Sub>();
  m.mul = forms2<Mul>();
  m.div = forms2<Div>();
  m.minimum = forms2<Minimum>();
  m.maximum = forms2<Maximum>();
  m.pow = forms2<Pow, HalfF32>();
  m.pow.vs = pow_scalar_exponent;
  m.fma = forms3<Fma, F32>();
  m.mul_sub = forms3<MulSub, F32>();
  m.neg_mul_add = forms3<NegMulAdd, F32>();
  m.mul_mul = forms3<Then<Mul, Mul>, F32>();
  m.add_mul = forms3<Then<Add, Mul>, F32>();
  m.sub_mul = forms3<Then<Sub, Mul>, F32>();
  m.add_add = forms3<Then<Add, Add>, F32>();
  m.sub_sub = forms3<Then<Sub, Sub>, F32>();
  m.less = forms2<Less, F32, I32>();
  m.less_equal = forms2<LessEqual, F32, I32>();
  m.equal = forms2<Equal, F32, I32>();

  m.neg_i32 = call1<Neg, I32>;
  m.abs_i32 = call1<Abs, I32>;
  m.sign_i32 = call1<SignI32, I32>;
  m.add_i32 = forms2<Add, I32>();
  m.sub_i32 = forms2<Sub, I32>();
  m.mul_i32 = forms2<Mul, I32>();
  m.div_i32 = {div_i32<false, false>, div_i32<false, true>, div_i32<true, false>};
  m.minimum_i32 = forms2<MinI32, I32>();
  m.maximum_i32 = forms2<MaxI32, I32>();
  m.less_i32 = forms2<Less, I32>();
  m.less_equal_i32 = forms2<LessEqualI32, I32>();
  m.equal_i32 = forms2<Equal, I32>();

  m.logical_not = call1<Not, I32>;
  m.logical_and = forms2<And, I32>();
  m.logical_or = forms2<Or, I32>();
  m.select = forms3<Select, I32>();
  m.random = forms3<Random, I32, F32>();

  m.i32_to_f32 = call1<ToF32, I32, F32>;
  m.f32_to_i32 = call1<ToI32, F32, I32>;
  m.f32_to_bool = call1<NonZero, F32, I32>;
  m.i32_to_bool = call1<NonZero, I32>;

  m.f32 = {sum_f32,
           prod_f32,
           max_f32,
           min_f32,
           argmax_f32,
           argmin_f32,
           arg_step<true, float>,
           arg_step<false, float>};
  m.i32 = {sum_i32,
           prod_i32,
           max_i32,
           min_i32,
           argmax_i32,
           argmin_i32,
           arg_step<true, int32_t>,
           arg_step<false, int32_t>};
  return m;
}

}  // namespace

const Math* math_table() {
  static const Math table = make_table();
  return &table;
}

}  // namespace tensorgrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tensorgrad::cpu {

const Math& math() {
  static const Math& table = *TENSORGRAD_BEST_VARIANT(machine_targets(), math_table)();
  return table;
}

std::vector<const Math*> math_variants() {
  std::vector<const Math*> tables;
  for (std::int64_t rest = machine_targets(); rest != 0; rest &= rest - 1) {
    tables.push_back(TENSORGRAD_BEST_VARIANT(rest & -rest, math_table)());
  }
  return tables;
}

void copy_lanes(const void* x, void* out, size_t n) {
  if (n != 0 && x != out) std::memcpy(out, x, n * sizeof(uint32_t));
}

// A lane of any type.
using Lane __attribute__((may_alias)) = uint32_t;

void fill_lanes(uint32_t bits, void* out, size_t n) {
  auto* to = static_cast<Lane*>(out);
  for (size_t i = 0; i < n; ++i) to[i] = bits;
}

void load_strided(const void* base, ptrdiff_t stride, void* out, size_t n) {
  const auto* from = static_cast<const Lane*>(base);
  auto* to = static_cast<Lane*>(out);
  if (n == 0) return;
  if (stride == 1) return copy_lanes(base, out, n);
  if (stride == 0) return fill_lanes(*from, out, n);
  for (size_t i = 0; i < n; ++i) to[i] = from[static_cast<ptrdiff_t>(i) * stride];
}

void store_strided(const void* x, void* base, ptrdiff_t stride, size_t n) {
  const auto* from = static_cast<const Lane*>(x);
  auto* to = static_cast<Lane*>(base);
  if (stride == 1) return copy_lanes(x, base, n);
  for (size_t i = 0; i < n; ++i) to[static_cast<ptrdiff_t>(i) * stride] = from[i];
}

void load_indexed(const void* base, const int32_t* index, void* out, size_t n) {
  const auto* from = static_cast<const Lane*>(base);
  auto* to = static_cast<Lane*>(out);
  for (size_t i = 0; i < n; ++i) to[i] = from[index[i]];
}

void iota(int32_t start, int32_t step, int32_t* out, size_t n) {
  uint32_t value = static_cast<uint32_t>(start);
  for (size_t i = 0; i < n; ++i, value += static_cast<uint32_t>(step)) {
    out[i] = static_cast<int32_t>(value);
  }
}

}  // namespace tensorgrad::cpu
#endif  // HWY_ONCE
