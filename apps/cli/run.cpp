#include "run.hpp"

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "example.hpp"
#include "profile.hpp"
#include "progress.hpp"
#include "svg.hpp"
#include "terminal.hpp"

namespace tensorgrad::cli {

namespace {

bool all_finite(const ParamValues& params) {
  for (const auto& [name, values] : params) {
    for (const float value : values) {
      if (!std::isfinite(value)) return false;
    }
  }
  return true;
}

/// Losses of steps that ran, as points of a curve.
Series loss_series(const LoopResult& result) {
  Series series{.name = "loss", .points = {}};
  for (std::size_t i = 0; i < result.losses.size(); ++i) {
    series.points.push_back(
        {static_cast<double>(result.first) + static_cast<double>(i + 1), result.losses[i]});
  }
  return series;
}

std::vector<Series> curves(const LoopResult& result) {
  std::vector<Series> all = {loss_series(result)};
  if (!result.heldout.empty()) {
    all.push_back(
        {.name = "held out", .points = result.heldout, .colour = Style::Yellow, .mark = "o"});
  }
  return all;
}

}  // namespace

TrainingRun::TrainingRun(std::string example, const Options& options, const TrainOptions& train,
                         DataSource data)
    : example_(std::move(example)),
      options_(train),
      record_{example_, options.settings(), data, 0},
      log_((check_files(data), train.log), train.resumed.has_value()) {
  if (train.resumed && !data.path.empty() && train.resumed->data.hash != data.hash) {
    throw Error(data.path + " is not what " + train.resume + " was trained on, " +
                train.resumed->data.path + " as it was then: its content differs.");
  }
  const std::string title = example_ + ": " + find_example(example_).summary;
  std::printf("%s\n", styled(Style::Bold, title).c_str());
  std::fflush(stdout);
}

/// Before anything is opened, made or trained: a mistake here should cost nothing.
void TrainingRun::check_files(const DataSource& data) const {
  namespace fs = std::filesystem;
  const std::pair<const char*, const std::string*> written[] = {{"--save", &options_.save},
                                                                {"--log", &options_.log},
                                                                {"--curve", &options_.curve},
                                                                {"--profile", &options_.profile}};
  std::map<fs::path, std::string> taken;  // by what
  if (!data.path.empty()) taken[fs::weakly_canonical(data.path)] = "the data";
  for (const auto& [name, path] : written) {
    if (path->empty()) continue;
    const auto [other, is_new] = taken.insert({fs::weakly_canonical(*path), name});
    if (!is_new) {
      throw UsageError(std::string(name) + " " + *path + " is the file of " + other->second +
                       " too. Each needs its own.");
    }
  }
  if (!options_.save.empty()) check_can_save(options_.save);
  if (!options_.curve.empty()) check_can_write(options_.curve);
  if (!options_.profile.empty()) check_can_write(options_.profile);
}

void TrainingRun::begin(Trainee trainee) {
  trainee_ = std::move(trainee);
  const Plan& plan = *trainee_.ir->plan;
  std::int64_t count = 0;
  for (const auto& [name, place] : plan.params) count += place.type.shape.size();
  const MemoryReport memory = plan.memory();
  std::printf("  device  %s: %s\n", trainee_.device->name().c_str(),
              trainee_.device->description().c_str());
  std::printf("  model   %s parameters, %d kernels a step, %s of memory\n",
              with_commas(count).c_str(), memory.kernels, human_bytes(memory.total).c_str());

  if (options_.resumed) {
    trainee_.load(options_.resume);
    record_.step = trainee_.step_count();
    if (record_.step != options_.resumed->step) {
      throw IoError("Cannot go on from " + options_.resume + ": it was saved after " +
                    std::to_string(record_.step) + " steps, but its data stand at step " +
                    std::to_string(options_.resumed->step) + ".");
    }
    std::printf("  resumed %s, after %s steps\n", options_.resume.c_str(),
                with_commas(record_.step).c_str());
  }
  std::fflush(stdout);
  log_.event("start", {{"example", example_},
                       {"device", trainee_.device->name()},
                       {"first", record_.step},
                       {"steps", options_.steps},
                       {"batch", options_.batch},
                       {"lr", options_.lr},
                       {"optimizer", options_.optimizer},
                       {"seed", options_.seed}});
}

const LoopResult& TrainingRun::train(const Course& course) {
  feed_ = course.feed;
  Loop loop;
  loop.first = record_.step;
  loop.steps = options_.steps;
  loop.start = [this](std::int64_t step) { return trainee_.step(feed_(step)); };
  loop.rate = [&](std::int64_t step) { return course.rate.at(step); };
  loop.evaluate = course.evaluate;
  loop.evaluate_every = course.evaluate_every;
  if (!options_.save.empty()) loop.save = [this](std::int64_t done) { save(done); };
  loop.save_every = options_.save_every;
  loop.log = &log_;
  if (options_.find_nonfinite) {
    trainee_.watch();
    loop.explain = trainee_.explain;
  }

  const InterruptScope interrupt;
  try {
    result_ = run_loop(loop);
    if (!result_.losses.empty() && saved_ != result_.done()) save(result_.done());
  } catch (const Error& error) {
    if (saved_ < 0) throw;
    throw Error(std::string(error.what()) + "\n  " + options_.save + " holds step " +
                std::to_string(saved_) + ".");
  }
  signal_ = interrupt_signal();
  print_result();
  return result_;
}

/// All losses until here are finite. The update of the last step may still have gone wrong, and the
/// checkpoint before it is worth more than what cannot be trained on.
void TrainingRun::save(std::int64_t done) {
  if (options_.save.empty()) return;
  if (!all_finite(trainee_.params())) {
    throw Error("Parameters are no longer finite after step " + std::to_string(done) +
                ". Try a smaller --lr.");
  }
  record_.step = done;
  trainee_.save(options_.save, to_metadata(record_));
  saved_ = done;
  log_.event("save", {{"step", done}, {"file", options_.save}});
}

void TrainingRun::print_result() const {
  const auto steps = static_cast<std::int64_t>(result_.losses.size());
  if (interrupted()) {
    std::printf("interrupted after step %s: here is what was learned so far\n",
                with_commas(result_.done()).c_str());
  }
  if (steps == 0) return;
  const double rate = result_.seconds > 0 ? static_cast<double>(steps) / result_.seconds : 0;
  std::printf("trained %s steps in %s (%s), last loss %s\n", with_commas(steps).c_str(),
              human_seconds(result_.seconds).c_str(), rate_text(rate).c_str(),
              number(result_.losses.back()).c_str());
  if (saved_ >= 0) std::printf("saved %s\n", options_.save.c_str());
  std::printf("\n");
  if (steps < 2) return;
  const PlotOptions options{
      .title = "loss by step, logarithmic", .width = plot_width(), .height = 11, .log_y = true};
  std::printf("%s\n", plot(curves(result_), options).c_str());
  std::fflush(stdout);
}

/// One step more. It comes last, so that nobody sees what it learned.
void TrainingRun::profile() {
  const std::vector<KernelTime> times = trainee_.profile(feed_(result_.done()));
  std::printf("%s", profile_table(times).c_str());
  write_trace(options_.profile, times);
  std::printf("wrote %s, for chrome://tracing or ui.perfetto.dev\n", options_.profile.c_str());
}

int TrainingRun::end(JsonLog::Fields results, double heldout) {
  if (!std::isnan(heldout)) {
    result_.heldout.push_back({static_cast<double>(result_.done()), heldout});
    results.emplace_back("heldout", heldout);
  }
  results.insert(results.begin(), {{"steps", result_.done()}, {"seconds", result_.seconds}});
  log_.event("end", results);
  if (!options_.curve.empty()) {
    write_svg(options_.curve, curves(result_), example_ + ": loss by step");
    std::printf("drew %s\n", options_.curve.c_str());
  }
  if (!options_.profile.empty()) profile();
  return signal_ == 0 ? 0 : kSignalStatus + signal_;
}

}  // namespace tensorgrad::cli
