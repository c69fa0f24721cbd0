// What became of every op case on a device, run once a process however many tests ask.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "support/op_cases.hpp"
#include "support/run_plan.hpp"
#include "tensorgrad/device.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad::test {

/// How a graph's results on a device differ from the reference interpreter's; empty if they agree.
inline std::string compare_with_reference(const Device& device, const Graph& graph,
                                          const std::map<std::string, reference::Values>& feeds,
                                          double tolerance) {
  Backend& backend = *device.backend();
  const auto optimized = run_passes(graph, backend.target().passes);
  const auto planned = std::make_shared<const Plan>(plan(optimized, backend.target()));
  return difference(run_on_device(backend, planned, feeds), reference_results(graph, feeds),
                    tolerance);
}

struct CaseResult {
  const OpCase* op_case;
  std::string difference;  ///< empty: as the reference
};

/// In the order of the table.
inline const std::vector<CaseResult>& case_results(const Device& device) {
  static std::map<std::string, std::vector<CaseResult>> known;
  const auto found = known.find(device.name());
  if (found != known.end()) return found->second;
  std::vector<CaseResult>& results = known[device.name()];
  for (const OpCase& op_case : op_cases()) {
    const CaseGraph made = build_case(op_case);
    results.push_back(
        {&op_case, compare_with_reference(device, *made.graph, made.feeds, op_case.tolerance)});
  }
  return results;
}

}  // namespace tensorgrad::test
