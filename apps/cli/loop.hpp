// The training loop that the examples share: steps in flight, progress, evaluations, checkpoints,
// the log, Ctrl-C and a loss that is no number.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "log.hpp"
#include "plot.hpp"
#include "tensorgrad/compile.hpp"

namespace tensorgrad::cli {

/// What a look at the model between two steps found.
struct Evaluation {
  std::string text;        ///< for the terminal: one line or several
  JsonLog::Fields fields;  ///< for the log
  /// The loss on data that are not trained on, for the log and the curves; NaN: not looked at.
  double heldout = std::numeric_limits<double>::quiet_NaN();
};

/// What the loop is about to do. Steps are counted from 0 where they start and by how many are done
/// where they end.
struct Loop {
  std::int64_t first = 0, steps = 0;  ///< steps done before, and in all
  /// Starts a step and gives its loss for later.
  std::function<PendingLoss(std::int64_t step)> start;
  /// Called every `evaluate_every` steps, not after the last.
  std::function<Evaluation(std::int64_t done)> evaluate = {};
  std::int64_t evaluate_every = 0;
  /// Called every `save_every` steps, when all losses so far are known and finite.
  std::function<void(std::int64_t done)> save = {};
  std::int64_t save_every = 0;
  std::function<double(std::int64_t step)> rate;  ///< of a step counted from 1
  JsonLog* log = nullptr;
};

struct LoopResult {
  std::int64_t first = 0;
  std::vector<float> losses;   ///< of every step that ran
  std::vector<Point> heldout;  ///< losses of the evaluations by step
  double seconds = 0;          ///< of training, without evaluations and checkpoints
  std::int64_t done() const { return first + static_cast<std::int64_t>(losses.size()); }
};

/// Trains until the end or until the process is asked to stop (interrupt_signal). Throws Error if a
/// loss is not finite.
LoopResult run_loop(const Loop& loop);

}  // namespace tensorgrad::cli
