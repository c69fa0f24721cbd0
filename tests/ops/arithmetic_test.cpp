// Ties and special points of arithmetic.
#include <gtest/gtest.h>

#include <cmath>

#include "support/evaluate.hpp"

namespace tensorgrad::test {

using X = const std::vector<Tensor>&;

TEST(Arithmetic, BroadcastsAsNumPy) {
  const Result r =
      evaluate({{{2, 1}, {10, 20}}, vector({1, 2, 3})}, [](X x) { return x[0] + x[1]; });
  EXPECT_EQ(r.type.to_string(), "f32[2, 3]");
  expect_near(r.values, {11, 12, 13, 21, 22, 23});
}

TEST(Arithmetic, OperatorsTakeNumbersOnEitherSide) {
  const Result r =
      evaluate({vector({1, 2})}, [](X x) { return 10 - x[0] * 2 + 6 / x[0] - (-x[0]); });
  expect_near(r.values, {10 - 2 + 6 + 1, 10 - 4 + 3 + 2});
}

TEST(Arithmetic, GradientOfABroadcastSums) {
  const auto g =
      gradients({{{2, 1}, {10, 20}}, vector({1, 2, 3})}, [](X x) { return x[0] * x[1]; });
  expect_near(g[0], {6, 6});
  expect_near(g[1], {30, 30, 30});
}

TEST(Arithmetic, MinimumAndMaximumShareTheGradientAtTies) {
  for (const auto& fn : {minimum, maximum}) {
    const auto g =
        gradients({vector({1, 2}), vector({1, 2})}, [&](X x) { return fn(x[0], x[1]); }, {2, 8});
    expect_near(g[0], {1, 4});
    expect_near(g[1], {1, 4});
  }
  const auto g =
      gradients({vector({1, 5}), vector({3, 4})}, [](X x) { return maximum(x[0], x[1]); });
  expect_near(g[0], {0, 1});
  expect_near(g[1], {1, 0});
}

TEST(Arithmetic, AbsHasNoSlopeAtZero) {
  expect_near(derivative({-2, 0, 3}, [](X x) { return abs(x[0]); }), {-1, 0, 1});
}

TEST(Arithmetic, PowWorksWithANegativeBaseAndAnIntegerExponent) {
  const auto power = [](X x) { return pow(x[0], x[1]); };
  expect_near(evaluate({vector({-2, -2, -3}), vector({3, -2, 2})}, power).values, {-8, 0.25, 9});
  const auto g = gradients({vector({-2, -2, -3}), vector({3, -2, 2})}, power);
  expect_near(g[0], {12, 0.25, -6});
  expect_near(g[1], {0, 0, 0});  // no real derivative there
}

TEST(Arithmetic, PowHasFiniteGradientsAtZero) {
  const auto g =
      gradients({vector({0, 0, 0}), vector({0, 1, 2})}, [](X x) { return pow(x[0], x[1]); });
  expect_near(g[0], {0, 1, 0});
  expect_near(g[1], {0, 0, 0});
}

TEST(Arithmetic, ANumberExponentNeedsNoLogarithm) {
  Graph graph;
  trace_into(graph, [] { pow(tensor_input("x", {3}), 2.0); });
  for (const Node& node : graph.nodes()) EXPECT_NE(node.op, OpKind::Log);
}

TEST(Arithmetic, DivisionAndReciprocalKnowInfinity) {
  const Result r = evaluate({vector({1, -1, 0})}, [](X x) { return x[0] / 0; });
  expect_near(r.values, {INFINITY, -INFINITY, NAN});
  expect_near(evaluate({vector({0, 4})}, [](X x) { return reciprocal(x[0]); }).values,
              {INFINITY, 0.25});
}

TEST(Arithmetic, IntegersStayIntegers) {
  const Result r = evaluate({indices({7, -7, 7})}, [](X x) { return x[0] / 2 + 1; });
  EXPECT_EQ(r.type.to_string(), "i32[3]");
  expect_near(r.values, {4, -2, 4});
}

TEST(Arithmetic, ATensorUsedTwiceGetsBothGradients) {
  expect_near(derivative({3, -2}, [](X x) { return x[0] * x[0] * x[0] + x[0]; }), {28, 13});
}

}  // namespace tensorgrad::test
