// A first-order recurrence along one axis: a thread follows one row from its start to its end.
#include "codegen/wgsl/generators.hpp"
#include "codegen/wgsl/special.hpp"

namespace tensorgrad::wgsl {

void emit_linear_scan(Module& module) {
  const SpecialHint& scan = *module.kernel.special;
  const StridedOperand &a = scan.inputs[0], &b = scan.inputs[1], &initial = scan.inputs[2],
                       &out = scan.outputs[0];
  const int axis = std::get<AxisAttr>(scan.attrs).axis;
  const Shape& shape = out.type.shape;
  const std::int64_t steps = shape[axis] - 1, rows = shape.size() / shape[axis];
  const std::uint32_t size = std::min(64u, module.limits.invocations);
  module.workgroups((rows + size - 1) / size, size, "block");
  Writer& w = module.main;
  w.line("let row = block * " + unsigned_text(size) + " + local;");
  w.open("if (row >= " + unsigned_text(rows) + ")");
  w.line("return;");
  w.close();
  std::vector<std::string> full, next, outer;  // at t, at t + 1, without the axis
  std::int64_t below = rows;
  for (int k = 0; k < shape.rank(); ++k) {
    if (k == axis) {
      full.push_back("t");
      next.push_back("(t + 1u)");
      continue;
    }
    below /= shape[k];
    const std::string name = "i" + std::to_string(k);
    w.line("let " + name + " = row / " + unsigned_text(below) + " % " + unsigned_text(shape[k]) +
           ";");
    full.push_back(name);
    next.push_back(name);
    outer.push_back(name);
  }
  w.line("var h = " + element(module, initial, outer) + ";");
  std::vector<std::string> first = full;
  first[static_cast<std::size_t>(axis)] = "0u";
  w.line(element(module, out, first) + " = h;");
  w.open("for (var t = 0u; t < " + unsigned_text(steps) + "; t++)");
  w.line("h = " + element(module, a, full) + " * h + " + element(module, b, full) + ";");
  w.line(element(module, out, next) + " = h;");
  w.close();
}

}  // namespace tensorgrad::wgsl
