#include "support/run_plan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "support/kernel_eval.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad::test {

namespace {

using reference::Values;

std::string leaf_name(const Node& node) {
  if (const auto* input = std::get_if<InputAttr>(&node.attrs)) return input->name;
  if (const auto* state = std::get_if<StateAttr>(&node.attrs)) return state->name;
  return "";
}

/// The values of every leaf that lives in memory.
std::map<TensorId, Values> leaf_values(const Graph& graph,
                                       const std::map<std::string, Values>& feeds) {
  std::map<TensorId, Values> values;
  for (const Node& node : graph.nodes()) {
    if (op_class(node.op) != OpClass::Input) continue;
    if (const auto* literal = std::get_if<LiteralAttr>(&node.attrs)) {
      values[node.output()] = *literal->data;
    } else {
      values[node.output()] = feeds.at(leaf_name(node));
    }
  }
  return values;
}

/// Calls visit(name, place) for everything a step leaves behind.
template <class Visit>
void for_each_result(const Plan& plan, Visit visit) {
  for (const auto& [name, place] : plan.outputs) visit("output." + name, place);
  for (const auto& [name, place] : plan.captures) visit("capture." + name, place);
  for (const auto& [name, place] : plan.gradients) visit("gradient." + name, place);
  for (const auto& [name, place] : plan.states) visit("state." + name, place);
  for (const auto& [name, place] : plan.params) visit("param." + name, place);
}

}  // namespace

std::map<std::string, reference::Values> some_feeds(const Graph& graph) {
  std::map<std::string, reference::Values> feeds;
  for (const Node& node : graph.nodes()) {
    if (node.op != OpKind::TensorInput) continue;
    reference::Values& values = feeds[std::get<InputAttr>(node.attrs).name];
    for (std::int64_t i = 0; i < graph.type(node.output()).shape.size(); ++i)
      values.push_back(0.004 * static_cast<double>((i * 37 + node.output()) % 101) - 0.2);
  }
  return feeds;
}

Results reference_results(const Graph& graph, const std::map<std::string, Values>& feeds) {
  const std::vector<Values> tensors = reference::Interpreter(graph).run(feeds);
  const auto at = [&](TensorId id) { return tensors[static_cast<std::size_t>(id)]; };
  Results results;
  for (const auto& item : graph.outputs) results["output." + item.name] = at(item.tensor);
  for (const auto& item : graph.captures) results["capture." + item.name] = at(item.tensor);
  for (const auto& item : graph.gradients) results["gradient." + item.name] = at(item.tensor);
  for (const Node& node : graph.nodes()) {
    const char* prefix = node.op == OpKind::StateInput   ? "state."
                         : node.op == OpKind::ParamInput ? "param."
                                                         : nullptr;
    if (prefix == nullptr) continue;
    TensorId id = node.output();
    for (const WriteBack& wb : graph.write_backs) {
      if (wb.destination == node.output()) id = wb.value;
    }
    results[prefix + leaf_name(node)] = at(id);
  }
  return results;
}

Results evaluate_plan(const Plan& plan, const std::map<std::string, Values>& feeds) {
  testing::HostBuffers buffers;
  for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
    buffers[static_cast<int>(b)].assign(
        static_cast<std::size_t>(plan.buffers[b].bytes / plan.target.element_bytes), 0.0);
  }
  for (const auto& [id, values] : leaf_values(*plan.graph, feeds)) {
    const Place& place = plan.places.at(id);
    std::copy(values.begin(), values.end(), buffers[place.buffer].begin() + place.offset);
  }
  for (const Kernel& kernel : plan.kernels) testing::evaluate(kernel, buffers);
  Results results;
  for_each_result(plan, [&](const std::string& name, const Place& place) {
    const auto begin = buffers[place.buffer].begin() + place.offset;
    results[name] = Values(begin, begin + place.type.shape.size());
  });
  return results;
}

Results run_on_device(Backend& backend, std::shared_ptr<const Plan> plan,
                      const std::map<std::string, Values>& feeds) {
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
  for (const BufferSpec& spec : plan->buffers) buffers.push_back(backend.create_buffer(spec));
  for (const auto& [id, values] : leaf_values(*plan->graph, feeds)) {
    const Place& place = plan->places.at(id);
    std::vector<std::uint32_t> words;
    for (double value : values) {
      words.push_back(place.type.dtype == f32
                          ? std::bit_cast<std::uint32_t>(static_cast<float>(value))
                          : std::bit_cast<std::uint32_t>(static_cast<std::int32_t>(value)));
    }
    backend.write(*buffers[static_cast<std::size_t>(place.buffer)], place.offset,
                  place.type.shape.size(), place.type.dtype, words.data());
  }
  const std::unique_ptr<Program> program = backend.load(plan, buffers);
  backend.run(*program, Phases::All);
  Results results;
  for_each_result(*plan, [&](const std::string& name, const Place& place) {
    std::vector<std::uint32_t> words(static_cast<std::size_t>(place.type.shape.size()));
    read_now(backend, {{buffers[static_cast<std::size_t>(place.buffer)].get(), place.offset,
                        place.type.shape.size(), place.type.dtype, words.data()}});
    Values& values = results[name];
    for (std::uint32_t word : words) {
      float as_float = 0;
      std::int32_t as_int = 0;
      std::memcpy(&as_float, &word, 4);
      std::memcpy(&as_int, &word, 4);
      values.push_back(place.type.dtype == f32 ? static_cast<double>(as_float)
                                               : static_cast<double>(as_int));
    }
  });
  return results;
}

std::string difference(const Results& got, const Results& want, double tolerance) {
  for (const auto& [name, expected] : want) {
    const auto found = got.find(name);
    if (found == got.end()) return name + " is missing";
    const Values& values = found->second;
    if (values.size() != expected.size()) return name + " has another size";
    double scale = 0.1;  // what cancels to nothing is compared on the scale of what cancelled
    for (double v : expected) {
      if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool same = std::isfinite(expected[i])
                            ? std::abs(values[i] - expected[i]) <= tolerance * scale
                        : std::isnan(expected[i]) ? std::isnan(values[i])
                                                  : values[i] == expected[i];
      if (!same) {
        return name + "[" + std::to_string(i) + "] is " + std::to_string(values[i]) + ", not " +
               std::to_string(expected[i]) + " (largest magnitude " + std::to_string(scale) + ")";
      }
    }
  }
  return "";
}

std::string device_difference(Backend& backend, const Graph& graph,
                              const std::map<std::string, Values>& feeds, double tolerance) {
  const auto optimized = run_passes(graph, backend.target().passes);
  const auto planned = std::make_shared<const Plan>(plan(optimized, backend.target()));
  return difference(run_on_device(backend, planned, feeds), reference_results(graph, feeds),
                    tolerance);
}

}  // namespace tensorgrad::test
