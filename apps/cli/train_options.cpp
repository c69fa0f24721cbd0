#include "train_options.hpp"

#include <algorithm>

namespace tensorgrad::cli {

void add_train_options(Options& options, TrainOptions& train) {
  options
      .option("--device", "NAME", "where to train: best, webgpu, cpu, reference or null",
              &train.device)
      .setting("--steps", "N", "steps to train", &train.steps)
      .setting("--batch", "N", "examples a step", &train.batch)
      .setting("--lr", "RATE", "the highest learning rate", &train.lr)
      .setting("--decay-steps", "N",
               "steps over which the rate falls; as --steps unless given,\n"
               "but not under " +
                   std::to_string(train.steps) + ": a short run is the beginning of a long one",
               &train.decay_steps)
      .setting("--optimizer", "NAME", "adamw, adam or sgd", &train.optimizer,
               {"adamw", "adam", "sgd"})
      .setting("--momentum", "M", "of sgd, below 1", &train.momentum)
      .setting("--seed", "N", "of first parameters and data; equal seeds give equal losses",
               &train.seed)
      .option("--save", "FILE", "keep a checkpoint: now and then, at the end and at Ctrl-C",
              &train.save)
      .option("--save-every", "N", "steps between checkpoints", &train.save_every)
      .option("--resume", "FILE",
              "go on from a checkpoint, with its settings; --steps may be raised", &train.resume)
      .option("--log", "FILE", "write every loss as a line of JSON", &train.log)
      .option("--curve", "FILE", "draw the losses as a picture, SVG", &train.curve)
      .option("--profile", "FILE",
              "at the end, time the kernels of one step: a table, and a trace for\n"
              "chrome://tracing",
              &train.profile)
      .flag("--find-nonfinite",
            "if a loss is no number, take the last steps again and name the op that made it so; "
            "keeps a copy of all parameters every 16 steps for that",
            &train.find_nonfinite);
}

bool parse_training(const std::string& example, const Arguments& args, Options& options,
                    TrainOptions& train) {
  const std::int64_t usual_steps = train.steps;
  if (!options.parse(args)) return false;

  if (!train.resume.empty()) {
    train.resumed = read_record(train.resume, example);
    options.restore(train.resumed->settings, train.resume, {"--steps"});
    if (train.steps < train.resumed->step) {
      throw UsageError("--steps " + std::to_string(train.steps) + " is less than the " +
                       std::to_string(train.resumed->step) + " steps that " + train.resume +
                       " has behind it.");
    }
  }
  if (train.decay_steps == 0) train.decay_steps = std::max(train.steps, usual_steps);
  if (options.given("--momentum") && train.optimizer != "sgd") {
    throw UsageError("--momentum is for --optimizer sgd, not " + train.optimizer + ".");
  }
  if (train.momentum >= 1) throw UsageError("--momentum takes a number below 1.");
  if (options.given("--save-every") && train.save.empty()) {
    throw UsageError("--save-every needs --save FILE, which says where to.");
  }
  return true;
}

Optimizer make_optimizer(const TrainOptions& train, const LearningRate& rate, const AdamW& recipe) {
  if (train.optimizer == "sgd") {
    return SGD{.lr = rate, .momentum = train.momentum, .clip_norm = recipe.clip_norm};
  }
  if (train.optimizer == "adam") {
    return Adam{.lr = rate,
                .beta1 = recipe.beta1,
                .beta2 = recipe.beta2,
                .eps = recipe.eps,
                .clip_norm = recipe.clip_norm};
  }
  AdamW adamw = recipe;
  adamw.lr = rate;
  return adamw;
}

Rng step_rng(std::uint64_t seed, std::uint64_t stream, std::int64_t step) {
  const std::uint64_t start = Rng(seed).next() + stream;
  return Rng(Rng(start).next() + static_cast<std::uint64_t>(step));
}

}  // namespace tensorgrad::cli
