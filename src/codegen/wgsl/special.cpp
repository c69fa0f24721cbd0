// Kernels that are one op each, printed by a generator of their own.
#include "codegen/wgsl/special.hpp"

#include "codegen/wgsl/generators.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::wgsl {

void emit_special(Module& module) {
  switch (module.kernel.special->op) {
    case OpKind::LinearScan:
      return emit_linear_scan(module);
    case OpKind::ScanState:
      return emit_scan_state(module);
    case OpKind::ScanOutput:
      return emit_scan_output(module);
    case OpKind::ScanGradState:
      return emit_scan_grad_state(module);
    case OpKind::ScanGrad:
      return emit_scan_grad(module);
    default:
      throw InternalError("wgsl: no generator for " + module.kernel.name);
  }
}

std::string element(const Module& module, const StridedOperand& operand,
                    const std::vector<std::string>& index) {
  const ArrayRef& ref = module.array(operand.binding);
  std::string text;
  const auto add = [&](std::int64_t factor, const std::string& what) {
    if (factor == 0) return;
    const std::int64_t size = factor < 0 ? -factor : factor;
    const std::string term = what.empty() ? unsigned_text(size)
                             : size == 1  ? what
                                          : unsigned_text(size) + " * " + what;
    // u32 arithmetic wraps, so that a difference may start below zero.
    if (text.empty()) {
      text = factor < 0 ? "0u - " + term : term;
    } else {
      text += (factor < 0 ? " - " : " + ") + term;
    }
  };
  add(ref.start + operand.offset, "");
  for (std::size_t k = 0; k < index.size(); ++k) {
    if (operand.type.shape[static_cast<int>(k)] > 1) add(operand.strides[k], index[k]);
  }
  const std::string place = ref.array + "[" + (text.empty() ? "0u" : text) + "]";
  if (!ref.as_bits) return place;
  return std::string("bitcast<") + (operand.type.dtype == DType::F32 ? "f32" : "i32") + ">(" +
         place + ")";
}

}  // namespace tensorgrad::wgsl
