// The prelude's functions against libm in double precision, on whatever adapter the tests run on.
#include "codegen/wgsl/prelude.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "runtime/webgpu/gpu.hpp"

namespace tensorgrad::wgsl {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

using Floats = std::vector<float>;
using Function = std::function<double(double, double)>;

webgpu::Gpu& gpu() {
  static webgpu::Gpu opened =
      webgpu::Gpu::open({.adapter = {}, .checked = true, .cache_folder = {}});
  return opened;
}

/// c[i] = expression of x and y, the elements of a and b.
Floats run(const std::string& expression, const std::set<std::string>& uses, const Floats& a,
           const Floats& b) {
  const std::string wgsl =
      "@group(0) @binding(0) var<storage, read> a: array<f32>;\n"
      "@group(0) @binding(1) var<storage, read> b: array<f32>;\n"
      "@group(0) @binding(2) var<storage, read_write> c: array<f32>;\n" +
      prelude_source(uses) +
      "\n@compute @workgroup_size(64)\n"
      "fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
      "  if (id.x >= arrayLength(&c)) { return; }\n"
      "  let x = a[id.x];\n"
      "  let y = b[id.x];\n"
      "  c[id.x] = " +
      expression + ";\n}\n";
  using webgpu::Access;
  const webgpu::Pipeline pipeline = gpu().compile(webgpu::ShaderSource{
      expression, wgsl, "main", {Access::Read, Access::Read, Access::ReadWrite}});
  const auto upload = [](const Floats& values) {
    webgpu::Buffer buffer = gpu().create_buffer(values.size() * 4);
    gpu().write(buffer, 0, std::as_bytes(std::span(values)));
    return buffer;
  };
  const webgpu::Buffer out = gpu().create_buffer(a.size() * 4);
  const webgpu::Binding bindings[] = {{upload(a)}, {upload(b)}, {out}};
  const webgpu::Dispatch dispatch{pipeline, gpu().bind(pipeline, bindings),
                                  static_cast<std::uint32_t>((a.size() + 63) / 64)};
  gpu().submit({&dispatch, 1});
  Floats result(a.size());
  gpu().read(out, 0, std::as_writable_bytes(std::span(result)));
  return result;
}

Floats call(const std::string& name, const Floats& x, const Floats& y = {}) {
  return run(name + (y.empty() ? "(x)" : "(x, y)"), {name}, x, y.empty() ? x : y);
}

/// The distance to the exact value in units of the last place a float has there.
double ulps(float got, double exact) {
  const auto rounded = static_cast<float>(exact);
  if (std::isnan(exact)) return std::isnan(got) ? 0 : kInf;
  if (std::isinf(rounded) || std::isinf(got)) {
    // At the very edge of the range either side of the rounding will do.
    return got == rounded || std::fabs(exact) > 3.4028e38 ? 0 : kInf;
  }
  if (std::fabs(exact) < 0x1.01p-126) return std::fabs(got - exact) <= 0x1.02p-126 ? 0 : kInf;
  const int exponent = std::ilogb(exact);
  return std::fabs(got - exact) / std::ldexp(1.0, exponent - 23);
}

struct Range {
  double low, high;
  bool log_scale = false;  // both signs, by magnitude
};

Floats sample(const Range& range, std::uint32_t seed, std::size_t count) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(
      range.log_scale ? std::log(range.low) : range.low,
      range.log_scale ? std::log(range.high) : range.high);
  Floats values(count);
  for (float& v : values) {
    const double u = uniform(random);
    v = static_cast<float>(range.log_scale ? std::exp(u) * ((random() & 1) ? 1 : -1) : u);
  }
  return values;
}

