// Learning-rate schedules.
#include <algorithm>
#include <cmath>

#include "tensorgrad/optim.hpp"

namespace tensorgrad::lr {

namespace {
double progress(std::int64_t step, std::int64_t steps) {
  if (steps <= 0) return 1;
  return std::clamp(static_cast<double>(step) / static_cast<double>(steps), 0.0, 1.0);
}
}  // namespace

LearningRate constant(double rate) { return rate; }

LearningRate linear(double from, double to, std::int64_t steps) {
  return [=](std::int64_t s) { return from + (to - from) * progress(s, steps); };
}

LearningRate cosine(double peak, std::int64_t steps, double final) {
  constexpr double kPi = 3.14159265358979323846;
  return [=](std::int64_t s) {
    return final + (peak - final) * 0.5 * (1 + std::cos(kPi * progress(s, steps)));
  };
}

LearningRate warmup(double peak, std::int64_t warmup_steps, LearningRate after) {
  return [=](std::int64_t s) {
    return s <= warmup_steps ? peak * progress(s, warmup_steps) : after.at(s - warmup_steps);
  };
}

LearningRate warmup_cosine(double peak, std::int64_t warmup_steps, std::int64_t decay_steps,
                           double final) {
  return warmup(peak, warmup_steps, cosine(peak, decay_steps, final));
}

LearningRate step(double rate, double gamma, std::int64_t every) {
  return [=](std::int64_t s) {
    return rate * std::pow(gamma, static_cast<double>(every > 0 ? (s - 1) / every : 0));
  };
}

LearningRate multi_step(double rate, double gamma, std::vector<std::int64_t> milestones) {
  return [=](std::int64_t s) {
    const auto passed = std::count_if(milestones.begin(), milestones.end(),
                                      [&](std::int64_t milestone) { return s > milestone; });
    return rate * std::pow(gamma, static_cast<double>(passed));
  };
}

}  // namespace tensorgrad::lr
