// Comparisons and selection.
#include <gtest/gtest.h>

#include <cmath>

#include "support/evaluate.hpp"

namespace tensorgrad::test {

using X = const std::vector<Tensor>&;

TEST(Compare, GivesBools) {
  const std::vector<Array> args{vector({1, 2, 3}), vector({2, 2, 2})};
  const auto check = [&](Tensor (*fn)(Operand, Operand), const Values& want) {
    const Result r = evaluate(args, [&](X x) { return fn(x[0], x[1]); });
    EXPECT_EQ(r.type.to_string(), "bool[3]");
    expect_near(r.values, want);
  };
  check(less, {1, 0, 0});
  check(less_equal, {1, 1, 0});
  check(greater, {0, 0, 1});
  check(greater_equal, {0, 1, 1});
  check(equal, {0, 1, 0});
}

TEST(Compare, WithNanIsFalse) {
  for (const auto& fn : {less, less_equal, greater, greater_equal, equal}) {
    expect_near(evaluate({vector({NAN, 1, NAN}), vector({1, NAN, NAN})},
                         [&](X x) { return fn(x[0], x[1]); })
                    .values,
                {0, 0, 0});
  }
}

TEST(Compare, LogicFollowsItsTables) {
  const std::vector<Array> args{{{4}, {0, 0, 1, 1}, boolean}, {{4}, {0, 1, 0, 1}, boolean}};
  expect_near(evaluate(args, [](X x) { return logical_and(x[0], x[1]); }).values, {0, 0, 0, 1});
  expect_near(evaluate(args, [](X x) { return logical_or(x[0], x[1]); }).values, {0, 1, 1, 1});
  expect_near(evaluate(args, [](X x) { return logical_not(x[0]); }).values, {1, 1, 0, 0});
}

TEST(Where, BroadcastsItsThreeOperandsTogether) {
  const Result r = evaluate({{{2, 1}, {1, 0}, boolean}, vector({1, 2, 3}), scalar(9)},
                            [](X x) { return where(x[0], x[1], x[2]); });
  EXPECT_EQ(r.type.to_string(), "f32[2, 3]");
  expect_near(r.values, {1, 2, 3, 9, 9, 9});
}

TEST(Where, SendsGradientsToTheChosenSideOnly) {
  const auto g = gradients({{{3}, {1, 0, 1}, boolean}, vector({1, 2, 3}), vector({4, 5, 6})},
                           [](X x) { return where(x[0], x[1], x[2]); }, {10, 20, 30});
  EXPECT_TRUE(g[0].empty());
  expect_near(g[1], {10, 0, 30});
  expect_near(g[2], {0, 20, 0});
}

TEST(Where, KeepsNanOfTheOtherSideOut) {
  expect_near(
      evaluate({vector({-1, 4})}, [](X x) { return where(greater(x[0], 0), sqrt(x[0]), 0); })
          .values,
      {0, 2});
}

}  // namespace tensorgrad::test
