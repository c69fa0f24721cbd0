// Ops that steer differentiation.
#include "ops/rule.hpp"

namespace tensorgrad {

Types infer_StopGradient(const Rule& r) { return {r.type(0)}; }
void grad_StopGradient(GradContext& c) { not_differentiable(c); }
Tensor stop_gradient(Operand x) {
  return emit(OpKind::StopGradient, {as_tensor("stop_gradient", x, f32)}, NoAttrs{}, x.site());
}

Tensor with_gradient(const Tensor& value, const std::vector<Tensor>& inputs,
                     std::function<std::vector<Tensor>(const Tensor&)> rule) {
  auto& customs = current_graph().custom_gradients;
  CustomGradient custom;
  bool shared = customs.count(value.id()) > 0;  // the value already has a gradient, or is an input
  for (const Tensor& input : inputs) {
    custom.inputs.push_back(input.id());
    shared = shared || input.id() == value.id();
  }
  custom.rule = std::move(rule);
  const Tensor result = shared ? stop_gradient(value) : value;
  customs.emplace(result.id(), std::move(custom));
  return result;
}

}  // namespace tensorgrad
