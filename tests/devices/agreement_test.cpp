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
  // Infinities and NaN too: WGSL lets a compiler assume that there are none, but those that we know
  // keep them, and one that does not should be noticed here.
  for (const OpCase& op_case : op_cases()) {
    SCOPED_TRACE(op_case.name());
    const CaseGraph made = build_case(op_case);
    EXPECT_EQ(compare(*made.graph, made.feeds, op_case.tolerance), "");
  }
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
