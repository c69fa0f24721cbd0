// Values to run a graph with where nobody has any: parameters as layers start with, inputs that fit
// what is done with them, states and the optimizer's scalars as at a first step.
#include <algorithm>
#include <cmath>

#include "api/debug/values.hpp"
#include "tensorgrad/optim.hpp"
#include "tensorgrad/random.hpp"

namespace tensorgrad {

namespace {

using debug::Values;

/// How many values each i32 leaf may take, as far as it is used as an index.
std::map<TensorId, std::int64_t> index_limits(const Graph& graph) {
  std::map<TensorId, std::int64_t> limits;
  for (const Node& node : graph.nodes()) {
    const bool indexes =
        op_class(node.op) == OpClass::Gather || op_class(node.op) == OpClass::Scatter;
    const auto* axis = std::get_if<AxisAttr>(&node.attrs);
    if (!indexes || axis == nullptr) continue;
    const Node* from = &graph.producer(node.inputs[1]);
    while (op_class(from->op) == OpClass::View) from = &graph.producer(from->inputs[0]);
    const std::int64_t size = graph.type(node.inputs[0]).shape[axis->axis];
    const auto [at, fresh] = limits.try_emplace(from->output(), size);
    if (!fresh) at->second = std::min(at->second, size);
  }
  return limits;
}

Values random_values(const TensorType& type, std::int64_t limit, bool parameter, Rng& rng) {
  Values values(static_cast<std::size_t>(type.shape.size()));
  const bool matrix = type.shape.rank() >= 2;
  const double scale =
      parameter && matrix ? 1 / std::sqrt(static_cast<double>(type.shape[0])) : 0.5;
  for (double& value : values) {
    value = type.dtype == f32 ? scale * rng.normal()
                              : std::floor(rng.uniform() * static_cast<double>(limit));
  }
  debug::round_to_storage(type, values);
  return values;
}

}  // namespace

LeafValues random_leaves(const Graph& graph, std::uint64_t seed) {
  const std::map<TensorId, std::int64_t> limits = index_limits(graph);
  Rng rng(seed);
  LeafValues leaves;
  for (const Node& node : graph.nodes()) {
    const TensorType& type = graph.type(node.output());
    if (const auto* state = std::get_if<StateAttr>(&node.attrs)) {
      leaves[state->name].assign(static_cast<std::size_t>(type.shape.size()), state->init);
    } else if (const auto* input = std::get_if<InputAttr>(&node.attrs)) {
      if (input->name == kStepScalars) {
        const auto scalars = step_scalars(AdamW{.lr = 1e-3}, 1, {});
        leaves[input->name].assign(scalars.begin(), scalars.end());
        continue;
      }
      if (const int stream = random_stream(input->name); stream >= 0) {
        const auto key = random_key(seed, stream, 0);
        leaves[input->name].assign(key.begin(), key.end());
        continue;
      }
      const auto limit = limits.find(node.output());
      leaves[input->name] = random_values(type, limit == limits.end() ? 2 : limit->second,
                                          node.op == OpKind::ParamInput, rng);
    }
  }
  return leaves;
}

}  // namespace tensorgrad
