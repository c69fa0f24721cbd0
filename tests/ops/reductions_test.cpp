// Reductions: shapes, first extrema, zeros of products, large means.
#include <gtest/gtest.h>

#include <cmath>

#include "support/evaluate.hpp"

namespace tensorgrad::test {

using X = const std::vector<Tensor>&;

namespace {

const Array kCube{{2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};

std::string type_of(const ReduceOptions& options) {
  return evaluate({kCube}, [&](X x) { return sum(x[0], options); }).type.to_string();
}

}  // namespace

TEST(Reductions, DropOrKeepTheirAxes) {
  EXPECT_EQ(type_of({}), "f32[]");
  EXPECT_EQ(type_of({.keepdims = true}), "f32[1, 1, 1]");
  EXPECT_EQ(type_of({.axes = 1}), "f32[2, 3]");
  EXPECT_EQ(type_of({.axes = -1, .keepdims = true}), "f32[2, 2, 1]");
  EXPECT_EQ(type_of({.axes = {2, 0}}), "f32[2]");
}

TEST(Reductions, SumMeanMaxMinProd) {
  expect_near(evaluate({kCube}, [](X x) { return sum(x[0], {.axes = {0, 2}}); }).values, {30, 48});
  expect_near(evaluate({kCube}, [](X x) { return mean(x[0], {.axes = 0}); }).values,
              {4, 5, 6, 7, 8, 9});
  expect_near(evaluate({kCube}, [](X x) { return max(x[0], {.axes = 1}); }).values,
              {4, 5, 6, 10, 11, 12});
  expect_near(evaluate({kCube}, [](X x) { return min(x[0]); }).values, {1});
  expect_near(evaluate({kCube}, [](X x) { return prod(x[0], {.axes = -1}); }).values,
              {6, 120, 504, 1320});
}

TEST(Reductions, OfAScalarAreTheScalar) {
  for (const auto& fn : {sum, mean, max, min, prod, logsumexp}) {
    expect_near(evaluate({scalar(2.5)}, [&](X x) { return fn(x[0], {}); }).values, {2.5});
  }
  expect_near(evaluate({scalar(2.5)}, [](X x) { return var(x[0]); }).values, {0});
  expect_near(evaluate({scalar(2.5)}, [](X x) { return argmax(x[0]); }).values, {0});
}

TEST(Reductions, OfIntegersWrap) {
  expect_near(evaluate({indices({2147483647, 1, 5})}, [](X x) { return sum(x[0]); }).values,
              {-2147483643.0});
  expect_near(evaluate({indices({65537, 65537})}, [](X x) { return prod(x[0]); }).values, {131073});
}

TEST(Max, SendsItsGradientToTheFirstMaximum) {
  const Array ties{{2, 4}, {1, 3, 3, 2, 5, 5, 5, 5}};
  expect_near(gradients({ties}, [](X x) { return max(x[0], {.axes = 1}); }, {10, 20})[0],
              {0, 10, 0, 0, 20, 0, 0, 0});
  expect_near(gradients({ties}, [](X x) { return max(x[0]); })[0], {0, 0, 0, 0, 1, 0, 0, 0});
  const Array low{{2, 3}, {2, 1, 1, 0, 0, 4}};
  expect_near(gradients({low}, [](X x) { return min(x[0], {.axes = 1}); })[0], {0, 1, 0, 1, 0, 0});
}

TEST(Max, OverSeveralAxesCountsFirstInRowMajorOrder) {
  // Axes 0 and 2 of [2, 2, 2]: for the middle index 0 the order is (0,0), (0,1), (1,0), (1,1).
  const Array x{{2, 2, 2}, {1, 7, 0, 0, 7, 7, 0, 0}};
  expect_near(gradients({x},
                        [](X t) {
                          return max(t[0], {.axes = {0, 2}});
                        })[0],
              {0, 1, 1, 0, 0, 0, 0, 0});
}

TEST(Max, PropagatesNan) {
  expect_near(evaluate({vector({1, NAN, 3})}, [](X x) { return max(x[0]); }).values, {NAN});
  expect_near(evaluate({vector({NAN, 1, 3})}, [](X x) { return min(x[0]); }).values, {NAN});
}

TEST(Argmax, TakesTheFirstOfEqualsAndFlattensWithoutAnAxis) {
  const Array x{{2, 3}, {1, 5, 5, 7, 0, 7}};
  const Result along = evaluate({x}, [](X t) { return argmax(t[0], 1); });
  EXPECT_EQ(along.type.to_string(), "i32[2]");
  expect_near(along.values, {1, 0});
  expect_near(evaluate({x}, [](X t) { return argmax(t[0]); }).values, {3});
  expect_near(evaluate({x}, [](X t) { return argmin(t[0]); }).values, {4});
  EXPECT_EQ(evaluate({x}, [](X t) { return argmin(t[0], 0, true); }).type.to_string(), "i32[1, 3]");
  EXPECT_EQ(evaluate({x}, [](X t) { return argmin(t[0], {}, true); }).type.to_string(),
            "i32[1, 1]");
  EXPECT_TRUE(gradients({x}, [](X t) { return cast(argmax(t[0], 1), f32); })[0].empty());
}

TEST(Prod, HasTheRightGradientWithZeros) {
  const auto product = [](X x) { return prod(x[0], {.axes = 1}); };
  const Array x{{3, 3}, {2, 3, 4, 0, 3, 4, 0, 0, 4}};
  expect_near(gradients({x}, product, {1, 1, 1})[0], {12, 8, 6, 12, 0, 0, 0, 0, 0});
}

TEST(Var, IsBiasedAndSurvivesALargeMean) {
  expect_near(evaluate({vector({1, 2, 3, 4})}, [](X x) { return var(x[0]); }).values, {1.25});
  const Values far{1e15, 1e15 + 1, 1e15 + 5};  // a double has 0.125 to spare here
  expect_near(evaluate({vector(far)}, [](X x) { return var(x[0]); }).values, {14.0 / 3});
  expect_near(gradients({vector(far)}, [](X x) { return var(x[0]); })[0], {-4.0 / 3, -2.0 / 3, 2});
}

TEST(Logsumexp, IsStableAndKnowsMinusInfinity) {
  const auto f = [](X x) { return logsumexp(x[0], {.axes = 1}); };
  const Array x{{3, 2}, {1e4, 1e4, -1e4, -1e4, -INFINITY, -INFINITY}};
  expect_near(evaluate({x}, f).values, {1e4 + std::log(2.0), -1e4 + std::log(2.0), -INFINITY});
  expect_near(gradients({x}, f)[0], {0.5, 0.5, 0.5, 0.5, 0, 0});
}

}  // namespace tensorgrad::test
