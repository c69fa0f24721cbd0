// Scans along an axis.
#include "ops/rule.hpp"

namespace tensorgrad {

// h_{t+1} = a_t·h_t + b_t from h_0 = initial, all T + 1 states.  With r_T = g_T and
// r_t = g_t + a_t·r_{t+1}, itself a scan from the end: da_t = r_{t+1}·h_t, db_t = r_{t+1},
// dinitial = r_0
Types infer_LinearScan(const Rule& r) {
  const int axis = r.attr<AxisAttr>().axis;
  const TensorType &a = r.type(0), &b = r.type(1), &initial = r.type(2);
  if (axis < 0 || axis >= b.shape.rank()) r.fail("the axis is out of range.");
  Shape row, states = b.shape;
  for (int k = 0; k < b.shape.rank(); ++k) {
    if (k != axis) row.push_back(b.shape.dim(k));
  }
  if (a.dtype != f32 || b.dtype != f32 || initial.dtype != f32 || a.shape != b.shape ||
      initial.shape != row) {
    r.fail("takes factors and terms of one shape and an initial value without the axis, not " +
           a.to_string() + ", " + b.to_string() + " and " + initial.to_string() + ".");
  }
  states.set(axis, b.shape[axis] + 1);
  return {{f32, states}};
}
void grad_LinearScan(GradContext& c) {
  const int axis = c.attr<AxisAttr>().axis;
  const Tensor a = c.input(0), h = c.output(), g = c.cotangent();
  const std::int64_t steps = a.shape(axis);
  const Tensor r = flip(linear_scan(flip(a, axis), flip(narrow(g, axis, 0, steps), axis),
                                    squeeze(narrow(g, axis, steps, 1), axis), axis),
                        axis);
  const Tensor later = narrow(r, axis, 1, steps);
  c.give(0, later * narrow(h, axis, 0, steps));
  c.give(1, later);
  c.give(2, squeeze(narrow(r, axis, 0, 1), axis));
}
Tensor linear_scan(Operand a, const Tensor& b, const Tensor& initial, int axis) {
  SiteScope scope(a.site());
  const Tensor factors = float_tensor("linear_scan", a);
  const int at = resolve_axis("linear_scan", axis, factors.rank(), factors.type(), a.site());
  return emit(OpKind::LinearScan, {factors, b, initial}, AxisAttr{at}, a.site());
}

// out_i = Σ_{j ≤ i} x_j, as one masked reduction;  dx_j = Σ_{i ≥ j} g_i
Tensor cumsum(Operand x, int axis) {
  SiteScope scope(x.site());
  const Tensor tensor = as_tensor("cumsum", x, f32);
  const int at = resolve_axis("cumsum", axis, tensor.rank(), tensor.type(), x.site());
  // [.., i, j, ..]: i runs over the results, j over the terms.
  const auto prefix = [at](const Tensor& t, bool reversed) {
    const Tensor terms = expand_dims(t, at);
    Shape pairs = terms.shape();
    pairs.set(at, t.shape().dim(at));
    const Tensor i = iota(pairs, at), j = iota(pairs, at + 1);
    return sum(where(reversed ? greater_equal(j, i) : less_equal(j, i), terms, 0.0), {at + 1});
  };
  const Tensor y = prefix(tensor, false);
  return with_gradient(y, {tensor},
                       [=](const Tensor& g) -> std::vector<Tensor> { return {prefix(g, true)}; });
}

}  // namespace tensorgrad
