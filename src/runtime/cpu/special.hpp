// What the special kernels of the CPU share.
#pragma once

#include <vector>

#include "runtime/cpu/kernels.hpp"

namespace tensorgrad::cpu {

/// An operand with its memory.
struct Strided {
  float* data = nullptr;  ///< null: an output that nobody reads
  Shape shape;
  std::vector<std::int64_t> strides;

  std::int64_t stride(int axis) const { return strides[static_cast<std::size_t>(axis)]; }
};

Strided bind(const StridedOperand& operand, const Kernel& kernel, const KernelContext& context);

std::unique_ptr<CpuKernel> make_linear_scan(const Kernel& kernel, const KernelContext& context);
std::unique_ptr<CpuKernel> make_selective_scan(const Kernel& kernel, const KernelContext& context);
std::unique_ptr<CpuKernel> make_attention(const Kernel& kernel, const KernelContext& context);

}  // namespace tensorgrad::cpu
