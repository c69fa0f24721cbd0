#include "inspect_diagram.hpp"

#include <map>
#include <set>

#include "inspect_flow.hpp"
#include "terminal.hpp"

namespace tensorgrad::cli {

namespace {

constexpr std::size_t kTooltipLines = 40;

/// The first lines of a listing.
std::string beginning(const std::string& text) {
  std::size_t at = 0;
  for (std::size_t line = 0; line < kTooltipLines; ++line) {
    at = text.find('\n', at);
    if (at == std::string::npos) return text;
    ++at;
  }
  return text.substr(0, at) + "...";
}

std::string work_of(const Kernel& kernel) {
  std::string text = with_commas(kernel.outer_size());
  if (kernel.inner_size() > 1) text += " x " + with_commas(kernel.inner_size());
  return text;
}

const char* dot_colour(BoxKind kind) {
  switch (kind) {
    case BoxKind::Param:
      return "lightblue";
    case BoxKind::Input:
      return "lightcyan";
    case BoxKind::Work:
      return "white";
    case BoxKind::View:
      return "gray95";
    case BoxKind::Update:
      return "lightyellow";
    case BoxKind::Result:
      return "lightgreen";
  }
  return "white";
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

/// `0.5`, `true`: a constant as its user shows it.
std::string constant_text(const Node& node) {
  if (const auto* constant = std::get_if<ValueAttr>(&node.attrs)) return number(constant->value, 6);
  return "index";  // Iota
}

BoxKind kind_of(const Node& node) {
  if (node.phase == Phase::Update) return BoxKind::Update;
  if (node.op == OpKind::ParamInput) return BoxKind::Param;
  switch (op_class(node.op)) {
    case OpClass::Input:
      return BoxKind::Input;
    case OpClass::View:
      return BoxKind::View;
    case OpClass::Generated:
    case OpClass::Elementwise:
    case OpClass::Join:
    case OpClass::Gather:
    case OpClass::Reduce:
    case OpClass::Contract:
    case OpClass::Scatter:
    case OpClass::Special:
    case OpClass::Update:
      break;
  }
  return BoxKind::Work;
}

}  // namespace

Diagram kernel_diagram(const Plan& plan) {
  Diagram diagram;
  diagram.title = with_commas(plan.kernel_count()) + " kernels a step, planned for " +
                  plan.target.name + "; sizes are outer x inner";
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const Kernel& kernel = plan.kernels[k];
    diagram.boxes.push_back({kernel.phase == Phase::Update ? BoxKind::Update : BoxKind::Work,
                             kernel.name, "#" + std::to_string(k) + ": " + work_of(kernel),
                             beginning(kernel.to_string())});
  }
  const auto add_box = [&](BoxKind kind, const StoredValue& value) {
    diagram.boxes.push_back({kind, value.name, value.type, ""});
    return static_cast<int>(diagram.boxes.size()) - 1;
  };
  const auto is_update = [&](int k) {
    return plan.kernels[static_cast<std::size_t>(k)].phase == Phase::Update;
  };
  for (const StoredValue& value : stored_values(plan)) {
    const BufferRole role = plan.buffers[static_cast<std::size_t>(value.buffer)].role;
    if (value.writer < 0) {
      // The update reads every parameter and moment: arrows for that would say nothing.
      int box = -1;
      for (const int reader : value.readers) {
        if (is_update(reader)) continue;
        if (box < 0)
          box = add_box(role == BufferRole::Param ? BoxKind::Param : BoxKind::Input, value);
        diagram.arrows.push_back({box, reader, ""});
      }
      continue;
    }
    for (const int reader : value.readers) {
      if (reader > value.writer) diagram.arrows.push_back({value.writer, reader, value.type});
    }
    const bool shown = role == BufferRole::Output || value.name.rfind("capture ", 0) == 0 ||
                       (role == BufferRole::Gradient && value.readers.empty());
    if (shown) diagram.arrows.push_back({value.writer, add_box(BoxKind::Result, value), ""});
  }
  return diagram;
}

Diagram graph_diagram(const Graph& graph) {
  Diagram diagram;
  std::map<NodeId, int> box_of;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (op_class(node.op) == OpClass::Generated) continue;
    const auto* leaf = std::get_if<InputAttr>(&node.attrs);
    const auto* state = std::get_if<StateAttr>(&node.attrs);
    Box box{kind_of(node),
            leaf    ? leaf->name
            : state ? state->name
                    : to_string(node.op),
            "%" + std::to_string(node.output()) + " " + graph.type(node.output()).to_string(),
            node.site.to_string()};
    box_of[static_cast<NodeId>(n)] = static_cast<int>(diagram.boxes.size());
    std::string constants;
    for (const TensorId input : node.inputs) {
      const NodeId producer = graph.tensor(input).producer;
      const auto from = box_of.find(producer);
      if (from != box_of.end()) {
        diagram.arrows.push_back({from->second, static_cast<int>(diagram.boxes.size()), ""});
      } else {
        constants += (constants.empty() ? " " : ", ") + constant_text(graph.node(producer));
      }
    }
    box.title += constants;
    diagram.boxes.push_back(std::move(box));
  }
  diagram.title = with_commas(static_cast<std::int64_t>(graph.nodes().size())) + " nodes";
  const auto results = [&](const char* what, const std::vector<NamedTensor>& named) {
    for (const auto& [name, tensor] : named) {
      const auto from = box_of.find(graph.tensor(tensor).producer);
      if (from == box_of.end()) continue;
      diagram.arrows.push_back({from->second, static_cast<int>(diagram.boxes.size()), ""});
      diagram.boxes.push_back({BoxKind::Result, std::string(what) + " " + name, "", ""});
    }
  };
  results("output", graph.outputs);
  results("capture", graph.captures);
  return diagram;
}

std::string to_dot(const Diagram& diagram) {
  std::string text = "digraph tensorgrad {\n  label=" + quoted(diagram.title) +
                     ";\n  node [shape=box, style=filled, fontname=monospace];\n";
  for (std::size_t i = 0; i < diagram.boxes.size(); ++i) {
    const Box& box = diagram.boxes[i];
    std::string label = quoted(box.title);
    if (!box.detail.empty()) {
      label.pop_back();
      label += "\\n" + quoted(box.detail).substr(1);
    }
    text += "  n" + std::to_string(i) + " [label=" + label + ", fillcolor=" + dot_colour(box.kind) +
            "];\n";
  }
  for (const Arrow& arrow : diagram.arrows) {
    text += "  n" + std::to_string(arrow.from) + " -> n" + std::to_string(arrow.to);
    if (!arrow.label.empty()) text += " [label=" + quoted(arrow.label) + "]";
    text += ";\n";
  }
  return text + "}\n";
}

}  // namespace tensorgrad::cli
