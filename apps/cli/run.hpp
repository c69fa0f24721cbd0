// A run of `train EXAMPLE`: what comes before, around and after the loop, the same for each.
//
//   TrainingRun run("sin", options, train);    checks what can be checked, says what is trained
//   auto training = compile(…);
//   run.begin(training);                       says what was compiled, takes up a checkpoint
//   const LoopResult& result = run.train(…);   the loop, checkpoints, how it went
//   return run.end({{"mse", error}});          the last line of the log, the curve, the exit status
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <string>

#include "checkpoint.hpp"
#include "log.hpp"
#include "loop.hpp"
#include "train_options.hpp"

namespace tensorgrad::cli {

/// What a run needs of a Training, whatever its model.
struct Trainee {
  std::function<PendingLoss(const Feed&)> step;
  std::function<std::vector<KernelTime>(const Feed&)> profile;  ///< a step, its kernels timed
  std::function<void(const std::string&, const std::map<std::string, std::string>&)> save;
  std::function<void(const std::string&)> load;
  std::function<ParamValues()> params;
  std::function<std::int64_t()> step_count;
  std::function<void()> watch;           ///< from now on keep what `explain` needs
  std::function<std::string()> explain;  ///< where the last loss that is no number came from
  const CompiledIR* ir = nullptr;
  const Device* device = nullptr;
};

/// It refers to `training`, which must outlive it.
template <class Model>
Trainee trainee(Training<Model>& training) {
  return {[&](const Feed& feed) { return training.step_async(feed); },
          [&](const Feed& feed) { return training.profile(feed); },
          [&](const std::string& path, const auto& metadata) { training.save(path, metadata); },
          [&](const std::string& path) { training.load(path); },
          [&] { return training.download_params(); },
          [&] { return training.step_count(); },
          [&] { training.watch_nonfinite(); },
          [&] { return training.find_nonfinite().text; },
          &training.ir(),
          &training.device()};
}

/// What an example gives to the loop; see Loop.
struct Course {
  /// The inputs of a step. What they refer to stays until the next are asked for.
  std::function<std::vector<FeedItem>(std::int64_t step)> feed;
  LearningRate rate;
  std::function<Evaluation(std::int64_t done)> evaluate = {};
  std::int64_t evaluate_every = 0;
};

class TrainingRun {
 public:
  /// Throws if a file that is to be written at the end cannot be, or if a resumed run had other
  /// data.
  TrainingRun(std::string example, const Options& options, const TrainOptions& train,
              DataSource data = {});

  /// Prints device and model, and loads the checkpoint of a resumed run.
  void begin(Trainee trainee);

  /// Trains, saves and prints how it went.
  const LoopResult& train(const Course& course);
  bool interrupted() const { return signal_ != 0; }

  /// Logs the end with these results and draws the curve, with the last held-out loss if there is
  /// one, and times the kernels of one step more if that is wanted. Gives the exit status.
  int end(JsonLog::Fields results, double heldout = std::numeric_limits<double>::quiet_NaN());

 private:
  void check_files(const DataSource& data) const;
  void save(std::int64_t done);
  void print_result() const;
  void profile();

  std::string example_;
  const TrainOptions& options_;
  RunRecord record_;
  JsonLog log_;
  Trainee trainee_;
  std::function<std::vector<FeedItem>(std::int64_t step)> feed_;
  LoopResult result_;
  std::int64_t saved_ = -1;  // the step of the checkpoint that is on the disk
  int signal_ = 0;
};

}  // namespace tensorgrad::cli
