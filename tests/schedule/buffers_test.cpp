// Temporaries share memory only where it cannot matter.
#include "schedule/buffers.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace tensorgrad::test {
namespace {

/// Tensors of a few sizes, each written by a kernel and read by later ones. About half of them take
/// the place of one of the same size that ends where they begin.
std::vector<Lifetime> random_lifetimes(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<Lifetime> made;
  const int count = 2 + below(30), kernels = 2 + below(20);
  for (int id = 0; id < count; ++id) {
    Lifetime t;
    t.tensor = id;
    t.elements = 64 * (1 + below(8)) + below(3);
    t.first = below(kernels);
    t.last = t.first + below(kernels - t.first + 1);
    for (const Lifetime& before : made) {
      if (before.last != t.first || before.first == t.first || below(2) == 0) continue;
      t.elements = before.elements;
      t.replaces = before.tensor;
      break;
    }
    made.push_back(t);
  }
  return made;
}

bool follows(const Lifetime& before, const Lifetime& after) {
  return before.last == after.first && before.first < after.first &&
         after.replaces == before.tensor;
}

/// What is wrong with a plan, or nothing.
std::string wrong(const std::vector<Lifetime>& all, const TempPlan& plan) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [buffer, offset] = plan.places[i];
    if (offset + all[i].elements > plan.buffers[static_cast<std::size_t>(buffer)])
      return std::to_string(i) + " goes beyond its buffer";
    for (std::size_t j = 0; j < i; ++j) {
      const auto [other, at] = plan.places[j];
      if (other != buffer || offset + all[i].elements <= at || at + all[j].elements <= offset)
        continue;
      if (all[i].last < all[j].first || all[j].last < all[i].first) continue;
      const bool in_place = follows(all[i], all[j]) || follows(all[j], all[i]);
      if (!in_place || offset != at) {
        return std::to_string(i) + " at " + std::to_string(offset) + " and " + std::to_string(j) +
               " at " + std::to_string(at) + " share memory";
      }
    }
  }
  return "";
}

TEST(Buffers, ShareMemoryOnlyInPlaceOrOneAfterTheOther) {
  int in_place = 0;
  for (std::uint32_t seed = 1; seed <= 3000; ++seed) {
    const std::vector<Lifetime> all = random_lifetimes(seed);
    const TempPlan arena = assign_offsets(all);
    ASSERT_EQ(wrong(all, arena), "") << "offsets, seed " << seed;
    ASSERT_EQ(wrong(all, assign_whole_buffers(all)), "") << "whole buffers, seed " << seed;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].replaces < 0) continue;
      in_place += arena.places[i] == arena.places[static_cast<std::size_t>(all[i].replaces)];
    }
  }
  EXPECT_GT(in_place, 1000);  // and they do so where they can
}

}  // namespace
}  // namespace tensorgrad::test
