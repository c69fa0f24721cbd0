#include "codegen/wgsl/print.hpp"

#include "codegen/wgsl/generators.hpp"

namespace tensorgrad {

NodeId WgslKernel::node_at(std::size_t line) const {
  return line == 0 || line > line_nodes.size() ? -1 : line_nodes[line - 1];
}

WgslKernel emit_wgsl(const Kernel& kernel, const WgslLimits& limits, const MatMulTile* tile) {
  if (kernel.special) {
    wgsl::Module module(kernel, limits);
    wgsl::emit_special(module);
    return module.finish();
  }
  const Kernel collapsed = wgsl::collapse(kernel);
  wgsl::Module module(collapsed, limits);
  if (collapsed.vars.size() == static_cast<std::size_t>(collapsed.outer_count)) {
    wgsl::emit_elementwise(module);
  } else if (!wgsl::emit_matmul(module, tile) && !wgsl::emit_scatter(module)) {
    wgsl::emit_row(module);
  }
  return module.finish();
}

}  // namespace tensorgrad
