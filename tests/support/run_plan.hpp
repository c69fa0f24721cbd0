// Runs a plan's kernels in the plain evaluator, and compares a plan or a device with the reference.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "runtime/backend.hpp"
#include "runtime/reference/interpreter.hpp"
#include "tensorgrad/plan.hpp"

namespace tensorgrad::test {

using Results = std::map<std::string, reference::Values>;  ///< `output.x`, `capture.x`,
                                                           ///< `gradient.x`, `state.x`, `param.x`

/// Small numbers of both signs for every input of a graph.
std::map<std::string, reference::Values> some_feeds(const Graph& graph);

/// What the reference interpreter says a step of the graph gives. States and parameters are listed
/// as they are after the step.
Results reference_results(const Graph& graph,
                          const std::map<std::string, reference::Values>& feeds);

/// A step of the plan, kernel by kernel, in the evaluator of tests/support/kernel_eval.
Results evaluate_plan(const Plan& plan, const std::map<std::string, reference::Values>& feeds);

/// A step of the plan on a device.
Results run_on_device(Backend& backend, std::shared_ptr<const Plan> plan,
                      const std::map<std::string, reference::Values>& feeds);

/// The first difference beyond `tolerance`·max(0.1, max|want|), as a sentence; empty if there is
/// none.
std::string difference(const Results& got, const Results& want, double tolerance);

/// The first difference between a graph on a device and on the reference interpreter.
std::string device_difference(Backend& backend, const Graph& graph,
                              const std::map<std::string, reference::Values>& feeds,
                              double tolerance);

}  // namespace tensorgrad::test
