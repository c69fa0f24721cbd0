// Arithmetic: formula, shape rule and gradient of each op. g is the cotangent, y the output.
#include "ops/rule.hpp"

namespace tensorgrad {

namespace {

Types same_types(const Rule& r) {
  for (int i = 1; i < r.count(); ++i) {
    if (!(r.type(i) == r.type(0))) {
      r.fail("operands differ: " + r.type(0).to_string() + " and " + r.type(i).to_string() + ".");
    }
  }
  return {r.type(0)};
}

Types numeric(const Rule& r) {
  Types types = same_types(r);
  if (types[0].dtype == boolean) {
    r.fail("bool is no number: " + types[0].to_string() +
           ". Use cast(x, f32) or cast(x, i32) first.");
  }
  return types;
}

Tensor binary(OpKind op, const Operand& a, const Operand& b) {
  Pair p = broadcast_pair(to_string(op), a, b);
  return emit(op, {p.a, p.b}, NoAttrs{}, p.site);
}

/// Where a wins over b: 1; at ties 1/2; else 0, times g.
Tensor share(const Tensor& wins, const Tensor& ties, const Tensor& g) {
  return where(wins, g, where(ties, g * 0.5, 0.0));
}

}  // namespace

// a + b
Types infer_Add(const Rule& r) { return numeric(r); }
void grad_Add(GradContext& c) {
  c.give(0, c.cotangent());
  c.give(1, c.cotangent());
}
Tensor add(Operand a, Operand b) { return binary(OpKind::Add, a, b); }

// a − b
Types infer_Sub(const Rule& r) { return numeric(r); }
void grad_Sub(GradContext& c) {
  c.give(0, c.cotangent());
  if (c.needs(1)) c.give(1, -c.cotangent());
}
Tensor sub(Operand a, Operand b) { return binary(OpKind::Sub, a, b); }

// a · b
Types infer_Mul(const Rule& r) { return numeric(r); }
void grad_Mul(GradContext& c) {
  if (c.needs(0)) c.give(0, c.cotangent() * c.input(1));
  if (c.needs(1)) c.give(1, c.cotangent() * c.input(0));
}
Tensor mul(Operand a, Operand b) { return binary(OpKind::Mul, a, b); }

// a / b;  da = g/b,  db = −g·y/b
Types infer_Div(const Rule& r) { return numeric(r); }
void grad_Div(GradContext& c) {
  const Tensor over = c.cotangent() / c.input(1);
  if (c.needs(0)) c.give(0, over);
  if (c.needs(1)) c.give(1, -(over * c.output()));
}
Tensor div(Operand a, Operand b) { return binary(OpKind::Div, a, b); }

Types infer_Minimum(const Rule& r) { return numeric(r); }
void grad_Minimum(GradContext& c) {
  const Tensor a = c.input(0), b = c.input(1), ties = equal(a, b);
  if (c.needs(0)) c.give(0, share(less(a, b), ties, c.cotangent()));
  if (c.needs(1)) c.give(1, share(less(b, a), ties, c.cotangent()));
}
Tensor minimum(Operand a, Operand b) { return binary(OpKind::Minimum, a, b); }

Types infer_Maximum(const Rule& r) { return numeric(r); }
void grad_Maximum(GradContext& c) {
  const Tensor a = c.input(0), b = c.input(1), ties = equal(a, b);
  if (c.needs(0)) c.give(0, share(less(b, a), ties, c.cotangent()));
  if (c.needs(1)) c.give(1, share(less(a, b), ties, c.cotangent()));
}
Tensor maximum(Operand a, Operand b) { return binary(OpKind::Maximum, a, b); }

// a^b;  da = g·b·a^(b−1), 0 where b = 0;  db = g·y·log a, 0 where a ≤ 0 (no real derivative there)
Types infer_Pow(const Rule& r) {
  if (r.type(0).dtype != f32) r.fail("takes f32, not " + r.type(0).to_string() + ". Cast first.");
  return same_types(r);
}
void grad_Pow(GradContext& c) {
  const Tensor a = c.input(0), b = c.input(1), g = c.cotangent();
  if (c.needs(0)) {
    // The inner where keeps 0^(−1) from making an infinity that 0 would turn into NaN.
    const Tensor zero = equal(b, 0.0);
    c.give(0, where(zero, 0.0, g * b * pow(a, where(zero, 0.0, b - 1.0))));
  }
  if (c.needs(1)) {
    const Tensor positive = greater(a, 0.0);
    c.give(1, where(positive, g * c.output() * log(where(positive, a, 1.0)), 0.0));
  }
}
Tensor pow(Operand a, Operand b) { return binary(OpKind::Pow, a, b); }

Types infer_Neg(const Rule& r) { return numeric(r); }
void grad_Neg(GradContext& c) { c.give(0, -c.cotangent()); }
Tensor neg(Operand x) { return emit(OpKind::Neg, {as_tensor("neg", x, f32)}, NoAttrs{}, x.site()); }

Types infer_Abs(const Rule& r) { return numeric(r); }
void grad_Abs(GradContext& c) { c.give(0, c.cotangent() * sign(c.input(0))); }
Tensor abs(Operand x) { return emit(OpKind::Abs, {as_tensor("abs", x, f32)}, NoAttrs{}, x.site()); }

Types infer_Sign(const Rule& r) { return numeric(r); }
void grad_Sign(GradContext& c) { not_differentiable(c); }
Tensor sign(Operand x) {
  return emit(OpKind::Sign, {as_tensor("sign", x, f32)}, NoAttrs{}, x.site());
}

Tensor square(Operand x) { return mul(x, x); }
Tensor reciprocal(Operand x) {
  SiteScope scope(x.site());
  return div(1.0, x);
}

}  // namespace tensorgrad
