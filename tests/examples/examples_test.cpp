// The examples, as programs: each runs and prints what it promises.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "cli/mnist_files.hpp"
#include "cli/run_program.hpp"

namespace tensorgrad::test {
namespace {

TEST(Examples, SineLearnsTheSine) {
  const ProgramResult result = run_program("example_sine", {});
  EXPECT_EQ(result.status, 0) << result.err;
  float loss = -1, at_half = 0;
  ASSERT_EQ(std::sscanf(result.out.c_str(), "loss %f, sin(0.5) ~ %f", &loss, &at_half), 2)
      << result.out;
  EXPECT_GE(loss, 0);
  EXPECT_LT(loss, 1e-3);
  EXPECT_NEAR(at_half, std::sin(0.5), 0.05);
}

TEST(Examples, StagesPrintsEveryStage) {
  const ProgramResult result = run_program("example_stages", {});
  EXPECT_EQ(result.status, 0) << result.err;
  std::size_t at = 0;
  // In this order.
  for (const char* part :
       {"== trace\n", "f32[16, 8] = matmul(", "stages.cpp:", "== parameters\n", "hidden.W [4, 8]",
        "out.b [3]", "== append_grad: ", "is d loss / d hidden.W",
        "== append_optimizer: ", "== run_passes: ", "adam_update(",
        "== plan: kernels and buffers\n", "== memory\n", "kernels a step"}) {
    const std::size_t found = result.out.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << "\n" << result.out;
    at = found;
  }
}

/// What stands after `label`, where it occurs last.
double number_after(const std::string& text, const std::string& label) {
  const std::size_t at = text.rfind(label);
  return at == std::string::npos ? std::nan("") : std::stod(text.substr(at + label.size()));
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

}  // namespace
}  // namespace tensorgrad::test
