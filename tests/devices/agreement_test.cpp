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

}  // namespace
}  // namespace tensorgrad::test
