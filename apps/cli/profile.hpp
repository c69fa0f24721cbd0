// What the kernels of a step cost, for people and for chrome://tracing.
#pragma once

#include <string>
#include <vector>

#include "tensorgrad/profile.hpp"

namespace tensorgrad::cli {

/// The costliest kernels, those of one name together: share, time, count, rates.
std::string profile_table(const std::vector<KernelTime>& times);

/// The same before anything has run: the kernels that compute and move the most.
std::string cost_table(const Plan& plan);

/// Writes all of them as a trace.
void write_trace(const std::string& path, const std::vector<KernelTime>& times);

}  // namespace tensorgrad::cli
