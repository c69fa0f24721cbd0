// From fusion groups to kernels: the expressions of a group's stores, read through index maps.
#pragma once

#include <vector>

#include "schedule/fusion.hpp"
#include "tensorgrad/kernel.hpp"

namespace tensorgrad {

/// A kernel whose bindings name tensors; the planner gives them places.
struct LoweredKernel {
  Kernel kernel;
  std::vector<TensorId> tensors;     ///< by binding; -1 where the binding's place is already set
  std::vector<TensorId> recomputed;  ///< elementwise tensors of other groups computed again here
};

LoweredKernel lower_group(const Graph& graph, const Fusion& fusion, int group);

/// Copies a tensor, read through any views, into a place of its own (the last binding, written).
LoweredKernel lower_copy(const Graph& graph, const Fusion& fusion, TensorId source);

/// `matmul_add_relu`: the ops of the nodes, the first few, in order.
std::string kernel_name(const Graph& graph, const std::vector<NodeId>& nodes);

/// Takes a binding away that nothing uses any more.
void drop_binding(Kernel& kernel, std::size_t binding);

}  // namespace tensorgrad
