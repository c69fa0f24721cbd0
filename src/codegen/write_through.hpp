// Copies that need no kernel: whoever computes a value puts it where the copy would.
#pragma once

#include <functional>
#include <vector>

#include "codegen/lower.hpp"

namespace tensorgrad {

/// Drops the kernels that do nothing but put temporaries side by side or in another order, as the
/// gradients of queries, keys and values are joined. The kernels before them write there at once,
/// if that leaves runs of `shortest_run` elements, and others read there. `temporary` says which
/// tensors' places are the planner's own affair.
void write_through(const Graph& graph, std::int64_t shortest_run,
                   const std::function<bool(TensorId)>& temporary,
                   std::vector<LoweredKernel>& kernels);

}  // namespace tensorgrad
