// From a result that is not finite back to the op that made it so.
//
// The elements that a bad element was made of are marked, node by node from the last to the first;
// only bad ones are followed. A marked element that was made of good ones is where it began. That
// follows values and not tensors, so an infinity which a softmax turned into a 0 is never met.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "api/debug/reads.hpp"
#include "ir/text.hpp"

namespace tensorgrad {

namespace {

using debug::Values;

/// How much a node is to blame; more comes first, and among equals the first in the graph.
enum class Blame : std::uint8_t {
  None,
  Given,    ///< a constant or input that holds an infinity, perhaps on purpose
  MadeNaN,  ///< a NaN out of such infinities: ∞ − ∞, 0·∞
  Began,    ///< not finite, made of finite values; or a parameter, state or input that is NaN
};

bool is_bad(double value) { return !std::isfinite(value); }

/// Whether a leaf's infinities may well be meant: masks are such constants and inputs.
bool may_be_meant(OpKind leaf) {
  return leaf == OpKind::Constant || leaf == OpKind::Literal || leaf == OpKind::TensorInput;
}

class Tracer {
 public:
  Tracer(const Graph& graph, const std::vector<Values>& tensors)
      : graph_(graph), tensors_(tensors), marked_(tensors.size()), blame_(graph.nodes().size()) {}

  /// Marks the bad elements of a tensor; whether there are any.
  bool mark(TensorId id) {
    const Values& values = tensors_[static_cast<std::size_t>(id)];
    bool any = false;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!is_bad(values[i])) continue;
      mark(id, i);
      any = true;
    }
    return any;
  }

  /// Follows what was marked, and gives the node to blame for it.
  NodeId trace() {
    for (std::size_t n = graph_.nodes().size(); n-- > 0;) visit(static_cast<NodeId>(n));
    return static_cast<NodeId>(std::max_element(blame_.begin(), blame_.end()) - blame_.begin());
  }

  Blame blame(NodeId node) const { return blame_[static_cast<std::size_t>(node)]; }
  /// The first node of a degree of blame, or -1.
  NodeId first(Blame blame) const {
    const auto found = std::find(blame_.begin(), blame_.end(), blame);
    return found == blame_.end() ? -1 : static_cast<NodeId>(found - blame_.begin());
  }

 private:
  void mark(TensorId id, std::size_t element) {
    std::vector<bool>& marks = marked_[static_cast<std::size_t>(id)];
    if (marks.empty()) marks.resize(tensors_[static_cast<std::size_t>(id)].size());
    marks[element] = true;
  }

  /// What is bad among the elements of a bundle.
  enum class Inputs : std::uint8_t { Unknown, Good, Infinite, NaN };

  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    bool wanted = false;
    for (TensorId output : node.outputs)
      wanted = wanted || !marked_[static_cast<std::size_t>(output)].empty();
    if (!wanted) return;
    const debug::Reads reads(graph_, node, tensors_);
    std::vector<Inputs> known(reads.bundle_count(), Inputs::Unknown);
    const auto look_at = [&](std::size_t bundle) {
      if (known[bundle] == Inputs::Unknown) known[bundle] = mark_bundle(node, reads, bundle);
      return known[bundle];
    };
    Blame& blame = blame_[static_cast<std::size_t>(id)];
    for (TensorId output : node.outputs) {
      const std::vector<bool>& marks = marked_[static_cast<std::size_t>(output)];
      for (std::size_t i = 0; i < marks.size(); ++i) {
        if (!marks[i]) continue;
        const auto [first, second] = reads.bundles(i);
        const Inputs inputs = std::max(look_at(first), look_at(second));
        const bool is_nan = std::isnan(tensors_[static_cast<std::size_t>(output)][i]);
        blame = std::max(blame, blame_for(node, is_nan, inputs));
      }
    }
  }

  Inputs mark_bundle(const Node& node, const debug::Reads& reads, std::size_t bundle) {
    Inputs result = Inputs::Good;
    reads.visit_bundle(bundle, [&](std::size_t k, std::size_t i) {
      const TensorId id = node.inputs[k];
      const double value = tensors_[static_cast<std::size_t>(id)][i];
      if (!is_bad(value)) return;
      mark(id, i);
      result = std::max(result, std::isnan(value) ? Inputs::NaN : Inputs::Infinite);
    });
    return result;
  }

  static Blame blame_for(const Node& node, bool is_nan, Inputs inputs) {
    if (inputs == Inputs::Good)
      return !is_nan && may_be_meant(node.op) ? Blame::Given : Blame::Began;
    return is_nan && inputs == Inputs::Infinite ? Blame::MadeNaN : Blame::None;
  }

  const Graph& graph_;
  const std::vector<Values>& tensors_;
  std::vector<std::vector<bool>> marked_;  // by tensor; empty: nothing
  std::vector<Blame> blame_;               // by node
};

