// The null device: runs nothing, checks everything. Compiler tests plan for it and load into it.
#pragma once

#include <memory>

#include "runtime/backend.hpp"

namespace tensorgrad {

/// A null device that claims to be this target.
std::shared_ptr<Backend> open_null(const Target& target);

/// Throws InternalError, naming the kernel and what is wrong with it, unless every kernel of the
/// plan keeps to the rules: expressions in order and of fitting dtypes, `inner` told rightly, no
/// element read or written outside its binding, no binding outside its buffer, no memory both read
/// and written except point by point. DeviceError, if it needs more bindings than the target has.
void check_kernels(const Plan& plan);

}  // namespace tensorgrad
