// One table of small programs that together use every op, on awkward shapes: size-1 axes,
// broadcasting, odd lengths, rank 0, negative axes. Gradients are checked on it by finite
// differences, and every device runs it against the reference interpreter. An op without a case
// fails the test OpTable.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/reference/interpreter.hpp"
#include "tensorgrad/ops.hpp"
#include "tensorgrad/optim.hpp"

namespace tensorgrad::test {

using reference::Values;
using Tensors = std::vector<Tensor>;

/// An input of a case and how to fill it.
struct InputSpec {
  Shape shape;
  double low = -2, high = 2;  ///< f32: uniform between; i32: whole numbers, both ends included.
  DType dtype = f32;
  Values values = {};                 ///< Instead of random ones.
  OpKind leaf = OpKind::TensorInput;  ///< Or ParamInput, StateInput.
};

struct OpCase {
  std::string op;       ///< As in ops.hpp.
  std::string variant;  ///< What is special about it.
  std::vector<InputSpec> inputs;
  std::function<Outputs(const Tensors&)> build;

  std::vector<int> no_gradient = {};  ///< f32 inputs that nothing flows back to.
  bool smooth = true;       ///< False at kinks and extremes, where differences say nothing.
  double step = 1e-5;       ///< Of the finite differences.
  bool non_finite = false;  ///< Has infinities or NaN; never smooth.
  /// How far an f32 device may be off, relative to the largest magnitude of a tensor.
  double tolerance = 1e-5;
  /// A training graph: gradients and an update are appended, and its results are the loss (out0),
  /// graph.gradients and the values of graph.write_backs.
  std::optional<Optimizer> optimizer = {};

  std::string name() const { return variant.empty() ? op : op + "/" + variant; }
};

/// All cases; names are unique.
const std::vector<OpCase>& op_cases();

/// A case made into a graph. Leaves: in0, in1, …; with gradients cot0, cot1, …, a cotangent for
/// each f32 output. Outputs: out0, out1, …, then grad<i> for each input i that has a gradient.
struct CaseGraph {
  std::shared_ptr<Graph> graph;
  /// Values of all leaves; those of f32 are floats, so that every device starts from the same.
  std::map<std::string, Values> feeds;
};

/// Without gradients the graph is what the case's ops made and nothing else.
CaseGraph build_case(const OpCase& op_case, bool gradients = true);

}  // namespace tensorgrad::test
