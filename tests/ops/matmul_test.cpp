// Matrix products: the shapes they take and give, and their values.
#include <gtest/gtest.h>

#include "support/evaluate.hpp"

namespace tensorgrad::test {

using X = const std::vector<Tensor>&;

namespace {

Array ramp(Shape shape) {
  Array array{shape, {}};
  for (std::int64_t i = 0; i < shape.size(); ++i)
    array.values.push_back(static_cast<double>(i % 7) - 3);
  return array;
}

Result product(Shape a, Shape b) {
  return evaluate({ramp(std::move(a)), ramp(std::move(b))}, [](X x) { return matmul(x[0], x[1]); });
}

}  // namespace

TEST(MatMul, TakesMatricesBatchesAndVectors) {
  EXPECT_EQ(product({5, 7}, {7, 3}).type.to_string(), "f32[5, 3]");
  EXPECT_EQ(product({2, 5, 7}, {7, 3}).type.to_string(), "f32[2, 5, 3]");
  EXPECT_EQ(product({2, 1, 4, 5}, {3, 5, 6}).type.to_string(), "f32[2, 3, 4, 6]");
  EXPECT_EQ(product({4, 5}, {3, 5, 6}).type.to_string(), "f32[3, 4, 6]");
  EXPECT_EQ(product({7}, {7, 3}).type.to_string(), "f32[3]");
  EXPECT_EQ(product({5, 7}, {7}).type.to_string(), "f32[5]");
  EXPECT_EQ(product({2, 5, 7}, {7}).type.to_string(), "f32[2, 5]");
  EXPECT_EQ(product({7}, {2, 7, 3}).type.to_string(), "f32[2, 3]");
  EXPECT_EQ(product({7}, {7}).type.to_string(), "f32[]");
}

TEST(MatMul, MultipliesRowsByColumns) {
  const std::vector<Array> args{{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{3, 2}, {7, 8, 9, 10, 11, 12}}};
  expect_near(evaluate(args, [](X x) { return matmul(x[0], x[1]); }).values, {58, 64, 139, 154});
  expect_near(
      evaluate({vector({1, 2, 3}), vector({4, 5, 6})}, [](X x) { return matmul(x[0], x[1]); })
          .values,
      {32});
}

TEST(MatMul, BatchesMultiplyEachTheirOwn) {
  const std::vector<Array> args{{{2, 1, 2}, {1, 2, 3, 4}}, {{2, 2, 1}, {5, 6, 7, 8}}};
  expect_near(evaluate(args, [](X x) { return matmul(x[0], x[1]); }).values, {17, 53});
}

TEST(MatMul, GradientsReadTheOperandsTransposed) {
  Graph graph;
  std::vector<Array> args{ramp({2, 3}), ramp({3, 4})};
  const auto g = gradients(args, [](X x) { return matmul(x[0], x[1]); });
  // With a cotangent of ones: row sums of b, column sums of a.
  Values da, db;
  for (int m = 0; m < 2; ++m) {
    for (int k = 0; k < 3; ++k) {
      double sum = 0;
      for (int n = 0; n < 4; ++n) sum += args[1].values[static_cast<std::size_t>(k * 4 + n)];
      da.push_back(sum);
    }
  }
  for (std::size_t k = 0; k < 3; ++k) {
    for (int n = 0; n < 4; ++n) db.push_back(args[0].values[k] + args[0].values[3 + k]);
  }
  expect_near(g[0], da);
  expect_near(g[1], db);
}

TEST(Linear, AddsTheBiasToEveryRow) {
  const std::vector<Array> args{{{2, 2}, {1, 2, 3, 4}}, {{2, 1}, {1, 1}}, vector({10})};
  expect_near(evaluate(args, [](X x) { return linear(x[0], x[1], x[2]); }).values, {13, 17});
  expect_near(evaluate(args, [](X x) { return linear(x[0], x[1]); }).values, {3, 7});
}

}  // namespace tensorgrad::test
