// What an op's shape rule and gradient are given. Each op in src/ops defines two functions,
// `infer_Kind` and `grad_Kind`; table.cpp collects them from ops.def, so a missing one does not
// link.
#pragma once

#include <string>
#include <vector>

#include "tensorgrad/graph.hpp"
#include "tensorgrad/ops.hpp"

namespace tensorgrad {

using Types = std::vector<TensorType>;

/// The arguments of a shape rule.
struct Rule {
  const Graph& graph;
  OpKind op;
  const std::vector<TensorId>& inputs;
  const Attrs& attrs;
  Site site;

  int count() const { return static_cast<int>(inputs.size()); }
  const TensorType& type(int i) const { return graph.type(inputs[static_cast<std::size_t>(i)]); }
  template <class A>
  const A& attr() const {
    return std::get<A>(attrs);
  }
  /// Throws a ShapeError: `op: what`, the parameter path if a parameter is involved, the site.
  [[noreturn]] void fail(const std::string& what) const;
};

/// The arguments of a gradient rule. It reads inputs, outputs and cotangents as tensors of the
/// graph and gives each input its share, written with public ops.
class GradContext {
 public:
  GradContext(Graph& graph, const Node& node, const std::vector<bool>& needed,
              const std::vector<Tensor>& cotangents)
      : graph_(graph), node_(node), needed_(needed), cotangents_(cotangents) {
    given_.resize(node.inputs.size());
  }
  Tensor input(int i) const { return {&graph_, node_.inputs[static_cast<std::size_t>(i)]}; }
  int input_count() const { return static_cast<int>(node_.inputs.size()); }
  Tensor output(int k = 0) const { return {&graph_, node_.outputs[static_cast<std::size_t>(k)]}; }
  /// dLoss/dOutput.
  Tensor cotangent(int k = 0) const { return cotangents_[static_cast<std::size_t>(k)]; }
  /// Whether anything wants dLoss/dInput(i): rules may skip work that nothing uses.
  bool needs(int i) const { return needed_[static_cast<std::size_t>(i)]; }
  void give(int i, const Tensor& gradient) { given_[static_cast<std::size_t>(i)] = gradient; }
  const std::vector<Tensor>& given() const { return given_; }
  template <class A>
  const A& attr() const {
    return std::get<A>(node_.attrs);
  }

 private:
  Graph& graph_;
  const Node& node_;
  const std::vector<bool>& needed_;
  const std::vector<Tensor>& cotangents_;
  std::vector<Tensor> given_;
};

using InferFn = Types (*)(const Rule&);
using GradFn = void (*)(GradContext&);

/// The gradient of an op whose derivative is zero or does not exist: nothing flows back.
void not_differentiable(GradContext& c);

/// The rule of an op's gradient.
GradFn grad_rule(OpKind op);

/// Appends a node to its inputs' graph (the current one for leaves) and gives its first output.
Tensor emit(OpKind op, const std::vector<Tensor>& inputs, Attrs attrs, Site site);
/// The same for a node of several outputs.
std::vector<Tensor> emit_all(OpKind op, const std::vector<Tensor>& inputs, Attrs attrs, Site site);

/// The error of a user-facing op whose arguments are wrong before any node is made.
[[noreturn]] void fail_op(const char* op, const std::string& what, Site site);

/// `axis` made non-negative, or an error naming `op`.
int resolve_axis(const char* op, int axis, int rank, const TensorType& type, Site site);
/// Sorted, unique, non-negative axes; all of them if `axes` names none.
std::vector<int> resolve_axes(const char* op, const Axes& axes, const TensorType& type, Site site);

/// An error naming `op` unless `tensor` can be an operand in the graph being traced.
void check_operand(const char* op, const Tensor& tensor, Site site);
/// The tensor of an operand: a number becomes a constant of the given dtype and shape.
Tensor as_tensor(const char* op, const Operand& x, DType number_dtype,
                 const Shape& number_shape = {});
/// The tensor of an operand that must be f32.
Tensor float_tensor(const char* op, const Operand& x);
/// Whether a number can be an element: any for f32, whole and in range for i32, 0 or 1 for bool.
bool is_value_of(DType dtype, double value);

/// Both operands as tensors of one dtype and one shape, by NumPy's broadcasting.
struct Pair {
  Tensor a, b;
  Site site;
};
Pair broadcast_pair(const char* op, const Operand& a, const Operand& b);
Tensor broadcast(const Tensor& x, const Shape& shape, Site site);
/// One number as a tensor, for an op that is a kernel of its own: such a kernel reads a view of the
/// number, where `full` would have to be written out for it.
Tensor repeated(float value, const Shape& shape);
/// The shape that both broadcast to, or an error naming `op`.
Shape common_shape(const char* op, const TensorType& x, const TensorType& y, Site site);

}  // namespace tensorgrad
