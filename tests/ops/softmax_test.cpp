// The softmax family at its extremes, and the options of cross-entropy.
#include <gtest/gtest.h>

#include <cmath>

#include "support/evaluate.hpp"

namespace tensorgrad::test {

using X = const std::vector<Tensor>&;

namespace {
const double kLog2 = std::log(2.0);
}  // namespace

TEST(Softmax, IsStableForHugeLogits) {
  const Array x{{2, 3}, {1e4, -1e4, 1e4, -1e4, -1e4, -1e4}};
  expect_near(evaluate({x}, [](X t) { return softmax(t[0]); }).values,
              {0.5, 0, 0.5, 1.0 / 3, 1.0 / 3, 1.0 / 3});
  expect_near(gradients({x}, [](X t) { return softmax(t[0]); }, {1, 0, 0, 1, 0, 0})[0],
              {0.25, 0, -0.25, 2.0 / 9, -1.0 / 9, -1.0 / 9});
}

TEST(Softmax, OfAWhollyMaskedRowIsZeros) {
  const Array x{{2, 2}, {-INFINITY, -INFINITY, 1, -INFINITY}};
  expect_near(evaluate({x}, [](X t) { return softmax(t[0]); }).values, {0, 0, 1, 0});
  expect_near(gradients({x}, [](X t) { return softmax(t[0]); }, {1, 2, 3, 4})[0], {0, 0, 0, 0});
}

TEST(LogSoftmax, IsStableForHugeLogits) {
  const Array x{{2, 2}, {1e4, -1e4, 1e4, 1e4}};
  expect_near(evaluate({x}, [](X t) { return log_softmax(t[0]); }).values,
              {0, -2e4, -kLog2, -kLog2});
  expect_near(gradients({x}, [](X t) { return log_softmax(t[0]); }, {0, 1, 1, 0})[0],
              {-1, 1, 0.5, -0.5});
}

TEST(LogSoftmax, OfAWhollyMaskedRowIsMinusInfinity) {
  const Array x{{1, 2}, {-INFINITY, -INFINITY}};
  expect_near(evaluate({x}, [](X t) { return log_softmax(t[0]); }).values, {-INFINITY, -INFINITY});
  expect_near(gradients({x}, [](X t) { return log_softmax(t[0]); })[0], {1, 1});
}

TEST(SoftmaxCausal, SeesNothingAfterItsRow) {
  const Array x{{3, 3}, {5, 100, 100, 2, 2, 100, 0, 0, 0}};
  expect_near(evaluate({x}, [](X t) { return softmax_causal(t[0]); }).values,
              {1, 0, 0, 0.5, 0.5, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3});
}

TEST(SoftmaxCausal, OfMaskedRowsIsZeros) {  // the last row has nothing after it
  const Array x{{2, 2}, {-INFINITY, 3, -INFINITY, -INFINITY}};
  expect_near(evaluate({x}, [](X t) { return softmax_causal(t[0]); }).values, {0, 0, 0, 0});
  expect_near(gradients({x}, [](X t) { return softmax_causal(t[0]); }, {1, 2, 3, 4})[0],
              {0, 0, 0, 0});
}

TEST(WhereCausal, FillsAfterTheDiagonal) {
  const Array x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  expect_near(evaluate({x}, [](X t) { return where_causal(t[0], -9); }).values,
              {1, -9, -9, 4, 5, -9});
  expect_near(gradients({x}, [](X t) { return where_causal(t[0], -9); })[0], {1, 0, 0, 1, 1, 0});
}

TEST(CrossEntropy, IsFiniteForHugeLogits) {
  const std::vector<Array> args{{{3, 2}, {1e4, -1e4, 1e4, -1e4, 0, 0}}, indices({0, 1, 0})};
  const auto f = [](X x) { return cross_entropy(x[0], x[1], {.reduction = Reduction::None}); };
  expect_near(evaluate(args, f).values, {0, 2e4, kLog2});
  expect_near(gradients(args, f)[0], {0, 0, 1, -1, -0.5, 0.5});
}

TEST(CrossEntropy, ReducesByMeanSumOrNot) {
  const std::vector<Array> args{{{2, 2}, {0, 0, 0, 0}}, indices({0, 1})};
  expect_near(evaluate(args, [](X x) { return cross_entropy(x[0], x[1]); }).values, {kLog2});
  expect_near(
      evaluate(args, [](X x) { return cross_entropy(x[0], x[1], {.reduction = Reduction::Sum}); })
          .values,
      {2 * kLog2});
  EXPECT_EQ(
      evaluate(args, [](X x) { return cross_entropy(x[0], x[1], {.reduction = Reduction::None}); })
          .type.to_string(),
      "f32[2]");
}

TEST(CrossEntropy, IgnoredTargetsCountNothing) {
  const std::vector<Array> args{{{3, 2}, {0, 0, 5, 1, 0, 0}}, indices({0, -100, 1})};
  const auto f = [](X x) { return cross_entropy(x[0], x[1], {.ignore_index = -100}); };
  expect_near(evaluate(args, f).values, {kLog2});  // the mean over two, not three
  expect_near(gradients(args, f)[0], {-0.25, 0.25, 0, 0, 0.25, -0.25});
}

TEST(CrossEntropy, LabelSmoothingMixesInTheMeanOverClasses) {
  // x = (ln 3, 0): log p = (ln ¾, ln ¼). With ε = 0.2: −0.9·ln ¾ − 0.1·ln ¼.
  const std::vector<Array> args{{{1, 2}, {std::log(3.0), 0}}, indices({0})};
  const auto f = [](X x) { return cross_entropy(x[0], x[1], {.label_smoothing = 0.2}); };
  expect_near(evaluate(args, f).values, {-0.9 * std::log(0.75) - 0.1 * std::log(0.25)});
  expect_near(gradients(args, f)[0], {0.75 - 0.9, 0.25 - 0.1});
}

TEST(CrossEntropy, OfAMaskedRowIsInfiniteWithAFiniteGradient) {
  const std::vector<Array> args{{{1, 2}, {-INFINITY, -INFINITY}}, indices({0})};
  const auto f = [](X x) { return cross_entropy(x[0], x[1]); };
  expect_near(evaluate(args, f).values, {INFINITY});
  expect_near(gradients(args, f)[0], {-1, 0});
}

TEST(CrossEntropy, IsNllLossOfLogSoftmax) {
  const std::vector<Array> args{{{2, 3}, {1, 2, 3, -1, 0, 4}}, indices({2, 0})};
  const Values direct = evaluate(args, [](X x) { return cross_entropy(x[0], x[1]); }).values;
  expect_near(evaluate(args, [](X x) { return nll_loss(log_softmax(x[0]), x[1]); }).values, direct);
}

TEST(NllLoss, IgnoresAnIndex) {
  const std::vector<Array> args{{{2, 2}, {-1, -2, -3, -4}}, indices({1, 7})};
  expect_near(evaluate(args, [](X x) { return nll_loss(x[0], x[1], {.ignore_index = 7}); }).values,
              {2});
}

}  // namespace tensorgrad::test
