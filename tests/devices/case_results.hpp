// What became of every op case on a device, run once a process however many tests ask.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "support/op_cases.hpp"
#include "support/run_plan.hpp"
#include "tensorgrad/device.hpp"

namespace tensorgrad::test {

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
    results.push_back({&op_case, device_difference(*device.backend(), *made.graph, made.feeds,
                                                   op_case.tolerance)});
  }
  return results;
}

}  // namespace tensorgrad::test
