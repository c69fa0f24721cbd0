// What kernels cost: how much they read, write and compute, and how long they took.
#pragma once

#include <string>
#include <vector>

#include "tensorgrad/plan.hpp"

namespace tensorgrad {

/// What a kernel has to do at least, known from the plan.
struct KernelCost {
  std::int64_t bytes = 0;  ///< each element of its bindings once
  double flops = 0;        ///< a multiplication and an addition are two
};
KernelCost kernel_cost(const Kernel& kernel);

/// A kernel as one run took it.
struct KernelTime {
  std::string name, ops, site;  ///< `matmul_add`, the ops it computes, `model.cpp:12`
  KernelCost cost;
  double seconds = 0;
};

/// Kernels of the same name together, the costliest first.
struct KernelTotal {
  std::string name;
  int count = 0;
  KernelCost cost;
  double seconds = 0;
};
std::vector<KernelTotal> totals(const std::vector<KernelTime>& times);

/// The kernels one after another, in the format that chrome://tracing and Perfetto show.
std::string chrome_trace(const std::vector<KernelTime>& times);

}  // namespace tensorgrad
