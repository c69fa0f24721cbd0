// Passes over matrix products and attention.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/run_plan.hpp"
#include "tensorgrad/autograd.hpp"
#include "tensorgrad/ops.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad::test {
namespace {

int count(const Graph& graph, OpKind op) {
  return static_cast<int>(std::count_if(graph.nodes().begin(), graph.nodes().end(),
                                        [&](const Node& node) { return node.op == op; }));
}

reference::Values numbers(std::int64_t n) {
  reference::Values values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<double>(i * 7919 % 1009) / 1009 - 0.5);
  return values;
}

std::shared_ptr<Graph> product(std::int64_t m, std::int64_t k, std::int64_t n) {
  return trace([=]() -> Outputs {
    return matmul(tensor_input("a", {2, m, k}), tensor_input("b", {2, k, n}));
  });
}

TEST(SplitProducts, CutsALongSumIntoPartsThatAreAdded) {
  const auto graph = product(3, 2048, 5), split = split_products(*graph, 512);
  verify(*split);
  ASSERT_EQ(count(*split, OpKind::MatMul), 1);
  EXPECT_EQ(count(*split, OpKind::ReduceSum), 1);
  for (const Node& node : split->nodes()) {
    if (node.op != OpKind::MatMul) continue;
    EXPECT_EQ(split->type(node.output()).shape, (Shape{2, 8, 3, 5}));
  }
  const std::map<std::string, reference::Values> feeds{{"a", numbers(2 * 3 * 2048)},
                                                       {"b", numbers(2 * 2048 * 5)}};
  EXPECT_EQ(difference(reference_results(*split, feeds), reference_results(*graph, feeds), 1e-12),
            "");
}

TEST(SplitProducts, LeavesShortSumsAndManyTilesAlone) {
  EXPECT_EQ(count(*split_products(*product(3, 1000, 5), 512), OpKind::ReduceSum), 0);
  EXPECT_EQ(count(*split_products(*product(4096, 2048, 1024), 512), OpKind::ReduceSum), 0);
}

TEST(Simplify, ComputesATransposedGradientInPlace) {
  const auto graph = trace([]() -> Outputs {
    const Tensor w = param_input("w", {7, 3});
    return sum(square(matmul(tensor_input("x", {4, 3}), swap_axes(w, 0, 1))));
  });
  append_grad(*graph);
  const auto simple = eliminate_dead(*simplify(*graph));
  verify(*simple);
  EXPECT_EQ(simple->producer(simple->gradients.front().tensor).op, OpKind::MatMul);
  const std::map<std::string, reference::Values> feeds{{"w", numbers(21)}, {"x", numbers(12)}};
  EXPECT_EQ(difference(reference_results(*simple, feeds), reference_results(*graph, feeds), 1e-12),
            "");
}

TEST(ExpandAttention, KeepsTheKernelWhereTheOptionsWantIt) {
  const auto graph = trace([]() -> Outputs {
    return attention(tensor_input("q", {1, 2, 9, 4}), tensor_input("k", {1, 1, 9, 4}),
                     tensor_input("v", {1, 1, 9, 4}));
  });
  PassOptions options;
  options.fused_attention = 9;
  EXPECT_EQ(count(*expand_attention(*graph, options), OpKind::Attention), 1);
  options.fused_attention = 10;
  const auto expanded = expand_attention(*graph, options);
  EXPECT_EQ(count(*expanded, OpKind::Attention), 0);
  const std::map<std::string, reference::Values> feeds{
      {"q", numbers(72)}, {"k", numbers(36)}, {"v", numbers(36)}};
  EXPECT_EQ(
      difference(reference_results(*expanded, feeds), reference_results(*graph, feeds), 1e-12), "");
}

}  // namespace
}  // namespace tensorgrad::test
