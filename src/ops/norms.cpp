// Normalisation over the last axis. The gain and bias are ordinary products and sums around it.
#include "ops/rule.hpp"

namespace tensorgrad {

namespace {

Tensor affine(const char* op, Tensor y, const std::optional<Tensor>& gain,
              const std::optional<Tensor>& bias, Site site) {
  for (const auto* vector : {&gain, &bias}) {
    if (!*vector) continue;
    check_operand(op, **vector, site);
    if ((*vector)->shape() != Shape{y.shape(-1)}) {
      fail_op(op,
              std::string(vector == &gain ? "the gain " : "the bias ") +
                  (*vector)->type().to_string() + " does not fit the last axis of " +
                  y.type().to_string() + ".",
              site);
    }
  }
  if (gain) y = y * *gain;
  if (bias) y = y + *bias;
  return y;
}

Tensor check_last_axis(const char* op, const Operand& x) {
  const Tensor tensor = float_tensor(op, x);
  if (tensor.rank() < 1) fail_op(op, "needs a last axis to work on, not a scalar.", x.site());
  return tensor;
}

}  // namespace

// x̂ = (x − mean)·r with r = 1/√(var + ε);  dx = r·(g − mean g − x̂·mean(g·x̂)).
// First the row's first element is subtracted: x̂ does not change, but a mean that is huge beside
// the spread costs no accuracy.
Tensor layer_norm(Operand x, const std::optional<Tensor>& gain, const std::optional<Tensor>& bias,
                  double eps) {
  SiteScope scope(x.site());
  const Tensor tensor = check_last_axis("layer_norm", x);
  const ReduceOptions row{-1, true};
  const Tensor shifted = tensor - stop_gradient(narrow(tensor, -1, 0, 1));
  const Tensor centred = shifted - mean(shifted, row);
  const Tensor r = rsqrt(mean(square(centred), row) + eps);
  const Tensor y = centred * r;
  const Tensor normed = with_gradient(y, {tensor}, [=](const Tensor& g) -> std::vector<Tensor> {
    return {r * (g - mean(g, row) - y * mean(g * y, row))};
  });
  return affine("layer_norm", normed, gain, bias, x.site());
}

// x̂ = x·r with r = 1/√(mean x² + ε);  dx = r·(g − x̂·mean(g·x̂))
Tensor rms_norm(Operand x, const std::optional<Tensor>& gain, double eps) {
  SiteScope scope(x.site());
  const Tensor tensor = check_last_axis("rms_norm", x);
  const ReduceOptions row{-1, true};
  const Tensor r = rsqrt(mean(square(tensor), row) + eps);
  const Tensor y = tensor * r;
  const Tensor normed = with_gradient(y, {tensor}, [=](const Tensor& g) -> std::vector<Tensor> {
    return {r * (g - y * mean(g * y, row))};
  });
  return affine("rms_norm", normed, gain, {}, x.site());
}

}  // namespace tensorgrad
