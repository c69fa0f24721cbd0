// Graph to graph: passes that make a graph smaller without changing what it computes. Each is a
// function of its own that can be called and printed; run_passes is the ordered list of all.
#pragma once

#include <limits>
#include <memory>

#include "tensorgrad/graph.hpp"

namespace tensorgrad {

/// What a target wants of the graph.
struct PassOptions {
  int parallelism = 1;    ///< Rows a kernel should have before long reductions are split.
  int product_tiles = 0;  ///< Tiles a matrix product should have before a long sum is split.
  /// Attention of this many queries and keys or more stays one kernel, as far as heads are not
  /// larger than `fused_head`; else it becomes products and a softmax.
  std::int64_t fused_attention = std::numeric_limits<std::int64_t>::max();
  std::int64_t fused_head = std::numeric_limits<std::int64_t>::max();
};

/// What a GPU wants, as measured on an H200 (docs/performance.md).
PassOptions gpu_passes();

/// Folds constants, drops identities (x·1, x+0, reshape to the same shape, stop_gradient after
/// differentiation), merges chains of views.
std::shared_ptr<Graph> simplify(const Graph& graph);

/// Computes equal nodes once.
std::shared_ptr<Graph> eliminate_common(const Graph& graph);

/// Drops what no output, capture, gradient or write-back depends on.
std::shared_ptr<Graph> eliminate_dead(const Graph& graph);

/// Splits reductions that have too few results to keep a device busy into two, the first of which
/// gives `parallelism` partial results or more.
std::shared_ptr<Graph> split_reductions(const Graph& graph, int parallelism);

/// Splits the sum of matrix products that have fewer than `tiles` tiles of 128 x 128 into parts
/// that are computed side by side and added.
std::shared_ptr<Graph> split_products(const Graph& graph, int tiles);

/// Attention that the options do not want as one kernel, as products and a softmax, with the scores
/// in memory.
std::shared_ptr<Graph> expand_attention(const Graph& graph, const PassOptions& options);

/// All passes in order.
std::shared_ptr<Graph> run_passes(const Graph& graph, const PassOptions& options = {});

}  // namespace tensorgrad
