// Losses by value, at their kinks and extremes.
#include <gtest/gtest.h>

#include <cmath>

#include "support/evaluate.hpp"

namespace tensorgrad::test {

using X = const std::vector<Tensor>&;

namespace {
const std::vector<Array> kArgs{vector({1, 2, -3}), vector({0, 4, -3})};
}

TEST(Losses, AreMeansUnlessSaid) {
  expect_near(evaluate(kArgs, [](X x) { return mse_loss(x[0], x[1]); }).values, {5.0 / 3});
  expect_near(evaluate(kArgs, [](X x) { return mse_loss(x[0], x[1], {Reduction::Sum}); }).values,
              {5});
  expect_near(evaluate(kArgs, [](X x) { return l1_loss(x[0], x[1], {Reduction::None}); }).values,
              {1, 2, 0});
  expect_near(
      evaluate(kArgs, [](X x) { return huber_loss(x[0], x[1], 1, {Reduction::None}); }).values,
      {0.5, 1.5, 0});
}

TEST(Losses, L1HasNoSlopeWhereItIsZero) {
  expect_near(gradients(kArgs, [](X x) { return l1_loss(x[0], x[1], {Reduction::Sum}); })[0],
              {1, -1, 0});
}

TEST(Losses, HuberBendsAtDelta) {
  const auto f = [](X x) { return huber_loss(x[0], 0, 1, {Reduction::Sum}); };
  expect_near(gradients({vector({-5, -1, 0.5, 1, 5})}, f)[0], {-1, -1, 0.5, 1, 1});
}

TEST(Losses, BinaryCrossEntropyIsStable) {
  const std::vector<Array> args{vector({1e4, -1e4, 1e4, 0}), vector({1, 0, 0, 0.5})};
  const auto f = [](X x) {
    return binary_cross_entropy_with_logits(x[0], x[1], {Reduction::None});
  };
  expect_near(evaluate(args, f).values, {0, 0, 1e4, std::log(2.0)});
  expect_near(gradients(args, f)[0], {0, 0, 1, 0});
}

TEST(Losses, TakeANumberAsTarget) {
  expect_near(evaluate({vector({1, 3})}, [](X x) { return mse_loss(x[0], 1); }).values, {2});
}

}  // namespace tensorgrad::test
