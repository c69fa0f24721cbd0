#include "api/debug/watch.hpp"

#include <algorithm>
#include <cmath>

#include "api/debug/values.hpp"

namespace tensorgrad::debug {

namespace {

bool is_finite(const Value& value) {
  const Values values = numbers(value);
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

/// Whether all that was finite still is. A state may hold an infinity from the start.
bool stayed_finite(const Kept& before, const Kept& now) {
  return std::all_of(now.begin(), now.end(), [&](const auto& entry) {
    return is_finite(entry.second) || !is_finite(before.at(entry.first));
  });
}

bool all_finite(const Kept& kept) {
  return std::all_of(kept.begin(), kept.end(),
                     [](const auto& entry) { return is_finite(entry.second); });
}

void restore(Runtime& runtime, const Places& persistent, const Kept& kept) {
  for (const auto& [name, place] : persistent)
    runtime.write_words(place, kept.at(name).words().data());
}

}  // namespace

void Watch::before_step(Runtime& runtime, const Places& persistent, std::int64_t step) {
  if (gone_bad_) return;
  if (first_step_ != 0 && static_cast<std::int64_t>(inputs_.size()) < every_) return;
  Kept now = runtime.read(persistent);
  gone_bad_ = !inputs_.empty() && !stayed_finite(copy_, now);
  if (gone_bad_) return;
  copy_ = std::move(now);
  inputs_.clear();
  first_step_ = step;
}

void Watch::after_step(const InputWords& inputs) {
  if (!gone_bad_) inputs_.push_back(inputs);
}

void Watch::forget() { *this = Watch(every_); }

Watch::BadStep Watch::replay(Runtime& runtime, const Places& persistent,
                             const std::function<void(const InputWords&)>& take) const {
  BadStep bad;
  if (inputs_.empty()) return bad;
  const Kept present = runtime.read(persistent);
  const Plan& plan = runtime.plan();
  const Place& loss = plan.outputs.at(plan.graph->outputs.front().name);
  Kept before = copy_;
  restore(runtime, persistent, before);
  try {
    for (std::size_t i = 0; i < inputs_.size() && bad.step == 0; ++i) {
      take(inputs_[i]);
      Kept after = runtime.read(persistent);
      if (is_finite(runtime.read(loss)) && all_finite(runtime.read(plan.gradients)) &&
          stayed_finite(before, after)) {
        before = std::move(after);
      } else {
        bad = {first_step_ + static_cast<std::int64_t>(i), std::move(before), inputs_[i]};
      }
    }
  } catch (...) {
    restore(runtime, persistent, present);
    throw;
  }
  restore(runtime, persistent, present);
  return bad;
}

std::string Watch::nothing_found() const {
  if (inputs_.empty()) return "No step was watched yet.";
  const std::int64_t last = first_step_ + static_cast<std::int64_t>(inputs_.size()) - 1;
  return "Steps " + std::to_string(first_step_) + " to " + std::to_string(last) +
         ", taken again, leave nothing that is not finite.";
}

}  // namespace tensorgrad::debug
