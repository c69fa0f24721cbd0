// Activations composed of primitives. relu, sigmoid and softplus are primitives in unary.cpp.
#include "ir/text.hpp"
#include "ops/rule.hpp"

namespace tensorgrad {

Tensor leaky_relu(Operand operand, double alpha) {
  SiteScope scope(operand.site());
  const Tensor x = float_tensor("leaky_relu", operand);
  return where(greater(x, 0.0), x, x * alpha);
}

namespace {

// y = f(x) with f' computed beside it, from the same parts: a step then keeps the slope, not x, and
// the way back is one product.
Tensor with_slope(const Tensor& y, const Tensor& x, const Tensor& slope) {
  return with_gradient(y, {x}, [=](const Tensor& g) -> std::vector<Tensor> { return {g * slope}; });
}

}  // namespace

// x·Φ(x), Φ the normal distribution function; its slope is Φ(x) + x·φ(x) with φ = Φ'.
// The other form has Φ(x) = (1 + tanh(t(x)))/2 in its place, whose slope is 2·Φ(x)·(1 −
// Φ(x))·t'(x).
Tensor gelu(Operand operand, GeluOptions options) {
  SiteScope scope(operand.site());
  const Tensor x = float_tensor("gelu", operand);
  if (options.approximate == GeluForm::Tanh) {
    constexpr double kSqrt2OverPi = 0.7978845608028654, kCubic = 0.044715;
    const Tensor x2 = square(x);
    const Tensor below = 0.5 + 0.5 * tanh(x * (kSqrt2OverPi + (kSqrt2OverPi * kCubic) * x2));
    const Tensor steepness = 2 * kSqrt2OverPi + (6 * kSqrt2OverPi * kCubic) * x2;
    return with_slope(x * below, x, below + x * (below - below * below) * steepness);
  }
  constexpr double kSqrtHalf = 0.7071067811865476, kLogSqrt2Pi = 0.9189385332046727;
  const Tensor below = 0.5 + 0.5 * erf(x * kSqrtHalf);
  const Tensor density = exp(-0.5 * (x * x) - kLogSqrt2Pi);
  return with_slope(x * below, x, below + x * density);
}

Tensor silu(Operand operand) {
  SiteScope scope(operand.site());
  const Tensor x = float_tensor("silu", operand);
  const Tensor s = sigmoid(x), y = x * s;
  return with_slope(y, x, s + y * (1.0 - s));
}

// x for x > 0, else α(eˣ − 1). The inner where keeps expm1 of a large x out of the gradient.
Tensor elu(Operand operand, double alpha) {
  SiteScope scope(operand.site());
  const Tensor x = float_tensor("elu", operand);
  const Tensor positive = greater(x, 0.0);
  return where(positive, x, alpha * expm1(where(positive, 0.0, x)));
}

// The gradient is 1 on [lo, hi], ends included, and 0 outside.
Tensor clamp(Operand x, double lo, double hi) {
  SiteScope scope(x.site());
  if (lo > hi) {
    fail_op(
        "clamp",
        "the lower bound " + number_text(lo) + " is above the upper bound " + number_text(hi) + ".",
        x.site());
  }
  return where(less(x, lo), lo, where(greater(x, hi), hi, x));
}

}  // namespace tensorgrad
