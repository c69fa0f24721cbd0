#include "passes/rewrite.hpp"

namespace tensorgrad {

std::vector<TensorId> keep(Graph& out, const Node& node, const std::vector<TensorId>& inputs) {
  out.phase = node.phase;
  const NodeId id = out.add(node.op, inputs, node.attrs, node.site);
  return out.node(id).outputs;
}

std::shared_ptr<Graph> rewrite(const Graph& graph, const RewriteFn& fn) {
  auto out = std::make_shared<Graph>();
  std::vector<TensorId> map(static_cast<std::size_t>(graph.tensor_count()), -1);
  const auto translate = [&](TensorId id) { return map[static_cast<std::size_t>(id)]; };
  for (const Node& node : graph.nodes()) {
    std::vector<TensorId> inputs;
    for (TensorId input : node.inputs) inputs.push_back(translate(input));
    out->phase = node.phase;
    const std::vector<TensorId> outputs = fn(*out, node, inputs);
    for (std::size_t k = 0; k < node.outputs.size() && k < outputs.size(); ++k) {
      map[static_cast<std::size_t>(node.outputs[k])] = outputs[k];
    }
  }
  out->phase = Phase::Gradient;
  const auto names = [&](const std::vector<NamedTensor>& from, std::vector<NamedTensor>& to) {
    for (const NamedTensor& item : from) to.push_back({item.name, translate(item.tensor)});
  };
  names(graph.outputs, out->outputs);
  names(graph.captures, out->captures);
  names(graph.gradients, out->gradients);
  for (const WriteBack& wb : graph.write_backs) {
    out->write_backs.push_back({translate(wb.destination), translate(wb.value)});
  }
  for (const ParamInfo& param : graph.params) {
    out->params.push_back({param.name, translate(param.tensor), param.trainable, param.decay});
  }
#ifndef NDEBUG
  verify(*out);
#endif
  return out;
}

}  // namespace tensorgrad
