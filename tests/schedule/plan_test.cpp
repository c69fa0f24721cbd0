// Plans mean what their graphs mean: every op case and many random graphs, planned for a GPU and a
// CPU, run kernel by kernel in the plain evaluator and compared with the reference interpreter.
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/op_cases.hpp"
#include "support/quick.hpp"
#include "support/random_graph.hpp"
#include "support/run_plan.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad::test {
namespace {

// The evaluator computes in f64, but constants in a kernel are f32.
constexpr double kConstantRounding = 3e-6;

Target gpu_like() {
  Target target;
  target.name = "gpu-like";
  target.whole_buffers = true;
  target.max_bindings = 8;
  target.passes.parallelism = 64;
  target.passes.product_tiles = 264;
  target.straight_product = 64;
  target.shortest_run = 1;
  return target;
}

Target cpu_like() {
  Target target;
  target.name = "cpu-like";
  target.max_bindings = 64;
  return target;
}

/// The first kernel that writes where it reads at another point, or at one that threads share,
/// which they would race for; or whose stores overlap. Empty if there is none.
std::string overlap(const Plan& planned) {
  const auto share = [](const Binding& a, const Binding& b) {
    return a.buffer == b.buffer && a.offset < b.offset + b.elements &&
           b.offset < a.offset + a.elements;
  };
  for (const Kernel& kernel : planned.kernels) {
    const auto binding = [&](int b) { return kernel.bindings[static_cast<std::size_t>(b)]; };
    const bool shared = static_cast<int>(kernel.vars.size()) > kernel.outer_count && !kernel.matmul;
    for (const Store& store : kernel.stores) {
      const Binding to = binding(store.binding);
      for (const Expr& e : kernel.exprs) {
        if (e.kind != Expr::Kind::Load || !share(binding(e.binding), to)) continue;
        if (binding(e.binding).offset != to.offset || !(e.index == store.index) ||
            (shared && !store.inner))
          return kernel.to_string();
      }
      for (const Store& other : kernel.stores) {
        if (other.binding != store.binding && share(binding(other.binding), to))
          return kernel.to_string();
      }
    }
  }
  return "";
}

void check(const Graph& graph, const std::map<std::string, reference::Values>& feeds,
           double tolerance) {
  const Results want = reference_results(graph, feeds);
  for (const Target& target : {gpu_like(), cpu_like()}) {
    const auto optimized = run_passes(graph, target.passes);
    verify(*optimized);
    const Plan planned = plan(optimized, target);
    EXPECT_EQ(overlap(planned), "") << "on " << target.name << "\n" << planned.to_string();
    EXPECT_EQ(difference(evaluate_plan(planned, feeds), want, tolerance), "")
        << "on " << target.name << "\n"
        << graph.to_string() << planned.to_string();
  }
}

TEST(Plan, MeansWhatTheGraphMeansForEveryOpCase) {
  for (const OpCase& op_case : op_cases()) {
    SCOPED_TRACE(op_case.name());
    const CaseGraph made = build_case(op_case);
    check(*made.graph, made.feeds, kConstantRounding);
    if (HasFailure()) return;
  }
}

TEST(Plan, MeansWhatTheGraphMeansForRandomGraphs) {
  const int count = quick() ? 150 : 600;
  for (int seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomGraph made = random_graph(static_cast<std::uint64_t>(seed));
    check(*made.graph, made.feeds, kConstantRounding);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tensorgrad::test
