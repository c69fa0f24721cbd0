// Kernels without inner variables: a thread computes one point of the outer space.
#include "codegen/wgsl/body.hpp"
#include "codegen/wgsl/generators.hpp"

namespace tensorgrad::wgsl {

void emit_elementwise(Module& module) {
  const Kernel& kernel = module.kernel;
  const std::int64_t points = kernel.outer_size();
  // Small ones in small workgroups, so that they spread over the whole device.
  const std::uint32_t size = std::min(points < (1 << 16) ? 64u : 256u, module.limits.invocations);
  module.workgroups((points + size - 1) / size, size, "block");
  Writer& out = module.main;
  out.line("let point = block * " + unsigned_text(size) + " + local;");
  if (points % size != 0) {
    out.open("if (point >= " + unsigned_text(points) + ")");
    out.line("return;");
    out.close();
  }
  Body body(module, out);
  body.unravel("point", 0, kernel.outer_count);
  body.alias(body.linear(0, kernel.outer_count), "point");
  // All loads before all stores: a store may be to what another expression reads.
  std::vector<ExprId> needed;
  for (const Store& s : kernel.stores) {
    const std::vector<ExprId> ids = body.needs(s);
    needed.insert(needed.end(), ids.begin(), ids.end());
  }
  body.compute(needed);
  for (const Store& s : kernel.stores) body.store(s);
}

}  // namespace tensorgrad::wgsl
