// Activations composed of primitives. relu, sigmoid and softplus are primitives in unary.cpp.
#include "ir/text.hpp"
#include "ops/rule.hpp"

namespace tensorgrad {

Tensor leaky_relu(Operand operand, double alpha) {
  SiteScope scope(operand.site());
  const Tensor x = float_tensor("leaky_relu", operand);
  return where(greater(x, 0.0), x, x * alpha);
}

// x·Φ(x), Φ the normal distribution function
Tensor gelu(Operand operand, GeluOptions options) {
  SiteScope scope(operand.site());
  const Tensor x = float_tensor("gelu", operand);
  if (options.approximate == GeluForm::Tanh) {
    constexpr double kSqrt2OverPi = 0.7978845608028654;
    const Tensor inner = kSqrt2OverPi * (x + 0.044715 * (x * square(x)));
    return 0.5 * x * (1.0 + tanh(inner));
  }
  constexpr double kSqrtHalf = 0.7071067811865476;
  return 0.5 * x * (1.0 + erf(x * kSqrtHalf));
}

Tensor silu(Operand operand) {
  SiteScope scope(operand.site());
  const Tensor x = float_tensor("silu", operand);
  return x * sigmoid(x);
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