/// The largest error over the ranges, which is also checked against the bound.
void check(const std::string& name, double bound, const std::vector<Range>& ranges,
           const Function& exact, const std::vector<Range>& second = {}) {
  double worst = 0;
  constexpr std::size_t kCount = 1u << 17;
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    const Floats x = sample(ranges[r], static_cast<std::uint32_t>(r + 1), kCount);
    const Floats y =
        second.empty() ? Floats{} : sample(second[r], static_cast<std::uint32_t>(r + 100), kCount);
    const Floats got = call(name, x, y);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double right = y.empty() ? 0.0 : static_cast<double>(y[i]);
      const double error = ulps(got[i], exact(x[i], right));
      if (error > bound) {
        FAIL() << name << "(" << x[i] << ", " << right << ") is " << got[i] << ", not "
               << exact(x[i], right) << ": " << error << " ulp";
      }
      worst = std::max(worst, error);
    }
  }
  ::testing::Test::RecordProperty("worst_ulp", std::to_string(worst));
  if (std::getenv("TENSORGRAD_PRINT_ERRORS")) std::printf("%-12s %.2f ulp\n", name.c_str(), worst);
}

const Range kTiny{1e-37, 1e-3, true}, kAll{1e-37, 3e38, true};

TEST(Prelude, ExpIsAccurate) {
  check("tg_exp", 1.5, {{-1, 1}, {-87.336, 88.72}, kTiny, {-0.01, 0.01}},
        [](double x, double) { return std::exp(x); });
}

TEST(Prelude, Expm1IsAccurate) {
  check("tg_expm1", 2, {{-1, 1}, {-30, 88.72}, kTiny, {-0.4, 0.4}},
        [](double x, double) { return std::expm1(x); });
}

TEST(Prelude, LogIsAccurate) {
  check("tg_log", 1.5, {{0, 2}, {0.9, 1.1}, {1.2e-38, 3e38, true}},
        [](double x, double) { return std::log(x); });
}

TEST(Prelude, Log1pIsAccurate) {
  check("tg_log1p", 2, {{-0.999, 2}, kTiny, {-0.1, 0.1}, kAll},
        [](double x, double) { return std::log1p(x); });
}

TEST(Prelude, SinAndCosAreAccurate) {
  const std::vector<Range> ranges = {
      {-4, 4}, kTiny, {-8192, 8192}, {8000, 1e7, true}, {1e5, 3e38, true}};
  check("tg_sin", 2.5, ranges, [](double x, double) { return std::sin(x); });
  check("tg_cos", 2.5, ranges, [](double x, double) { return std::cos(x); });
}

TEST(Prelude, SinAndCosAreAccurateNearTheirZeros) {
  Floats x;
  for (int k = 1; k < 100000; k += k < 4000 ? 1 : 37) {
    const auto near = static_cast<float>(k * 1.5707963267948966);
    x.insert(x.end(), {near, std::nextafter(near, 0.0f), std::nextafter(near, kInf)});
  }
  // The float that lies nearest to a multiple of pi/2.
  x.insert(x.end(), {16367173.0f * 0x1p72f, -16367173.0f * 0x1p72f});
  const Floats sines = call("tg_sin", x), cosines = call("tg_cos", x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_LE(ulps(sines[i], std::sin(static_cast<double>(x[i]))), 2.5) << x[i];
    ASSERT_LE(ulps(cosines[i], std::cos(static_cast<double>(x[i]))), 2.5) << x[i];
  }
}

TEST(Prelude, TanhIsAccurate) {
  check("tg_tanh", 2, {{-1, 1}, {-12, 12}, kTiny, kAll},
        [](double x, double) { return std::tanh(x); });
}

TEST(Prelude, ErfIsAccurate) {
  check("tg_erf", 2, {{-1.2, 1.2}, {-5, 5}, kTiny, kAll},
        [](double x, double) { return std::erf(x); });
}

TEST(Prelude, SigmoidAndSoftplusAreAccurate) {
  const std::vector<Range> ranges = {{-1, 1}, {-86, 88}, kTiny, kAll};
  check("tg_sigmoid", 3, ranges, [](double x, double) { return 1 / (1 + std::exp(-x)); });
  check("tg_softplus", 2.5, ranges,
        [](double x, double) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); });
}

TEST(Prelude, PowIsAccurate) {
  check("tg_pow", 2.5, {{0, 10}, {0.99, 1.01}, {1e-30, 1e30}, {0.5, 2}, {1e-37, 1e38}},
        [](double x, double y) { return std::pow(x, y); },
        {{-10, 10}, {-8000, 8000}, {-1, 1}, {-100, 100}, {-2, 2}});
  // A base within a few millionths of 1.
  check("tg_pow", 2.5, {{0.99999, 1.00001}}, [](double x, double y) { return std::pow(x, y); },
        {{-5e6, 5e6}});
}

