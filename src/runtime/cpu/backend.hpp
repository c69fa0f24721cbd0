// The CPU device beyond `open_cpu()`: what tests and listings ask of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/backend.hpp"

namespace tensorgrad::cpu {

struct CpuOptions {
  int threads = 1;
  /// For tests: at most so many elements in a block, so that small kernels take many of them; 0: as
  /// many as fit in the cache.
  std::int64_t lanes = 0;
  /// For tests: shares out kernels to all threads however small they are.
  bool share_all = false;
};

/// A CPU device of its own; `open_cpu()` shares one a process.
std::shared_ptr<Backend> make_cpu_backend(const CpuOptions& options);

/// How each kernel of a program that a CPU device loaded runs: `tape rows`, `gemm portable AVX3
/// with epilogue`; `(hint unused)` marks one whose pattern had to be spelled out, which is slow.
std::vector<std::string> kernel_descriptions(const Program& program);

}  // namespace tensorgrad::cpu
