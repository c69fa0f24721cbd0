// The generators, one for each way to spread a kernel over workgroups. Each takes a module whose
// kernel has been through `collapse` and fills it.
#pragma once

#include "codegen/wgsl/module.hpp"

namespace tensorgrad::wgsl {

/// The same kernel with neighbouring variables made one wherever every index map steps through them
/// as through one. Merged variables keep their place with extent 1.
Kernel collapse(const Kernel& kernel);

/// One thread a point.
void emit_elementwise(Module& module);

/// Rows that are folded: one thread a row, or a team of threads.
void emit_row(Module& module);

/// A product in tiles, if the kernel is one that gains by it; false if not.
bool emit_matmul(Module& module);

/// Rows added at places that are data, if the kernel is one; false if not.
bool emit_scatter(Module& module);

/// A kernel that is one op of class Special.
void emit_special(Module& module);
void emit_linear_scan(Module& module);
void emit_scan_state(Module& module);
void emit_scan_output(Module& module);
void emit_scan_grad_state(Module& module);
void emit_scan_grad(Module& module);

}  // namespace tensorgrad::wgsl