TEST(Prelude, PowKnowsItsSpecialCases) {
  const Floats special = {0.0f,   -0.0f,           1,    -1,    0.5f, -0.5f, 2, -2, 3, -3, 1e30f,
                          -1e30f, 16777217.0f * 2, kInf, -kInf, kNan, 7,     -7};
  Floats x, y;
  for (float a : special) {
    for (float b : special) x.push_back(a), y.push_back(b);
  }
  const Floats got = call("tg_pow", x, y);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]));
    EXPECT_LE(ulps(got[i], exact), 2.5)
        << x[i] << "^" << y[i] << " is " << got[i] << ", not " << exact;
  }
}

TEST(Prelude, EndsAreWhatTheyShouldBe) {
  struct Case {
    const char* name;
    float x, expected;
  };
  const float denormal = 1e-40f;
  const Case cases[] = {
      {"tg_exp", 0, 1},
      {"tg_exp", -kInf, 0},
      {"tg_exp", -1e4f, 0},
      {"tg_exp", 1e4f, kInf},
      {"tg_exp", kInf, kInf},
      {"tg_exp", kNan, kNan},
      {"tg_exp", -3e38f, 0},
      {"tg_expm1", 0, 0},
      {"tg_expm1", -kInf, -1},
      {"tg_expm1", kInf, kInf},
      {"tg_expm1", kNan, kNan},
      {"tg_expm1", 1e4f, kInf},
      {"tg_log", 1, 0},
      {"tg_log", 0, -kInf},
      {"tg_log", -0.0f, -kInf},
      {"tg_log", -1, kNan},
      {"tg_log", kInf, kInf},
      {"tg_log", -kInf, kNan},
      {"tg_log", kNan, kNan},
      {"tg_log1p", 0, 0},
      {"tg_log1p", -1, -kInf},
      {"tg_log1p", -2, kNan},
      {"tg_log1p", kInf, kInf},
      {"tg_log1p", -kInf, kNan},
      {"tg_log1p", kNan, kNan},
      {"tg_sin", 0, 0},
      {"tg_sin", kInf, kNan},
      {"tg_sin", -kInf, kNan},
      {"tg_sin", kNan, kNan},
      {"tg_cos", 0, 1},
      {"tg_cos", kInf, kNan},
      {"tg_cos", kNan, kNan},
      {"tg_tanh", 0, 0},
      {"tg_tanh", 100, 1},
      {"tg_tanh", -100, -1},
      {"tg_tanh", kInf, 1},
      {"tg_tanh", -kInf, -1},
      {"tg_tanh", kNan, kNan},
      {"tg_tanh", 3e38f, 1},
      {"tg_erf", 0, 0},
      {"tg_erf", kInf, 1},
      {"tg_erf", -kInf, -1},
      {"tg_erf", kNan, kNan},
      {"tg_erf", 3e38f, 1},
      {"tg_sigmoid", 0, 0.5f},
      {"tg_sigmoid", kInf, 1},
      {"tg_sigmoid", -kInf, 0},
      {"tg_sigmoid", 1e4f, 1},
      {"tg_sigmoid", -1e4f, 0},
      {"tg_sigmoid", kNan, kNan},
      {"tg_softplus", kInf, kInf},
      {"tg_softplus", -kInf, 0},
      {"tg_softplus", 1e30f, 1e30f},
      {"tg_softplus", -1e4f, 0},
      {"tg_softplus", kNan, kNan},
      {"tg_sign", 0, 0},
      {"tg_sign", -3, -1},
      {"tg_sign", kInf, 1},
      {"tg_sign", kNan, kNan},
      {"tg_relu", kNan, kNan},
      {"tg_relu", -kInf, 0},
      {"tg_relu", kInf, kInf},
      {"tg_relu", -2, 0},
      {"tg_relu", 2, 2},
      {"tg_exp", denormal, 1},
      {"tg_cos", denormal, 1},
  };
  for (const Case& c : cases) {
    const float got = call(c.name, {c.x}).front();
    if (std::isnan(c.expected)) {
      EXPECT_TRUE(std::isnan(got)) << c.name << "(" << c.x << ") is " << got;
    } else {
      EXPECT_EQ(got, c.expected) << c.name << "(" << c.x << ")";
    }
  }
}

