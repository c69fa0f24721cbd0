// Elementwise functions of one f32 argument. g is the cotangent, x the input, y the output.
#include "ops/rule.hpp"

namespace tensorgrad {

namespace {

Types float_unary(const Rule& r) {
  if (r.type(0).dtype != f32) {
    r.fail("takes f32, not " + r.type(0).to_string() + ". Use cast(x, f32) first.");
  }
  return {r.type(0)};
}

Tensor unary(OpKind op, const Operand& x) {
  return emit(op, {as_tensor(to_string(op), x, f32)}, NoAttrs{}, x.site());
}

}  // namespace

// √x;  g/(2y)
Types infer_Sqrt(const Rule& r) { return float_unary(r); }
void grad_Sqrt(GradContext& c) { c.give(0, c.cotangent() * 0.5 / c.output()); }
Tensor sqrt(Operand x) { return unary(OpKind::Sqrt, x); }

// 1/√x;  −g·y³/2
Types infer_Rsqrt(const Rule& r) { return float_unary(r); }
void grad_Rsqrt(GradContext& c) {
  const Tensor y = c.output();
  c.give(0, c.cotangent() * -0.5 * (y * y * y));
}
Tensor rsqrt(Operand x) { return unary(OpKind::Rsqrt, x); }

Types infer_Exp(const Rule& r) { return float_unary(r); }
void grad_Exp(GradContext& c) { c.give(0, c.cotangent() * c.output()); }
Tensor exp(Operand x) { return unary(OpKind::Exp, x); }

Types infer_Log(const Rule& r) { return float_unary(r); }
void grad_Log(GradContext& c) { c.give(0, c.cotangent() / c.input(0)); }
Tensor log(Operand x) { return unary(OpKind::Log, x); }

// log(1 + x);  g/(1 + x)
Types infer_Log1p(const Rule& r) { return float_unary(r); }
void grad_Log1p(GradContext& c) { c.give(0, c.cotangent() / (c.input(0) + 1.0)); }
Tensor log1p(Operand x) { return unary(OpKind::Log1p, x); }

// eˣ − 1;  g·(y + 1)
Types infer_Expm1(const Rule& r) { return float_unary(r); }
void grad_Expm1(GradContext& c) { c.give(0, c.cotangent() * (c.output() + 1.0)); }
Tensor expm1(Operand x) { return unary(OpKind::Expm1, x); }

Types infer_Sin(const Rule& r) { return float_unary(r); }
void grad_Sin(GradContext& c) { c.give(0, c.cotangent() * cos(c.input(0))); }
Tensor sin(Operand x) { return unary(OpKind::Sin, x); }

Types infer_Cos(const Rule& r) { return float_unary(r); }
void grad_Cos(GradContext& c) { c.give(0, -(c.cotangent() * sin(c.input(0)))); }
Tensor cos(Operand x) { return unary(OpKind::Cos, x); }

// tanh x;  g·(1 − y²)
Types infer_Tanh(const Rule& r) { return float_unary(r); }
void grad_Tanh(GradContext& c) { c.give(0, c.cotangent() * (1.0 - square(c.output()))); }
Tensor tanh(Operand x) { return unary(OpKind::Tanh, x); }

// erf x;  g·2/√π·e^(−x²)
Types infer_Erf(const Rule& r) { return float_unary(r); }
void grad_Erf(GradContext& c) {
  constexpr double kTwoOverSqrtPi = 1.1283791670955126;
  c.give(0, c.cotangent() * kTwoOverSqrtPi * exp(-square(c.input(0))));
}
Tensor erf(Operand x) { return unary(OpKind::Erf, x); }

Types infer_Floor(const Rule& r) { return float_unary(r); }
void grad_Floor(GradContext& c) { not_differentiable(c); }  // zero almost everywhere
Tensor floor(Operand x) { return unary(OpKind::Floor, x); }

// max(x, 0);  g where y > 0: the output tells, so the input need not be kept
Types infer_Relu(const Rule& r) { return float_unary(r); }
void grad_Relu(GradContext& c) { c.give(0, where(greater(c.output(), 0.0), c.cotangent(), 0.0)); }
Tensor relu(Operand x) { return unary(OpKind::Relu, x); }

// 1/(1 + e^(−x));  g·y·(1 − y)
Types infer_Sigmoid(const Rule& r) { return float_unary(r); }
void grad_Sigmoid(GradContext& c) { c.give(0, c.cotangent() * c.output() * (1.0 - c.output())); }
Tensor sigmoid(Operand x) { return unary(OpKind::Sigmoid, x); }

// log(1 + eˣ) = max(x, 0) + log1p(e^(−|x|));  g·sigmoid(x)
Types infer_Softplus(const Rule& r) { return float_unary(r); }
void grad_Softplus(GradContext& c) { c.give(0, c.cotangent() * sigmoid(c.input(0))); }
Tensor softplus(Operand x) { return unary(OpKind::Softplus, x); }

// A change of dtype. f32 → i32 truncates; anything → bool is x ≠ 0. Only f32 → f32 has a gradient.
Types infer_Cast(const Rule& r) { return {{r.attr<DTypeAttr>().dtype, r.type(0).shape}}; }
void grad_Cast(GradContext& c) {
  if (c.input(0).dtype() == f32 && c.output().dtype() == f32) c.give(0, c.cotangent());
}
Tensor cast(Operand x, DType dtype) {
  const Tensor tensor = as_tensor("cast", x, f32);
  if (tensor.dtype() == dtype) return tensor;
  return emit(OpKind::Cast, {tensor}, DTypeAttr{dtype}, x.site());
}

}  // namespace tensorgrad
