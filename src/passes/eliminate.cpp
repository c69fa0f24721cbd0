// Common subexpressions and dead code.
#include <map>

#include "ir/text.hpp"
#include "passes/rewrite.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad {

namespace {

/// Equal keys mean equal values.
std::string key_of(const Graph& out, const Node& node, const std::vector<TensorId>& inputs,
                   const TensorType& type) {
  (void)out;
  std::string key = std::string(to_string(node.op)) + list_text(inputs) + to_string(node.attrs) +
                    type.to_string();
  if (const auto* literal = std::get_if<LiteralAttr>(&node.attrs)) {
    key += "@" + std::to_string(reinterpret_cast<std::uintptr_t>(literal->data.get()));
  }
  return key;
}

}  // namespace

std::shared_ptr<Graph> eliminate_common(const Graph& graph) {
  std::map<std::string, std::vector<TensorId>> seen;
  return rewrite(graph, [&](Graph& out, const Node& node, const std::vector<TensorId>& inputs) {
    const std::string key = key_of(out, node, inputs, graph.type(node.output()));
    const auto found = seen.find(key);
    if (found != seen.end()) return found->second;
    return seen[key] = keep(out, node, inputs);
  });
}

std::shared_ptr<Graph> eliminate_dead(const Graph& graph) {
  std::vector<bool> live(graph.nodes().size(), false);
  const auto mark = [&](TensorId id) {
    live[static_cast<std::size_t>(graph.tensor(id).producer)] = true;
  };
  for (const auto* items : {&graph.outputs, &graph.captures, &graph.gradients}) {
    for (const NamedTensor& item : *items) mark(item.tensor);
  }
  for (const WriteBack& wb : graph.write_backs) {
    mark(wb.destination);
    mark(wb.value);
  }
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const OpKind op = graph.nodes()[i].op;
    // What a user declared stays, used or not: it can be fed, saved and restored.
    if (op == OpKind::ParamInput || op == OpKind::TensorInput || op == OpKind::StateInput)
      live[i] = true;
    if (!live[i]) continue;
    for (TensorId input : graph.nodes()[i].inputs) mark(input);
  }
  std::size_t i = 0;
  return rewrite(graph, [&](Graph& out, const Node& node, const std::vector<TensorId>& inputs) {
    if (!live[i++]) return std::vector<TensorId>(node.outputs.size(), -1);
    return keep(out, node, inputs);
  });
}

}  // namespace tensorgrad
