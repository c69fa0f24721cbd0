// Reading and adding at places that are data.
#include "ops/rule.hpp"

namespace tensorgrad {

namespace {
void check_indices(const Rule& r, int i) {
  if (r.type(i).dtype != i32) r.fail("indices must be i32, not " + r.type(i).to_string() + ".");
}
}  // namespace

// out[.., i, ..] = x[.., idx[i], ..];  dx is g scattered back
Types infer_IndexSelect(const Rule& r) {
  const int axis = r.attr<AxisAttr>().axis;
  check_indices(r, 1);
  if (r.type(1).shape.rank() != 1)
    r.fail("indices must have one axis, not " + r.type(1).to_string() + ".");
  if (axis < 0 || axis >= r.type(0).shape.rank()) r.fail("the axis is out of range.");
  Shape shape = r.type(0).shape;
  shape.set(axis, r.type(1).shape.dim(0));
  return {{r.type(0).dtype, shape}};
}
void grad_IndexSelect(GradContext& c) {
  const int axis = c.attr<AxisAttr>().axis;
  if (c.needs(0))
    c.give(0, scatter_add(zeros(c.input(0).shape()), c.input(1), c.cotangent(), axis));
}
Tensor index_select(Operand x, const Tensor& indices, int axis) {
  const Tensor tensor = as_tensor("index_select", x, f32);
  axis = resolve_axis("index_select", axis, tensor.rank(), tensor.type(), x.site());
  return emit(OpKind::IndexSelect, {tensor, indices}, AxisAttr{axis}, x.site());
}

Tensor embedding(Operand table, const Tensor& indices) {
  SiteScope scope(table.site());
  const Tensor rows = as_tensor("embedding", table, f32);
  check_operand("embedding", indices, table.site());
  if (rows.rank() < 1) fail_op("embedding", "the table needs at least one axis.", table.site());
  if (indices.dtype() != i32) {
    fail_op(
        "embedding",
        "indices must be i32, not " + indices.type().to_string() + ". Declare the input as i32.",
        table.site());
  }
  Shape shape = indices.shape();
  for (int axis = 1; axis < rows.rank(); ++axis) shape.push_back(rows.shape().dim(axis));
  return reshape(index_select(rows, reshape(indices, {-1}), 0), shape);
}

// out[p] = x[p with its axis replaced by idx[p]];  dx[j] = Σ_k g[k] where idx[k] = j
Types infer_TakeAlongAxis(const Rule& r) {
  const int axis = r.attr<AxisAttr>().axis;
  check_indices(r, 1);
  const Shape &x = r.type(0).shape, &idx = r.type(1).shape;
  bool fits = x.rank() == idx.rank() && axis >= 0 && axis < x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == axis || x[i] == idx[i];
  if (!fits) {
    r.fail("indices " + r.type(1).to_string() + " do not fit " + r.type(0).to_string() +
           ": all axes but axis " + std::to_string(axis) + " must be equal.");
  }
  return {{r.type(0).dtype, idx}};
}
void grad_TakeAlongAxis(GradContext& c) {
  if (!c.needs(0)) return;
  const int axis = c.attr<AxisAttr>().axis;
  const Tensor x = c.input(0), idx = c.input(1), g = c.cotangent();
  if (idx.shape()[axis] == 1) {
    c.give(0, where(equal(iota(x.shape(), axis), idx), g, 0.0));
    return;
  }
  // [.., j, k, ..]: k runs over the reads, j over the places read from.
  const Tensor gk = expand_dims(g, axis), ik = expand_dims(idx, axis);
  Shape pairs = gk.shape();
  pairs.set(axis, x.shape().dim(axis));
  c.give(0, sum(where(equal(iota(pairs, axis), ik), gk, 0.0), {axis + 1}));
}
Tensor take_along_axis(Operand x, const Tensor& indices, int axis) {
  const Tensor tensor = as_tensor("take_along_axis", x, f32);
  axis = resolve_axis("take_along_axis", axis, tensor.rank(), tensor.type(), x.site());
  return emit(OpKind::TakeAlongAxis, {tensor, indices}, AxisAttr{axis}, x.site());
}

Tensor one_hot(Operand indices, std::int64_t depth, DType dtype) {
  SiteScope scope(indices.site());
  const Tensor idx = as_tensor("one_hot", indices, i32);
  if (idx.dtype() != i32)
    fail_op("one_hot", "indices must be i32, not " + idx.type().to_string() + ".", indices.site());
  Shape shape = idx.shape();
  shape.push_back(depth);
  return cast(equal(iota(shape, -1), expand_dims(idx, -1)), dtype);
}

// x with src's slices added at idx;  dx = g,  dsrc = g read at idx
Types infer_ScatterAdd(const Rule& r) {
  const int axis = r.attr<AxisAttr>().axis;
  check_indices(r, 1);
  const Shape &x = r.type(0).shape, &src = r.type(2).shape;
  bool fits = r.type(0).dtype == f32 && r.type(2).dtype == f32 && r.type(1).shape.rank() == 1 &&
              x.rank() == src.rank() && axis >= 0 && axis < x.rank() &&
              src[axis] == r.type(1).shape[0];
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == axis || x[i] == src[i];
  if (!fits) {
    r.fail("x " + r.type(0).to_string() + ", indices " + r.type(1).to_string() + " and src " +
           r.type(2).to_string() + " do not fit along axis " + std::to_string(axis) +
           ": indices have one axis, as long as src's, and the other axes of src are those of x "
           "(f32).");
  }
  return {r.type(0)};
}
void grad_ScatterAdd(GradContext& c) {
  c.give(0, c.cotangent());
  if (c.needs(2)) c.give(2, index_select(c.cotangent(), c.input(1), c.attr<AxisAttr>().axis));
}
Tensor scatter_add(Operand x, const Tensor& indices, const Tensor& src, int axis) {
  const Tensor tensor = as_tensor("scatter_add", x, f32);
  axis = resolve_axis("scatter_add", axis, tensor.rank(), tensor.type(), x.site());
  return emit(OpKind::ScatterAdd, {tensor, indices, src}, AxisAttr{axis}, x.site());
}

}  // namespace tensorgrad
