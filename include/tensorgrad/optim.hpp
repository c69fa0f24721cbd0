// Optimizers and learning-rate schedules.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tensorgrad/graph.hpp"

namespace tensorgrad {

/// A learning rate: a number, or any function of the step, which counts from 1.
class LearningRate {
 public:
  LearningRate(double rate) : fn_([rate](std::int64_t) { return rate; }) {}  // NOLINT: implicit
  template <class F>
  requires std::is_invocable_r_v<double, F, std::int64_t> LearningRate(F fn)
      : fn_(std::move(fn)) {}  // NOLINT: implicit on purpose

  double at(std::int64_t step) const { return fn_(step); }

 private:
  std::function<double(std::int64_t)> fn_;
};

/// Ready-made learning rates.
namespace lr {
LearningRate constant(double rate);
/// From `from` to `to` in a straight line over `steps` steps, then `to`.
LearningRate linear(double from, double to, std::int64_t steps);
/// Half a cosine from `peak` to `final` over `steps` steps, then `final`.
LearningRate cosine(double peak, std::int64_t steps, double final = 0);
/// peak·s/warmup_steps up to warmup_steps, then `after`, whose steps count from there.
LearningRate warmup(double peak, std::int64_t warmup_steps, LearningRate after);
/// A warm-up to `peak`, then half a cosine to `final` over `decay_steps`.
LearningRate warmup_cosine(double peak, std::int64_t warmup_steps, std::int64_t decay_steps,
                           double final = 0);
/// `rate` times `gamma` for every `every` steps passed.
LearningRate step(double rate, double gamma, std::int64_t every);
/// `rate` times `gamma` for every milestone passed.
LearningRate multi_step(double rate, double gamma, std::vector<std::int64_t> milestones);
}  // namespace lr

/// Says by name which parameters weight decay applies to.
using DecayFilter = std::function<bool(const std::string&)>;

/// Adam (Kingma & Ba).
struct Adam {
  LearningRate lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double clip_norm = 0;  ///< > 0: gradients are scaled so that their global norm is at most this.
};

/// Adam with decoupled weight decay (Loshchilov & Hutter).
struct AdamW {
  LearningRate lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0.01;
  double clip_norm = 0;
  DecayFilter decay_filter = {};  ///< Overrides the parameters' own decay flags.
};

/// Gradient descent with momentum; weight_decay is an L2 term added to the gradient.
struct SGD {
  LearningRate lr = 1e-2;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double clip_norm = 0;
  DecayFilter decay_filter = {};
};

using Optimizer = std::variant<Adam, AdamW, SGD>;

/// The name of the input that append_optimizer declares for a step's scalars.
inline constexpr const char* kStepScalars = "optimizer.scalars";
/// [0] the step size (for Adam divided by 1−β1ᵗ), [1] 1/√(1−β2ᵗ), [2] the factor 1−lr·decay, [3]
/// spare.
inline constexpr int kStepScalarCount = 4;

/// A step's scalars, in double precision until the end. Steps count from 1. `rate` replaces the
/// optimizer's learning rate.
std::array<float, kStepScalarCount> step_scalars(const Optimizer& optimizer, std::int64_t step,
                                                 std::optional<double> rate = {});

/// Appends the update phase: one node a parameter that has a gradient, its state (zero at first)
/// and the write-backs. Call it after append_grad.
void append_optimizer(Graph& graph, const Optimizer& optimizer);

}  // namespace tensorgrad
