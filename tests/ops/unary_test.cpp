// Large, small and special arguments of elementwise functions and activations.
#include <gtest/gtest.h>

#include <cmath>

#include "support/evaluate.hpp"

namespace tensorgrad::test {

using X = const std::vector<Tensor>&;

namespace {
Values value(const Values& x, const Function& f) { return evaluate({vector(x)}, f).values; }
}  // namespace

TEST(Unary, TanhOfLargeArgumentsIsOneWithNoSlope) {
  const Function f = [](X x) { return tanh(x[0]); };
  expect_near(value({100, -100, 1e30}, f), {1, -1, 1});
  expect_near(derivative({100, -100, 1e30}, f), {0, 0, 0});
}

TEST(Unary, Expm1AndLog1pKeepSmallArguments) {
  const Values x{1e-6, -1e-6, 1e-12};
  const Values expm1s = value(x, [](X t) { return expm1(t[0]); }),
               log1ps = value(x, [](X t) { return log1p(t[0]); });
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(expm1s[i] / x[i], 1 + x[i] / 2, 1e-12);
    EXPECT_NEAR(log1ps[i] / x[i], 1 - x[i] / 2, 1e-12);
  }
}

TEST(Unary, SoftplusAndSigmoidNeverOverflow) {
  const Function plus = [](X x) { return softplus(x[0]); }, sig = [](X x) { return sigmoid(x[0]); };
  expect_near(value({1000, -1000, 0}, plus), {1000, 0, std::log(2.0)});
  expect_near(derivative({1000, -1000, 0}, plus), {1, 0, 0.5});
  expect_near(value({1000, -1000, 0}, sig), {1, 0, 0.5});
  expect_near(derivative({1000, -1000, 0}, sig), {0, 0, 0.25});
}

TEST(Unary, FloorAndSignHaveNoGradient) {
  EXPECT_TRUE(derivative({-1.5, 2.5}, [](X x) { return floor(x[0]); }).empty());
  EXPECT_TRUE(derivative({-1.5, 2.5}, [](X x) { return sign(x[0]); }).empty());
  expect_near(value({-1.5, 2.5, -0.1}, [](X x) { return floor(x[0]); }), {-2, 2, -1});
  expect_near(value({-1.5, 0, 2.5}, [](X x) { return sign(x[0]); }), {-1, 0, 1});
}

TEST(Unary, ReluHasNoSlopeAtZero) {
  expect_near(value({-1, 0, 2}, [](X x) { return relu(x[0]); }), {0, 0, 2});
  expect_near(derivative({-1, 0, 2}, [](X x) { return relu(x[0]); }), {0, 0, 1});
}

TEST(Unary, CastOfAnF32ToItselfAddsNoNodeAndKeepsTheGradient) {
  Graph graph;
  trace_into(graph, [] {
    const Tensor x = tensor_input("x", {2});
    EXPECT_EQ(cast(x, f32).id(), x.id());
  });
  EXPECT_TRUE(derivative({1.5}, [](X x) { return cast(cast(x[0], i32), f32); }).empty());
}

TEST(Activations, LeakyReluTakesAlphaAtZero) {
  const Function f = [](X x) { return leaky_relu(x[0], 0.1); };
  expect_near(value({-2, 0, 3}, f), {-0.2, 0, 3});
  expect_near(derivative({-2, 0, 3}, f), {0.1, 0.1, 1});
}

TEST(Activations, EluHasSlopeAlphaAtZeroAndSurvivesLargeArguments) {
  const Function f = [](X x) { return elu(x[0]); };
  expect_near(value({-1000, 0, 1000}, f), {-1, 0, 1000});
  expect_near(derivative({-1000, 0, 1000}, f), {0, 1, 1});
}

TEST(Activations, ClampPassesGradientsAtItsEnds) {
  const Function f = [](X x) { return clamp(x[0], -0.5, 0.8); };
  expect_near(value({-1, -0.5, 0, 0.8, 1}, f), {-0.5, -0.5, 0, 0.8, 0.8});
  expect_near(derivative({-1, -0.5, 0, 0.8, 1}, f), {0, 1, 1, 1, 0});
  expect_near(value({NAN}, f), {NAN});
}

TEST(Activations, GeluIsTheProductWithTheNormalDistribution) {
  const Function exact = [](X x) { return gelu(x[0]); };
  const Function tanh_form = [](X x) { return gelu(x[0], {.approximate = GeluForm::Tanh}); };
  // 2Φ(2), Φ(2) = 0.9772498680518208; the approximation by its own formula.
  expect_near(value({2, 0, -100}, exact), {1.9544997361036416, 0, 0});
  expect_near(value({2, 0, -100}, tanh_form), {1.954597694087775, 0, 0}, 1e-9);
}

TEST(Activations, SiluDiesOutToTheLeft) {
  expect_near(value({-1000, 0, 1000}, [](X x) { return silu(x[0]); }), {0, 0, 1000});
  expect_near(derivative({-1000, 0, 1000}, [](X x) { return silu(x[0]); }), {0, 0.5, 1});
}

}  // namespace tensorgrad::test
