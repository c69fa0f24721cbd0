// The gradients of a selective scan (formulas: src/ops/selective_scan.cpp).
//
// A first walk through the chunk leaves the state at the start of each tile of steps. Then tile by
// tile, from the end: the states and decays of its steps are computed into registers, and the steps
// are gone through backwards. Sums over states (du, dΔ) and over the slab's channels (dB, dC) go
// through workgroup memory, always in the same order.
#include <algorithm>

#include "codegen/wgsl/generators.hpp"
#include "codegen/wgsl/scan_printer.hpp"

namespace tensorgrad::wgsl {

namespace {

constexpr std::int64_t kGradTile = 4;  // steps, which are unrolled

class ScanGradPrinter {
 public:
  explicit ScanGradPrinter(Module& module)
      : module_(module), p_(module, {kGradTile, false, false, slab(module)}), w_(module.main) {}

  void print() {
    const ScanOperands& of = p_.of();
    const Freight once{{{"delta", of.delta}, {"u", of.u}}, true, false};
    all_ = {{{"delta", of.delta}, {"u", of.u}, {"g", of.g}}, true, true};
    if (p_.zoh()) print_slopes();
    p_.begin();
    p_.declare(all_);
    p_.declare_sums(std::max(rows() * row(), 2 * p_.tile() * p_.threads()));
    w_.line("let to_sum = quad * " + unsigned_text(4 * row()) + " + lane;");
    w_.line("let from_sum = local % " + unsigned_text(rows()) + " * " + unsigned_text(row()) +
            " + local / " + unsigned_text(rows()) + " * 8u;");
    p_.open();
    w_.line("var h = " + p_.state(*of.start) + ";");
    w_.line("var r = " + p_.state(*of.end) + ";");
    w_.line("var da = vec4<f32>();");
    const std::int64_t tiles = p_.tiles();
    if (tiles > 1) {
      w_.line("var starts: array<vec4<f32>, " + std::to_string(tiles - 1) + ">;");
      p_.walk(
          once, tiles - 1, false, [&] { w_.line("starts[tile] = h;"); },
          [&] { p_.advance("h", "h"); }, [] {});
    }
    p_.fetch(all_, unsigned_text(tiles - 1));
    w_.open(loop("i", tiles));
    w_.line("let tile = " + unsigned_text(tiles - 1) + " - i;");
    print_tile();
    w_.close();
    p_.put_state(p_.shape().da(), "da");
    p_.close();
  }

 private:
  using Freight = ScanPrinter::Freight;

  /// All channels whose dB and dC are added up, if the device takes so large a workgroup.
  static std::int64_t slab(const Module& module) {
    constexpr std::int64_t kThreads = 4;  // for each channel, with as many states as fit
    const bool large = module.limits.invocations >= kThreads * kScanChannels &&
                       module.limits.workgroup_bytes >= 24576;
    return large ? kScanChannels : kScanChannels / 2;
  }

  /// dB and dC of a step: a row for each state, of a number for each channel. One more, so that
  /// the same channel of several rows lies in different banks.
  std::int64_t rows() const { return 2 * 4 * p_.quads(); }
  std::int64_t row() const { return p_.slab() + 1; }

  static std::string numbered(const char* name, std::int64_t j) { return name + std::to_string(j); }

  /// φ and φ_a from a decay that was kept. With s = (x eˣ - expm1 x) / x²: φ_a = Δ² s and
  /// φ = Δ (eˣ - x s), by a polynomial for s where the differences would cancel.
  void print_slopes() {
    module_.functions.raw(R"(
struct ScanSlopes {
  phi: vec4<f32>,
  phi_a: vec4<f32>,
}

fn scan_slopes(delta: f32, a: vec4<f32>, inverse: vec4<f32>, decay: vec4<f32>) -> ScanSlopes {
  let x = delta * a;
  let s = 0.5 + x * (0.333333313 + x * (0.12499851 + x * (0.0333340392 + x * (0.00697664823
      + x * 0.00118877029))));
  let near = abs(x) < vec4<f32>(0.352);
  let far = (decay - vec4<f32>(1.0)) * inverse;
  return ScanSlopes(select(far, delta * (decay - x * s), near),
      select((delta * decay - far) * inverse, (delta * delta) * s, near));
})");
  }

  void print_tile() {
    const std::int64_t steps = p_.tile();
    if (p_.tiles() > 1) {
      w_.open("if (i > 0u)");
      w_.line("h = starts[tile];");
      w_.close();
    }
    p_.place(all_);
    p_.barrier();
    w_.line("let h0 = h;");
    for (std::int64_t j = 0; j < steps; ++j) {
      w_.line("var " + numbered("h", j + 1) + ": vec4<f32>;");
      w_.line("var " + numbered("decay", j) + ": vec4<f32>;");
      w_.open("");
      p_.read({{all_.columns[0], all_.columns[1]}, true, false}, unsigned_text(j));
      p_.advance(numbered("h", j), numbered("h", j + 1));
      w_.line(numbered("decay", j) + " = decay;");
      w_.close();
    }
    for (std::int64_t j = steps; j-- > 0;) print_step(j);
    if (p_.tiles() > 1) {
      w_.open("if (tile > 0u)");
      p_.fetch(all_, "(tile - 1u)");
      w_.close();
    }
    print_inputs();
    print_sequences();
  }

