// Local rewrites. Each looks at one node and the producers of its inputs.
#include <cmath>
#include <set>

#include "ops/scalar.hpp"
#include "passes/rewrite.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad {

namespace {

class Simplifier {
 public:
  Simplifier(Graph& out, const Node& node, const std::vector<TensorId>& inputs,
             const TensorType& type)
      : out_(out), node_(node), in_(inputs), type_(type) {}

  /// The tensor that stands for the node's output, or -1 to keep the node.
  TensorId run() {
    switch (op_class(node_.op)) {
      case OpClass::Elementwise:
        return elementwise();
      case OpClass::View:
        return view();
      case OpClass::Join:
        return join();
      default:
        return -1;
    }
  }

 private:
  const Node& producer(int i) const { return out_.producer(in_[static_cast<std::size_t>(i)]); }
  bool is_constant(int i) const { return producer(i).op == OpKind::Constant; }
  double value(int i) const { return std::get<ValueAttr>(producer(i).attrs).value; }
  bool is(int i, double number) const { return is_constant(i) && value(i) == number; }
  TensorId add(OpKind op, std::vector<TensorId> inputs, Attrs attrs) {
    return out_.node(out_.add(op, std::move(inputs), std::move(attrs), node_.site)).output();
  }

  TensorId elementwise() {
    const auto arity = static_cast<int>(in_.size());
    bool all_constant = true;
    double args[3] = {0, 0, 0};
    for (int i = 0; i < arity; ++i) {
      all_constant = all_constant && is_constant(i);
      if (is_constant(i)) args[i] = value(i);
    }
    if (all_constant) {
      const double folded = apply_scalar(node_.op, out_.type(in_[0]).dtype, type_.dtype, args);
      // An infinity or NaN is left to be computed: WGSL cannot write it as a constant.
      if (std::isfinite(static_cast<float>(folded)))
        return add(OpKind::Constant, {}, ValueAttr{folded, type_});
    }
    // x + 0 is x except for the sign of −0; x·0 stays, because x may be infinite.
    switch (node_.op) {
      case OpKind::Add:
        if (is(0, 0)) return in_[1];
        if (is(1, 0)) return in_[0];
        break;
      case OpKind::Sub:
        if (is(1, 0)) return in_[0];
        break;
      case OpKind::Mul:
        if (is(0, 1)) return in_[1];
        if (is(1, 1)) return in_[0];
        if (is(0, -1)) return add(OpKind::Neg, {in_[1]}, NoAttrs{});
        if (is(1, -1)) return add(OpKind::Neg, {in_[0]}, NoAttrs{});
        break;
      case OpKind::Div:
        if (is(1, 1)) return in_[0];
        break;
      case OpKind::Pow:
        if (is(1, 1)) return in_[0];
        if (is(1, 2)) return add(OpKind::Mul, {in_[0], in_[0]}, NoAttrs{});
        if (is(1, 0.5)) return add(OpKind::Sqrt, {in_[0]}, NoAttrs{});
        break;
      case OpKind::Neg:
        if (producer(0).op == OpKind::Neg) return producer(0).inputs[0];
        break;
      case OpKind::LogicalNot:
        if (producer(0).op == OpKind::LogicalNot) return producer(0).inputs[0];
        break;
      case OpKind::Where:
        if (is_constant(0)) return value(0) != 0 ? in_[1] : in_[2];
        if (in_[1] == in_[2]) return in_[1];
        break;
      default:
        break;
    }
    return -1;
  }

  TensorId view() {
    if (node_.op == OpKind::StopGradient) return in_[0];
    if (is_constant(0) && node_.op != OpKind::Pad) {  // a constant seen differently is a constant
      return add(OpKind::Constant, {}, ValueAttr{value(0), type_});
    }
    const TensorType& from = out_.type(in_[0]);
    const Node& before = producer(0);
    switch (node_.op) {
      case OpKind::Reshape:
        if (from == type_) return in_[0];
        if (before.op == OpKind::Reshape) return reshaped(before.inputs[0]);
        break;
      case OpKind::BroadcastTo:
        if (from == type_) return in_[0];
        if (before.op == OpKind::BroadcastTo)
          return add(OpKind::BroadcastTo, {before.inputs[0]}, node_.attrs);
        break;
      case OpKind::Permute: {
        std::vector<int> perm = std::get<PermAttr>(node_.attrs).perm;
        if (before.op == OpKind::Permute) {
          const auto& inner = std::get<PermAttr>(before.attrs).perm;
          for (int& axis : perm) axis = inner[static_cast<std::size_t>(axis)];
          bool identity = true;
          for (std::size_t i = 0; i < perm.size(); ++i)
            identity = identity && perm[i] == static_cast<int>(i);
          if (identity) return before.inputs[0];
          return add(OpKind::Permute, {before.inputs[0]}, PermAttr{perm});
        }
        // Moving only axes of size 1 moves nothing in memory.
        int last = -1;
        bool in_order = true;
        for (int axis : perm) {
          if (from.shape[axis] == 1) continue;
          in_order = in_order && axis > last;
          last = axis;
        }
        if (in_order) return reshaped(in_[0]);
        break;
      }
      case OpKind::Slice:
        if (is_whole(std::get<SliceAttr>(node_.attrs), from.shape)) return in_[0];
        break;
      case OpKind::Pad:
        if (from == type_) return in_[0];
        break;
      default:
        break;
    }
    return -1;
  }

