// Attention, rotary embedding, convolution and pooling by value.
#include <gtest/gtest.h>

#include <cmath>

#include "support/evaluate.hpp"

namespace tensorgrad::test {

using X = const std::vector<Tensor>&;

TEST(Attention, MixesValuesByTheSoftmaxOfScores) {
  // One head, D = 1, scale 1: scores q·k.
  const double ln2 = std::log(2.0);
  const std::vector<Array> args{
      {{1, 1, 2, 1}, {0, ln2}}, {{1, 1, 2, 1}, {0, 1}}, {{1, 1, 2, 1}, {3, 9}}};
  expect_near(evaluate(args, [](X x) { return attention(x[0], x[1], x[2]); }).values,
              {3, (1 * 3 + 2 * 9) / 3.0});
  expect_near(
      evaluate(args, [](X x) { return attention(x[0], x[1], x[2], {.causal = false}); }).values,
      {6, 7});
}

TEST(Attention, GroupedHeadsShareKeysAndValues) {
  // Two query heads, one key and value head: the same as repeating it.
  const Array q{{1, 2, 2, 1}, {1, -1, 2, 0.5}}, k{{1, 1, 2, 1}, {0.3, -0.7}},
      v{{1, 1, 2, 1}, {5, 8}};
  const auto grouped = [](X x) { return attention(x[0], x[1], x[2]); };
  const auto repeated = [](X x) {
    return attention(x[0], concat({x[1], x[1]}, 1), concat({x[2], x[2]}, 1));
  };
  expect_near(evaluate({q, k, v}, grouped).values, evaluate({q, k, v}, repeated).values);
}

TEST(Rope, TurnsPairsByPosition) {
  // D = 2: one pair, angle = position.
  const Array x{{3, 2}, {1, 0, 1, 0, 0, 1}};
  const Values want{1, 0, std::cos(1.0), std::sin(1.0), -std::sin(2.0), std::cos(2.0)};
  expect_near(evaluate({x}, [](X t) { return rope(t[0]); }).values, want);
  const Array last{{1, 2}, {0, 1}};
  expect_near(evaluate({last}, [](X t) { return rope(t[0], {.offset = constant(2, i32)}); }).values,
              {want[4], want[5]});
}

TEST(Cumsum, AddsUpToEachElement) {
  const Array x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  expect_near(evaluate({x}, [](X t) { return cumsum(t[0]); }).values, {1, 3, 6, 4, 9, 15});
  expect_near(evaluate({x}, [](X t) { return cumsum(t[0], 0); }).values, {1, 2, 3, 5, 7, 9});
  expect_near(gradients({x}, [](X t) { return cumsum(t[0]); }, {1, 2, 3, 0, 0, 1})[0],
              {6, 5, 3, 1, 1, 1});
  EXPECT_EQ(evaluate({indices({1, 2})}, [](X t) { return cumsum(t[0]); }).type.to_string(),
            "i32[2]");
}

TEST(Conv1d, SlidesItsWeightAlongTime) {
  const std::vector<Array> args{{{1, 1, 5}, {1, 2, 3, 4, 5}}, {{1, 1, 2}, {10, 1}}, vector({100})};
  expect_near(evaluate(args, [](X x) { return conv1d(x[0], x[1], x[2]); }).values,
              {112, 123, 134, 145});
  const auto spread = [](X x) {
    return conv1d(x[0], x[1], {}, {.stride = 2, .padding = 1, .dilation = 3});
  };
  // [0, 1, 2, 3, 4, 5, 0]: places 0 and 2, three apart.
  expect_near(evaluate(args, spread).values, {0 + 3, 20 + 5});
}

TEST(Conv1d, GroupsSeeTheirOwnChannels) {
  const std::vector<Array> args{{{1, 2, 2}, {1, 2, 3, 4}}, {{2, 1, 1}, {10, 100}}};
  expect_near(evaluate(args, [](X x) { return conv1d(x[0], x[1], {}, {.groups = 2}); }).values,
              {10, 20, 300, 400});
}

TEST(Conv1dCausal, SeesThePastOnly) {
  // The last tap is the present.
  const std::vector<Array> args{{{1, 3, 1}, {1, 2, 3}}, {{1, 2}, {10, 1}}};
  expect_near(evaluate(args, [](X x) { return conv1d_causal(x[0], x[1]); }).values, {1, 12, 23});
}

TEST(Conv2d, SumsOverWindowAndChannels) {
  const std::vector<Array> args{{{1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}},
                                {{1, 2, 1, 2}, {1, 10, 100, 1000}}};
  expect_near(evaluate(args, [](X x) { return conv2d(x[0], x[1]); }).values,
              {1 + 20 + 500 + 6000, 3 + 40 + 700 + 8000});
}

TEST(Pooling, TakesTheMaximumOrTheMeanOfWindows) {
  const Array x{{1, 1, 2, 4}, {1, 5, 2, 2, 3, 4, 2, 2}};
  expect_near(evaluate({x}, [](X t) { return max_pool2d(t[0]); }).values, {5, 2});
  expect_near(evaluate({x}, [](X t) { return avg_pool2d(t[0]); }).values, {3.25, 2});
  expect_near(gradients({x}, [](X t) { return max_pool2d(t[0]); })[0], {0, 1, 1, 0, 0, 0, 0, 0});
}

TEST(Upsample, RepeatsEachElement) {
  const Array x{{1, 1, 1, 2}, {1, 2}};
  expect_near(evaluate({x}, [](X t) { return nearest_upsample2d(t[0], 2); }).values,
              {1, 1, 2, 2, 1, 1, 2, 2});
}

}  // namespace tensorgrad::test
