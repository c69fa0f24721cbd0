// Two-digit additions as text: `07+95=201`. The answer's digits stand from the units up, because a
// carry travels that way: each digit then depends on what was already written.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "shuffle.hpp"

namespace tensorgrad::cli::addition {

inline constexpr const char* kAlphabet = "0123456789+=";
inline constexpr int kVocabulary = 12;
inline constexpr int kLength = 9;   // 07+95=201
inline constexpr int kPrompt = 6;   // 07+95=
inline constexpr int kAnswer = 3;   // 201
inline constexpr int kContext = 8;  // what the model sees: the last digit is only a target
inline constexpr int kPairs = 100 * 100;
inline constexpr int kHeldOut = kPairs / 5;

struct Pair {
  int a = 0, b = 0;
  int sum() const { return a + b; }
};

/// A line of text as indices into the alphabet.
using Tokens = std::array<std::int32_t, kLength>;
Tokens encode(const Pair& pair);
/// The number that three answer digits spell, or −1 if one of them is no digit.
int decode_answer(const std::int32_t* digits);
/// `07+95=201`.
std::string text_of(const Tokens& tokens);

/// All pairs, shuffled by the seed and divided.
struct Split {
  std::vector<Pair> training, held_out;
};
Split split_pairs(std::uint64_t seed);

/// Endless batches of pairs: each pass over them in a new order.
class Batches {
 public:
  Batches(std::vector<Pair> pairs, std::uint64_t seed)
      : pairs_(std::move(pairs)), order_(pairs_.size(), seed) {}
  /// The `count` pairs of a step: contexts [count, kContext] and answers [count, kAnswer].
  void get(std::int64_t step, std::int64_t count, std::vector<std::int32_t>& contexts,
           std::vector<std::int32_t>& answers);

 private:
  std::vector<Pair> pairs_;
  EpochOrder order_;
};

}  // namespace tensorgrad::cli::addition
