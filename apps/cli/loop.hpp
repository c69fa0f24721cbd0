// The training loop that the examples share: steps in flight, progress, evaluations, the log,
// Ctrl-C and a loss that is no number.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "example.hpp"
#include "log.hpp"
#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::cli {

/// What the loop is about to do.
struct Loop {
  std::int64_t steps = 0;
  /// Starts a step, counted from 0, and gives its loss for later.
  std::function<PendingLoss(std::int64_t step)> start;
  /// Looks at the model between two steps and says what it found; called every `evaluate_every`
  /// steps, not after the last.
  std::function<std::string(std::int64_t step)> evaluate = {};
  std::int64_t evaluate_every = 0;
  JsonLog* log = nullptr;
  /// Says where a loss that is no number came from; see `watch`.
  std::function<std::string()> explain = {};
};

struct LoopResult {
  std::vector<float> losses;  ///< of every step that ran
  double seconds = 0;         ///< of training, without evaluations
  bool interrupted = false;   ///< by Ctrl-C
};

/// Throws Error if a loss is not finite.
LoopResult run_loop(const Loop& loop);

/// With --find-nonfinite: keeps what it takes to explain a loss that is no number.
template <class Model>
void watch(Training<Model>& training, const TrainOptions& train, Loop& loop) {
  if (!train.find_nonfinite) return;
  training.watch_nonfinite();
  loop.explain = [&training] { return training.find_nonfinite().text; };
}

/// The first line, before compiling, which may take a moment: the example and what it does.
void print_title(const std::string& example);
/// What was compiled: device, parameters, kernels, memory.
void print_program(const Device& device, const CompiledIR& ir);

/// The first line of the log: what was asked for.
void log_start(JsonLog& log, const std::string& example, const Device& device,
               const TrainOptions& train);

/// How long it took, and the curve of the losses.
void print_training(const LoopResult& result);

}  // namespace tensorgrad::cli
