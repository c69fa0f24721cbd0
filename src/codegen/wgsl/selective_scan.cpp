// The kernels of the selective scan that walk once through a chunk; scan_grad.cpp has the other.
#include "codegen/wgsl/generators.hpp"
#include "codegen/wgsl/scan_printer.hpp"

namespace tensorgrad::wgsl {

namespace {

/// Steps a tile, and channels a workgroup.
constexpr std::int64_t kTile = 8, kSlab = 64;

using Freight = ScanPrinter::Freight;

void nothing() {}

}  // namespace

// S: the state at the end of each chunk, from 0
void emit_scan_state(Module& module) {
  ScanPrinter p(module, {kTile, true, true, kSlab});
  const Freight freight{{{"delta", p.of().delta}, {"u", p.of().u}}, true, false};
  p.begin();
  p.declare(freight);
  p.open();
  module.main.line("var h = vec4<f32>();");
  const auto step = [&] { p.advance("h", "h"); };
  p.walk(freight, p.tiles(), false, nothing, step, nothing);
  p.put_state(0, "h");
  p.close();
}

// y
void emit_scan_output(Module& module) {
  ScanPrinter p(module, {kTile, true, false, kSlab});
  const Freight freight{{{"delta", p.of().delta}, {"u", p.of().u}}, true, true};
  p.begin();
  p.declare(freight);
  p.declare_sums();
  p.open();
  module.main.line("var h = " + p.state(*p.of().start) + ";");
  const auto step = [&] {
    p.advance("h", "h");
    module.main.line("sums[j * " + unsigned_text(p.threads()) + " + local] = dot(c, h);");
  };
  p.walk(freight, p.tiles(), false, nothing, step, [&] { p.put_sequence(0); });
  p.close();
}

// E: what a chunk adds to the gradient of the state at its start
void emit_scan_grad_state(Module& module) {
  ScanPrinter p(module, {kTile, true, true, kSlab});
  const Freight freight{{{"delta", p.of().delta}, {"g", p.of().g}}, false, true};
  p.begin();
  p.declare(freight);
  p.open();
  module.main.line("var r = vec4<f32>();");
  const auto step = [&] { module.main.line("r = scan_decay(delta * a) * (r + c * g);"); };
  p.walk(freight, p.tiles(), true, nothing, step, nothing);
  p.put_state(0, "r");
  p.close();
}

}  // namespace tensorgrad::wgsl
