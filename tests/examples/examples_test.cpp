// The examples, as programs: each runs and prints what it promises.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <sstream>

#include "cli/mnist_files.hpp"
#include "cli/run_program.hpp"

namespace tensorgrad::test {
namespace {

/// What an example prints; it must end well and complain about nothing.
std::string output_of(const std::string& name) {
  // One thread adds in the same order on every machine, and waits for no other test's.
  setenv("TENSORGRAD_THREADS", "1", 1);
  const ProgramResult result = run_program("example_" + name, {});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return result.out;
}

/// The number after `label`.
double number_after(const std::string& text, const std::string& label) {
  const std::size_t at = text.find(label);
  if (at == std::string::npos) {
    ADD_FAILURE() << "no \"" << label << "\" in\n" << text;
    return NAN;
  }
  return std::strtod(text.c_str() + at + label.size(), nullptr);
}

void expect_in_order(const std::string& text, const std::vector<std::string>& parts) {
  std::size_t at = 0;
  for (const std::string& part : parts) {
    const std::size_t found = text.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << "\n" << text;
    at = found + part.size();
  }
}

TEST(Examples, SineLearnsTheSine) {
  const std::string out = output_of("sine");
  float loss = -1, at_half = 0;
  ASSERT_EQ(std::sscanf(out.c_str(), "loss %f, sin(0.5) ~ %f", &loss, &at_half), 2) << out;
  EXPECT_GE(loss, 0);
  EXPECT_LT(loss, 1e-3);
  EXPECT_NEAR(at_half, std::sin(0.5), 0.05);
}

TEST(Examples, MambaWritesTheTextItHasRead) {
  const std::string out = output_of("mamba");
  EXPECT_LT(number_after(out, "loss "), 0.5);
  expect_in_order(out,
                  {"One for sorrow,\nTwo for mirth,\nThree for a funeral\nAnd four for birth.\n",
                   "Five for heaven,\nSix for hell", " kernels a byte"});
}

TEST(Examples, StagesPrintsEveryStageAndTrains) {
  const std::string out = output_of("stages");
  expect_in_order(
      out,
      {"== trace\n", "f32[16, 8] = matmul(", "stages.cpp:", "== parameters\n", "hidden.W [4, 8]",
       "out.b [3]", "== trace_into: ", "== append_grad: ", "is d loss / d hidden.W",
       "== append_optimizer: ", "== run_passes: ", "state_input(\"steps\")", "adam_update(",
       "== plan: kernels and buffers\n", "== memory\n", "kernels a step",
       "== emit_kernels: ", "@compute", "== create_runtime, run\n"});
  EXPECT_LT(number_after(out, "step 40: loss "), 0.05);
}

TEST(Examples, FrozenBackboneGainsByWhatItLearnedBefore) {
  const std::string out = output_of("frozen_backbone");
  expect_in_order(out, {"eight waves learned", "from the file, without head.W head.b; moments: "});
  EXPECT_EQ(out.find("is not as it should be"), std::string::npos) << out;
  const double learned = number_after(out, "error "), random = number_after(out, "backbone, ");
  EXPECT_LT(learned, 0.01) << out;
  EXPECT_GT(random, 10 * learned) << out;
}

TEST(Examples, AttentionMapsAddsAndDrawsEveryHead) {
  const std::string out = output_of("attention_maps");
  expect_in_order(out, {"step 400: loss ", "come, each from what stands before it, 5, 8 and 0\n",
                        "block 1\n", "head 1", "head 4", "4 7 + 3 8 = 5 8", "block 2\n", "head 4"});
  EXPECT_LT(number_after(out, "step 400: loss "), 0.2);
  // The first place can see only itself: one dark square a head, and nothing else in the row.
  std::istringstream lines(out);
  int first_rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("  4 ", 0) != 0) continue;
    ++first_rows;
    std::istringstream words(line);
    for (int head = 0; head < 4; ++head) {
      std::string place, seen;
      words >> place >> seen;
      EXPECT_EQ(place, "4") << line;
      EXPECT_EQ(seen, "██") << line;
    }
    std::string more;
    EXPECT_FALSE(words >> more) << line;
  }
  EXPECT_EQ(first_rows, 2);
}

