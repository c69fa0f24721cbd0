// The block functions on every vector unit of this machine, against long double libm.
// TENSORGRAD_MATH_STRIDE=1 walks all 2^32 floats instead of every 9973rd.
#include "runtime/cpu/math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace tensorgrad::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int32_t kIntMin = std::numeric_limits<int32_t>::min();
constexpr int32_t kIntMax = std::numeric_limits<int32_t>::max();

const std::vector<const Math*>& variants() {
  static const auto tables = math_variants();
  return tables;
}

// Distance in units in the last place of the exact value; infinite where the kinds differ.
double ulps(float got, long double exact) {
  if (std::isnan(got) || std::isnan(exact)) {
    return std::isnan(got) && std::isnan(exact) ? 0.0 : HUGE_VAL;
  }
  if (std::isinf(exact)) return got == exact ? 0.0 : HUGE_VAL;
  if (exact == 0) return got == 0 && std::signbit(got) == std::signbit(exact) ? 0.0 : HUGE_VAL;
  const int exponent = std::clamp(std::ilogb(exact), -126, 127);
  const long double ulp = std::ldexp(1.0L, exponent - 23);
  // Infinity stands for the next float above the largest.
  const long double value = std::isinf(got) ? std::copysign(0x1p128L, got) : got;
  const bool beyond = std::fabs(exact) >= 0x1p128L && std::isinf(got);
  return beyond ? 0.0 : static_cast<double>(std::fabs(value - exact) / ulp);
}

// Every stride-th bit pattern and the awkward ones.
std::vector<float> special_floats() {
  std::vector<float> x = {
      0.0f,        -0.0f,      kInf,       -kInf,       kNan,         FLT_MIN,     -FLT_MIN,
      FLT_MAX,     -FLT_MAX,   1e-45f,     -1e-45f,     1.0f,         -1.0f,       1e-6f,
      -1e-6f,      0.5f,       2.0f,       -2.0f,       88.722f,      88.723f,     88.73f,
      -87.336f,    -103.97f,   -104.0f,    100.0f,      -100.0f,      1e5f,        -1e5f,
      1048576.f,   1048577.f,  1e10f,      1e30f,       -0.99999994f, -1.0000001f, 0.70710677f,
      0.70710683f, 1.4142135f, 1.4142137f, 0.34657359f, 3.1415927f,   1.5707964f,  6.2831855f,
      9.05f,       3.95f};
  return x;
}

class FloatWalk {
 public:
  FloatWalk() {
    const char* env = std::getenv("TENSORGRAD_MATH_STRIDE");
    if (env != nullptr) stride_ = std::max(1ull, std::strtoull(env, nullptr, 10));
  }
  // Calls f with blocks of floats until all are done.
  void each_block(const std::function<void(const std::vector<float>&)>& f) const {
    f(special_floats());
    std::vector<float> block;
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += stride_) {
      block.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
      if (block.size() == 1021) f(block), block.clear();
    }
    f(block);
  }

 private:
  uint64_t stride_ = 9973;
};

struct UnaryCase {
  const char* name;
  Fn1 Math::*fn;
  long double (*exact)(long double);
  double bound;
};

