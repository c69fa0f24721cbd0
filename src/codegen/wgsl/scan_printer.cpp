#include "codegen/wgsl/scan_printer.hpp"

#include <algorithm>

namespace tensorgrad::wgsl {

namespace {

constexpr std::int64_t kQuads = 4;  // in a band

/// `select(0.0, value, condition)`, or the value if there is no condition.
std::string or_zero(const std::string& value, const std::string& condition) {
  return condition.empty() ? value : "select(0.0, " + value + ", " + condition + ")";
}

// & and not &&, which is a branch.
std::string join(const std::vector<std::string>& conditions) {
  std::string text;
  for (const std::string& c : conditions) {
    if (!c.empty()) text += (text.empty() ? "(" : " & (") + c + ")";
  }
  return text;
}

}  // namespace

std::string loop(const std::string& name, std::int64_t count) {
  return "for (var " + name + " = 0u; " + name + " < " + unsigned_text(count) + "; " + name + "++)";
}

ScanOperands::ScanOperands(const SpecialHint& hint) : out(&hint.outputs[0]) {
  auto take = [&, i = std::size_t{0}]() mutable { return &hint.inputs[i++]; };
  if (hint.op != OpKind::ScanGradState) u = take();
  delta = take();
  a = take();
  bc = take();
  if (hint.op == OpKind::ScanOutput || hint.op == OpKind::ScanGrad) start = take();
  if (hint.op == OpKind::ScanGrad) end = take();
  if (hint.op == OpKind::ScanGrad || hint.op == OpKind::ScanGradState) g = take();
}

ScanPrinter::ScanPrinter(Module& module, const Spread& spread)
    : module_(module),
      out_(module.main),
      of_(*module.kernel.special),
      s_(of_.delta->type.shape, of_.a->type.shape,
         std::get<ScanAttr>(module.kernel.special->attrs)),
      zoh_(std::get<ScanAttr>(module.kernel.special->attrs).zoh) {
  tile_ = std::min(spread.tile, s_.chunk);
  quads_ = std::min(kQuads, (s_.states + 3) / 4);
  (spread.bands_apart ? bands_apart_ : bands_) = (s_.states + 4 * quads_ - 1) / (4 * quads_);
  while (slab_ < std::min(spread.largest_slab, s_.channels)) slab_ *= 2;
  const std::int64_t slabs = (s_.channels + slab_ - 1) / slab_;
  slabs_ = spread.slabs_apart ? 1 : std::min(kScanChannels / slab_, slabs);
  slabs_apart_ = (slabs + slabs_ - 1) / slabs_;
  print_functions();
}

void ScanPrinter::print_functions() {
  Writer& f = module_.functions;
  f.raw(R"(struct ScanPower {
  power: vec4<f32>,
  small: vec4<f32>,
}

// e^x = power (1 + small), as tg_expm1_parts has it. It is 0 below -88; what grows does so by
// e^88 at most.
fn scan_power(x: vec4<f32>) -> ScanPower {
  let low = select(x, vec4<f32>(-88.0), x < vec4<f32>(-88.0));
  let inside = select(low, vec4<f32>(88.0), x > vec4<f32>(88.0));
  let k = round(inside * 1.44269502);
  let r = (inside - k * 0.693359375) - k * -0.000212194442;
  let p = 0.49999997 + r * (0.16666542 + r * (0.0416672044 + r * (0.00836664718
      + r * 0.00138824969)));
  return ScanPower(bitcast<vec4<f32>>((vec4<i32>(k) + vec4<i32>(127)) << vec4<u32>(23u)),
      r + r * r * p);
}

fn scan_decay(x: vec4<f32>) -> vec4<f32> {
  let e = scan_power(x);
  return e.power + e.power * e.small;
})");
  if (!zoh_) return;
  f.raw(R"(
struct ScanStep {
  decay: vec4<f32>,
  phi: vec4<f32>,
}

// expm1(x) / a is as good as expm1 itself, except where a or x leave the normal numbers.
fn scan_step(delta: f32, a: vec4<f32>, inverse: vec4<f32>) -> ScanStep {
  let x = delta * a;
  let e = scan_power(x);
  let phi = (e.power * e.small + (e.power - vec4<f32>(1.0))) * inverse;
  return ScanStep(e.power + e.power * e.small,
      select(phi, vec4<f32>(delta), abs(x) < vec4<f32>(0x1p-25)));
})");
}

