// Graph to graph: passes that make a graph smaller without changing what it computes. Each is a
// function of its own that can be called and printed; run_passes is the ordered list of all.
#pragma once

#include <memory>

#include "tensorgrad/graph.hpp"

namespace tensorgrad {

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

/// All passes in order. `parallelism` as in Target.
std::shared_ptr<Graph> run_passes(const Graph& graph, int parallelism = 1);

}  // namespace tensorgrad