TEST(Examples, CharGptLearnsARhyme) {
  const ProgramResult result = run_program("example_char_gpt", {"100"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_GT(number_after(result.out, "step 1: loss "), 2.5) << result.out;
  EXPECT_LT(number_after(result.out, "step 100: loss "), 1.5) << result.out;
  // It goes on where the rhyme begins.
  const std::size_t sample = result.out.find("\n\nThis is ");
  ASSERT_NE(sample, std::string::npos) << result.out;
  EXPECT_EQ(result.out.size() - sample, 2u + 200u + 1u) << result.out;
}

TEST(Examples, CharGptTakesAFileAndRefusesAnEmptyOne) {
  const ScratchFolder folder;
  const std::string path = folder / "text";
  std::ofstream(path) << "abcabcabcabcabcabcabcabcabcabcabcabcabcabc";
  EXPECT_EQ(run_program("example_char_gpt", {"2", path}).status, 0);
  std::ofstream(path, std::ios::trunc) << "";
  EXPECT_EQ(run_program("example_char_gpt", {"2", path}).status, 2);
}

TEST(Examples, MnistCnnReadsDrawnDigits) {
  const ProgramResult result = run_program("example_mnist_cnn", {"150"});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::size_t last = result.out.rfind('\n', result.out.size() - 2);
  ASSERT_NE(last, std::string::npos);
  EXPECT_GT(std::stod(result.out.substr(last + 1)), 95) << result.out;
  EXPECT_NE(result.out.find(" % of 1000 test digits are right"), std::string::npos) << result.out;
}

TEST(Examples, MnistCnnReadsFiles) {
  const ScratchFolder folder;
  write_mnist(folder / "mnist", digits(40), digits(33));
  const ProgramResult result = run_program("example_mnist_cnn", {"60", folder / "mnist"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("100.00 % of 33 test digits are right"), std::string::npos)
      << result.out;
  EXPECT_EQ(run_program("example_mnist_cnn", {"1", folder / "nothing"}).status, 1);
}

/// Where the dark of the pictures drawn side by side in `lines` has its centre, left to right.
std::vector<double> centres(const std::vector<std::string>& lines, std::size_t width) {
  std::vector<double> sums, counts;
  for (const std::string& line : lines) {
    std::size_t column = 0;
    for (std::size_t at = 0; at < line.size(); ++column) {
      const std::size_t picture = column / (width + 2);
      sums.resize(std::max(sums.size(), picture + 1));
      counts.resize(sums.size());
      const bool ink = line.compare(at, 3, "█") == 0;
      sums[picture] += ink ? static_cast<double>(column % (width + 2)) : 0;
      counts[picture] += ink;
      // Characters of UTF-8 are one byte that is no continuation, then those that are.
      do {
        ++at;
      } while (at < line.size() && (static_cast<unsigned char>(line[at]) & 0xc0) == 0x80);
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] /= counts[i];
  return sums;
}

TEST(Examples, VaeDrawsFromTwoNumbersWhatItSaw) {
  const std::string out = output_of("vae");
  EXPECT_LT(number_after(out, "a pixel is off by "), 0.02) << out;
  EXPECT_GT(number_after(out, "+ place "), 1) << "the two numbers say nothing\n" << out;
  // The plane's corners are discs in different places.
  std::istringstream text(out.substr(out.find("the plane of")));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  ASSERT_EQ(lines.size(), 1u + 5 * 6);
  const std::vector<double> top = centres({lines.begin() + 1, lines.begin() + 7}, 12);
  const std::vector<double> bottom = centres({lines.end() - 6, lines.end()}, 12);
  double left = 12, right = 0;
  for (const double corner : {top[0], top[4], bottom[0], bottom[4]}) {
    ASSERT_TRUE(std::isfinite(corner)) << "a corner without a disc\n" << out;
    left = std::min(left, corner);
    right = std::max(right, corner);
  }
  EXPECT_GT(right - left, 2) << out;
}

}  // namespace
}  // namespace tensorgrad::test
