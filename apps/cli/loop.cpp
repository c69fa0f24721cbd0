#include "loop.hpp"

#include <cmath>
#include <cstdio>
#include <deque>

#include "plot.hpp"
#include "progress.hpp"
#include "terminal.hpp"

namespace tensorgrad::cli {

namespace {

// Enough to keep a GPU busy while the host prepares the next batch.
constexpr std::size_t kStepsInFlight = 4;

}  // namespace

LoopResult run_loop(const Loop& loop) {
  LoopResult result;
  Progress progress(loop.steps);
  InterruptScope interrupt;
  Stopwatch watch;
  std::deque<PendingLoss> pending;

  const auto finish_one = [&] {
    const float loss = pending.front().get();
    pending.pop_front();
    result.losses.push_back(loss);
    const auto step = static_cast<std::int64_t>(result.losses.size());
    if (loop.log) loop.log->event("step", {{"step", step}, {"loss", static_cast<double>(loss)}});
    if (!std::isfinite(loss)) {
      const std::string what = "The loss of step " + std::to_string(step) + " is " +
                               (std::isnan(loss) ? "NaN" : number(loss)) + ".";
      if (loop.explain) throw Error(what + "\n" + loop.explain());
      throw Error(what +
                  " Try a smaller --lr. With --find-nonfinite, the op that made it so is named.");
    }
    progress.update(step, loss, watch.seconds());
  };
  const auto finish_all = [&] {
    while (!pending.empty()) finish_one();
  };

  watch.start();
  for (std::int64_t step = 0; step < loop.steps && !InterruptScope::interrupted(); ++step) {
    pending.push_back(loop.start(step));
    while (!pending.empty() && (pending.size() >= kStepsInFlight || pending.front().ready())) {
      finish_one();
    }
    const std::int64_t done = step + 1;
    if (loop.evaluate && done < loop.steps && done % loop.evaluate_every == 0) {
      finish_all();
      watch.stop();
      progress.note(loop.evaluate(done));
      watch.start();
    }
  }
  finish_all();
  watch.stop();
  result.seconds = watch.seconds();
  result.interrupted = InterruptScope::interrupted();
  return result;
}

void print_title(const std::string& example) {
  const std::string title = example + ": " + find_example(example).summary;
  std::printf("%s\n", styled(Style::Bold, title).c_str());
  std::fflush(stdout);
}

void print_program(const Device& device, const CompiledIR& ir) {
  std::int64_t count = 0;
  for (const auto& [name, place] : ir.plan->params) count += place.type.shape.size();
  const MemoryReport memory = ir.plan->memory();
  std::printf("  device  %s: %s\n", device.name().c_str(), device.description().c_str());
  std::printf("  model   %s parameters, %d kernels a step, %s of memory\n",
              with_commas(count).c_str(), memory.kernels, human_bytes(memory.total).c_str());
}

void log_start(JsonLog& log, const std::string& example, const Device& device,
               const TrainOptions& train) {
  log.event("start", {{"example", example},
                      {"device", device.name()},
                      {"steps", train.steps},
                      {"batch", train.batch},
                      {"lr", train.lr},
                      {"seed", static_cast<std::int64_t>(train.seed)}});
}

void print_training(const LoopResult& result) {
  const std::size_t steps = result.losses.size();
  if (result.interrupted) std::printf("interrupted: here is what was learned so far\n");
  if (steps == 0) return;
  const double rate = result.seconds > 0 ? static_cast<double>(steps) / result.seconds : 0;
  std::printf("trained %s steps in %s (%s steps/s), last loss %s\n\n",
              with_commas(static_cast<std::int64_t>(steps)).c_str(),
              human_seconds(result.seconds).c_str(), number(rate, 3).c_str(),
              number(result.losses.back()).c_str());
  if (steps < 2) return;
  Series curve;
  for (std::size_t i = 0; i < steps; ++i) {
    curve.points.push_back({static_cast<double>(i + 1), result.losses[i]});
  }
  const PlotOptions options{
      .title = "loss by step, logarithmic", .width = plot_width(), .height = 11, .log_y = true};
  std::printf("%s\n", plot({curve}, options).c_str());
}

}  // namespace tensorgrad::cli
