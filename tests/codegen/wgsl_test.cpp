// WGSL as it is printed. The files in golden/ are what the printer gave when somebody last looked
// at them: TENSORGRAD_UPDATE_GOLDEN=1 writes them anew, for the difference to be read.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/wgsl/print.hpp"
#include "support/kernel_builder.hpp"
#include "support/sample_kernels.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad {
namespace {

using testing::KernelBuilder;

std::string golden_path(const std::string& name) {
  return std::string(TENSORGRAD_SOURCE_DIR) + "/tests/codegen/golden/" + name + ".wgsl";
}

Kernel sample(const std::string& name) {
  for (Kernel& kernel : testing::sample_kernels()) {
    if (kernel.name == name) return std::move(kernel);
  }
  throw std::runtime_error("no sample kernel " + name);
}

/// What a golden file holds: the source and how it is launched.
std::string listing(const WgslKernel& kernel) {
  std::ostringstream text;
  text << kernel.source << "// " << kernel.grid[0] << " x " << kernel.grid[1] << " x "
       << kernel.grid[2] << " workgroups of " << kernel.workgroup_size << " threads, "
       << kernel.workgroup_bytes << " bytes shared\n";
  return text.str();
}

class Golden : public ::testing::TestWithParam<const char*> {};

TEST_P(Golden, PrintsAsBefore) {
  const std::string name = GetParam(), printed = listing(emit_wgsl(sample(name), {}));
  if (const char* update = std::getenv("TENSORGRAD_UPDATE_GOLDEN");
      update && std::string_view(update) == "1") {
    std::ofstream(golden_path(name)) << printed;
    return;
  }
  std::ifstream file(golden_path(name));
  ASSERT_TRUE(file) << golden_path(name) << " is missing; TENSORGRAD_UPDATE_GOLDEN=1 writes it.";
  std::ostringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(printed, expected.str()) << "TENSORGRAD_UPDATE_GOLDEN=1 takes this as the new text.";
}

INSTANTIATE_TEST_SUITE_P(
    Wgsl, Golden,
    ::testing::Values("add_relu_5x7", "exponentials", "bool_ops", "constants", "pad", "gather",
                      "flip_concat", "permute", "in_place", "softmax_70x3", "softmax_2x1000",
                      "softmax_2x2500", "layer_norm_130x33", "reductions_5x10", "column_sum_40x100",
                      "window_max", "matmul_64x64x64_add_relu",
                      "matmul_33x31x37_batch3_nt_add_relu", "matmul_1x50x40", "scatter_10x5",
                      "scatter_12x33_last", "matmul_20x24x300_add_relu"),
    [](const auto& info) { return std::string(info.param); });

TEST(Wgsl, PrintsTheSameTwice) {
  for (const Kernel& kernel : testing::sample_kernels()) {
    const WgslKernel a = emit_wgsl(kernel, {}), b = emit_wgsl(kernel, {});
    EXPECT_EQ(a.source, b.source);
    EXPECT_EQ(a.bindings, b.bindings);
  }
}

TEST(Wgsl, KeepsToTheLimitsItIsGiven) {
  const WgslLimits small{
      .invocations = 64, .workgroup_bytes = 4096, .workgroups = 5, .bindings = 8};
  for (const Kernel& kernel : testing::sample_kernels()) {
    WgslKernel printed;
    try {
      printed = emit_wgsl(kernel, small);
    } catch (const DeviceError& error) {  // too many points for 5 x 5 x 5 workgroups
      EXPECT_NE(std::string(error.what()).find(kernel.name), std::string::npos);
      continue;
    }
    EXPECT_LE(printed.workgroup_size, small.invocations) << kernel.name;
    EXPECT_LE(printed.workgroup_bytes, small.workgroup_bytes) << kernel.name;
    for (std::uint32_t workgroups : printed.grid)
      EXPECT_LE(workgroups, small.workgroups) << kernel.name;
  }
}

TEST(Wgsl, FoldsManyWorkgroupsOverTheDimensionsOfTheGrid) {
  const auto copy = [](std::int64_t n) {
    KernelBuilder b("copy");
    const Index i = b.outer(n);
    const int x = b.input(n);
    b.store(b.output(n), i, b.load(x, i));
    return emit_wgsl(b.done(), {});
  };
  const WgslKernel large = copy(256 * 65535 + 1);  // an odd number: no quads
  EXPECT_EQ(large.grid, (std::array<std::uint32_t, 3>{32768, 2, 1}));
  EXPECT_NE(large.source.find("let block = group.x + 32768u * group.y;"), std::string::npos);
  const WgslKernel small = copy(100);
  EXPECT_EQ(small.grid, (std::array<std::uint32_t, 3>{2, 1, 1}));
}

TEST(Wgsl, RefusesMoreBuffersThanTheDeviceHas) {
  KernelBuilder b("many_inputs");
  const Index i = b.outer(4);
  ExprId sum = b.load(b.input(4), i);
  for (int k = 0; k < 8; ++k) sum = b.op(OpKind::Add, {sum, b.load(b.input(4), i)});
  b.store(b.output(4), i, sum);
  try {
    emit_wgsl(b.done(), {});
    FAIL() << "10 buffers were accepted";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(),
                 "webgpu: the kernel \"many_inputs\" needs 10 buffers; the device allows 8.");
  }
}