TEST(Prelude, MaxAndMinKeepNanAndInfinities) {
  const Floats special = {0, 1, -1, kInf, -kInf, kNan, 3e38f, -3e38f};
  Floats x, y;
  for (float a : special) {
    for (float b : special) x.push_back(a), y.push_back(b);
  }
  const Floats largest = call("tg_max", x, y), smallest = call("tg_min", x, y);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) || std::isnan(y[i])) {
      EXPECT_TRUE(std::isnan(largest[i]) && std::isnan(smallest[i])) << x[i] << ", " << y[i];
    } else {
      EXPECT_EQ(largest[i], std::max(x[i], y[i]));
      EXPECT_EQ(smallest[i], std::min(x[i], y[i]));
    }
  }
}

TEST(Prelude, IntegersAreExact) {
  const auto bits = [](std::int32_t value) { return std::bit_cast<float>(value); };
  const std::int32_t low = std::numeric_limits<std::int32_t>::min(),
                     high = std::numeric_limits<std::int32_t>::max();
  const std::vector<std::int32_t> a = {7, -7, 7, -7, 5, low, low, high, 0},
                                  b = {2, 2, -2, -2, 0, -1, 0, -1, 3},
                                  expected = {3, -3, -3, 3, 0, low, 0, -high, 0};
  Floats x, y;
  for (std::int32_t v : a) x.push_back(bits(v));
  for (std::int32_t v : b) y.push_back(bits(v));
  const Floats quotients =
      run("bitcast<f32>(tg_div_i32(bitcast<i32>(x), bitcast<i32>(y)))", {"tg_div_i32"}, x, y);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::int32_t>(quotients[i]), expected[i]) << a[i] << "/" << b[i];
  }

  const Floats from = {0,     1.9f,   -1.9f, 2147483520.0f, 2147483648.0f, -2147483648.0f,
                       3e38f, -3e38f, kInf,  -kInf,         kNan};
  const std::vector<std::int32_t> to = {0, 1, -1, 2147483520, high, low, high, low, high, low, 0};
  const Floats cast = run("bitcast<f32>(tg_to_i32(x))", {"tg_to_i32"}, from, from);
  for (std::size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::int32_t>(cast[i]), to[i]) << from[i];
  }
}

TEST(Prelude, BuiltInsThatAreUsedAsTheyAre) {
  const Floats x = sample({1e-30, 1e30, true}, 5, 4096);
  const auto worst = [&](const std::string& expression, auto exact) {
    const Floats got = run(expression, {}, x, x);
    double most = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      most = std::max(most, ulps(got[i], exact(static_cast<double>(x[i]))));
    return most;
  };
  EXPECT_LE(worst("sqrt(abs(x))", [](double v) { return std::sqrt(std::fabs(v)); }), 3);
  EXPECT_LE(worst("inverseSqrt(abs(x))", [](double v) { return 1 / std::sqrt(std::fabs(v)); }), 2);
  EXPECT_LE(worst("3.0 / x", [](double v) { return 3 / v; }), 2.5);
  EXPECT_EQ(run("sqrt(x)", {}, {0.0f}, {0.0f}).front(), 0.0f);
}

TEST(Prelude, PrintsWhatIsNeededAndNothingElse) {
  const std::string source = prelude_source({"tg_tanh"});
  EXPECT_NE(source.find("fn tg_tanh("), std::string::npos);
  EXPECT_NE(source.find("fn tg_exp("), std::string::npos);
  EXPECT_EQ(source.find("fn tg_log"), std::string::npos);
  EXPECT_LT(source.find("fn tg_exp("), source.find("fn tg_tanh("));
  EXPECT_TRUE(prelude_source({}).empty());
}

}  // namespace
}  // namespace tensorgrad::wgsl
