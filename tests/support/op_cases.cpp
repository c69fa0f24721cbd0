// From an entry of the table to a graph with its feeds.
#include "support/op_cases.hpp"

#include <cmath>

#include "tensorgrad/autograd.hpp"
#include "tensorgrad/random.hpp"

namespace tensorgrad::test {

namespace {

/// FNV-1a: a seed that depends on the case's name only, so that new cases change no others.
std::uint64_t seed_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

Values fill(const InputSpec& spec, Rng& rng) {
  if (!spec.values.empty()) return spec.values;
  Values values(static_cast<std::size_t>(spec.shape.size()));
  for (double& value : values) {
    const double u = rng.uniform();
    switch (spec.dtype) {
      case DType::F32:
        value = static_cast<float>(spec.low + (spec.high - spec.low) * u);
        break;
      case DType::I32:
        value = std::floor(spec.low + (spec.high - spec.low + 1) * u);
        break;
      case DType::Bool:
        value = u < 0.5;
        break;
    }
  }
  return values;
}

Tensor declare(const std::string& name, const InputSpec& spec) {
  switch (spec.leaf) {
    case OpKind::ParamInput:
      return param_input(name, spec.shape);
    case OpKind::StateInput:
      return state_input(name, spec.shape, spec.dtype);
    default:
      return tensor_input(name, spec.shape, spec.dtype);
  }
}

void append_gradients(CaseGraph& result, const Tensors& inputs, Rng& rng) {
  Graph& graph = *result.graph;
  Tensors outputs, cotangents;
  trace_into(graph, [&] {
    for (const NamedTensor& out : graph.outputs) {
      const Tensor output{&graph, out.tensor};
      if (output.dtype() != f32) continue;
      const std::string name = "cot" + out.name.substr(3);  // of out2: cot2
      outputs.push_back(output);
      cotangents.push_back(tensor_input(name, output.shape()));
      result.feeds[name] = fill({output.shape(), -1, 1}, rng);
    }
  });
  const Tensors grads = append_vjp(graph, outputs, cotangents, inputs);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].valid()) graph.outputs.push_back({"grad" + std::to_string(i), grads[i].id()});
  }
}

void append_training(CaseGraph& result, const Optimizer& optimizer, Rng& rng) {
  Graph& graph = *result.graph;
  append_grad(graph);
  append_optimizer(graph, optimizer);
  constexpr std::int64_t kStep = 3;  // not the first: moments are no zeros
  const auto scalars = step_scalars(optimizer, kStep);
  result.feeds[kStepScalars] = Values(scalars.begin(), scalars.end());
  for (const Node& node : graph.nodes()) {
    const auto* state = std::get_if<StateAttr>(&node.attrs);
    if (state && !result.feeds.count(state->name)) {
      result.feeds[state->name] = fill({state->type.shape, 0, 0.5}, rng);
    }
  }
}

}  // namespace

CaseGraph build_case(const OpCase& op_case, bool gradients) {
  CaseGraph result{std::make_shared<Graph>(), {}};
  Graph& graph = *result.graph;
  Rng rng(seed_of(op_case.name()));
  Tensors inputs;
  trace_into(graph, [&] {
    for (std::size_t i = 0; i < op_case.inputs.size(); ++i) {
      const std::string name = "in" + std::to_string(i);
      inputs.push_back(declare(name, op_case.inputs[i]));
      result.feeds[name] = fill(op_case.inputs[i], rng);
    }
    for (const auto& [name, tensor] : op_case.build(inputs).items) {
      graph.outputs.push_back({"out" + std::to_string(graph.outputs.size()), tensor.id()});
    }
  });
  for (int stream = 0; stream < graph.random_streams; ++stream) {
    const auto key = random_key(7, stream, 3);
    result.feeds[random_input(stream)] = Values(key.begin(), key.end());
  }
  if (op_case.optimizer) {
    append_training(result, *op_case.optimizer, rng);
  } else if (gradients) {
    append_gradients(result, inputs, rng);
  }
  return result;
}

}  // namespace tensorgrad::test
