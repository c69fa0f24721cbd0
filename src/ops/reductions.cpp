// Reductions. The primitives drop the reduced axes; keepdims is a reshape on top.
#include <algorithm>
#include <numeric>

#include "ops/rule.hpp"

namespace tensorgrad {

namespace {

Shape without(const Shape& shape, const std::vector<int>& axes) {
  Shape result;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!std::binary_search(axes.begin(), axes.end(), axis)) result.push_back(shape.dim(axis));
  }
  return result;
}

Shape with_ones(Shape shape, const std::vector<int>& axes) {
  for (int axis : axes) shape.set(axis, 1);
  return shape;
}

Types reduced(const Rule& r) {
  if (r.type(0).dtype == boolean) r.fail("takes numbers, not " + r.type(0).to_string() + ".");
  for (int axis : r.attr<AxesAttr>().axes) {
    if (axis < 0 || axis >= r.type(0).shape.rank()) r.fail("an axis is out of range.");
  }
  return {{r.type(0).dtype, without(r.type(0).shape, r.attr<AxesAttr>().axes)}};
}

Types arg_reduced(const Rule& r) {
  if (r.type(0).dtype == boolean) r.fail("takes numbers, not " + r.type(0).to_string() + ".");
  const int axis = r.attr<AxisAttr>().axis;
  if (axis < 0 || axis >= r.type(0).shape.rank()) r.fail("the axis is out of range.");
  return {{i32, without(r.type(0).shape, {axis})}};
}

/// A reduced value brought back to the shape it was reduced from.
Tensor spread(const Tensor& reduced, const Shape& shape, const std::vector<int>& axes) {
  return broadcast_to(reshape(reduced, with_ones(shape, axes)), shape);
}

Tensor reduce(OpKind op, const char* name, const Operand& x, const ReduceOptions& options) {
  SiteScope scope(x.site());
  const Tensor tensor = as_tensor(name, x, f32);
  if (tensor.dtype() == boolean) {
    fail_op(name,
            "bool is no number: " + tensor.type().to_string() +
                ". Use cast(x, f32) or cast(x, i32) first.",
            x.site());
  }
  const std::vector<int> axes = resolve_axes(name, options.axes, tensor.type(), x.site());
  Tensor result = axes.empty() ? tensor : emit(op, {tensor}, AxesAttr{axes}, x.site());
  if (options.keepdims) result = reshape(result, with_ones(tensor.shape(), axes));
  return result;
}

Tensor arg_reduce(OpKind op, const char* name, const Operand& x, std::optional<int> axis,
                  bool keepdims) {
  SiteScope scope(x.site());
  Tensor tensor = as_tensor(name, x, f32);
  const Shape shape = tensor.shape();
  if (!axis) {
    tensor = reshape(tensor, {shape.size()});
    Tensor index = emit(op, {tensor}, AxisAttr{0}, x.site());
    return keepdims
               ? reshape(index, Shape(std::vector<Dim>(static_cast<std::size_t>(shape.rank()), 1)))
               : index;
  }
  const int positive = resolve_axis(name, *axis, shape.rank(), tensor.type(), x.site());
  Tensor index = emit(op, {tensor}, AxisAttr{positive}, x.site());
  return keepdims ? reshape(index, with_ones(shape, {positive})) : index;
}

/// The gradient of max and min: all of g to the first extremum in row-major order. The reduced axes
/// are brought last and made one, so that "first" is one index.
void grad_extremum(GradContext& c, bool is_max) {
  const Tensor x = c.input(0), g = c.cotangent();
  const std::vector<int>& axes = c.attr<AxesAttr>().axes;
  std::vector<int> perm;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!std::binary_search(axes.begin(), axes.end(), axis)) perm.push_back(axis);
  }
  perm.insert(perm.end(), axes.begin(), axes.end());
  const Tensor moved = permute(x, perm);
  const std::int64_t rows = g.shape().size();
  const Tensor flat = reshape(moved, {rows, moved.shape().size() / rows});
  const Tensor first = is_max ? argmax(flat, 1, true) : argmin(flat, 1, true);
  const Tensor hit = equal(iota(flat.shape(), 1), first);
  const Tensor flat_grad = where(hit, reshape(g, {rows, 1}), 0.0);
  std::vector<int> inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<int>(i);
  c.give(0, permute(reshape(flat_grad, moved.shape()), inverse));
}

double count(const Shape& shape, const std::vector<int>& axes) {
  double n = 1;
  for (int axis : axes) n *= static_cast<double>(shape[axis]);
  return n;
}

}  // namespace

