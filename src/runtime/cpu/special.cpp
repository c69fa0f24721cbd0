#include "runtime/cpu/special.hpp"

namespace tensorgrad::cpu {

Strided bind(const StridedOperand& operand, const Kernel& kernel, const KernelContext& context) {
  Strided result{nullptr, operand.type.shape, operand.strides};
  if (operand.binding < 0) return result;
  const Binding& b = kernel.bindings[static_cast<std::size_t>(operand.binding)];
  result.data = context.buffers[static_cast<std::size_t>(b.buffer)] + b.offset + operand.offset;
  return result;
}

std::unique_ptr<CpuKernel> make_special_kernel(const Kernel& kernel, const KernelContext& context) {
  switch (kernel.special->op) {
    case OpKind::LinearScan:
      return make_linear_scan(kernel, context);
    case OpKind::ScanState:
    case OpKind::ScanOutput:
    case OpKind::ScanGradState:
    case OpKind::ScanGrad:
      return make_selective_scan(kernel, context);
    case OpKind::Attention:
    case OpKind::AttentionGradQ:
    case OpKind::AttentionGradKV:
      return make_attention(kernel, context);
    default:
      throw InternalError("cpu: no implementation of " + kernel.name);
  }
}

}  // namespace tensorgrad::cpu
