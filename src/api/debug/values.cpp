#include "api/debug/values.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <set>

#include "api/debug/stepper.hpp"

namespace tensorgrad {

namespace {

std::string four_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

}  // namespace

std::string ValueSummary::to_string() const {
  std::string text = name + " " + type.to_string();
  if (finite > 0) text += " in [" + four_digits(min) + ", " + four_digits(max) + "]";
  const std::pair<std::int64_t, const char*> counts[] = {
      {nan, "NaN"}, {positive_infinity, "inf"}, {negative_infinity, "-inf"}};
  for (const auto& [count, what] : counts) {
    if (count > 0) text += ", " + std::to_string(count) + " " + what;
  }
  return finite + bad() == 0 ? text + ", empty" : text;
}

}  // namespace tensorgrad

namespace tensorgrad::debug {

Values numbers(const Value& value) {
  if (value.dtype() == f32) {
    const std::vector<float> floats = value.as<float>();
    return {floats.begin(), floats.end()};
  }
  const std::vector<std::int32_t> ints = value.as<std::int32_t>();
  return {ints.begin(), ints.end()};
}

void round_to_storage(const TensorType& type, Values& values) {
  if (type.dtype != f32) return;
  for (double& value : values) value = static_cast<double>(static_cast<float>(value));
}

std::vector<Values> evaluate(const std::shared_ptr<const Graph>& graph, const LeafValues& leaves,
                             const Device& device) {
  if (device.name() == "reference")
    return reference::Interpreter(*graph).run(leaves, round_to_storage);
  std::vector<Values> tensors = run_op_by_op(graph, leaves, device);
  const auto at = [&](TensorId id) -> Values& { return tensors[static_cast<std::size_t>(id)]; };
  for (const auto& [name, values] : leaves) {
    const TensorId leaf = graph->find_leaf(name);
    if (leaf < 0) continue;
    at(leaf) = values;
    round_to_storage(graph->type(leaf), at(leaf));
  }
  for (const Node& node : graph->nodes()) {
    if (!at(node.output()).empty()) continue;
    reference::compute(*graph, node, tensors);
    for (TensorId output : node.outputs) round_to_storage(graph->type(output), at(output));
  }
  return tensors;
}

ValueSummary summarise(const Graph& graph, TensorId tensor, const Values& values) {
  ValueSummary s;
  s.tensor = tensor;
  s.name = "%" + std::to_string(tensor);
  const Attrs& attrs = graph.producer(tensor).attrs;
  if (const auto* input = std::get_if<InputAttr>(&attrs)) s.name += " \"" + input->name + "\"";
  if (const auto* state = std::get_if<StateAttr>(&attrs)) s.name += " \"" + state->name + "\"";
  s.type = graph.type(tensor);
  for (double value : values) {
    if (std::isnan(value)) {
      ++s.nan;
    } else if (std::isinf(value)) {
      ++(value > 0 ? s.positive_infinity : s.negative_infinity);
    } else {
      s.min = s.finite == 0 ? value : std::min(s.min, value);
      s.max = s.finite == 0 ? value : std::max(s.max, value);
      ++s.finite;
    }
  }
  return s;
}

std::vector<ValueSummary> summarise_inputs(const Graph& graph, const Node& node,
                                           const std::vector<Values>& tensors) {
  std::vector<ValueSummary> result;
  for (TensorId input : node.inputs) {
    const auto same = [&](const ValueSummary& s) { return s.tensor == input; };
    if (std::any_of(result.begin(), result.end(), same)) continue;
    result.push_back(summarise(graph, input, tensors[static_cast<std::size_t>(input)]));
  }
  return result;
}

ParamPath param_path(const Graph& graph, const Node& node) {
  // Breadth first: what is found first lies fewest ops away.
  struct Step {
    const Node* node;
    bool direct;  // only views lie between
  };
  std::deque<Step> todo{{&node, true}};
  std::set<const Node*> seen;
  while (!todo.empty()) {
    const Step step = todo.front();
    todo.pop_front();
    if (!seen.insert(step.node).second) continue;
    if (step.node->op == OpKind::ParamInput) {
      const std::string& name = std::get<InputAttr>(step.node->attrs).name;
      const auto dot = name.rfind('.');
      return {dot == std::string::npos ? name : name.substr(0, dot), step.direct};
    }
    const bool transparent = step.node == &node || op_class(step.node->op) == OpClass::View;
    for (TensorId input : step.node->inputs)
      todo.push_back({&graph.producer(input), step.direct && transparent});
  }
  return {};
}

std::string location_text(const Graph& graph, const Node& node) {
  const std::string site = node.site.to_string();
  std::string text = site.empty() ? "" : " at " + site;
  const ParamPath path = param_path(graph, node);
  if (!path.path.empty()) {
    text += (text.empty() ? " " : ", ") + std::string(path.direct ? "in" : "after") +
            " parameter path " + path.path;
  }
  return text;
}

std::string list_summaries(const char* title, const std::vector<ValueSummary>& summaries) {
  std::string text;
  for (const ValueSummary& summary : summaries)
    text += std::string("\n  ") + title + " " + summary.to_string();
  return text;
}

}  // namespace tensorgrad::debug
