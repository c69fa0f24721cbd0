// Random training graphs over all ops, for fuzzing: the same seed gives the same graph everywhere.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "runtime/reference/interpreter.hpp"
#include "tensorgrad/graph.hpp"

namespace tensorgrad::test {

struct RandomGraph {
  std::shared_ptr<Graph> graph;  ///< outputs, captures and gradients; a scalar loss first
  std::map<std::string, reference::Values> feeds;
};

/// Values stay moderate, and ops that jump (floor, argmax, comparisons) are applied only to values
/// that every device has exactly, so that f32 and f64 agree.
RandomGraph random_graph(std::uint64_t seed);

}  // namespace tensorgrad::test
