// Reverse-mode differentiation of a graph, appended to the same graph.
#pragma once

#include <string>
#include <vector>

#include "tensorgrad/graph.hpp"

namespace tensorgrad {

/// What append_grad found.
struct GradResult {
  Tensor loss;
  std::vector<std::string> unreached;  ///< Trainable parameters the loss does not depend on.
};

/// Appends the gradients of the graph's first output, the loss, by every trainable parameter it
/// reaches, and lists them in graph.gradients.
GradResult append_grad(Graph& graph);

/// Appends the vector-Jacobian products of several outputs: given dLoss/dOutput for each, gives
/// dLoss/dX for each tensor of `wrt` (an invalid Tensor where no output depends on it).
std::vector<Tensor> append_vjp(Graph& graph, const std::vector<Tensor>& outputs,
                               const std::vector<Tensor>& cotangents,
                               const std::vector<Tensor>& wrt);

}  // namespace tensorgrad
