// The graph: the one form of a program that tracing makes and that autograd, optimizer, passes and
// scheduler work on.
//
// What a graph means
// - A node computes its outputs from its inputs and nothing else; nodes stand in topological order.
//   A tensor is written once. There is no aliasing: `reshape` and `slice` are new values, whatever
//   the scheduler makes of them.
// - Binary nodes have operands of one shape: NumPy broadcasting is spelled out by `broadcast_to`
//   nodes, which cost nothing because the scheduler turns views into index maps.
// - Floating point is IEEE single precision up to rounding: a device may contract a*b+c and may
//   reorder the terms of a sum, but always in the same way, so that two runs agree bit for bit on
//   one device. NaN propagates through arithmetic, minimum and maximum. Comparisons with NaN are
//   false. On WebGPU, where the standard lets compilers assume them away, infinities and NaN are
//   kept as far as the driver keeps them; no op of ours makes them from finite input whose result
//   is finite.
// - i32 arithmetic wraps; division truncates towards zero and x/0 is 0. A bool is 0 or 1.
// - An index out of range (embedding, take_along_axis, index_select, scatter_add) is an error on
// the
//   reference and the CPU, and reads 0 (or adds nothing) on a GPU.
// - Evaluation order is unobservable except through write-backs: all reads of a state or parameter
//   in a step see the value from before the step; write-backs take effect together at its end.
// - Nodes belong to a phase. `Phase::Gradient` makes outputs, captures and gradients;
//   `Phase::Update` turns gradients into new parameters. Between the two, gradients may be
//   accumulated or summed over machines.
// - Random numbers are keyed by seed, node, step and element, never by the order of evaluation; see
//   random.hpp.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tensorgrad/tensor.hpp"

namespace tensorgrad {

/// Every kind of node; see ops.def.
enum class OpKind : std::uint8_t {
#define OP(Kind, name, arity, Class) Kind,
#include "tensorgrad/ops.def"
#undef OP
};

/// How the scheduler treats an op; see ops.def.
enum class OpClass : std::uint8_t {
  Input,
  Generated,
  Elementwise,
  View,
  Join,
  Gather,
  Reduce,
  Contract,
  Scatter,
  Special,
  Update
};

const char* to_string(OpKind op);
OpClass op_class(OpKind op);
int op_arity(OpKind op);

// What a node knows beside its inputs.
struct NoAttrs {};
struct InputAttr {
  std::string name;
  TensorType type;
};  ///< ParamInput, TensorInput
struct StateAttr {
  std::string name;
  TensorType type;
  double init = 0;
};  ///< StateInput
struct ValueAttr {
  double value;
  TensorType type;
};  ///< Constant
struct IotaAttr {
  int axis;
  TensorType type;
};  ///< Iota: the index along an axis
struct LiteralAttr {
  std::shared_ptr<const std::vector<double>> data;
  TensorType type;
};
struct ShapeAttr {
  Shape shape;
};  ///< Reshape, BroadcastTo
struct DTypeAttr {
  DType dtype;
};  ///< Cast
struct AxesAttr {
  std::vector<int> axes;
};  ///< Reduce*: ascending, never negative
struct AxisAttr {
  int axis;
};  ///< Arg*, Concat, gathers, ScatterAdd, LinearScan
struct PermAttr {
  std::vector<int> perm;
};  ///< Permute: output axis i is input axis perm[i]
/// Slice: output index i on an axis reads input index start + i*step; the step may be negative.
struct SliceAttr {
  std::vector<std::int64_t> start, step, size;
};
/// Pad: `low` and `high` elements around an axis and `interior` between neighbours.
struct PadAttr {
  std::vector<std::int64_t> low, high, interior;
  double value = 0;
};
/// Window: axis `axis` becomes two, `count` windows of `size` elements each.
struct WindowAttr {
  int axis;
  std::int64_t size, stride, dilation, count;
};
/// Scan*: see src/ops/selective_scan.cpp.
struct ScanAttr {
  bool zoh = true;         ///< B̄ = expm1(Δa)/a·B, else Δ·B
  std::int64_t chunk = 1;  ///< time steps a chunk; the last may be shorter
};
/// Attention*: see src/ops/attention.cpp.
struct AttentionAttr {
  double scale = 1;
  bool causal = true;
};
/// AdamUpdate and SgdUpdate. Rate, bias corrections and decay factor come as a tensor (see
/// optim/update.hpp), because they change from step to step.
struct UpdateAttr {
  double beta1 = 0, beta2 = 0, eps = 0;   ///< Adam
  double momentum = 0, weight_decay = 0;  ///< SGD; weight_decay is its L2 term
  bool nesterov = false;
  bool decay = false;   ///< Whether weight decay applies to this parameter.
  double max_norm = 0;  ///< > 0: the last input is the gradients' global norm.
};

using Attrs = std::variant<NoAttrs, InputAttr, StateAttr, ValueAttr, IotaAttr, LiteralAttr,
                           ShapeAttr, DTypeAttr, AxesAttr, AxisAttr, PermAttr, SliceAttr, PadAttr,
                           WindowAttr, ScanAttr, AttentionAttr, UpdateAttr>;

/// The attributes as the printer shows them (`axes=[0, 2]`); empty if there are none. Equal text
/// means equal attributes, except for literals.
std::string to_string(const Attrs& attrs);

enum class Phase : std::uint8_t { Gradient, Update };

/// An op in the graph.
struct Node {
  OpKind op;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  Attrs attrs;
  Site site;
  Phase phase = Phase::Gradient;

