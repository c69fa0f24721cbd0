#include "addition_data.hpp"

#include <utility>

namespace tensorgrad::cli::addition {

namespace {

constexpr std::int32_t kPlus = 10, kEquals = 11;

}  // namespace

Tokens encode(const Pair& pair) {
  const int sum = pair.sum();
  return {pair.a / 10, pair.a % 10, kPlus,         pair.b / 10, pair.b % 10,
          kEquals,     sum % 10,    sum / 10 % 10, sum / 100};
}

int decode_answer(const std::int32_t* digits) {
  int value = 0;
  for (int i = kAnswer - 1; i >= 0; --i) {
    if (digits[i] < 0 || digits[i] > 9) return -1;
    value = 10 * value + digits[i];
  }
  return value;
}

std::string text_of(const Tokens& tokens) {
  std::string text;
  for (const std::int32_t token : tokens) text += kAlphabet[token];
  return text;
}

Split split_pairs(std::uint64_t seed) {
  std::vector<Pair> pairs;
  for (int i = 0; i < kPairs; ++i) pairs.push_back({i / 100, i % 100});
  Rng rng(seed);
  shuffle(pairs, rng);
  return {{pairs.begin() + kHeldOut, pairs.end()}, {pairs.begin(), pairs.begin() + kHeldOut}};
}

void Batches::get(std::int64_t step, std::int64_t count, std::vector<std::int32_t>& contexts,
                  std::vector<std::int32_t>& answers) {
  contexts.clear();
  answers.clear();
  for (std::int64_t i = 0; i < count; ++i) {
    const Tokens tokens = encode(pairs_[order_.at(step * count + i)]);
    contexts.insert(contexts.end(), tokens.begin(), tokens.begin() + kContext);
    answers.insert(answers.end(), tokens.begin() + kPrompt, tokens.end());
  }
}

}  // namespace tensorgrad::cli::addition