void ScanPrinter::begin() {
  const std::int64_t chunks = s_.chunks(), blocks = slabs_apart_ * bands_apart_;
  module_.workgroups(s_.batch * chunks * blocks, static_cast<std::uint32_t>(threads()), "work");
  out_.line("let block = work / " + unsigned_text(bands_apart_) + " % " +
            unsigned_text(slabs_apart_) + ";");
  out_.line("let chunk = work / " + unsigned_text(blocks) + " % " + unsigned_text(chunks) + ";");
  out_.line("let batch = work / " + unsigned_text(blocks * chunks) + ";");
  out_.line("let lane = local % " + unsigned_text(slab_) + ";");
  out_.line("let quad = local / " + unsigned_text(slab_) + ";");
  out_.line("let first = chunk * " + unsigned_text(s_.chunk) + ";");
  if (!has_step("").empty()) {
    out_.line("let steps = min(" + unsigned_text(s_.chunk) + ", " + unsigned_text(s_.length) +
              " - first);");
  }
}

void ScanPrinter::open() {
  if (slabs_ > 1) {
    out_.open(loop("slab", slabs_));
  } else {
    out_.line("let slab = 0u;");
  }
  const std::string channel =
      "(block * " + unsigned_text(slabs_) + " + slab) * " + unsigned_text(slab_) + " + lane";
  if (has_channel().empty()) {
    out_.line("let d = " + channel + ";");
  } else {
    out_.line("let has_channel = " + channel + " < " + unsigned_text(s_.channels) + ";");
    out_.line("let d = min(" + channel + ", " + unsigned_text(s_.channels - 1) + ");");
  }
  if (bands_ > 1) {
    out_.open(loop("band", bands_));
  } else {
    out_.line("let band = work % " + unsigned_text(bands_apart_) + ";");
  }
  out_.line("let n = (band * " + unsigned_text(quads_) + " + quad) * 4u;");
  out_.line("let a = " + state(*of_.a) + ";");
  out_.line("let inverse = 1.0 / select(a, vec4<f32>(1.0), abs(a) < vec4<f32>(0x1p-125));");
}

void ScanPrinter::close() {
  if (bands_ > 1) out_.close();
  if (slabs_ > 1) out_.close();
}

// ---- states

std::string ScanPrinter::has_step(const std::string& step) const {
  const bool full = s_.length % s_.chunk == 0 && s_.chunk % tile_ == 0;
  return full ? "" : step + " < steps";
}

std::string ScanPrinter::has_state(const std::string& n) const {
  return s_.states % (4 * quads_) == 0 ? "" : n + " < " + unsigned_text(s_.states);
}

std::string ScanPrinter::when(const std::vector<std::string>& conditions) {
  const std::string text = join(conditions);
  return text.empty() ? "" : "if (" + text + ")";
}

std::string ScanPrinter::time(const std::string& step) const {
  return has_step(step).empty() ? "(first + " + step + ")"
                                : "(first + min(" + step + ", steps - 1u))";
}

std::string ScanPrinter::result(std::int64_t offset) const {
  const ArrayRef& ref = module_.array(of_.out->binding);
  const std::int64_t start = ref.start + of_.out->offset + offset;
  return ref.array + "[" + (start == 0 ? "" : unsigned_text(start) + " + ") + "at]";
}

