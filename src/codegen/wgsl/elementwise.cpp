// Kernels without inner variables: a thread computes one point of the outer space, or, where there
// are many and they lie side by side, four.
#include <algorithm>

#include "codegen/wgsl/generators.hpp"
#include "codegen/wgsl/quads.hpp"

namespace tensorgrad::wgsl {

namespace {

// Where something is read across its rows, as in a transpose, neighbouring threads take the same
// quad of this many rows, and what memory hands out at a time (32 bytes) is used up at once.
constexpr std::int64_t kTurnedRows = 8;

/// Decides the grid and prints which of `points` this thread has.
void place_thread(Module& module, std::int64_t points, const char* name) {
  // Small ones in small workgroups, so that they spread over the whole device.
  const std::uint32_t size = std::min(points < (1 << 16) ? 64u : 256u, module.limits.invocations);
  module.workgroups((points + size - 1) / size, size, "block");
  Writer& out = module.main;
  out.line("let " + std::string(name) + " = block * " + unsigned_text(size) + " + local;");
  if (points % size == 0) return;
  out.open("if (" + std::string(name) + " >= " + unsigned_text(points) + ")");
  out.line("return;");
  out.close();
}

/// Whether something is read across its rows: neighbours along the variable before `last`.
bool reads_turned(const Kernel& kernel, int last) {
  int before = last - 1;
  while (before > 0 && kernel.vars[static_cast<std::size_t>(before)].extent == 1) --before;
  if (before < 0 || kernel.vars[static_cast<std::size_t>(before)].extent % kTurnedRows != 0)
    return false;
  return std::any_of(kernel.exprs.begin(), kernel.exprs.end(), [&](const Expr& e) {
    return e.kind == Expr::Kind::Load && e.index.is_affine() && e.index.stride(before) == 1 &&
           e.index.stride(last) > 1;
  });
}

bool emit_quads(Module& module) {
  constexpr std::int64_t kMany = 1 << 17;
  const Kernel& kernel = module.kernel;
  const std::int64_t points = kernel.outer_size();
  int last = kernel.outer_count - 1;
  while (last > 0 && kernel.vars[static_cast<std::size_t>(last)].extent == 1) --last;
  if (points < kMany || last < 0) return false;
  const std::int64_t along = kernel.vars[static_cast<std::size_t>(last)].extent;
  if (along % 4 != 0) return false;
  Quads quads(module, last);
  if (quads.claim() == 0) return false;

  Writer& out = module.main;
  const bool several = along < points, turned = several && reads_turned(kernel, last);
  place_thread(module, points / 4, turned ? "thread" : "quad");
  std::string number = "quad";
  Body outer(module, out);
  if (turned) {
    out.line("let across = thread / " + unsigned_text(kTurnedRows) + " % " +
             unsigned_text(along / 4) + ";");
    out.line("let row = thread / " + unsigned_text(kTurnedRows * along / 4) + " * " +
             unsigned_text(kTurnedRows) + " + thread % " + unsigned_text(kTurnedRows) + ";");
    out.line("let quad = row * " + unsigned_text(along / 4) + " + across;");
  } else if (several) {
    out.line("let across = quad % " + unsigned_text(along / 4) + ";");
    out.line("let row = quad / " + unsigned_text(along / 4) + ";");
  }
  if (several) number = "across";
  out.line("let first = 4u * " + number + ";");
  if (several) outer.unravel("row", 0, last);
  const Index linear = outer.linear(0, kernel.outer_count);
  quads.print(out, [&](Body& body, int lane) {
    for (int v = 0; v < last; ++v) {
      if (kernel.vars[static_cast<std::size_t>(v)].extent > 1)
        body.set_var(v, "i" + std::to_string(v));
    }
    if (lane < 0) {
      body.set_var(last, number);
      body.alias(quads.number(linear), "quad");
      return;
    }
    const std::string plus = lane == 0 ? "" : " + " + unsigned_text(lane);
    body.set_var(last, lane == 0 ? "first" : "(first" + plus + ")");
    body.alias(linear, several ? "(4u * quad" + plus + ")" : "(first" + plus + ")");
  });
  return true;
}

}  // namespace

void emit_elementwise(Module& module) {
  if (emit_quads(module)) return;
  const Kernel& kernel = module.kernel;
  place_thread(module, kernel.outer_size(), "point");
  Body body(module, module.main);
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