Types infer_ReduceSum(const Rule& r) { return reduced(r); }
void grad_ReduceSum(GradContext& c) {
  c.give(0, spread(c.cotangent(), c.input(0).shape(), c.attr<AxesAttr>().axes));
}
Tensor sum(Operand x, ReduceOptions options) {
  return reduce(OpKind::ReduceSum, "sum", x, options);
}

Types infer_ReduceMax(const Rule& r) { return reduced(r); }
void grad_ReduceMax(GradContext& c) { grad_extremum(c, true); }
Tensor max(Operand x, ReduceOptions options) {
  return reduce(OpKind::ReduceMax, "max", x, options);
}

Types infer_ReduceMin(const Rule& r) { return reduced(r); }
void grad_ReduceMin(GradContext& c) { grad_extremum(c, false); }
Tensor min(Operand x, ReduceOptions options) {
  return reduce(OpKind::ReduceMin, "min", x, options);
}

// Π x;  dxᵢ = g·Π_{j≠i} xⱼ, without dividing by zero: with no zero among the factors that is y/xᵢ,
// with one it is the product of the others at the zero, with two or more it is 0.
Types infer_ReduceProd(const Rule& r) { return reduced(r); }
void grad_ReduceProd(GradContext& c) {
  const Tensor x = c.input(0);
  const std::vector<int>& axes = c.attr<AxesAttr>().axes;
  const ReduceOptions keep{Axes(axes), true};
  const Tensor zero = equal(x, 0.0), safe = where(zero, 1.0, x);
  const Tensor zeros = sum(cast(zero, f32), keep), others = prod(safe, keep);
  const Tensor g = reshape(c.cotangent(), with_ones(x.shape(), axes));
  c.give(0, g * where(equal(zeros, 0.0), others / safe,
                      where(logical_and(zero, equal(zeros, 1.0)), others, 0.0)));
}
Tensor prod(Operand x, ReduceOptions options) {
  return reduce(OpKind::ReduceProd, "prod", x, options);
}

Types infer_ArgMax(const Rule& r) { return arg_reduced(r); }
void grad_ArgMax(GradContext& c) { not_differentiable(c); }
Tensor argmax(Operand x, std::optional<int> axis, bool keepdims) {
  return arg_reduce(OpKind::ArgMax, "argmax", x, axis, keepdims);
}

Types infer_ArgMin(const Rule& r) { return arg_reduced(r); }
void grad_ArgMin(GradContext& c) { not_differentiable(c); }
Tensor argmin(Operand x, std::optional<int> axis, bool keepdims) {
  return arg_reduce(OpKind::ArgMin, "argmin", x, axis, keepdims);
}

Tensor mean(Operand x, ReduceOptions options) {
  SiteScope scope(x.site());
  const Tensor tensor = float_tensor("mean", x);
  const std::vector<int> axes = resolve_axes("mean", options.axes, tensor.type(), x.site());
  return sum(tensor, options) * (1.0 / count(tensor.shape(), axes));
}

// mean((x − mean x)²). First the first element is subtracted, which changes neither value nor
// gradient: then a mean that is huge beside the spread costs no accuracy.
Tensor var(Operand x, ReduceOptions options) {
  SiteScope scope(x.site());
  const Tensor tensor = float_tensor("var", x);
  const std::vector<int> axes = resolve_axes("var", options.axes, tensor.type(), x.site());
  Tensor first = tensor;
  for (int axis : axes) first = narrow(first, axis, 0, 1);
  const Tensor shifted = tensor - stop_gradient(first);
  const Tensor centred = shifted - mean(shifted, {Axes(axes), true});
  return mean(square(centred), {Axes(axes), options.keepdims});
}

// m + log Σ e^(x−m) with m = max x;  g·e^(x−y)
Tensor logsumexp(Operand x, ReduceOptions options) {
  SiteScope scope(x.site());
  const Tensor tensor = float_tensor("logsumexp", x);
  const std::vector<int> axes = resolve_axes("logsumexp", options.axes, tensor.type(), x.site());
  if (axes.empty()) return tensor;
  const ReduceOptions keep{Axes(axes), true};
  constexpr double kLowest = -3.4028234663852886e38;  // so that a row of −inf stays −inf, not NaN
  const Tensor m = stop_gradient(maximum(max(tensor, keep), kLowest));
  const Tensor log_sum = log(sum(exp(tensor - m), keep)), kept = m + log_sum;
  const Tensor result = options.keepdims ? kept : reshape(kept, without(tensor.shape(), axes));
  return with_gradient(result, {tensor}, [=](const Tensor& g) -> std::vector<Tensor> {
    // In this order no digits are lost where the values are large.
    return {reshape(g, kept.shape()) * exp((tensor - m) - maximum(log_sum, kLowest))};
  });
}

}  // namespace tensorgrad
