// Elementwise kernels over concatenations, cut where their guards change.
#pragma once

#include <vector>

#include "tensorgrad/kernel.hpp"

namespace tensorgrad {

/// Kernels that do together what `kernel` does, each without the loads and tests whose guards fail
/// all over its points. A sum of padded tensors becomes a copy for each of them. One kernel, the
/// same, if it has reductions or nothing to cut at.
std::vector<Kernel> cut_into_parts(const Kernel& kernel);

}  // namespace tensorgrad
