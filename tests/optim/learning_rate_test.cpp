// Learning-rate schedules against values by hand. Steps count from 1.
#include <gtest/gtest.h>

#include <cmath>

#include "tensorgrad/optim.hpp"

namespace tensorgrad::test {

TEST(LearningRate, IsANumberOrAFunctionOfTheStep) {
  const LearningRate number = 0.25;
  EXPECT_EQ(number.at(1), 0.25);
  EXPECT_EQ(number.at(1000), 0.25);
  const LearningRate function = [](std::int64_t step) { return 1.0 / static_cast<double>(step); };
  EXPECT_EQ(function.at(4), 0.25);
  EXPECT_EQ(lr::constant(0.5).at(7), 0.5);
}

TEST(LearningRate, LinearGoesStraightAndStays) {
  const LearningRate rate = lr::linear(1.0, 0.2, 8);
  EXPECT_DOUBLE_EQ(rate.at(0), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(1), 0.9);
  EXPECT_DOUBLE_EQ(rate.at(4), 0.6);
  EXPECT_DOUBLE_EQ(rate.at(8), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(100), 0.2);
}

TEST(LearningRate, CosineIsHalfAWave) {
  const LearningRate rate = lr::cosine(1.0, 100, 0.1);
  EXPECT_NEAR(rate.at(25), 0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2, 1e-12);
  EXPECT_NEAR(rate.at(50), 0.55, 1e-12);
  EXPECT_NEAR(rate.at(100), 0.1, 1e-12);
  EXPECT_NEAR(rate.at(200), 0.1, 1e-12);
}

TEST(LearningRate, WarmupRisesThenHandsOver) {
  const LearningRate rate = lr::warmup(1.0, 4, lr::linear(1.0, 0.0, 10));
  EXPECT_DOUBLE_EQ(rate.at(1), 0.25);
  EXPECT_DOUBLE_EQ(rate.at(3), 0.75);
  EXPECT_DOUBLE_EQ(rate.at(4), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(9), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(14), 0.0);
}

TEST(LearningRate, WarmupCosineMeetsThePeakOnce) {
  const LearningRate rate = lr::warmup_cosine(2.0, 10, 20, 0.5);
  EXPECT_DOUBLE_EQ(rate.at(5), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(10), 2.0);
  EXPECT_NEAR(rate.at(20), 1.25, 1e-12);
  EXPECT_NEAR(rate.at(30), 0.5, 1e-12);
  EXPECT_NEAR(rate.at(31), 0.5, 1e-12);
}

TEST(LearningRate, StepDropsEverySoManySteps) {
  const LearningRate rate = lr::step(1.0, 0.5, 3);
  EXPECT_DOUBLE_EQ(rate.at(1), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(3), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(4), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(7), 0.25);
}

TEST(LearningRate, AfterAWarmupStepsCountFromOneAgain) {
  const LearningRate dropping = lr::warmup(1.0, 2, lr::step(1.0, 0.5, 1));
  EXPECT_DOUBLE_EQ(dropping.at(2), 1.0);
  EXPECT_DOUBLE_EQ(dropping.at(3), 1.0);
  EXPECT_DOUBLE_EQ(dropping.at(4), 0.5);
  const auto inverse = [](std::int64_t step) { return 1.0 / static_cast<double>(step); };
  const LearningRate rate = lr::warmup(3.0, 2, inverse);
  EXPECT_DOUBLE_EQ(rate.at(2), 3.0);
  EXPECT_DOUBLE_EQ(rate.at(3), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(4), 0.5);
  EXPECT_DOUBLE_EQ(lr::warmup(3.0, 0, inverse).at(1), 1.0);
}

TEST(LearningRate, MultiStepDropsAfterItsMilestones) {
  const LearningRate rate = lr::multi_step(1.0, 0.1, {2, 5});
  EXPECT_DOUBLE_EQ(rate.at(2), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(3), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(5), 0.1);
  EXPECT_NEAR(rate.at(6), 0.01, 1e-15);
}

}  // namespace tensorgrad::test
