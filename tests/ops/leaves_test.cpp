// Constants, ranges and literals.
#include <gtest/gtest.h>

#include "support/evaluate.hpp"

namespace tensorgrad::test {

using X = const std::vector<Tensor>&;

TEST(Leaves, ConstantsFillTheirShape) {
  expect_near(evaluate([] { return full({2, 2}, 1.5); }), {1.5, 1.5, 1.5, 1.5});
  expect_near(evaluate([] { return constant(7); }), {7});
  expect_near(evaluate([] { return zeros({3}, i32); }), {0, 0, 0});
  expect_near(evaluate([] {
                return constant(std::vector<float>{1, 2, 3, 4}, {2, 2});
              }),
              {1, 2, 3, 4});
}

TEST(Leaves, RangesCountAlongAnAxis) {
  expect_near(evaluate([] { return arange(4); }), {0, 1, 2, 3});
  expect_near(evaluate([] { return iota({2, 3}, 0); }), {0, 0, 0, 1, 1, 1});
  expect_near(evaluate([] { return iota({2, 3}, -1, f32); }), {0, 1, 2, 0, 1, 2});
}

TEST(Leaves, ANumberBesideATensorTakesItsDtype) {
  EXPECT_EQ(evaluate({indices({1, 2})}, [](X x) { return x[0] + 1; }).type.dtype, i32);
  EXPECT_EQ(evaluate({vector({1, 2})}, [](X x) { return x[0] + 1; }).type.dtype, f32);
}

TEST(Leaves, ANumberIsAConstantOfTheOtherShapeNotABroadcast) {
  Graph graph;
  trace_into(graph, [] { tensor_input("x", {2, 3}) * 2.0; });
  for (const Node& node : graph.nodes()) EXPECT_NE(node.op, OpKind::BroadcastTo);
}

}  // namespace tensorgrad::test