  /// Step j of the tile, backwards: du, dΔ and da of this thread, dB and dC for others to add.
  void print_step(std::int64_t j) {
    const std::string before = numbered("h", j), after = numbered("h", j + 1),
                      decay = numbered("decay", j), du = numbered("du", j),
                      ddelta = numbered("ddelta", j);
    w_.line("var " + du + " = 0.0;");
    w_.line("var " + ddelta + " = 0.0;");
    w_.open("");
    p_.read(all_, unsigned_text(j));
    w_.line("r += c * g;");
    w_.line("let bu = b * u;");
    w_.line("let back = r * " + decay + ";");
    if (p_.zoh()) {
      w_.line("let f = scan_slopes(delta, a, inverse, " + decay + ");");
      w_.line("let r_phi = r * f.phi;");
      w_.line(ddelta + " = dot(back, a * " + before + " + bu);");
      w_.line("da += delta * back * " + before + " + r * f.phi_a * bu;");
    } else {
      w_.line("let r_phi = r * delta;");
      w_.line(ddelta + " = dot(back, a * " + before + ") + dot(r, bu);");
      w_.line("da += delta * back * " + before + ";");
    }
    w_.line(du + " = dot(r_phi, b);");
    w_.line("let db = r_phi * u;");
    w_.line("let dc = g * " + after + ";");
    for (int i = 0; i < 4; ++i) {
      const std::string component = "[" + std::to_string(i) + "]";
      w_.line("sums[to_sum + " + unsigned_text(i * row()) + "] = db" + component + ";");
      w_.line("sums[to_sum + " + unsigned_text((4 * p_.quads() + i) * row()) + "] = dc" +
              component + ";");
    }
    w_.line("r = back;");
    w_.close();
    p_.barrier();
    // Each thread adds eight channels of one row.
    std::string sum[8];
    for (int k = 0; k < 8; ++k) sum[k] = "sums[from_sum + " + std::to_string(k) + "u]";
    const auto pair = [&](int k) { return "(" + sum[k] + " + " + sum[k + 1] + ")"; };
    w_.line("let " + numbered("part", j) + " = (" + pair(0) + " + " + pair(2) + ") + (" + pair(4) +
            " + " + pair(6) + ");");
    p_.barrier();
  }

  /// dB and dC of the tile, from the parts of its steps.
  void print_inputs() {
    const ScanShape& s = p_.shape();
    const std::int64_t threads = p_.threads(), parts = threads / rows(),
                       results = p_.tile() * rows();
    for (std::int64_t j = 0; j < p_.tile(); ++j)
      w_.line("sums[" + unsigned_text(j * threads) + " + local] = " + numbered("part", j) + ";");
    p_.barrier();
    w_.open(loop("turn", (results + threads - 1) / threads));
    w_.line("let k = turn * " + unsigned_text(threads) + " + local;");
    w_.line("let state = k % " + unsigned_text(rows()) + ";");
    w_.line("let column = band * " + unsigned_text(4 * p_.quads()) + " + state % " +
            unsigned_text(4 * p_.quads()) + ";");
    w_.line("let j = k / " + unsigned_text(rows()) + ";");
    w_.line("let t = tile * " + unsigned_text(p_.tile()) + " + j;");
    w_.open(ScanPrinter::when({results % threads == 0 ? "" : "k < " + unsigned_text(results),
                               p_.has_step("t"), p_.has_state("column")}));
    w_.line("let from_part = j * " + unsigned_text(threads) + " + state;");
    w_.line("var sum = sums[from_part];");
    for (std::int64_t part = 1; part < parts; ++part)
      w_.line("sum += sums[from_part + " + unsigned_text(part * rows()) + "];");
    w_.line("let at = ((batch * " + unsigned_text(s.length) + " + first + t) * " +
            unsigned_text(2 * s.states) + " + column + select(0u, " + unsigned_text(s.states) +
            ", state >= " + unsigned_text(4 * p_.quads()) + ")) * " + unsigned_text(s.blocks()) +
            " + block;");
    if (p_.slabs() > 1) {
      w_.open("if (slab > 0u)");
      w_.line("sum += " + p_.result(s.dbc()) + ";");
      w_.close();
    }
    w_.line(p_.result(s.dbc()) + " = sum;");
    w_.close();
    w_.close();
    p_.barrier();
  }

  /// du and dΔ of the tile.
  void print_sequences() {
    const std::int64_t threads = p_.threads(), half = p_.tile() * threads;
    for (std::int64_t j = 0; j < p_.tile(); ++j) {
      const auto to = [&](std::int64_t at) { return "sums[" + unsigned_text(at) + " + local] = "; };
      w_.line(to(j * threads) + numbered("du", j) + ";");
      w_.line(to(half + j * threads) + numbered("ddelta", j) + ";");
    }
    p_.barrier();
    p_.put_sequence(p_.shape().du());
    p_.put_sequence(p_.shape().ddelta(), half);
    p_.barrier();
  }

  Module& module_;
  ScanPrinter p_;
  Writer& w_;
  Freight all_;
};

}  // namespace

void emit_scan_grad(Module& module) { ScanGradPrinter(module).print(); }

}  // namespace tensorgrad::wgsl
