// A collection of kernels that between them use everything the kernel IR has: printed by golden
// tests, run by the tests of each backend.
#pragma once

#include <vector>

#include "support/kernel_eval.hpp"
#include "tensorgrad/kernel.hpp"

namespace tensorgrad::testing {

/// Kernels of small shapes; their names are unique.
std::vector<Kernel> sample_kernels();

struct MatMulSample {
  std::int64_t m, n, k;
  std::int64_t batch = 1;
  bool transpose_lhs = false, transpose_rhs = false;
  bool shared_lhs = false, shared_rhs = false;  ///< the same matrix for the whole batch
  bool epilogue = false;                        ///< relu(acc + bias[n]) + residual[m, n]
};
Kernel matmul_kernel(const MatMulSample& sample);

/// Contents for the buffers of a kernel: small numbers that a float holds, the same every time.
HostBuffers sample_buffers(const Kernel& kernel, std::uint32_t seed = 1);

}  // namespace tensorgrad::testing
