#include "loop.hpp"

#include <cmath>
#include <deque>

#include "progress.hpp"
#include "terminal.hpp"

namespace tensorgrad::cli {

namespace {

// Enough to keep a GPU busy while the host prepares the next batch.
constexpr std::size_t kStepsInFlight = 4;

}  // namespace

LoopResult run_loop(const Loop& loop) {
  LoopResult result;
  result.first = loop.first;
  Progress progress(loop.first, loop.steps);
  Stopwatch watch;
  std::deque<PendingLoss> pending;

  const auto finish_one = [&] {
    const float loss = pending.front().get();
    pending.pop_front();
    result.losses.push_back(loss);
    const std::int64_t step = result.done();
    if (loop.log) {
      loop.log->event("step", {{"step", step},
                               {"loss", static_cast<double>(loss)},
                               {"lr", loop.rate(step)},
                               {"seconds", watch.seconds()}});
    }
    if (!std::isfinite(loss)) {
      throw Error("The loss of step " + std::to_string(step) + " is " + number(loss) +
                  ". Try a smaller --lr.");
    }
    progress.update(step, loss, watch.seconds());
  };
  const auto finish_all = [&] {
    while (!pending.empty()) finish_one();
  };
  const auto evaluate = [&] {
    const std::int64_t done = result.done();
    const Evaluation found = loop.evaluate(done);
    if (std::isfinite(found.heldout)) {
      result.heldout.push_back({static_cast<double>(done), found.heldout});
    }
    if (loop.log) {
      JsonLog::Fields fields = {{"step", done}};
      if (!std::isnan(found.heldout)) fields.emplace_back("heldout", found.heldout);
      fields.insert(fields.end(), found.fields.begin(), found.fields.end());
      loop.log->event("evaluation", fields);
    }
    progress.note(found.text);
  };

  watch.start();
  for (std::int64_t step = loop.first; step < loop.steps && interrupt_signal() == 0; ++step) {
    pending.push_back(loop.start(step));
    while (!pending.empty() && (pending.size() >= kStepsInFlight || pending.front().ready())) {
      finish_one();
    }
    const std::int64_t done = step + 1;
    const bool last = done == loop.steps;
    const bool evaluates = loop.evaluate && !last && done % loop.evaluate_every == 0;
    const bool saves = loop.save && !last && done % loop.save_every == 0;
    if (!evaluates && !saves) continue;
    finish_all();
    watch.stop();
    if (saves) loop.save(done);
    if (evaluates) evaluate();
    watch.start();
  }
  finish_all();
  watch.stop();
  result.seconds = watch.seconds();
  return result;
}

}  // namespace tensorgrad::cli
