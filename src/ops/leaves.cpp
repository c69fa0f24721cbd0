// Leaves: parameters, inputs and state (declared in src/trace), literals and generated values.
#include <cmath>

#include "ir/text.hpp"
#include "ops/rule.hpp"

namespace tensorgrad {

namespace {

void check_dims(const Rule& r, const TensorType& type) {
  for (const Dim& dim : type.shape) {
    if (dim.size < 0) r.fail("the shape " + type.shape.to_string() + " has a negative dimension.");
    if (dim.size == 0) {
      r.fail("the shape " + type.shape.to_string() +
             " has a dimension of 0; tensors without elements are not supported.");
    }
  }
}

}  // namespace

Types infer_ParamInput(const Rule& r) {
  const TensorType& type = r.attr<InputAttr>().type;
  check_dims(r, type);
  return {type};
}
void grad_ParamInput(GradContext&) {}

Types infer_TensorInput(const Rule& r) { return infer_ParamInput(r); }
void grad_TensorInput(GradContext&) {}

Types infer_StateInput(const Rule& r) {
  const TensorType& type = r.attr<StateAttr>().type;
  check_dims(r, type);
  return {type};
}
void grad_StateInput(GradContext&) {}

Types infer_Literal(const Rule& r) {
  const auto& a = r.attr<LiteralAttr>();
  check_dims(r, a.type);
  if (static_cast<std::int64_t>(a.data->size()) != a.type.shape.size()) {
    r.fail("the shape " + a.type.shape.to_string() + " needs " +
           std::to_string(a.type.shape.size()) + " values, but " + std::to_string(a.data->size()) +
           " are given.");
  }
  return {a.type};
}
void grad_Literal(GradContext&) {}

Types infer_Constant(const Rule& r) {
  check_dims(r, r.attr<ValueAttr>().type);
  if (!is_value_of(r.attr<ValueAttr>().type.dtype, r.attr<ValueAttr>().value)) {
    r.fail("the number " + number_text(r.attr<ValueAttr>().value) + " is no " +
           to_string(r.attr<ValueAttr>().type.dtype) + ".");
  }
  return {r.attr<ValueAttr>().type};
}
void grad_Constant(GradContext&) {}

Types infer_Iota(const Rule& r) {
  const auto& a = r.attr<IotaAttr>();
  check_dims(r, a.type);
  if (a.axis < 0 || a.axis >= a.type.shape.rank()) r.fail("the axis is out of range.");
  if (a.type.dtype == boolean) r.fail("there is no bool range; use i32 or f32.");
  return {a.type};
}
void grad_Iota(GradContext&) {}

Tensor full(Shape shape, double value, DType dtype, Site site) {
  return emit(OpKind::Constant, {}, ValueAttr{value, {dtype, std::move(shape)}}, site);
}

Tensor constant(double value, DType dtype, Site site) { return full({}, value, dtype, site); }
Tensor zeros(Shape shape, DType dtype, Site site) { return full(std::move(shape), 0, dtype, site); }
Tensor ones(Shape shape, DType dtype, Site site) { return full(std::move(shape), 1, dtype, site); }

namespace {
template <class T>
Tensor literal(const std::vector<T>& values, Shape shape, DType dtype, Site site) {
  auto data = std::make_shared<const std::vector<double>>(values.begin(), values.end());
  return emit(OpKind::Literal, {}, LiteralAttr{data, {dtype, std::move(shape)}}, site);
}
}  // namespace

Tensor constant(const std::vector<float>& values, Shape shape, Site site) {
  return literal(values, std::move(shape), f32, site);
}
Tensor constant(const std::vector<std::int32_t>& values, Shape shape, Site site) {
  return literal(values, std::move(shape), i32, site);
}

Tensor iota(Shape shape, int axis, DType dtype, Site site) {
  axis = resolve_axis("iota", axis, shape.rank(), {dtype, shape}, site);
  return emit(OpKind::Iota, {}, IotaAttr{axis, {dtype, std::move(shape)}}, site);
}

Tensor arange(std::int64_t n, DType dtype, Site site) {
  if (n <= 0)
    fail_op("arange", "the length must be positive, not " + std::to_string(n) + ".", site);
  return iota({n}, 0, dtype, site);
}

}  // namespace tensorgrad