  static bool is_whole(const SliceAttr& slice, const Shape& of) {
    for (int axis = 0; axis < of.rank(); ++axis) {
      const auto k = static_cast<std::size_t>(axis);
      if (slice.step[k] != 1 || slice.size[k] != of[axis]) return false;
    }
    return true;
  }

  /// Slices of one tensor that lie one behind the other along the axis are one slice.
  TensorId join() {
    const auto axis = static_cast<std::size_t>(std::get<AxisAttr>(node_.attrs).axis);
    if (in_.size() == 1) return in_[0];
    for (int i = 0; i < static_cast<int>(in_.size()); ++i) {
      if (producer(i).op != OpKind::Slice || producer(i).inputs[0] != producer(0).inputs[0])
        return -1;
    }
    SliceAttr all = std::get<SliceAttr>(producer(0).attrs);
    for (int i = 1; i < static_cast<int>(in_.size()); ++i) {
      SliceAttr expected = all, next = std::get<SliceAttr>(producer(i).attrs);
      expected.start[axis] += all.size[axis] * all.step[axis];
      expected.size[axis] = next.size[axis];
      if (next.start != expected.start || next.step != expected.step || next.size != expected.size)
        return -1;
      all.size[axis] += next.size[axis];
    }
    const TensorId source = producer(0).inputs[0];
    if (is_whole(all, out_.type(source).shape)) return source;
    return add(OpKind::Slice, {source}, all);
  }

  TensorId reshaped(TensorId id) {
    if (out_.type(id) == type_) return id;
    return add(OpKind::Reshape, {id}, ShapeAttr{type_.shape});
  }

  Graph& out_;
  const Node& node_;
  const std::vector<TensorId>& in_;
  const TensorType& type_;
};

}  // namespace

namespace {

/// A transposed product that nothing else reads and that goes to memory as it is, such as the
/// gradient of a weight that was used transposed: (A·B)ᵀ = Bᵀ·Aᵀ needs no copy.
class TransposedProducts {
 public:
  explicit TransposedProducts(const Graph& graph)
      : uses_(static_cast<std::size_t>(graph.tensor_count())) {
    for (const Node& node : graph.nodes()) {
      for (TensorId id : node.inputs) ++uses_[static_cast<std::size_t>(id)];
    }
    for (const NamedTensor& gradient : graph.gradients) kept_.insert(gradient.tensor);
  }

  /// The product that replaces a node, or -1.
  TensorId turn(Graph& out, const Node& node, const std::vector<TensorId>& inputs) const {
    if (node.op != OpKind::Permute || !kept_.count(node.output()) ||
        uses_[static_cast<std::size_t>(node.inputs[0])] != 1)
      return -1;
    const Node product = out.producer(inputs[0]);
    const std::vector<int>& perm = std::get<PermAttr>(node.attrs).perm;
    if (product.op != OpKind::MatMul || !swaps_last_two(perm)) return -1;
    const auto add = [&](OpKind op, std::vector<TensorId> from, Attrs attrs) {
      return out.node(out.add(op, std::move(from), std::move(attrs), node.site)).output();
    };
    const TensorId a = add(OpKind::Permute, {product.inputs[0]}, PermAttr{perm});
    const TensorId b = add(OpKind::Permute, {product.inputs[1]}, PermAttr{perm});
    return add(OpKind::MatMul, {b, a}, NoAttrs{});
  }

 private:
  static bool swaps_last_two(const std::vector<int>& perm) {
    const auto rank = static_cast<int>(perm.size());
    for (int axis = 0; axis < rank; ++axis) {
      const int wanted = axis < rank - 2 ? axis : axis == rank - 2 ? rank - 1 : rank - 2;
      if (perm[static_cast<std::size_t>(axis)] != wanted) return false;
    }
    return rank >= 2;
  }

  std::vector<int> uses_;
  std::set<TensorId> kept_;
};

}  // namespace

std::shared_ptr<Graph> simplify(const Graph& graph) {
  const TransposedProducts products(graph);
  return rewrite(graph, [&](Graph& out, const Node& node, const std::vector<TensorId>& inputs) {
    if (const TensorId turned = products.turn(out, node, inputs); turned >= 0)
      return std::vector<TensorId>{turned};
    if (node.outputs.size() == 1) {
      const TensorId simple = Simplifier(out, node, inputs, graph.type(node.output())).run();
      if (simple >= 0) return std::vector<TensorId>{simple};
    }
    return keep(out, node, inputs);
  });
}

}  // namespace tensorgrad
