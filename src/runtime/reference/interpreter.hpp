// The reference interpreter: a graph computed op by op in double precision, nothing fused. It is
// the meaning of the ops in code, what gradients are checked on, and the oracle of every other
// backend. Speed does not matter here; being readable does.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tensorgrad/graph.hpp"

namespace tensorgrad::reference {

/// The elements of a tensor in row-major order. An i32 is a whole number, a bool 0 or 1.
using Values = std::vector<double>;

/// Computes the outputs of one node into `tensors`, which is indexed by tensor id and holds its
/// inputs. A literal, constant or iota makes itself; a parameter, input or state must already be
/// there. An index out of range is an Error.
void compute(const Graph& graph, const Node& node, std::vector<Values>& tensors);

/// Runs whole graphs.
class Interpreter {
 public:
  /// The graph must outlive the interpreter.
  explicit Interpreter(const Graph& graph) : graph_(graph) {}

  /// The values of all tensors by id, given those of all parameters, inputs and states by name. A
  /// leaf that is missing or has the wrong number of values is an Error. Write-backs are the
  /// caller's business. `adjust`, if given, may change the values of every tensor, leaves included,
  /// before others read them.
  std::vector<Values> run(const std::map<std::string, Values>& leaves,
                          const std::function<void(const TensorType&, Values&)>& adjust = {}) const;

 private:
  const Graph& graph_;
};

}  // namespace tensorgrad::reference
