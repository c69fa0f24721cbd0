// How a pass makes a new graph of an old one: node by node, with everything that names a tensor
// (outputs, captures, gradients, write-backs, parameters) carried over.
#pragma once

#include <functional>
#include <memory>

#include "tensorgrad/graph.hpp"

namespace tensorgrad {

/// Called for every node in order with its inputs already translated; appends to `out` what it
/// likes and gives the tensors that stand for the node's outputs.
using RewriteFn = std::function<std::vector<TensorId>(Graph& out, const Node& node,
                                                      const std::vector<TensorId>& inputs)>;

std::shared_ptr<Graph> rewrite(const Graph& graph, const RewriteFn& fn);

/// The node as it was.
std::vector<TensorId> keep(Graph& out, const Node& node, const std::vector<TensorId>& inputs);

}  // namespace tensorgrad