/// Marks the bad results of a kind, and gives the name of the first, or an empty string.
std::string mark_results(Tracer& tracer, const std::vector<NamedTensor>& items,
                         const std::string& before) {
  std::string first;
  for (const NamedTensor& item : items) {
    if (tracer.mark(item.tensor) && first.empty()) first = before + "\"" + item.name + "\"";
  }
  return first;
}

std::string mark_write_backs(Tracer& tracer, const Graph& graph) {
  std::string first;
  for (const WriteBack& wb : graph.write_backs) {
    if (!tracer.mark(wb.value) || !first.empty()) continue;
    const Node& leaf = graph.producer(wb.destination);
    const auto* state = std::get_if<StateAttr>(&leaf.attrs);
    first =
        "the new value of \"" + (state ? state->name : std::get<InputAttr>(leaf.attrs).name) + "\"";
  }
  return first;
}

/// `3 NaN and 1 inf of 4096 values`.
std::string count_text(const ValueSummary& summary) {
  std::string text;
  const std::pair<std::int64_t, const char*> kinds[] = {{summary.nan, "NaN"},
                                                        {summary.positive_infinity, "inf"},
                                                        {summary.negative_infinity, "-inf"}};
  for (const auto& [count, what] : kinds) {
    if (count > 0) text += (text.empty() ? "" : " and ") + std::to_string(count) + " " + what;
  }
  const std::int64_t all = summary.finite + summary.bad();
  return text + " of " + std::to_string(all) + (all == 1 ? " value" : " values");
}

std::string describe(const Graph& graph, const NonFinite& found, const Tracer& tracer) {
  const Node& node = graph.node(found.node);
  std::string text = found.result + " is not finite. The first value that is not is in\n  " +
                     node_text(graph, node) + debug::location_text(graph, node) + "\n  " +
                     count_text(found.output);
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  if (node.op == OpKind::ParamInput || node.op == OpKind::StateInput)
    return text + ", before the step began";
  text += debug::list_summaries("from", found.inputs);
  const NodeId given = tracer.first(Blame::Given);
  if (tracer.blame(found.node) == Blame::MadeNaN && given >= 0) {
    const Node& leaf = graph.node(given);
    const std::string site = leaf.site.to_string();
    text += "\n  out of infinities that come from " + node_text(graph, leaf) +
            (site.empty() ? "" : " at " + site);
  }
  return text;
}

}  // namespace

NonFinite find_nonfinite(const std::shared_ptr<const Graph>& graph, const LeafValues& leaves,
                         const Device& device) {
  const std::vector<Values> tensors = debug::evaluate(graph, leaves, device);
  Tracer tracer(*graph, tensors);
  NonFinite found;
  found.device = device.name();
  const bool training = !graph->gradients.empty();
  if (training && tracer.mark(graph->outputs.front().tensor)) found.result = "the loss";
  if (found.result.empty()) found.result = mark_results(tracer, graph->outputs, "output ");
  if (found.result.empty())
    found.result = mark_results(tracer, graph->gradients, "the gradient of ");
  if (found.result.empty()) found.result = mark_write_backs(tracer, *graph);
  if (found.result.empty()) {
    found.text = "Op by op on " + device.name() + ", every result is finite.";
    return found;
  }
  found.found = true;
  found.node = tracer.trace();
  const Node& node = graph->node(found.node);
  found.op = node.op;
  found.site = node.site;
  found.param_path = debug::param_path(*graph, node).path;
  for (TensorId output : node.outputs) {
    const ValueSummary summary =
        debug::summarise(*graph, output, tensors[static_cast<std::size_t>(output)]);
    if (output == node.output() || (found.output.bad() == 0 && summary.bad() > 0))
      found.output = summary;
  }
  found.inputs = debug::summarise_inputs(*graph, node, tensors);
  found.text = describe(*graph, found, tracer);
  return found;
}

}  // namespace tensorgrad
