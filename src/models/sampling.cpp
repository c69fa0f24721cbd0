#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensorgrad/decoder.hpp"

namespace tensorgrad {

namespace {

/// The indices of the `count` highest logits, in falling order; if that is all, in any.
std::vector<std::int32_t> likeliest(std::span<const float> logits, std::size_t count) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  if (count == order.size()) return order;
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    likelier);
  order.resize(count);
  return order;
}

}  // namespace

std::int32_t choose_token(std::span<const float> logits, const Sampling& sampling, Rng& rng) {
  if (logits.empty()) throw Error("choose_token: there are no logits to choose by.");
  if (!(sampling.temperature >= 0) || !std::isfinite(sampling.temperature)) {
    throw Error("choose_token: the temperature must be 0 or more, not " +
                std::to_string(sampling.temperature) + ".");
  }
  if (std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); }))
    throw Error("choose_token: a logit is NaN.");
  const auto highest = std::max_element(logits.begin(), logits.end());  // the first of them
  if (sampling.temperature == 0) return static_cast<std::int32_t>(highest - logits.begin());

  const auto all = static_cast<std::int64_t>(logits.size());
  const std::int64_t count = sampling.top_k > 0 ? std::min(sampling.top_k, all) : all;
  const std::vector<std::int32_t> candidates = likeliest(logits, static_cast<std::size_t>(count));
  std::vector<double> weights;
  for (const std::int32_t token : candidates) {
    const double below = static_cast<double>(logits[static_cast<std::size_t>(token)]) - *highest;
    weights.push_back(below == 0 ? 1 : std::exp(below / sampling.temperature));
  }
  double left = rng.uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return candidates[i];
  }
  return candidates.front();  // rounding only
}

}  // namespace tensorgrad
