// What a kernel means, in double precision and as plainly as can be: the oracle of the WGSL printer
// and of the CPU executor.
#pragma once

#include <map>
#include <vector>

#include "tensorgrad/kernel.hpp"

namespace tensorgrad::testing {

/// The elements of each buffer, by the number that bindings name it by. i32 and bool are numbers
/// too.
using HostBuffers = std::map<int, std::vector<double>>;

/// Runs a kernel. All loads see the buffers as they were before it. Throws std::logic_error where a
/// kernel is wrong: a load or store outside its binding, an element stored twice, an expression
/// that uses a later one, a binding read or written that does not say so, a hint that does not fit.
void evaluate(const Kernel& kernel, HostBuffers& buffers);

}  // namespace tensorgrad::testing
