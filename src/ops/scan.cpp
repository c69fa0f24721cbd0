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

namespace {

/// Σ_{j ≤ i} x_j as one masked reduction over [.., i, j, ..]: little to do if the axis is short.
Tensor short_prefix(const Tensor& x, int axis) {
  const Tensor terms = expand_dims(x, axis);
  Shape pairs = terms.shape();
  pairs.set(axis, x.shape().dim(axis));
  return sum(where(less_equal(iota(pairs, axis + 1), iota(pairs, axis)), terms, 0.0), {axis + 1});
}

/// Σ_{j ≤ i} x_j. A long axis is cut into pieces, each of them is scanned, and what came before a
/// piece is a prefix of the pieces' sums: few steps one after the other, and short sums.
Tensor prefix(const Tensor& x, int axis) {
  constexpr std::int64_t kShort = 64;
  const std::int64_t n = x.shape(axis);
  if (n <= kShort) return short_prefix(x, axis);
  std::int64_t size = 1;
  while (size * size < n) size *= 2;
  const std::int64_t pieces = (n + size - 1) / size;
  const auto padded = [&](const Tensor& t, std::int64_t before, std::int64_t after) {
    std::vector<PadWidth> widths(static_cast<std::size_t>(t.rank()));
    widths[static_cast<std::size_t>(axis)] = {before, after};
    return before + after == 0 ? t : pad(t, widths);
  };
  Shape cut, row;  // [.., pieces, size, ..] and without `size`
  for (int k = 0; k < x.rank(); ++k) {
    row.push_back(k == axis ? pieces : x.shape(k));
    cut.push_back(k == axis ? pieces : x.shape(k));
    if (k == axis) cut.push_back(size);
  }
  const Tensor terms = reshape(padded(x, 0, pieces * size - n), cut);
  const Tensor inside =
      x.dtype() == f32 ? narrow(linear_scan(repeated(1, cut), terms, repeated(0, row), axis + 1),
                                axis + 1, 1, size)
                       : prefix(terms, axis + 1);
  const Tensor sums = squeeze(narrow(inside, axis + 1, size - 1, 1), axis + 1);
  const Tensor before = padded(narrow(prefix(sums, axis), axis, 0, pieces - 1), 1, 0);
  Shape whole = x.shape();
  whole.set(axis, pieces * size);
  return narrow(reshape(inside + expand_dims(before, axis + 1), whole), axis, 0, n);
}

}  // namespace

// out_i = Σ_{j ≤ i} x_j;  dx_j = Σ_{i ≥ j} g_i
Tensor cumsum(Operand x, int axis) {
  SiteScope scope(x.site());
  const Tensor tensor = as_tensor("cumsum", x, f32);
  const int at = resolve_axis("cumsum", axis, tensor.rank(), tensor.type(), x.site());
  return with_gradient(prefix(tensor, at), {tensor}, [=](const Tensor& g) -> std::vector<Tensor> {
    return {flip(prefix(flip(g, at), at), at)};
  });
}

}  // namespace tensorgrad
