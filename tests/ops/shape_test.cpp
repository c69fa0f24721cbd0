// Views and joins by value.
#include <gtest/gtest.h>

#include "support/evaluate.hpp"

namespace tensorgrad::test {

using X = const std::vector<Tensor>&;

namespace {

const Array kTen = vector({0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
const Array kGrid{{2, 3}, {1, 2, 3, 4, 5, 6}};

Values sliced(std::int64_t start, std::int64_t end, std::int64_t step = 1) {
  return evaluate({kTen}, [=](X x) { return slice(x[0], 0, start, end, step); }).values;
}

}  // namespace

TEST(Shape, SliceIsPythons) {
  expect_near(sliced(1, 9, 3), {1, 4, 7});
  expect_near(sliced(-3, kEnd), {7, 8, 9});
  expect_near(sliced(0, -7), {0, 1, 2});
  expect_near(sliced(5, 100), {5, 6, 7, 8, 9});
  expect_near(sliced(-100, 2), {0, 1});
  expect_near(sliced(-1, kEnd, -1), {9, 8, 7, 6, 5, 4, 3, 2, 1, 0});
  expect_near(sliced(8, 1, -3), {8, 5, 2});
  expect_near(sliced(100, 6, -1), {9, 8, 7});
  expect_near(sliced(3, -100, -2), {3, 1});
}

TEST(Shape, GradientOfASliceIsAPad) {
  const auto g = [](std::int64_t start, std::int64_t end, std::int64_t step,
                    const Values& cotangent) {
    return gradients(
        {kTen}, [=](X x) { return slice(x[0], 0, start, end, step); }, cotangent)[0];
  };
  expect_near(g(1, 9, 3, {1, 2, 3}), {0, 1, 0, 0, 2, 0, 0, 3, 0, 0});
  expect_near(g(8, 1, -3, {1, 2, 3}), {0, 0, 3, 0, 0, 2, 0, 0, 1, 0});
}

TEST(Shape, NarrowTakesALength) {
  const Result r = evaluate({kGrid}, [](X x) { return narrow(x[0], 1, 1, 2); });
  EXPECT_EQ(r.type.to_string(), "f32[2, 2]");
  expect_near(r.values, {2, 3, 5, 6});
  expect_near(evaluate({kGrid}, [](X x) { return narrow(x[0], -1, -1, 1); }).values, {3, 6});
}

TEST(Shape, PadPutsAValueAround) {
  const Result r = evaluate({vector({1, 2})}, [](X x) { return pad(x[0], {{1, 2}}, 9); });
  expect_near(r.values, {9, 1, 2, 9, 9});
  expect_near(gradients({vector({1, 2})},
                        [](X x) {
                          return pad(x[0], {{1, 2}}, 9);
                        },
                        {1, 2, 3, 4, 5})[0],
              {2, 3});
}

TEST(Shape, FlipTileStackConcat) {
  expect_near(evaluate({kGrid}, [](X x) { return flip(x[0], 1); }).values, {3, 2, 1, 6, 5, 4});
  expect_near(evaluate({kGrid}, [](X x) { return flip(x[0], {0, 1}); }).values, {6, 5, 4, 3, 2, 1});
  expect_near(evaluate({vector({1, 2})},
                       [](X x) {
                         return tile(x[0], {2, 2});
                       })
                  .values,
              {1, 2, 1, 2, 1, 2, 1, 2});
  const Result stacked =
      evaluate({vector({1, 2}), vector({3, 4})}, [](X x) { return stack(x, -1); });
  EXPECT_EQ(stacked.type.to_string(), "f32[2, 2]");
  expect_near(stacked.values, {1, 3, 2, 4});
  const Result joined = evaluate({kGrid, {{2, 1}, {8, 9}}}, [](X x) { return concat(x, 1); });
  expect_near(joined.values, {1, 2, 3, 8, 4, 5, 6, 9});
}

TEST(Shape, SplitUndoesConcat) {
  expect_near(evaluate({kTen},
                       [](X x) {
                         return concat(split(x[0], {3, 1, 6}));
                       })
                  .values,
              kTen.values);
  expect_near(evaluate({kTen}, [](X x) { return split(x[0], 5)[3]; }).values, {6, 7});
}

TEST(Shape, PermuteMovesAxes) {
  expect_near(evaluate({kGrid},
                       [](X x) {
                         return permute(x[0], {1, 0});
                       })
                  .values,
              {1, 4, 2, 5, 3, 6});
  expect_near(evaluate({kGrid}, [](X x) { return swap_axes(x[0], 0, -1); }).values,
              {1, 4, 2, 5, 3, 6});
}

TEST(Shape, SumToShapeUndoesABroadcast) {
  const Result r = evaluate({{{2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}}}, [](X x) {
    return sum_to_shape(x[0], {2, 1});
  });
  expect_near(r.values, {1 + 2 + 5 + 6, 3 + 4 + 7 + 8});
}

TEST(Shape, ViewsThatChangeNothingAddNoNode) {
  Graph graph;
  trace_into(graph, [] {
    const Tensor x = tensor_input("x", {2, 3});
    EXPECT_EQ(reshape(x, {2, -1}).id(), x.id());
    EXPECT_EQ(permute(x, {0, 1}).id(), x.id());
    EXPECT_EQ(narrow(x, 1, 0, 3).id(), x.id());
    EXPECT_EQ(slice(x, 0, 0).id(), x.id());
    EXPECT_EQ(broadcast_to(x, {2, 3}).id(), x.id());
    EXPECT_EQ(sum_to_shape(x, {2, 3}).id(), x.id());
    EXPECT_EQ(squeeze(x).id(), x.id());
    EXPECT_EQ(concat({x}).id(), x.id());
  });
  EXPECT_EQ(graph.nodes().size(), 1u);
}

TEST(Shape, StaysValidWhileOpsAreAppended) {
  Graph graph;
  trace_into(graph, [] {
    Tensor x = tensor_input("x", {2, 3});
    const Shape& shape = x.shape();
    for (int i = 0; i < 1000; ++i) x = x + 1;
    EXPECT_EQ(shape, (Shape{2, 3}));
  });
}

}  // namespace tensorgrad::test