std::string ScanPrinter::state(const StridedOperand& from) const {
  std::string text;
  for (int i = 0; i < 4; ++i) {
    const std::string n = "n + " + std::to_string(i) + "u", there = has_state(n);
    const std::string at =
        there.empty() ? "(" + n + ")" : "min(" + n + ", " + unsigned_text(s_.states - 1) + ")";
    const bool rates = from.type.shape.rank() == 2;
    const std::vector<std::string> index =
        rates ? std::vector<std::string>{"d", at}
              : std::vector<std::string>{"batch", "chunk", "d", at};
    text += (i ? ", " : "") + or_zero(element(module_, from, index), join({has_channel(), there}));
  }
  return "vec4<f32>(" + text + ")";
}

void ScanPrinter::put_state(std::int64_t offset, const std::string& quad) {
  for (int i = 0; i < 4; ++i) {
    const std::string n = "n + " + std::to_string(i) + "u";
    out_.open(when({has_channel(), has_state(n)}));
    out_.line("let at = ((batch * " + unsigned_text(s_.chunks()) + " + chunk) * " +
              unsigned_text(s_.channels) + " + d) * " + unsigned_text(s_.states) + " + " + n + ";");
    out_.line(result(offset) + " = " + quad + "[" + std::to_string(i) + "];");
    out_.close();
  }
}

// ---- tiles

void ScanPrinter::declare(const Freight& freight) {
  for (const auto& [name, operand] : freight.columns)
    module_.share(name + "_tile", "f32", tile_ * slab_, 4);
  if (freight.b) module_.share("b_tile", "vec4<f32>", tile_ * quads_, 16);
  if (freight.c) module_.share("c_tile", "vec4<f32>", tile_ * quads_, 16);
  for (const auto& [name, operand] : freight.columns) {
    for (std::int64_t k = 0; k < rounds(); ++k)
      out_.line("var next_" + name + std::to_string(k) + " = 0.0;");
  }
  if (freight.b) out_.line("var next_b = vec4<f32>();");
  if (freight.c) out_.line("var next_c = vec4<f32>();");
}

void ScanPrinter::fetch(const Freight& freight, const std::string& tile) {
  out_.open("");
  // This thread's channel at every few steps.
  for (std::int64_t k = 0; k < rounds(); ++k) {
    const std::string t = "t" + std::to_string(k);
    out_.line("let " + t + " = " + tile + " * " + unsigned_text(tile_) + " + " +
              unsigned_text(k * quads_) + " + quad;");
    for (const auto& [name, operand] : freight.columns) {
      out_.line("next_" + name + std::to_string(k) + " = " +
                or_zero(element(module_, *operand, {"batch", time(t), "d"}),
                        join({has_channel(), has_step(t)})) +
                ";");
    }
  }
  // The first threads take a quad of states at one step each.
  out_.open("if (local < " + unsigned_text(tile_ * quads_) + ")");
  out_.line("let t = " + tile + " * " + unsigned_text(tile_) + " + local / " +
            unsigned_text(quads_) + ";");
  out_.line("let from_n = (band * " + unsigned_text(quads_) + " + local % " +
            unsigned_text(quads_) + ") * 4u;");
  const auto take = [&](const char* name, std::int64_t column) {
    std::string text;
    for (int i = 0; i < 4; ++i) {
      const std::string n = "from_n + " + std::to_string(i) + "u", there = has_state(n);
      const std::string at =
          there.empty() ? n : "min(" + n + ", " + unsigned_text(s_.states - 1) + ")";
      text += (i ? ", " : "") +
              or_zero(element(module_, *of_.bc,
                              {"batch", time("t"), "(" + at + " + " + unsigned_text(column) + ")"}),
                      join({there, has_step("t")}));
    }
    out_.line(std::string("next_") + name + " = vec4<f32>(" + text + ");");
  };
  if (freight.b) take("b", 0);
  if (freight.c) take("c", s_.states);
  out_.close();
  out_.close();
}

