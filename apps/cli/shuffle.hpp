// Random orders that are the same on every machine, and that can be taken up anywhere.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "tensorgrad/tensor.hpp"
#include "train_options.hpp"

namespace tensorgrad::cli {

/// Fisher and Yates.
template <class T>
void shuffle(std::vector<T>& items, Rng rng) {
  for (std::size_t i = items.size(); i > 1; --i) {
    std::swap(items[i - 1], items[static_cast<std::size_t>(rng.next() % i)]);
  }
}

/// An endless walk over 0 … count−1: each pass, an epoch, in a new order. Which item stands at a
/// position depends on the seed and the position alone.
class EpochOrder {
 public:
  EpochOrder(std::size_t count, std::uint64_t seed) : order_(count), seed_(seed) {}

  std::size_t at(std::int64_t position) {
    const auto count = static_cast<std::int64_t>(order_.size());
    if (position / count != epoch_) {
      epoch_ = position / count;
      std::iota(order_.begin(), order_.end(), std::size_t{0});
      shuffle(order_, step_rng(seed_, kStream, epoch_));
    }
    return order_[static_cast<std::size_t>(position % count)];
  }

 private:
  static constexpr std::uint64_t kStream = 0x0e90c4;
  std::vector<std::size_t> order_;
  std::uint64_t seed_;
  std::int64_t epoch_ = -1;
};

}  // namespace tensorgrad::cli
