// Gathers and scatters by value.
#include <gtest/gtest.h>

#include "support/evaluate.hpp"

namespace tensorgrad::test {

using X = const std::vector<Tensor>&;

namespace {
const Array kTable{{3, 2}, {1, 2, 3, 4, 5, 6}};
}

TEST(Indexing, EmbeddingReadsRowsAndAddsTheirGradients) {
  const std::vector<Array> args{kTable, indices({2, 0, 2})};
  const auto f = [](X x) { return embedding(x[0], x[1]); };
  expect_near(evaluate(args, f).values, {5, 6, 1, 2, 5, 6});
  const auto g = gradients(args, f, {1, 2, 10, 20, 100, 200});
  expect_near(g[0], {10, 20, 0, 0, 101, 202});
  EXPECT_TRUE(g[1].empty());
}

TEST(Indexing, EmbeddingBackwardIsAScatterAdd) {
  Graph graph;
  trace_into(graph, [] { embedding(tensor_input("t", {3, 2}), tensor_input("i", {4}, i32)); });
  for (const Node& node : graph.nodes()) EXPECT_NE(node.op, OpKind::MatMul);
}

TEST(Indexing, OneHotOfWhatIsNoClassIsZeros) {
  expect_near(evaluate({indices({1, 3, -1})}, [](X x) { return one_hot(x[0], 3); }).values,
              {0, 1, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(evaluate({indices({1})}, [](X x) { return one_hot(x[0], 3, i32); }).type.to_string(),
            "i32[1, 3]");
}

TEST(Indexing, TakeAlongAxisReadsOnePlaceForEachIndex) {
  const std::vector<Array> args{kTable, {{2, 2}, {2, 0, 2, 1}, i32}};
  const auto f = [](X x) { return take_along_axis(x[0], x[1], 0); };
  expect_near(evaluate(args, f).values, {5, 2, 5, 4});
  expect_near(gradients(args, f, {1, 2, 3, 4})[0], {0, 2, 0, 4, 4, 0});
}

TEST(Indexing, IndexSelectTakesSlices) {
  const std::vector<Array> args{kTable, indices({1, 1, 0})};
  const auto f = [](X x) { return index_select(x[0], x[1], 1); };
  expect_near(evaluate(args, f).values, {2, 2, 1, 4, 4, 3, 6, 6, 5});
  expect_near(gradients(args, f)[0], {1, 2, 1, 2, 1, 2});
}

TEST(Indexing, ScatterAddSumsRepeatedRows) {
  const std::vector<Array> args{kTable, indices({0, 0, 2}), {{3, 2}, {10, 20, 30, 40, 50, 60}}};
  const auto f = [](X x) { return scatter_add(x[0], x[1], x[2]); };
  expect_near(evaluate(args, f).values, {41, 62, 3, 4, 55, 66});
  const auto g = gradients(args, f, {1, 2, 3, 4, 5, 6});
  expect_near(g[0], {1, 2, 3, 4, 5, 6});
  expect_near(g[2], {1, 2, 1, 2, 5, 6});
}

}  // namespace tensorgrad::test
