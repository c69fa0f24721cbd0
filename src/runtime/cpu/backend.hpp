// The CPU device beyond `open_cpu()`: what tests and listings ask of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/backend.hpp"

namespace tensorgrad::cpu {

/// A CPU device of its own with this many threads; `open_cpu()` shares one a process.
std::shared_ptr<Backend> make_cpu_backend(int threads);

/// How each kernel of a program that a CPU device loaded runs: `tape rows`, `gemm portable AVX3 with
/// epilogue`; `(hint unused)` marks one whose pattern had to be spelled out, which is slow.
std::vector<std::string> kernel_descriptions(const Program& program);

}  // namespace tensorgrad::cpu
