// Every device gives what the reference interpreter gives: for every op and its gradients, and for
// random graphs over all ops.
#include <gtest/gtest.h>

#include <cstdlib>

#include "devices/case_results.hpp"
#include "runtime/cpu/backend.hpp"
#include "support/quick.hpp"
#include "support/random_graph.hpp"

namespace tensorgrad::test {
namespace {

/// "threads" is a CPU device that shares the smallest kernel out to three.
Device open(const std::string& name) {
  if (name != "threads") return Device::named(name);  // one that cannot be had fails the test
  return Device::of(name, cpu::make_cpu_backend({.threads = 3, .share_all = true}));
}

class Agreement : public ::testing::TestWithParam<const char*> {
 protected:
  Device device_ = open(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Devices, Agreement, ::testing::Values("cpu", "threads", "webgpu"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Agreement, OnEveryOpAndItsGradients) {
  // Infinities and NaN too: WGSL lets a compiler assume that there are none, but those that we know
  // keep them, and one that does not should be noticed here.
  for (const CaseResult& result : case_results(device_)) {
    EXPECT_EQ(result.difference, "") << result.op_case->name();
  }
}

TEST_P(Agreement, OnRandomGraphsAndTheirGradients) {
  const int count = quick() ? 40 : 500;
  for (int seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomGraph made = random_graph(static_cast<std::uint64_t>(seed));
    EXPECT_EQ(device_difference(*device_.backend(), *made.graph, made.feeds, 2e-4), "");
  }
}

TEST_P(Agreement, OnResultsThatAreWrittenSideBySide) {
  // Of kernels of all kinds, of which some can write there at once and some cannot.
  const std::int64_t B = 2, T = 70, H = 3, D = 16;
  const auto graph = trace([&]() -> Outputs {
    const Tensor x = tensor_input("x", {B, T, H * D});
    const auto heads = [&](const char* name) {
      const Tensor y = matmul(x, tensor_input(name, {H * D, H * D}));
      return permute(reshape(y, {B, T, H, D}), {0, 2, 1, 3});
    };
    const Tensor mixed = attention(heads("q"), heads("k"), heads("v"), {.causal = true});
    const Tensor merged = reshape(permute(mixed, {0, 2, 1, 3}), {B, T, H * D});
    const ScanResult scan = selective_scan(ones({B, T, D}), softplus(narrow(x, -1, 0, D)),
                                           tensor_input("A_log", {D, 4}), narrow(x, -1, 0, 4),
                                           narrow(x, -1, 4, 4), zeros({D}));
    const Tensor product = matmul(x, tensor_input("w", {H * D, 32}));
    const Tensor joined = concat({merged, product, scan.y}, -1);
    return matmul(joined, tensor_input("last", {H * D + 32 + D, 5}));
  });
  EXPECT_EQ(device_difference(*device_.backend(), *graph, some_feeds(*graph), 1e-4), "");
}

}  // namespace
}  // namespace tensorgrad::test
