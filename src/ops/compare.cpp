// Comparisons and selection. Results are bool; nothing flows back through a condition.
#include "ops/rule.hpp"

namespace tensorgrad {

namespace {

Types comparison(const Rule& r) {
  if (!(r.type(0) == r.type(1))) {
    r.fail("operands differ: " + r.type(0).to_string() + " and " + r.type(1).to_string() + ".");
  }
  return {{boolean, r.type(0).shape}};
}

Types logical(const Rule& r) {
  for (int i = 0; i < r.count(); ++i) {
    if (r.type(i).dtype != boolean) {
      r.fail("takes bool, not " + r.type(i).to_string() +
             ". Compare first, for instance with greater.");
    }
    if (r.type(i).shape != r.type(0).shape) r.fail("operands differ in shape.");
  }
  return {r.type(0)};
}

Tensor compare(OpKind op, const char* name, const Operand& a, const Operand& b) {
  Pair p = broadcast_pair(name, a, b);
  return emit(op, {p.a, p.b}, NoAttrs{}, p.site);
}

}  // namespace

Types infer_Less(const Rule& r) { return comparison(r); }
void grad_Less(GradContext& c) { not_differentiable(c); }
Tensor less(Operand a, Operand b) { return compare(OpKind::Less, "less", a, b); }
Tensor greater(Operand a, Operand b) {
  Pair p = broadcast_pair("greater", a, b);
  return emit(OpKind::Less, {p.b, p.a}, NoAttrs{}, p.site);
}

Types infer_LessEqual(const Rule& r) { return comparison(r); }
void grad_LessEqual(GradContext& c) { not_differentiable(c); }
Tensor less_equal(Operand a, Operand b) { return compare(OpKind::LessEqual, "less_equal", a, b); }
Tensor greater_equal(Operand a, Operand b) {
  Pair p = broadcast_pair("greater_equal", a, b);
  return emit(OpKind::LessEqual, {p.b, p.a}, NoAttrs{}, p.site);
}

Types infer_Equal(const Rule& r) { return comparison(r); }
void grad_Equal(GradContext& c) { not_differentiable(c); }
Tensor equal(Operand a, Operand b) { return compare(OpKind::Equal, "equal", a, b); }

Types infer_LogicalAnd(const Rule& r) { return logical(r); }
void grad_LogicalAnd(GradContext& c) { not_differentiable(c); }
Tensor logical_and(Operand a, Operand b) {
  return compare(OpKind::LogicalAnd, "logical_and", a, b);
}

Types infer_LogicalOr(const Rule& r) { return logical(r); }
void grad_LogicalOr(GradContext& c) { not_differentiable(c); }
Tensor logical_or(Operand a, Operand b) { return compare(OpKind::LogicalOr, "logical_or", a, b); }

Types infer_LogicalNot(const Rule& r) { return logical(r); }
void grad_LogicalNot(GradContext& c) { not_differentiable(c); }
Tensor logical_not(Operand x) {
  return emit(OpKind::LogicalNot, {as_tensor("logical_not", x, boolean)}, NoAttrs{}, x.site());
}

// a where the condition holds, else b
Types infer_Where(const Rule& r) {
  if (r.type(0).dtype != boolean) {
    r.fail("the condition must be bool, not " + r.type(0).to_string() +
           ". Compare first, for instance with greater(x, 0).");
  }
  if (!(r.type(1) == r.type(2)) || r.type(0).shape != r.type(1).shape) {
    r.fail("operands differ: " + r.type(0).to_string() + ", " + r.type(1).to_string() + " and " +
           r.type(2).to_string() + ".");
  }
  return {r.type(1)};
}
void grad_Where(GradContext& c) {
  if (c.needs(1)) c.give(1, where(c.input(0), c.cotangent(), 0.0));
  if (c.needs(2)) c.give(2, where(c.input(0), 0.0, c.cotangent()));
}
Tensor where(Operand condition, Operand a, Operand b) {
  const Pair values = broadcast_pair("where", a, b);
  const Tensor cond = as_tensor("where", condition, boolean);
  const Site site = condition.site();
  const Shape shape = common_shape("where", cond.type(), values.a.type(), site);
  return emit(OpKind::Where,
              {broadcast(cond, shape, site), broadcast(values.a, shape, site),
               broadcast(values.b, shape, site)},
              NoAttrs{}, site);
}

}  // namespace tensorgrad
