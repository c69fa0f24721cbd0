// What every op needs: appending nodes, errors with their place, axes and broadcasting.
#include <algorithm>
#include <cmath>

#include "ir/text.hpp"
#include "ops/rule.hpp"

namespace tensorgrad {

namespace {

std::string place(Site site) {
  const std::string text = site.to_string();
  return text.empty() ? "" : "\n  at " + text;
}

/// `mlp.fc1` of the parameter `mlp.fc1.W`, if one of the inputs is (a view of) a parameter.
std::string parameter_path(const Graph& graph, const std::vector<TensorId>& inputs) {
  for (TensorId id : inputs) {
    const Node* node = &graph.producer(id);
    while (op_class(node->op) == OpClass::View) node = &graph.producer(node->inputs.front());
    if (node->op != OpKind::ParamInput) continue;
    const std::string& name = std::get<InputAttr>(node->attrs).name;
    const auto dot = name.rfind('.');
    return "\n  in parameter path " + (dot == std::string::npos ? name : name.substr(0, dot));
  }
  return "";
}

}  // namespace

void Rule::fail(const std::string& what) const {
  throw ShapeError(std::string(to_string(op)) + ": " + what + parameter_path(graph, inputs) +
                   place(site));
}

void fail_op(const char* op, const std::string& what, Site site) {
  throw ShapeError(std::string(op) + ": " + what + place(current_site(site)));
}

void check_operand(const char* op, const Tensor& tensor, Site site) {
  if (!is_tracing()) {
    throw Error(std::string(op) +
                ": called outside of a trace. Call it inside the forward function that compile, "
                "attach or trace runs." +
                place(site));
  }
  if (tensor.spec()) {
    fail_op(op,
            "an operand is a parameter that is not part of this graph. Use the model that is "
            "passed to the forward function, not the one outside of it.",
            site);
  }
  if (!tensor.valid()) fail_op(op, "an operand is an empty tensor.", site);
  if (tensor.graph() != &current_graph()) {
    fail_op(op, "an operand belongs to another graph than the one being traced.", site);
  }
}

Tensor emit(OpKind op, const std::vector<Tensor>& inputs, Attrs attrs, Site site) {
  return emit_all(op, inputs, std::move(attrs), site).front();
}

std::vector<Tensor> emit_all(OpKind op, const std::vector<Tensor>& inputs, Attrs attrs, Site site) {
  site = current_site(site);
  std::vector<TensorId> ids;
  ids.reserve(inputs.size());
  for (const Tensor& tensor : inputs) {
    check_operand(to_string(op), tensor, site);
    ids.push_back(tensor.id());
  }
  Graph& graph = current_graph();
  const NodeId node = graph.add(op, std::move(ids), std::move(attrs), site);
  std::vector<Tensor> outputs;
  for (TensorId id : graph.node(node).outputs) outputs.emplace_back(&graph, id);
  return outputs;
}

int resolve_axis(const char* op, int axis, int rank, const TensorType& type, Site site) {
  const int positive = axis < 0 ? axis + rank : axis;
  if (positive < 0 || positive >= rank) {
    fail_op(op,
            "axis " + std::to_string(axis) + " is out of range for " + type.to_string() +
                (rank == 0 ? ", which has no axes."
                           : "; it must be between " + std::to_string(-rank) + " and " +
                                 std::to_string(rank - 1) + "."),
            site);
  }
  return positive;
}

std::vector<int> resolve_axes(const char* op, const Axes& axes, const TensorType& type, Site site) {
  std::vector<int> result;
  if (!axes.list) {
    for (int axis = 0; axis < type.shape.rank(); ++axis) result.push_back(axis);
    return result;
  }
  for (int axis : *axes.list) {
    result.push_back(resolve_axis(op, axis, type.shape.rank(), type, site));
  }
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end()) {
    fail_op(op, "an axis is named twice in " + list_text(*axes.list) + ".", site);
  }
  return result;
}

Tensor as_tensor(const char* op, const Operand& x, DType number_dtype, const Shape& number_shape) {
  if (!x.is_number()) {
    check_operand(op, x.tensor(), x.site());
    return x.tensor();
  }
  if (!is_value_of(number_dtype, x.number())) {
    fail_op(op,
            "the number " + number_text(x.number()) + " is no " + to_string(number_dtype) +
                ", as the tensor beside it. Cast the tensor to f32 first.",
            x.site());
  }
  return full(number_shape, x.number(), number_dtype, x.site());
}

Tensor float_tensor(const char* op, const Operand& x) {
  const Tensor tensor = as_tensor(op, x, f32);
  if (tensor.dtype() != f32) {
    fail_op(op, "takes f32, not " + tensor.type().to_string() + ". Use cast(x, f32) first.",
            x.site());
  }
  return tensor;
}

bool is_value_of(DType dtype, double value) {
  switch (dtype) {
    case DType::F32:
      return true;
    case DType::I32:
      return value == std::floor(value) && value >= -0x1p31 && value < 0x1p31;
    case DType::Bool:
      return value == 0 || value == 1;
  }
  return false;
}

Tensor broadcast(const Tensor& x, const Shape& shape, Site site) {
  if (x.shape() == shape) return x;
  Graph& graph = current_graph();
  const Node& producer = graph.producer(x.id());
  if (producer.op == OpKind::Constant && x.rank() == 0) {  // a number is a constant of any shape
    const auto& value = std::get<ValueAttr>(producer.attrs);
    return full(shape, value.value, value.type.dtype, site);
  }
  return emit(OpKind::BroadcastTo, {x}, ShapeAttr{shape}, site);
}

Tensor repeated(float value, const Shape& shape) {
  return broadcast_to(constant(std::vector<float>{value}, {1}), shape);
}

Pair broadcast_pair(const char* op, const Operand& a, const Operand& b) {
  const Site site = a.site();
  // A number is of the type of the tensor beside it, if there is one.
  const TensorType number = !a.is_number() && a.tensor().valid()   ? a.tensor().type()
                            : !b.is_number() && b.tensor().valid() ? b.tensor().type()
                                                                   : TensorType{};
  const Tensor x = as_tensor(op, a, number.dtype, number.shape),
               y = as_tensor(op, b, number.dtype, number.shape);
  if (x.dtype() != y.dtype()) {
    fail_op(op,
            "operands have different dtypes: lhs " + x.type().to_string() + ", rhs " +
                y.type().to_string() + ". Use cast to bring them together.",
            site);
  }
  const Shape shape = common_shape(op, x.type(), y.type(), site);
  return {broadcast(x, shape, site), broadcast(y, shape, site), site};
}

Shape common_shape(const char* op, const TensorType& x, const TensorType& y, Site site) {
  const Shape &s = x.shape, &t = y.shape;
  const int rank = std::max(s.rank(), t.rank());
  std::vector<Dim> dims(static_cast<std::size_t>(rank));
  for (int i = 0; i < rank; ++i) {
    const std::int64_t m = i < rank - s.rank() ? 1 : s[i - (rank - s.rank())];
    const std::int64_t n = i < rank - t.rank() ? 1 : t[i - (rank - t.rank())];
    if (m != n && m != 1 && n != 1) {
      fail_op(op,
              "shapes do not broadcast: " + x.to_string() + " and " + y.to_string() + " (axis " +
                  std::to_string(i - rank) + " has " + std::to_string(m) + " and " +
                  std::to_string(n) + "). Axes must be equal or 1, counted from the last.",
              site);
    }
    dims[static_cast<std::size_t>(i)] = m == 1 ? n : m;
  }
  return Shape{std::move(dims)};
}

}  // namespace tensorgrad
