// Cumulative sums, short and long.
#include <gtest/gtest.h>

#include <numeric>

#include "support/evaluate.hpp"

namespace tensorgrad::test {
namespace {

/// Whole numbers, so that every order of adding gives the same.
Values numbers(std::int64_t n) {
  Values values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(i * 7919 % 23) - 9;
  return values;
}

TEST(Cumsum, AddsUpAnAxisOfAnyLength) {
  for (std::int64_t n : {1, 2, 63, 64, 65, 128, 129, 1000, 4096, 5003}) {
    SCOPED_TRACE(n);
    Values want = numbers(n);
    std::partial_sum(want.begin(), want.end(), want.begin());
    const auto run = [](const std::vector<Tensor>& x) { return cumsum(x[0]); };
    EXPECT_EQ(evaluate({vector(numbers(n))}, run).values, want);
    EXPECT_EQ(evaluate({indices(numbers(n))}, run).values, want);
  }
}

TEST(Cumsum, WorksOnAnyAxis) {
  const Result got = evaluate({{{2, 100, 3}, numbers(600)}},
                              [](const std::vector<Tensor>& x) { return cumsum(x[0], 1); });
  Values want = numbers(600);
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (i % 300 >= 3) want[i] += want[i - 3];
  }
  EXPECT_EQ(got.values, want);
}

TEST(Cumsum, ItsGradientAddsUpFromTheEnd) {
  constexpr std::int64_t n = 150;
  const Values got = gradients(
                         {vector(numbers(n))},
                         [](const std::vector<Tensor>& x) { return cumsum(x[0]); }, numbers(n))
                         .front();
  Values want = numbers(n);
  std::partial_sum(want.rbegin(), want.rend(), want.rbegin());
  EXPECT_EQ(got, want);
}

}  // namespace
}  // namespace tensorgrad::test