void ScanPrinter::place(const Freight& freight) {
  for (std::int64_t k = 0; k < rounds(); ++k) {
    const bool whole = (k + 1) * quads_ <= tile_;
    if (!whole)
      out_.open("if (" + unsigned_text(k * quads_) + " + quad < " + unsigned_text(tile_) + ")");
    for (const auto& [name, operand] : freight.columns) {
      out_.line(name + "_tile[" + unsigned_text(k * threads()) + " + local] = next_" + name +
                std::to_string(k) + ";");
    }
    if (!whole) out_.close();
  }
  out_.open("if (local < " + unsigned_text(tile_ * quads_) + ")");
  if (freight.b) out_.line("b_tile[local] = next_b;");
  if (freight.c) out_.line("c_tile[local] = next_c;");
  out_.close();
}

void ScanPrinter::read(const Freight& freight, const std::string& j) {
  const auto at = [&](std::int64_t row, const char* column) {
    return "[" + j + " * " + unsigned_text(row) + " + " + column + "];";
  };
  for (const auto& [name, operand] : freight.columns)
    out_.line("let " + name + " = " + name + "_tile" + at(slab_, "lane"));
  if (freight.b) out_.line("let b = b_tile" + at(quads_, "quad"));
  if (freight.c) out_.line("let c = c_tile" + at(quads_, "quad"));
}

void ScanPrinter::walk(const Freight& freight, std::int64_t count, bool reversed,
                       const std::function<void()>& before, const std::function<void()>& step,
                       const std::function<void()>& after) {
  const std::string last = unsigned_text(count - 1);
  fetch(freight, reversed ? last : "0u");
  out_.open(loop("i", count));
  out_.line(std::string("let tile = ") + (reversed ? last + " - i;" : "i;"));
  before();
  place(freight);
  barrier();
  if (count > 1) {
    out_.open("if (i < " + last + ")");
    fetch(freight, reversed ? "(tile - 1u)" : "(tile + 1u)");
    out_.close();
  }
  out_.open(loop("k", tile_));
  out_.line("let j = " + (reversed ? unsigned_text(tile_ - 1) + " - k;" : "k;"));
  read(freight, "j");
  step();
  out_.close();
  barrier();
  after();
  out_.close();
}

void ScanPrinter::advance(const std::string& before, const std::string& after) {
  if (zoh_) {
    out_.line("let e = scan_step(delta, a, inverse);");
    out_.line("let decay = e.decay;");
    out_.line(after + " = decay * " + before + " + e.phi * (b * u);");
  } else {
    out_.line("let decay = scan_decay(delta * a);");
    out_.line(after + " = decay * " + before + " + delta * (b * u);");
  }
}

// ---- results

void ScanPrinter::declare_sums(std::int64_t at_least) {
  module_.share("sums", "f32", std::max(at_least, tile_ * threads()), 4);
}

void ScanPrinter::put_sequence(std::int64_t offset, std::int64_t from) {
  out_.open(loop("turn", rounds()));
  out_.line("let j = turn * " + unsigned_text(quads_) + " + quad;");
  out_.line("let t = tile * " + unsigned_text(tile_) + " + j;");
  out_.open(when(
      {tile_ % quads_ == 0 ? "" : "j < " + unsigned_text(tile_), has_channel(), has_step("t")}));
  out_.line("let from_sum = " + unsigned_text(from) + " + j * " + unsigned_text(threads()) +
            " + lane;");
  out_.line("var sum = sums[from_sum];");
  for (std::int64_t q = 1; q < quads_; ++q)
    out_.line("sum += sums[from_sum + " + unsigned_text(q * slab_) + "];");
  out_.line("let at = (batch * " + unsigned_text(s_.length) + " + first + t) * " +
            unsigned_text(s_.channels) + " + d;");
  if (bands_ > 1) {
    out_.open("if (band > 0u)");
    out_.line("sum += " + result(offset) + ";");
    out_.close();
  }
  out_.line(result(offset) + " = sum;");
  out_.close();
  out_.close();
}

}  // namespace tensorgrad::wgsl
