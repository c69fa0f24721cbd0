// Graph: appending nodes, names of ops, attributes as text.
#include "tensorgrad/graph.hpp"

#include <cstring>
#include <sstream>

#include "ir/text.hpp"

namespace tensorgrad {

const char* to_string(OpKind op) {
  switch (op) {
#define OP(Kind, name, arity, Class) \
  case OpKind::Kind:                 \
    return #name;
#include "tensorgrad/ops.def"
#undef OP
  }
  return "?";
}

OpClass op_class(OpKind op) {
  switch (op) {
#define OP(Kind, name, arity, Class) \
  case OpKind::Kind:                 \
    return OpClass::Class;
#include "tensorgrad/ops.def"
#undef OP
  }
  return OpClass::Input;
}

int op_arity(OpKind op) {
  switch (op) {
#define OP(Kind, name, arity, Class) \
  case OpKind::Kind:                 \
    return arity;
#include "tensorgrad/ops.def"
#undef OP
  }
  return 0;
}

namespace {

struct AttrsPrinter {
  std::string operator()(const NoAttrs&) const { return ""; }
  std::string operator()(const InputAttr& a) const { return '"' + a.name + '"'; }
  std::string operator()(const StateAttr& a) const {
    return '"' + a.name + '"' + (a.init != 0 ? ", init=" + number_text(a.init) : "");
  }
  std::string operator()(const ValueAttr& a) const { return number_text(a.value); }
  std::string operator()(const IotaAttr& a) const { return "axis=" + std::to_string(a.axis); }
  std::string operator()(const LiteralAttr& a) const {
    std::string text = "{";
    for (std::size_t i = 0; i < a.data->size() && i < 4; ++i) {
      text += (i ? ", " : "") + number_text((*a.data)[i]);
    }
    return text + (a.data->size() > 4 ? ", ...}" : "}");
  }
  std::string operator()(const ShapeAttr&) const { return ""; }  // the result's type says it
  std::string operator()(const DTypeAttr&) const { return ""; }
  std::string operator()(const AxesAttr& a) const { return "axes=" + list_text(a.axes); }
  std::string operator()(const AxisAttr& a) const { return "axis=" + std::to_string(a.axis); }
  std::string operator()(const PermAttr& a) const { return "perm=" + list_text(a.perm); }
  std::string operator()(const SliceAttr& a) const {
    return "start=" + list_text(a.start) + ", step=" + list_text(a.step);
  }
  std::string operator()(const PadAttr& a) const {
    return "low=" + list_text(a.low) + ", high=" + list_text(a.high) +
           ", interior=" + list_text(a.interior) + ", value=" + number_text(a.value);
  }
  std::string operator()(const WindowAttr& a) const {
    return "axis=" + std::to_string(a.axis) + ", size=" + std::to_string(a.size) +
           ", stride=" + std::to_string(a.stride) + ", dilation=" + std::to_string(a.dilation);
  }
  std::string operator()(const ScanAttr& a) const {
    return std::string(a.zoh ? "zoh" : "euler") + ", chunk=" + std::to_string(a.chunk);
  }
  std::string operator()(const AttentionAttr& a) const {
    return "scale=" + number_text(a.scale) + (a.causal ? ", causal" : "");
  }
  std::string operator()(const UpdateAttr& a) const {
    std::ostringstream text;
    if (a.beta2 != 0) {
      text << "betas=[" << number_text(a.beta1) << ", " << number_text(a.beta2)
           << "], eps=" << number_text(a.eps);
    } else {
      text << "momentum=" << number_text(a.momentum) << ", l2=" << number_text(a.weight_decay)
           << (a.nesterov ? ", nesterov" : "");
    }
    if (a.decay) text << ", decay";
    if (a.max_norm > 0) text << ", max_norm=" << number_text(a.max_norm);
    return text.str();
  }
};

}  // namespace

std::string to_string(const Attrs& attrs) { return std::visit(AttrsPrinter{}, attrs); }

NodeId Graph::add(OpKind op, std::vector<TensorId> inputs, Attrs attrs, Site site) {
  std::vector<TensorType> types = infer(*this, op, inputs, attrs, site);
  const auto id = static_cast<NodeId>(nodes_.size());
  Node node{op, std::move(inputs), {}, std::move(attrs), site, phase};
  for (TensorType& type : types) {
    node.outputs.push_back(static_cast<TensorId>(tensors_.size()));
    tensors_.push_back({std::move(type), id});
  }
  nodes_.push_back(std::move(node));
  return id;
}

TensorId Graph::find_leaf(const std::string& name) const {
  for (const Node& node : nodes_) {
    const auto* named = std::get_if<InputAttr>(&node.attrs);
    const auto* state = std::get_if<StateAttr>(&node.attrs);
    if ((named && named->name == name) || (state && state->name == name)) return node.output();
  }
  return -1;
}

void verify(const Graph& graph) {
  const auto fail = [&](std::size_t index, const std::string& what) {
    throw InternalError("verify: node " + std::to_string(index) + " (" +
                        to_string(graph.nodes()[index].op) + ") " + what + "\n" +
                        graph.to_string());
  };
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const int arity = op_arity(node.op);
    if (arity >= 0 && static_cast<int>(node.inputs.size()) != arity) fail(i, "has the wrong arity");
    for (TensorId input : node.inputs) {
      if (input < 0 || input >= graph.tensor_count()) fail(i, "has an input that does not exist");
      if (graph.tensor(input).producer >= static_cast<NodeId>(i)) fail(i, "uses a later tensor");
    }
    for (TensorId output : node.outputs) {
      if (output < 0 || output >= graph.tensor_count()) {  // nor can the graph be printed
        throw InternalError("verify: node " + std::to_string(i) + " (" + to_string(node.op) +
                            ") has an output that does not exist");
      }
    }
    std::vector<TensorType> types;
    try {
      types = infer(graph, node.op, node.inputs, node.attrs, node.site);
    } catch (const std::exception& e) {  // a ShapeError, or attributes of another kind of node
      fail(i, std::string("breaks its shape rule: ") + e.what());
    }
    if (types.size() != node.outputs.size()) fail(i, "has the wrong number of outputs");
    for (std::size_t k = 0; k < types.size(); ++k) {
      if (graph.tensor(node.outputs[k]).producer != static_cast<NodeId>(i)) {
        fail(i, "does not own its output");
      }
      if (!(types[k] == graph.type(node.outputs[k]))) fail(i, "has an output of the wrong type");
    }
  }
  const auto check = [&](TensorId id, const char* what) {
    if (id < 0 || id >= graph.tensor_count()) {
      throw InternalError(std::string("verify: ") + what + " does not exist");
    }
  };
  for (const auto& out : graph.outputs) check(out.tensor, "an output");
  for (const auto& out : graph.captures) check(out.tensor, "a capture");
  for (const auto& out : graph.gradients) check(out.tensor, "a gradient");
  for (const auto& param : graph.params) check(param.tensor, "a parameter");
  for (const auto& wb : graph.write_backs) {
    check(wb.destination, "a write-back's destination");
    check(wb.value, "a write-back's value");
    if (op_class(graph.producer(wb.destination).op) != OpClass::Input) {
      throw InternalError("verify: a write-back's destination is no leaf");
    }
    if (!(graph.type(wb.destination) == graph.type(wb.value))) {
      throw InternalError("verify: a write-back changes the type");
    }
  }
}

}  // namespace tensorgrad
