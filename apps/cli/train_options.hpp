// What every `train` command takes: its options, the optimizer they ask for, and what --resume
// makes of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint.hpp"
#include "options.hpp"
#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::cli {

/// An example sets its own defaults.
struct TrainOptions {
  std::string device = "best";
  std::int64_t steps = 0;
  std::int64_t decay_steps = 0;  ///< 0: as many as steps, but not fewer than the default
  std::uint64_t seed = 1;
  std::int64_t batch = 0;
  double lr = 0;
  std::string optimizer = "adamw";
  double momentum = 0;
  std::string log, curve, save, resume, profile;
  std::int64_t save_every = 100;
  bool find_nonfinite = false;

  std::optional<RunRecord> resumed;  ///< of the file that --resume names
};

/// Declares the options for `train EXAMPLE`, with the values in `train` as defaults.
void add_train_options(Options& options, TrainOptions& train);

/// Parses the words and takes from the file that --resume names what they leave open. False if help
/// was asked for and printed.
bool parse_training(const std::string& example, const Arguments& args, Options& options,
                    TrainOptions& train);

/// The optimizer that was asked for. `recipe` has what the example likes apart from the rate, for
/// each optimizer that knows such a thing.
Optimizer make_optimizer(const TrainOptions& train, const LearningRate& rate,
                         const AdamW& recipe = {.weight_decay = 0});

/// Numbers for a step of a run: equal seeds, streams and steps give equal numbers. Nothing else is
/// needed to go on with a run in another process.
Rng step_rng(std::uint64_t seed, std::uint64_t stream, std::int64_t step);

}  // namespace tensorgrad::cli
