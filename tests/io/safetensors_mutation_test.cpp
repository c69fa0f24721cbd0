// Valid files, mutated at random: each must be read or refused with IoError, nothing else. Run it
// under the sanitizers for what does not show otherwise.
//   TENSORGRAD_FUZZ_SECONDS=60   how long (2 by default)
//   TENSORGRAD_FUZZ_SEED=123     only this seed, as printed by a failure
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <random>

#include "io/safetensors_support.hpp"

namespace tensorgrad {
namespace {

using test::Bytes;
using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t limit) { return limit ? random() % limit : 0; }

/// One change to a text: a byte, a run of bytes, or a word of the format put where it does not
/// belong.
void mutate_text(std::string& text, Random& random) {
  static const std::string kWords[] = {"0",
                                       "1",
                                       "-1",
                                       "4",
                                       "9223372036854775807",
                                       "9223372036854775808",
                                       "18446744073709551615",
                                       "18446744073709551616",
                                       "1e3",
                                       "1e999",
                                       "null",
                                       "true",
                                       "[",
                                       "]",
                                       "{",
                                       "}",
                                       ",",
                                       ":",
                                       "\"",
                                       "\\u0000",
                                       "\\ud800",
                                       "\"\"",
                                       "[]",
                                       "{}",
                                       "F32",
                                       "I64",
                                       "BOOL",
                                       "F8_E5M2",
                                       "dtype",
                                       "shape",
                                       "data_offsets",
                                       "__metadata__",
                                       "weight_map",
                                       std::string("\0", 1),
                                       "\xff",
                                       "../",
                                       "é"};
  const std::size_t at = below(random, text.size() + 1);
  const std::size_t length = below(random, std::min<std::size_t>(text.size() - at, 24) + 1);
  const std::string& word = kWords[below(random, std::size(kWords))];
  switch (below(random, 7)) {
    case 0:
      text.erase(at, length);
      break;
    case 1:
      text.insert(at, text.substr(at, length));
      break;
    case 2:
      text.insert(at, word);
      break;
    case 3:
      text.replace(at, std::min(length, word.size()), word);
      break;
    case 4:
      text.insert(below(random, text.size() + 1), text.substr(at, length));
      break;
    case 5:
      if (at < text.size()) text[at] = static_cast<char>(random());
      break;
    case 6: {  // change a digit: the numbers stay numbers
      const std::size_t digit = text.find_first_of("0123456789", at);
      if (digit != std::string::npos) text[digit] = static_cast<char>('0' + below(random, 10));
      break;
    }
  }
}

/// A valid file with a few changes. Most keep the length of the header true, so that the header and
/// not only its length is put to the test.
Bytes mutated_file(Random& random) {
  static const std::vector<Bytes> kFiles = test::valid_files();
  const Bytes& whole = kFiles[below(random, kFiles.size())];
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, whole.data(), 8);
  const std::string text(reinterpret_cast<const char*>(whole.data()), whole.size());
  std::string header = text.substr(8, header_size), data = text.substr(8 + header_size);

  for (std::size_t i = below(random, 4) + 1; i > 0; --i) {
    mutate_text(below(random, 8) == 0 ? data : header, random);
  }
  std::uint64_t length = header.size();
  if (below(random, 16) == 0) length = random() >> below(random, 64);
  if (below(random, 16) == 0) length += below(random, 5) - 2;
  return test::bytes_of(test::raw<std::uint64_t>({length}) + header + data);
}

double seconds_to_run() {
  const char* given = std::getenv("TENSORGRAD_FUZZ_SECONDS");
  return given ? std::atof(given) : 2.0;
}

/// Calls `run(random)`, which says whether the input was accepted, for seed after seed.
template <class Run>
void for_many_seeds(double seconds, Run run) {
  std::optional<std::uint64_t> only;
  if (const char* given = std::getenv("TENSORGRAD_FUZZ_SEED"))
    only = std::strtoull(given, nullptr, 10);
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::uint64_t seed = only.value_or(0), accepted = 0;
  for (; only ? seed == *only : seed < 100 || elapsed() < seconds; ++seed) {
    Random random(seed);
    try {
      accepted += run(random);
    } catch (const std::exception& error) {
      FAIL() << "TENSORGRAD_FUZZ_SEED=" << seed << ": " << error.what();
    } catch (...) {
      FAIL() << "TENSORGRAD_FUZZ_SEED=" << seed << ": something that is not an exception";
    }
  }
  std::cout << "seeds " << only.value_or(0) << " to " << seed - 1 << ": " << accepted
            << " accepted\n";
  if (!only) {
    EXPECT_GT(accepted, 0u) << "nothing was accepted: the mutations are too wild to test much";
    EXPECT_LT(accepted, seed) << "nothing was refused";
  }
}

TEST(MutatedFile, IsReadOrRefused) {
  for_many_seeds(seconds_to_run() * 0.8,
                 [](Random& random) { return test::read_everything(mutated_file(random)); });
}

TEST(MutatedIndex, IsReadOrRefused) {
  for_many_seeds(seconds_to_run() * 0.2, [](Random& random) {
    std::string text = test::valid_index();
    for (std::size_t i = below(random, 4) + 1; i > 0; --i) mutate_text(text, random);
    return test::read_index(text);
  });
}

}  // namespace
}  // namespace tensorgrad
