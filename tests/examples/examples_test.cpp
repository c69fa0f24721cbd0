// The examples, as programs: each runs and prints what it promises.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

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

}  // namespace
}  // namespace tensorgrad::test
