// Every device gives what the reference interpreter gives: for every op and its gradients, and for
// random graphs over all ops.
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/op_cases.hpp"
#include "support/random_graph.hpp"
#include "support/run_plan.hpp"
#include "tensorgrad/device.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad::test {
namespace {

bool quick() { return std::getenv("TENSORGRAD_TEST_QUICK") != nullptr; }

class Agreement : public ::testing::TestWithParam<const char*> {
 protected:
  Device device_ = Device::named(GetParam());  // a device that cannot be had fails the test

  std::string compare(const Graph& graph, const std::map<std::string, reference::Values>& feeds,
                      double tolerance) {
    Backend& backend = *device_.backend();
    const auto optimized = run_passes(graph, backend.target().passes);
    const auto planned = std::make_shared<const Plan>(plan(optimized, backend.target()));
    return difference(run_on_device(backend, planned, feeds), reference_results(graph, feeds),
                      tolerance);
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, Agreement, ::testing::Values("cpu", "webgpu"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Agreement, OnEveryOpAndItsGradients) {
  int left_out = 0;
  for (const OpCase& op_case : op_cases()) {
    SCOPED_TRACE(op_case.name());
    if (op_case.non_finite && std::string(GetParam()) == "webgpu") {
      ++left_out;  // WGSL lets a compiler assume that there are no infinities and NaN
      continue;
    }
    const CaseGraph made = build_case(op_case);
    EXPECT_EQ(compare(*made.graph, made.feeds, op_case.tolerance), "");
  }
  if (left_out > 0)
    std::printf("%s: %d cases with infinities or NaN left out, which WGSL does not promise\n",
                GetParam(), left_out);
}

TEST_P(Agreement, OnRandomGraphsAndTheirGradients) {
  const int count = quick() ? 40 : 500;
  for (int seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomGraph made = random_graph(static_cast<std::uint64_t>(seed));
    EXPECT_EQ(compare(*made.graph, made.feeds, 2e-4), "");
  }
}

}  // namespace
}  // namespace tensorgrad::test