long double ref_softplus(long double x) {
  return std::isnan(x) ? x : std::max(x, 0.0L) + std::log1p(std::exp(-std::fabs(x)));
}
long double ref_sigmoid(long double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

const UnaryCase kUnary[] = {
    {"neg", &Math::neg, [](long double x) { return -x; }, 0},
    {"abs", &Math::abs, [](long double x) { return std::fabs(x); }, 0},
    {"sqrt", &Math::sqrt, [](long double x) { return std::sqrt(x); }, 0.5001},
    {"floor", &Math::floor, [](long double x) { return std::floor(x); }, 0},
    {"square", &Math::square, [](long double x) { return x * x; }, 0.5001},
    {"reciprocal", &Math::reciprocal, [](long double x) { return 1 / x; }, 0.5001},
    {"rsqrt", &Math::rsqrt, [](long double x) { return 1 / std::sqrt(x); }, 1.5},
    {"exp", &Math::exp, [](long double x) { return std::exp(x); }, 1.1},
    {"expm1", &Math::expm1, [](long double x) { return std::expm1(x); }, 2},
    {"log", &Math::log, [](long double x) { return std::log(x); }, 0.9},
    {"log1p", &Math::log1p, [](long double x) { return std::log1p(x); }, 1.5},
    {"sin", &Math::sin, [](long double x) { return std::sin(x); }, 0.51},
    {"cos", &Math::cos, [](long double x) { return std::cos(x); }, 0.51},
    {"tanh", &Math::tanh, [](long double x) { return std::tanh(x); }, 3},
    {"erf", &Math::erf, [](long double x) { return std::erf(x); }, 2},
    {"sigmoid", &Math::sigmoid, ref_sigmoid, 2.5},
    {"softplus", &Math::softplus, ref_softplus, 2},
};

class UnaryBound : public ::testing::TestWithParam<UnaryCase> {};

TEST_P(UnaryBound, HoldsOverAllFloats) {
  const UnaryCase& c = GetParam();
  std::vector<double> worst(variants().size(), 0);
  std::vector<float> worst_at(variants().size(), 0);
  std::vector<float> out;
  std::vector<long double> exact;
  FloatWalk().each_block([&](const std::vector<float>& x) {
    out.resize(x.size());
    exact.resize(x.size());
    for (size_t i = 0; i < x.size(); ++i) exact[i] = c.exact(x[i]);
    for (size_t v = 0; v < variants().size(); ++v) {
      (variants()[v]->*c.fn)(x.data(), out.data(), x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        const double error = ulps(out[i], exact[i]);
        if (error > worst[v]) worst[v] = error, worst_at[v] = x[i];
      }
    }
  });
  for (size_t v = 0; v < variants().size(); ++v) {
    EXPECT_LE(worst[v], c.bound) << c.name << " on " << variants()[v]->target << " at "
                                 << std::hexfloat << worst_at[v];
    RecordProperty(std::string("worst_ulp_") + variants()[v]->target, std::to_string(worst[v]));
    if (std::getenv("TENSORGRAD_MATH_STRIDE") != nullptr) {
      std::printf("%-10s %-7s %.3f ulp at %a\n", c.name, variants()[v]->target, worst[v],
                  static_cast<double>(worst_at[v]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Math, UnaryBound, ::testing::ValuesIn(kUnary),
                         [](const auto& info) { return std::string(info.param.name); });

// Runs f on every vector unit, with its name in the messages.
void on_every_unit(const std::function<void(const Math&)>& f) {
  for (const Math* m : variants()) {
    SCOPED_TRACE(m->target);
    f(*m);
  }
}

bool same(float a, float b) { return std::isnan(a) ? std::isnan(b) : a == b; }

template <class T>
std::vector<T> apply(Fn1 f, const auto& x) {
  std::vector<T> out(x.size());
  f(x.data(), out.data(), x.size());
  return out;
}
template <class T>
std::vector<T> apply(Fn2 f, const auto& a, const auto& b, size_t n) {
  std::vector<T> out(n);
  f(a.data(), b.data(), out.data(), n);
  return out;
}

// gelu multiplies a large number by what is left of 1 there.
TEST(Math, FunctionsReachTheirLimits) {
  on_every_unit([](const Math& m) {
    const std::vector<float> large{4, 5.5f, 30, 1e6f, 1e20f, kInf, -4, -5.5f, -30, -1e20f, -kInf};
    const std::vector<float> erf = apply<float>(m.erf, large), tanh = apply<float>(m.tanh, large);
    for (size_t i = 0; i < large.size(); ++i) {
      EXPECT_EQ(erf[i], std::copysign(1.0f, large[i])) << large[i];
      if (std::fabs(large[i]) < 10) continue;
      EXPECT_EQ(tanh[i], std::copysign(1.0f, large[i])) << large[i];
    }
  });
}

TEST(Math, ChoosesOneOfItsVariants) {
  EXPECT_NE(std::find(variants().begin(), variants().end(), &math()), variants().end());
}

TEST(Math, NamedTrapsAreAvoided) {
  on_every_unit([](const Math& m) {
    const std::vector<float> x = {100.0f, -100.0f, 1e-6f, 1e4f, -1e4f};
    EXPECT_EQ(apply<float>(m.tanh, x)[0], 1.0f);
    EXPECT_EQ(apply<float>(m.tanh, x)[1], -1.0f);
    EXPECT_EQ(apply<float>(m.expm1, x)[2], std::expm1(1e-6f));
    EXPECT_EQ(apply<float>(m.exp, x)[3], kInf);
    EXPECT_EQ(apply<float>(m.exp, x)[4], 0.0f);
    EXPECT_EQ(apply<float>(m.softplus, x)[3], 1e4f);
    EXPECT_EQ(apply<float>(m.sigmoid, x)[4], 0.0f);
  });
}

TEST(Math, SignAndReluKeepNan) {
  on_every_unit([](const Math& m) {
    const std::vector<float> x = {-3.0f, -0.0f, 0.0f, 1e-45f, kNan, kInf, -kInf};
    const std::vector<float> sign = {-1, 0, 0, 1, kNan, 1, -1};
    const std::vector<float> relu = {0, 0, 0, 1e-45f, kNan, kInf, 0};
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_TRUE(same(apply<float>(m.sign, x)[i], sign[i])) << x[i];
      EXPECT_TRUE(same(apply<float>(m.relu, x)[i], relu[i])) << x[i];
    }
  });
}

TEST(Math, EveryLengthTouchesExactlyItsLanes) {
  on_every_unit([](const Math& m) {
    for (size_t n = 0; n <= 70; ++n) {
      std::vector<float> x(n + 2, 2.0f), out(n + 2, -7.0f);
      m.square(x.data() + 1, out.data() + 1, n);
      EXPECT_EQ(std::count(out.begin(), out.end(), 4.0f), static_cast<ptrdiff_t>(n));
      EXPECT_EQ(out.front(), -7.0f);
      EXPECT_EQ(out.back(), -7.0f);
      m.cos(x.data() + 1, x.data() + 1, n);  // half as many lanes, in place
      EXPECT_EQ(x.front(), 2.0f);
      EXPECT_EQ(x.back(), 2.0f);
      for (size_t i = 1; i <= n; ++i) EXPECT_NEAR(x[i], std::cos(2.0f), 1e-6f);
    }
  });
}

TEST(Math, BinaryFormsAgreeInPlaceAndBroadcast) {
  const auto check = [](const Forms2& f, float (*exact)(float, float)) {
    for (const size_t n : {1, 3, 16, 37}) {
      std::vector<float> a(n), b(n);
      for (size_t i = 0; i < n; ++i) a[i] = 0.5f + float(i), b[i] = 9.0f - 0.75f * float(i);
      const auto vv = apply<float>(f.vv, a, b, n);
      const auto vs = apply<float>(f.vs, a, b, n);
      const auto sv = apply<float>(f.sv, a, b, n);
      for (size_t i = 0; i < n; ++i) {
        EXPECT_EQ(vv[i], exact(a[i], b[i]));
        EXPECT_EQ(vs[i], exact(a[i], b[0]));
        EXPECT_EQ(sv[i], exact(a[0], b[i]));
      }
      auto in_place = a;
      f.vv(in_place.data(), b.data(), in_place.data(), n);
      EXPECT_EQ(in_place, vv);
      in_place = b;
      f.vv(a.data(), in_place.data(), in_place.data(), n);
      EXPECT_EQ(in_place, vv);
      in_place = a;  // the scalar is the first lane of the block that is overwritten
      f.sv(in_place.data(), b.data(), in_place.data(), n);
      EXPECT_EQ(in_place, sv);
    }
  };
  on_every_unit([&](const Math& m) {
    check(m.add, [](float a, float b) { return a + b; });
    check(m.sub, [](float a, float b) { return a - b; });
    check(m.mul, [](float a, float b) { return a * b; });
    check(m.div, [](float a, float b) { return a / b; });
    check(m.minimum, [](float a, float b) { return std::min(a, b); });
    check(m.maximum, [](float a, float b) { return std::max(a, b); });
  });
}

TEST(Math, MinimumAndMaximumPropagateNan) {
  on_every_unit([](const Math& m) {
    const std::vector<float> a = {kNan, 1.0f, kNan, kInf, -kInf}, b = {1.0f, kNan, kNan, kNan, 2};
    const auto high = apply<float>(m.maximum.vv, a, b, 5),
               low = apply<float>(m.minimum.vv, a, b, 5);
    for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(high[i]) && std::isnan(low[i])) << i;
    EXPECT_EQ(high[4], 2.0f);
    EXPECT_EQ(low[4], -kInf);
  });
}

TEST(Math, PowFollowsLibmOnSpecialPairs) {
  std::vector<float> values = {
      0.0f,    -0.0f,       1.0f,         -1.0f, 2.0f,        -2.0f,      3.0f,  -3.0f,  0.5f,
      -0.5f,   1.5f,        -1.5f,        kInf,  -kInf,       kNan,       1e30f, -1e30f, 1e-40f,
      -1e-40f, 16777217.0f, -16777215.0f, 1e-5f, 0.99999994f, 1.0000001f, 1e9f};
  std::vector<float> a, b;
  for (const float x : values) {
    for (const float y : values) a.push_back(x), b.push_back(y);
  }
  on_every_unit([&](const Math& m) {
    const auto check = [](float got, float x, float y) {
      const long double exact = std::pow(static_cast<long double>(x), y);
      const float nearest = static_cast<float>(exact);
      if (std::isinf(nearest) || nearest == 0) {
        EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(nearest)) << x << "^" << y;
      } else {
        EXPECT_LE(ulps(got, exact), 0.51) << x << "^" << y << " = " << got;
      }
    };
    const auto got = apply<float>(m.pow.vv, a, b, a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      float scalar_exponent = 0, scalar_base = 0;
      m.pow.vs(&a[i], &b[i], &scalar_exponent, 1);
      m.pow.sv(&a[i], &b[i], &scalar_base, 1);
      check(got[i], a[i], b[i]);
      check(scalar_exponent, a[i], b[i]);
      check(scalar_base, a[i], b[i]);
    }
  });
}

TEST(Math, PowBoundHoldsOnRandomPairs) {
  std::vector<float> a, b;
  uint64_t state = 1;
  const auto random = [&state] {  // uniform in [0, 1)
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<float>(state >> 40) * 0x1p-24f;
  };
  for (int i = 0; i < 200000; ++i) {
    const float x = std::exp2(random() * 40 - 20);
    a.push_back(i % 3 == 0 ? x : 0.5f + 1.5f * random());
    b.push_back((random() * 2 - 1) * 140 / std::max(1.0f, std::fabs(std::log2(a.back()))));
  }
  on_every_unit([&](const Math& m) {
    const auto got = apply<float>(m.pow.vv, a, b, a.size());
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      worst = std::max(worst, ulps(got[i], std::pow(static_cast<long double>(a[i]), b[i])));
    }
    EXPECT_LE(worst, 0.51);
  });
}

TEST(Math, FmaFormsAgree) {
  on_every_unit([](const Math& m) {
    const std::vector<float> a = {1, 2, 3}, b = {4, 5, 6}, c = {7, 8, 9};
    std::vector<float> out(3);
    const auto run = [&](Fn3 f) { return f(a.data(), b.data(), c.data(), out.data(), 3), out; };
    EXPECT_EQ(run(m.fma.vvv), (std::vector<float>{11, 18, 27}));
    EXPECT_EQ(run(m.fma.vvs), (std::vector<float>{11, 17, 25}));
    EXPECT_EQ(run(m.fma.vsv), (std::vector<float>{11, 16, 21}));
    EXPECT_EQ(run(m.fma.vss), (std::vector<float>{11, 15, 19}));
  });
}

TEST(Math, PairsAreTheirTwoOperationsInEveryForm) {
  struct Case {
    const char* name;
    Forms3 Math::*pair;
    float (*expected)(float, float, float);
  };
  const Case cases[] = {
      {"mul_sub", &Math::mul_sub, [](float a, float b, float c) { return a * b - c; }},
      {"neg_mul_add", &Math::neg_mul_add, [](float a, float b, float c) { return c - a * b; }},
      {"mul_mul", &Math::mul_mul, [](float a, float b, float c) { return a * b * c; }},
      {"add_mul", &Math::add_mul, [](float a, float b, float c) { return (a + b) * c; }},
      {"sub_mul", &Math::sub_mul, [](float a, float b, float c) { return (a - b) * c; }},
      {"add_add", &Math::add_add, [](float a, float b, float c) { return a + b + c; }},
      {"sub_sub", &Math::sub_sub, [](float a, float b, float c) { return a - b - c; }},
  };
  const size_t n = 37;  // whole vectors and a rest; small whole numbers, so nothing is rounded
  std::vector<float> a(n), b(n), c(n), out(n);
  for (size_t i = 0; i < n; ++i) {
    a[i] = static_cast<float>(i) - 11;
    b[i] = static_cast<float>(i * 7 % 19) - 5;
    c[i] = static_cast<float>(i * 5 % 23) - 9;
  }
  on_every_unit([&](const Math& m) {
    for (const Case& test : cases) {
      SCOPED_TRACE(test.name);
      const Forms3& forms = m.*test.pair;
      const auto check = [&](Fn3 f, size_t step_b, size_t step_c) {
        f(a.data(), b.data(), c.data(), out.data(), n);
        for (size_t i = 0; i < n; ++i) {
          EXPECT_EQ(out[i], test.expected(a[i], b[i * step_b], c[i * step_c])) << "lane " << i;
        }
      };
      check(forms.vvv, 1, 1);
      check(forms.vvs, 1, 0);
      check(forms.vsv, 0, 1);
      check(forms.vss, 0, 0);
    }
  });
}

TEST(Math, ComparisonsAreZeroOrOneAndFalseForNan) {
  using Ints = std::vector<int32_t>;
  on_every_unit([](const Math& m) {
    const std::vector<float> a = {1, 2, 2, kNan, kInf, -0.0f}, b = {2, 2, 1, kNan, kInf, 0.0f};
    EXPECT_EQ(apply<int32_t>(m.less.vv, a, b, 6), (Ints{1, 0, 0, 0, 0, 0}));
    EXPECT_EQ(apply<int32_t>(m.less_equal.vv, a, b, 6), (Ints{1, 1, 0, 0, 1, 1}));
    EXPECT_EQ(apply<int32_t>(m.equal.vv, a, b, 6), (Ints{0, 1, 0, 0, 1, 1}));
    EXPECT_EQ(apply<int32_t>(m.less.vs, a, b, 6), (Ints{1, 0, 0, 0, 0, 1}));
    EXPECT_EQ(apply<int32_t>(m.less.sv, a, b, 6), (Ints{1, 1, 0, 0, 1, 0}));
    const Ints i = {kIntMin, 5, 7, -1}, j = {kIntMax, 5, -7, 0};
    EXPECT_EQ(apply<int32_t>(m.less_i32.vv, i, j, 4), (Ints{1, 0, 0, 1}));
    EXPECT_EQ(apply<int32_t>(m.less_equal_i32.vv, i, j, 4), (Ints{1, 1, 0, 1}));
    EXPECT_EQ(apply<int32_t>(m.equal_i32.vv, i, j, 4), (Ints{0, 1, 0, 0}));
  });
}

TEST(Math, IntegersWrapAndDivideWithoutTraps) {
  using Ints = std::vector<int32_t>;
  on_every_unit([](const Math& m) {
    const Ints a = {kIntMin, 7, -7, 5, kIntMax, 0}, b = {-1, 2, 2, 0, 2, 3};
    EXPECT_EQ(apply<int32_t>(m.div_i32.vv, a, b, 6), (Ints{kIntMin, 3, -3, 0, kIntMax / 2, 0}));
    EXPECT_EQ(apply<int32_t>(m.div_i32.vs, a, b, 6), (Ints{kIntMin, -7, 7, -5, -kIntMax, 0}));
    EXPECT_EQ(apply<int32_t>(m.div_i32.sv, a, b, 3), (Ints{kIntMin, -1073741824, -1073741824}));
    EXPECT_EQ(apply<int32_t>(m.add_i32.vv, a, b, 6), (Ints{kIntMax, 9, -5, 5, kIntMin + 1, 3}));
    EXPECT_EQ(apply<int32_t>(m.sub_i32.vv, a, b, 6),
              (Ints{kIntMin + 1, 5, -9, 5, kIntMax - 2, -3}));
    EXPECT_EQ(apply<int32_t>(m.mul_i32.vv, a, b, 6), (Ints{kIntMin, 14, -14, 0, -2, 0}));
    EXPECT_EQ(apply<int32_t>(m.minimum_i32.vv, a, b, 6), (Ints{kIntMin, 2, -7, 0, 2, 0}));
    EXPECT_EQ(apply<int32_t>(m.maximum_i32.vv, a, b, 6), (Ints{-1, 7, 2, 5, kIntMax, 3}));
    EXPECT_EQ(apply<int32_t>(m.neg_i32, a), (Ints{kIntMin, -7, 7, -5, -kIntMax, 0}));
    EXPECT_EQ(apply<int32_t>(m.abs_i32, a), (Ints{kIntMin, 7, 7, 5, kIntMax, 0}));
    EXPECT_EQ(apply<int32_t>(m.sign_i32, a), (Ints{-1, 1, -1, 1, 1, 0}));
    EXPECT_EQ(apply<int32_t>(m.i32_to_bool, a), (Ints{1, 1, 1, 1, 1, 0}));
    const Ints p = {0, 0, 1, 1}, q = {0, 1, 0, 1};
    EXPECT_EQ(apply<int32_t>(m.logical_and.vv, p, q, 4), (Ints{0, 0, 0, 1}));
    EXPECT_EQ(apply<int32_t>(m.logical_or.vv, p, q, 4), (Ints{0, 1, 1, 1}));
    EXPECT_EQ(apply<int32_t>(m.logical_not, p), (Ints{1, 1, 0, 0}));
  });
}

TEST(Math, SelectKeepsBits) {
  on_every_unit([](const Math& m) {
    const std::vector<int32_t> mask = {1, 0, -5, 0};
    const std::vector<uint32_t> a = {0x7FC12345, 2, 3, 4}, b = {5, 0xFFC00001, 7, 8};
    std::vector<uint32_t> out(4);
    const auto run = [&](Fn3 f) { return f(mask.data(), a.data(), b.data(), out.data(), 4), out; };
    EXPECT_EQ(run(m.select.vvv), (std::vector<uint32_t>{0x7FC12345, 0xFFC00001, 3, 8}));
    EXPECT_EQ(run(m.select.vvs), (std::vector<uint32_t>{0x7FC12345, 5, 3, 5}));
    EXPECT_EQ(run(m.select.vsv), (std::vector<uint32_t>{0x7FC12345, 0xFFC00001, 0x7FC12345, 8}));
    EXPECT_EQ(run(m.select.vss), (std::vector<uint32_t>{0x7FC12345, 5, 0x7FC12345, 5}));
  });
}

TEST(Math, ConversionsSaturateAndTruncate) {
  using Ints = std::vector<int32_t>;
  on_every_unit([](const Math& m) {
    const std::vector<float> x = {1.9f, -1.9f, 3e9f,          -3e9f, kNan,
                                  kInf, -kInf, 2147483520.0f, -0.0f, 1e-45f};
    EXPECT_EQ(apply<int32_t>(m.f32_to_i32, x),
              (Ints{1, -1, kIntMax, kIntMin, 0, kIntMax, kIntMin, 2147483520, 0, 0}));
    EXPECT_EQ(apply<int32_t>(m.f32_to_bool, x), (Ints{1, 1, 1, 1, 1, 1, 1, 1, 0, 1}));
    EXPECT_EQ(apply<float>(m.i32_to_f32, Ints{0, -5, 16777217, kIntMin}),
              (std::vector<float>{0, -5, 16777216, -2147483648.0f}));
  });
}

TEST(Math, SumIsAccurateAndRepeatable) {
  on_every_unit([](const Math& m) {
    for (const size_t n : {0, 1, 5, 64, 1000, 4097, 1000003}) {
      std::vector<float> x(n);
      long double exact = 0, magnitude = 0;
      for (size_t i = 0; i < n; ++i) {
        x[i] = 1.0f + 1.0f / float(i % 977 + 1);
        exact += x[i], magnitude += std::fabs(x[i]);
      }
      const float sum = m.f32.sum(x.data(), n);
      EXPECT_NEAR(sum, static_cast<double>(exact), static_cast<double>(magnitude) * 1e-6) << n;
      EXPECT_EQ(sum, m.f32.sum(x.data(), n));
    }
  });
}

TEST(Math, ReductionsOfEveryLength) {
  on_every_unit([](const Math& m) {
    for (size_t n = 0; n <= 150; ++n) {
      std::vector<float> x(n);
      std::vector<int32_t> y(n);
      for (size_t i = 0; i < n; ++i) {
        y[i] = static_cast<int32_t>(i * 7919 % 101) - 50;
        x[i] = static_cast<float>(y[i]);
      }
      const float total = std::accumulate(x.begin(), x.end(), 0.0f);
      EXPECT_EQ(m.f32.sum(x.data(), n), total);
      EXPECT_EQ(m.i32.sum(y.data(), n), static_cast<int32_t>(total));
      const auto high = std::max_element(y.begin(), y.end()),
                 low = std::min_element(y.begin(), y.end());
      EXPECT_EQ(m.f32.max(x.data(), n), n == 0 ? -kInf : float(*high));
      EXPECT_EQ(m.f32.min(x.data(), n), n == 0 ? kInf : float(*low));
      EXPECT_EQ(m.i32.max(y.data(), n), n == 0 ? kIntMin : *high);
      EXPECT_EQ(m.i32.min(y.data(), n), n == 0 ? kIntMax : *low);
      const size_t at_high = static_cast<size_t>(high - y.begin());
      const size_t at_low = static_cast<size_t>(low - y.begin());
      EXPECT_EQ(m.f32.argmax(x.data(), n), at_high);
      EXPECT_EQ(m.f32.argmin(x.data(), n), at_low);
      EXPECT_EQ(m.i32.argmax(y.data(), n), at_high);
      EXPECT_EQ(m.i32.argmin(y.data(), n), at_low);
      std::vector<float> powers(n, 1.0f);
      for (size_t i = 0; i < n; ++i) powers[i] = i % 2 == 0 ? 2.0f : 0.5f;
      EXPECT_EQ(m.f32.prod(powers.data(), n), n % 2 == 0 ? 1.0f : 2.0f);
      const std::vector<int32_t> threes(n, 3);
      uint32_t wrapped = 1;
      for (size_t i = 0; i < n; ++i) wrapped *= 3;
      EXPECT_EQ(m.i32.prod(threes.data(), n), static_cast<int32_t>(wrapped));
    }
  });
}

TEST(Math, ReductionsTakeTheFirstNan) {
  on_every_unit([](const Math& m) {
    std::vector<float> x(77, 1.0f);
    x[3] = kInf, x[4] = -kInf;
    for (const size_t at : {70, 41, 6, 0}) {  // each before the last
      x[at] = kNan;
      EXPECT_TRUE(std::isnan(m.f32.max(x.data(), x.size())));
      EXPECT_TRUE(std::isnan(m.f32.min(x.data(), x.size())));
      EXPECT_EQ(m.f32.argmax(x.data(), x.size()), at);
      EXPECT_EQ(m.f32.argmin(x.data(), x.size()), at);
    }
  });
}

TEST(Math, ArgStepsDownColumnsMatchArgmax) {
  on_every_unit([](const Math& m) {
    constexpr size_t kRows = 9, kColumns = 37;
    std::vector<float> x(kRows * kColumns);
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(i * 31 % 17);
    x[3 * kColumns + 5] = kNan, x[6 * kColumns + 5] = kNan;
    std::vector<float> high(x.begin(), x.begin() + kColumns), low = high;
    std::vector<int32_t> high_at(kColumns, 0), low_at(kColumns, 0);
    for (size_t r = 1; r < kRows; ++r) {
      m.f32.argmax_step(high.data(), high_at.data(), &x[r * kColumns], int32_t(r), kColumns);
      m.f32.argmin_step(low.data(), low_at.data(), &x[r * kColumns], int32_t(r), kColumns);
    }
    for (size_t c = 0; c < kColumns; ++c) {
      std::vector<float> column(kRows);
      load_strided(&x[c], kColumns, column.data(), kRows);
      EXPECT_EQ(high_at[c], int32_t(m.f32.argmax(column.data(), kRows))) << c;
      EXPECT_EQ(low_at[c], int32_t(m.f32.argmin(column.data(), kRows))) << c;
    }
  });
}

TEST(Math, LanesMoveByStrideAndIndex) {
  const std::vector<float> x = {0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<float> out(4);
  load_strided(x.data(), 2, out.data(), 4);
  EXPECT_EQ(out, (std::vector<float>{0, 2, 4, 6}));
  load_strided(&x[7], -2, out.data(), 4);
  EXPECT_EQ(out, (std::vector<float>{7, 5, 3, 1}));
  load_strided(&x[3], 0, out.data(), 4);
  EXPECT_EQ(out, (std::vector<float>{3, 3, 3, 3}));
  const std::vector<int32_t> index = {5, 5, 0, 2};
  load_indexed(x.data(), index.data(), out.data(), 4);
  EXPECT_EQ(out, (std::vector<float>{5, 5, 0, 2}));
  std::vector<float> back(8, -1);
  store_strided(out.data(), back.data(), 2, 4);
  EXPECT_EQ(back, (std::vector<float>{5, -1, 5, -1, 0, -1, 2, -1}));
  fill_lanes(std::bit_cast<uint32_t>(2.5f), out.data(), 4);
  EXPECT_EQ(out, (std::vector<float>{2.5f, 2.5f, 2.5f, 2.5f}));
  std::vector<int32_t> count(3);
  iota(kIntMax, 1, count.data(), 3);
  EXPECT_EQ(count, (std::vector<int32_t>{kIntMax, kIntMin, kIntMin + 1}));
}

}  // namespace
}  // namespace tensorgrad::cpu