  TensorId output() const { return outputs.front(); }
};

/// A value in the graph.
struct TensorInfo {
  TensorType type;
  NodeId producer = -1;
};

struct NamedTensor {
  std::string name;
  TensorId tensor = -1;
};

/// At the end of a step the value of `value` becomes the value of the leaf `destination`.
struct WriteBack {
  TensorId destination = -1;
  TensorId value = -1;
};

/// A parameter leaf, in order of declaration.
struct ParamInfo {
  std::string name;
  TensorId tensor = -1;
  bool trainable = true;
  bool decay = true;
};

/// A composed value whose gradient is better written by hand than derived node by node.
struct CustomGradient {
  std::vector<TensorId> inputs;
  /// From the cotangent of the value to the cotangents of the inputs, in their order.
  std::function<std::vector<Tensor>(const Tensor&)> rule;
};

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Appends a node; its shape rule checks the inputs and gives the types of the outputs.
  NodeId add(OpKind op, std::vector<TensorId> inputs, Attrs attrs, Site site);

  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  const TensorInfo& tensor(TensorId id) const { return tensors_[static_cast<std::size_t>(id)]; }
  const TensorType& type(TensorId id) const { return tensor(id).type; }
  const Node& producer(TensorId id) const { return node(tensor(id).producer); }
  int tensor_count() const { return static_cast<int>(tensors_.size()); }

  /// The phase that nodes appended from now on belong to.
  Phase phase = Phase::Gradient;

  bool training = true;    ///< Whether dropout drops; compile_forward traces with false.
  int random_streams = 0;  ///< How many random ops there are; see random.hpp.

  std::vector<NamedTensor> outputs;    ///< A training graph's first output is its loss.
  std::vector<NamedTensor> captures;   ///< Activations the user marked.
  std::vector<NamedTensor> gradients;  ///< Gradient of each trainable parameter, by its name.
  std::vector<WriteBack> write_backs;
  std::vector<ParamInfo> params;
  std::map<TensorId, CustomGradient> custom_gradients;  ///< By value; only append_grad reads it.

  /// The leaf (parameter, input or state) of a name, or -1.
  TensorId find_leaf(const std::string& name) const;

  /// One line a node: `%7: f32[256, 64] = matmul(%3, %5)   # mlp.cpp:12`.
  std::string to_string() const;
  /// A picture for Graphviz.
  std::string to_dot() const;

 private:
  std::vector<Node> nodes_;
  std::deque<TensorInfo> tensors_;  // a deque: `x.shape()` stays valid while ops are appended
};

/// Throws InternalError naming the first node that breaks the rules of a graph: order, arity,
/// dangling ids, types that its shape rule would not give. Passes run it in debug builds.
void verify(const Graph& graph);

/// The types an op gives for its inputs, or a ShapeError. Defined beside each op in src/ops.
std::vector<TensorType> infer(const Graph& graph, OpKind op, const std::vector<TensorId>& inputs,
                              const Attrs& attrs, const Site& site);

}  // namespace tensorgrad
