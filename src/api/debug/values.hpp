// The values of every tensor of a graph, however a device comes by them, and what they are like.
#pragma once

#include <string>
#include <vector>

#include "runtime/reference/interpreter.hpp"
#include "tensorgrad/debug.hpp"
#include "tensorgrad/feed.hpp"

namespace tensorgrad::debug {

using reference::Values;

/// The elements of a tensor that was read back.
Values numbers(const Value& value);

/// f32 values as a device keeps them: rounded to single precision, where large ones overflow.
void round_to_storage(const TensorType& type, Values& values);

/// The values of all tensors by id, as the device computes them op by op. Views and other values
/// that it never stores are the reference interpreter's, which for views is the same.
std::vector<Values> evaluate(const std::shared_ptr<const Graph>& graph, const LeafValues& leaves,
                             const Device& device);

ValueSummary summarise(const Graph& graph, TensorId tensor, const Values& values);
std::vector<ValueSummary> summarise_inputs(const Graph& graph, const Node& node,
                                           const std::vector<Values>& tensors);

/// The path of the parameter that a node works on (`direct`), or of the nearest one before it;
/// empty if there is none.
struct ParamPath {
  std::string path;
  bool direct = false;
};
ParamPath param_path(const Graph& graph, const Node& node);

/// ` at model.cpp:12, in parameter path l1`; empty if nothing is known.
std::string location_text(const Graph& graph, const Node& node);

/// One line a summary, indented.
std::string list_summaries(const char* title, const std::vector<ValueSummary>& summaries);

}  // namespace tensorgrad::debug