TEST(Wgsl, JoinsBindingsOfOneBufferThatOverlap) {
  const WgslKernel printed = emit_wgsl(sample("in_place"), {});
  // x and its new value are one binding; the other part of the buffer must be writable too.
  ASSERT_EQ(printed.bindings.size(), 3u);
  EXPECT_EQ(printed.bindings[0], (WgslBinding{0, 0, 50, f32, true}));
  EXPECT_EQ(printed.bindings[1], (WgslBinding{0, 128, 50, f32, true}));
  EXPECT_EQ(printed.bindings[2], (WgslBinding{3, 0, 50, f32, true}));
}

TEST(Wgsl, KnowsTheNodeOfALine) {
  const WgslKernel printed = emit_wgsl(sample("add_relu_5x7"), {});
  std::istringstream lines(printed.source);
  std::size_t number = 0, found = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find("let relu3 =") == std::string::npos) continue;
    EXPECT_EQ(printed.node_at(number), 3);
    ++found;
  }
  EXPECT_EQ(found, 1u);
  EXPECT_EQ(number, printed.line_nodes.size());
  EXPECT_EQ(printed.node_at(0), -1);
  EXPECT_EQ(printed.node_at(1), -1);
  EXPECT_EQ(printed.node_at(number + 1), -1);
}

TEST(Wgsl, MakesOneVariableOfAxesThatAreWalkedInOrder) {
  KernelBuilder b("copy");
  const Index i = b.outer(3), j = b.outer(4), k = b.outer(5);
  const int x = b.input(60);
  b.store(b.output(60), i * 20 + j * 5 + k, b.load(x, i * 20 + j * 5 + k));
  const std::string source = emit_wgsl(b.done(), {}).source;
  EXPECT_NE(source.find("let load0 = in0[point];"), std::string::npos) << source;
  EXPECT_EQ(source.find('/' + std::string(" 5u")), std::string::npos) << source;
}

TEST(Wgsl, TakesWideTilesForLargeProducts) {
  const WgslLimits roomy{
      .invocations = 256, .workgroup_bytes = 32768, .workgroups = 65535, .bindings = 8};
  const WgslKernel large = emit_wgsl(testing::matmul_kernel({4096, 4096, 512}), roomy);
  EXPECT_EQ(large.workgroup_size, 128u);
  EXPECT_EQ(large.grid[0], 1024u);
  const WgslKernel middle = emit_wgsl(testing::matmul_kernel({1024, 512, 512}), roomy);
  EXPECT_EQ(middle.grid[0], 128u);
}

}  // namespace
}  // namespace tensorgrad
