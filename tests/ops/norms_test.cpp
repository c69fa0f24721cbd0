// Normalisation, with a mean that is huge beside the spread.
#include <gtest/gtest.h>

#include <cmath>

#include "support/evaluate.hpp"

namespace tensorgrad::test {

using X = const std::vector<Tensor>&;

TEST(LayerNorm, GivesMeanZeroAndVarianceOne) {
  const Array x{{1, 4}, {1, 2, 3, 4}};
  const double s = std::sqrt(1.25 + 1e-5);
  expect_near(evaluate({x}, [](X t) { return layer_norm(t[0]); }).values,
              {-1.5 / s, -0.5 / s, 0.5 / s, 1.5 / s});
  const std::vector<Array> args{x, vector({1, 2, 3, 4}), vector({10, 20, 30, 40})};
  expect_near(evaluate(args, [](X t) { return layer_norm(t[0], t[1], t[2]); }).values,
              {10 - 1.5 / s, 20 - 1 / s, 30 + 1.5 / s, 40 + 6 / s});
}

TEST(LayerNorm, KeepsATinyVarianceBesideALargeMean) {
  // What comes out may not depend on the mean, in value or in gradient.
  const Values spread{0, 0.015625, -0.03125, 0.0078125, 0.0234375};
  Values near = spread, far = spread;
  for (double& v : far) v += 1e12;  // the sums are exact, but a mean in double precision is not
  const auto f = [](X t) { return layer_norm(t[0]); };
  expect_near(evaluate({vector(far)}, f).values, evaluate({vector(near)}, f).values, 1e-10);
  const Values cotangent{1, -2, 0.5, 3, -1};
  expect_near(gradients({vector(far)}, f, cotangent)[0], gradients({vector(near)}, f, cotangent)[0],
              1e-10);
}

TEST(LayerNorm, OfAConstantRowIsZero) {
  expect_near(evaluate({vector({7, 7, 7})}, [](X t) { return layer_norm(t[0]); }).values,
              {0, 0, 0});
}

TEST(RmsNorm, DividesByTheRootOfTheMeanSquare) {
  const double r = std::sqrt(12.5 + 1e-6);
  expect_near(evaluate({vector({3, 4})}, [](X t) { return rms_norm(t[0]); }).values,
              {3 / r, 4 / r});
  expect_near(
      evaluate({vector({3, 4}), vector({2, 10})}, [](X t) { return rms_norm(t[0], t[1]); }).values,
      {6 / r, 40 / r});
}

}  // namespace tensorgrad::test
