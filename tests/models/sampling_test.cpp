#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "tensorgrad/decoder.hpp"

namespace tensorgrad::test {
namespace {

std::map<std::int32_t, int> draw(const std::vector<float>& logits, const Sampling& sampling,
                                 int times) {
  Rng rng(11);
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < times; ++i) ++counts[choose_token(logits, sampling, rng)];
  return counts;
}

TEST(Sampling, GreedyTakesTheFirstOfTheLikeliest) {
  Rng rng(1);
  EXPECT_EQ(choose_token(std::vector<float>{1, 3, 2, 3}, {}, rng), 1);
  EXPECT_EQ(choose_token(std::vector<float>{-5}, {}, rng), 0);
}

TEST(Sampling, FollowsTheProbabilities) {
  constexpr int kTimes = 4000;
  const std::vector<float> logits{std::log(1.0f), std::log(4.0f), std::log(5.0f)};
  std::map<std::int32_t, int> counts = draw(logits, {.temperature = 1}, kTimes);
  for (const auto& [token, p] : {std::pair{0, 0.1}, {1, 0.4}, {2, 0.5}})
    EXPECT_NEAR(counts[token], kTimes * p, 5 * std::sqrt(kTimes * p * (1 - p))) << token;
  // Halving the temperature squares the odds: 1, 16, 25 of 42.
  counts = draw(logits, {.temperature = 0.5}, kTimes);
  EXPECT_NEAR(counts[2], kTimes * 25.0 / 42, 5 * std::sqrt(kTimes * 0.25));
}

TEST(Sampling, TopKLeavesTheOthersOut) {
  const std::vector<float> logits{1, 1.1f, 1.2f, 1.3f};
  EXPECT_EQ(draw(logits, {.temperature = 1, .top_k = 1}, 50).size(), 1u);
  const auto two = draw(logits, {.temperature = 1, .top_k = 2}, 200);
  EXPECT_EQ(two.size(), 2u);
  EXPECT_TRUE(two.count(2) && two.count(3));
  EXPECT_EQ(draw(logits, {.temperature = 1, .top_k = 9}, 400).size(), 4u);
}

TEST(Sampling, ExtremeLogitsAndTemperaturesChooseTheLikeliest) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Rng rng(1);
  EXPECT_EQ(choose_token(std::vector<float>{-1e30f, 1e30f, 0}, {.temperature = 1}, rng), 1);
  EXPECT_EQ(choose_token(std::vector<float>{0, 1, 0}, {.temperature = 1e-300}, rng), 1);
  EXPECT_EQ(choose_token(std::vector<float>{-kInfinity, 0, -kInfinity}, {.temperature = 2}, rng),
            1);
}

TEST(Sampling, WhatCannotBeChosenFromIsAnError) {
  Rng rng(1);
  EXPECT_THROW(choose_token({}, {}, rng), Error);
  EXPECT_THROW(choose_token(std::vector<float>{1, NAN}, {}, rng), Error);
  EXPECT_THROW(choose_token(std::vector<float>{1}, {.temperature = -1}, rng), Error);
  EXPECT_THROW(choose_token(std::vector<float>{1}, {.temperature = NAN}, rng), Error);
}

}  // namespace
}  // namespace tensorgrad::test
