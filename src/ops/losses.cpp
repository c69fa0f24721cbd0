// Losses of predictions against targets of one shape (or one that broadcasts to it).
#include "ops/rule.hpp"

namespace tensorgrad {

namespace {
Tensor reduce_loss(const Tensor& loss, Reduction reduction) {
  switch (reduction) {
    case Reduction::Mean:
      return mean(loss);
    case Reduction::Sum:
      return sum(loss);
    case Reduction::None:
      return loss;
  }
  return loss;
}
}  // namespace

Tensor mse_loss(Operand prediction, Operand target, LossOptions options) {
  SiteScope scope(prediction.site());
  const Tensor p = float_tensor("mse_loss", prediction);
  return reduce_loss(square(p - target), options.reduction);
}

Tensor l1_loss(Operand prediction, Operand target, LossOptions options) {
  SiteScope scope(prediction.site());
  const Tensor p = float_tensor("l1_loss", prediction);
  return reduce_loss(abs(p - target), options.reduction);
}

// d²/2 where |d| ≤ δ, else δ(|d| − δ/2)
Tensor huber_loss(Operand prediction, Operand target, double delta, LossOptions options) {
  SiteScope scope(prediction.site());
  const Tensor p = float_tensor("huber_loss", prediction);
  if (!(delta > 0)) fail_op("huber_loss", "delta must be positive.", prediction.site());
  const Tensor d = p - target, a = abs(d);
  return reduce_loss(where(less_equal(a, delta), 0.5 * square(d), delta * (a - 0.5 * delta)),
                     options.reduction);
}

// −t·log σ(x) − (1−t)·log(1−σ(x)) = softplus(x) − t·x
Tensor binary_cross_entropy_with_logits(Operand logits, Operand target, LossOptions options) {
  SiteScope scope(logits.site());
  const Tensor x = float_tensor("binary_cross_entropy_with_logits", logits);
  return reduce_loss(softplus(x) - target * x, options.reduction);
}

}  // namespace tensorgrad
