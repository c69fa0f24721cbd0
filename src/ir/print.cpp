// The graph as text for people and as a Graphviz picture.
#include <map>
#include <set>

#include "ir/text.hpp"
#include "tensorgrad/graph.hpp"

namespace tensorgrad {

std::string node_text(const Graph& graph, const Node& node) {
  std::string text;
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    text += (k ? ", %" : "%") + std::to_string(node.outputs[k]) + ": " +
            graph.type(node.outputs[k]).to_string();
  }
  text += std::string(" = ") + to_string(node.op) + "(";
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    text += (k ? ", %" : "%") + std::to_string(node.inputs[k]);
  }
  const std::string attrs = to_string(node.attrs);
  if (!attrs.empty()) text += (node.inputs.empty() ? "" : ", ") + attrs;
  text += ")";
  return text;
}

std::string Graph::to_string() const {
  constexpr std::size_t kSiteColumn = 64;
  std::string text;
  Phase current = Phase::Gradient;
  for (const Node& node : nodes_) {
    if (node.phase != current) {
      current = node.phase;
      text += current == Phase::Update ? "update:\n" : "gradient:\n";
    }
    std::string line = node_text(*this, node);
    const std::string site = node.site.to_string();
    if (!site.empty()) {
      if (line.size() < kSiteColumn) line.resize(kSiteColumn, ' ');
      line += "   # " + site;
    }
    text += line + "\n";
  }
  const auto list = [&](const char* what, const std::vector<NamedTensor>& items) {
    for (const NamedTensor& item : items) {
      text += std::string(what) + " " + item.name + " = %" + std::to_string(item.tensor) + "\n";
    }
  };
  list("output", outputs);
  list("capture", captures);
  list("gradient", gradients);
  for (const WriteBack& wb : write_backs) {
    text +=
        "write_back %" + std::to_string(wb.destination) + " = %" + std::to_string(wb.value) + "\n";
  }
  return text;
}

std::string Graph::to_dot() const {
  std::string text = "digraph tensorgrad {\n  node [shape=box, fontname=monospace];\n";
  std::set<TensorId> results;
  for (const auto& out : outputs) results.insert(out.tensor);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const auto* named = std::get_if<InputAttr>(&node.attrs);
    const auto* state = std::get_if<StateAttr>(&node.attrs);
    std::string label = named ? named->name : state ? state->name : tensorgrad::to_string(node.op);
    for (TensorId out : node.outputs)
      label += "\\n%" + std::to_string(out) + " " + type(out).to_string();
    std::string style;
    if (op_class(node.op) == OpClass::Input) style = ", style=filled, fillcolor=lightblue";
    if (node.phase == Phase::Update) style = ", style=filled, fillcolor=lightyellow";
    if (results.count(node.outputs.front())) style = ", style=filled, fillcolor=lightgreen";
    text += "  n" + std::to_string(i) + " [label=\"" + label + "\"" + style + "];\n";
    for (TensorId input : node.inputs) {
      text += "  n" + std::to_string(tensor(input).producer) + " -> n" + std::to_string(i) + ";\n";
    }
  }
  return text + "}\n";
}

}  // namespace tensorgrad
