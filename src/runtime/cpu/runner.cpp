#include "runtime/cpu/runner.hpp"

#include <algorithm>
#include <limits>

#include "runtime/cpu/lanes.hpp"

namespace tensorgrad::cpu {

namespace {

/// Steps after which a sum goes to its second accumulator.
constexpr std::int64_t kFlushSteps = 64;

using Lane __attribute__((may_alias)) = std::uint32_t;

std::int32_t* as_i32(void* p) { return static_cast<std::int32_t*>(p); }

}  // namespace

struct BoundTape::State {
  void** slots;
  char* registers;
  float* const* bases;
  Failure* failure;
  std::size_t lanes[4];                      // by mask
  std::array<std::int64_t, kMaxDims> pos{};  // first point of each dimension in the tile
  std::array<std::int64_t, kMaxDims> cur{};  // points of each dimension in the tile
  Mode mode = Mode::All;
  bool first_step = true;
  std::int64_t first = 0, last = 0;  // Part: inner steps
  float* partials = nullptr;         // Part, Finish: where the block's accumulators are
  int parts = 0;

  std::int64_t at(const Affine& a) const {
    std::int64_t sum = a.base;
    for (const auto& [d, stride] : a.moving) sum += stride * pos[static_cast<std::size_t>(d)];
    return sum;
  }
  float* memory(const TileMap& map) const { return bases[map.binding] + at(map.at); }
  std::size_t size(const TileAxis& axis) const {
    return static_cast<std::size_t>(
        axis.dim < 0 ? axis.factor : axis.factor * cur[static_cast<std::size_t>(axis.dim)]);
  }
};

// ---- binding

BoundTape::BoundTape(Tape tape, std::vector<float*> bases)
    : tape_(std::move(tape)), bases_(std::move(bases)), math_(math()) {
  for (const Section& section : tape_.sections) {
    BoundSection bound{section.kind, section.addresses, {}, {}};
    for (const Instruction& i : section.instructions) {
      Bound b;
      b.i = i;
      if (i.code == Code::Unary || i.code == Code::Binary || i.code == Code::Ternary) {
        const OpFunctions f = i.pair != Pair::None
                                  ? OpFunctions{nullptr, nullptr, functions_of(math_, i.pair)}
                                  : functions_of(math_, i.op, i.from, i.to);
        b.f1 = f.unary;
        switch (i.form) {
          case Form::VV:
            b.f2 = f.binary ? f.binary->vv : nullptr;
            break;
          case Form::VS:
            b.f2 = f.binary->vs;
            break;
          case Form::SV:
            b.f2 = f.binary->sv;
            break;
          case Form::VVV:
            b.f3 = f.ternary->vvv;
            break;
          case Form::VVS:
            b.f3 = f.ternary->vvs;
            break;
          case Form::VSV:
            b.f3 = f.ternary->vsv;
            break;
          case Form::VSS:
            b.f3 = f.ternary->vss;
            break;
        }
        for (int operand : {i.a, i.b, i.c}) {
          b.by_rows |= operand >= 0 && i.mask == (kG0 | kG1) &&
                       tape_.slots[static_cast<std::size_t>(operand)].mask == kG1;
        }
      }
      if (i.code == Code::Reduce && tape_.reductions[static_cast<std::size_t>(i.aux)].step) {
        bound.reductions.push_back(i.aux);
      }
      bound.instructions.push_back(b);
    }
    sections_.push_back(std::move(bound));
  }
  if (tape_.splits_inner) {
    for (const Reduction& r : tape_.reductions) {
      std::int64_t lanes = 1;
      for (int g = 0; g < 2; ++g) {
        if (!(r.lanes >> g & 1)) continue;
        for (int d : tape_.groups[static_cast<std::size_t>(g)])
          lanes *= tape_.dims[static_cast<std::size_t>(d)].tile;
      }
      partial_lanes_ += lanes * tape_.outer_blocks;
    }
  }
}

// ---- loops

void BoundTape::set_lanes(State& s) const {
  std::size_t n[2] = {1, 1};
  for (std::size_t g = 0; g < 2; ++g) {
    for (int d : tape_.groups[g])
      n[g] *= static_cast<std::size_t>(s.cur[static_cast<std::size_t>(d)]);
  }
  s.lanes[0] = 1;
  s.lanes[kG0] = n[0];
  s.lanes[kG1] = n[1];
  s.lanes[kG0 | kG1] = n[0] * n[1];
}

void BoundTape::begin(State& s, const WorkerMemory& memory, float* const* bases) const {
  s.slots = memory.slots;
  s.registers = memory.registers;
  s.bases = bases ? bases : bases_.data();
  s.failure = memory.failure;
  for (std::size_t k = 0; k < tape_.slots.size(); ++k) {
    const Slot& slot = tape_.slots[k];
    if (slot.kind == Slot::Kind::Register) s.slots[k] = s.registers + slot.offset;
    if (slot.kind == Slot::Kind::Constant) s.slots[k] = const_cast<std::uint32_t*>(&slot.bits);
  }
  for (std::size_t d = 0; d < tape_.dims.size(); ++d) {
    s.pos[d] = 0;
    s.cur[d] = tape_.dims[d].group >= 0 ? tape_.dims[d].tile : 1;
  }
  set_lanes(s);
  execute(s, sections_.front());
}

void BoundTape::run(const WorkerMemory& memory, const Box* boxes, std::size_t count,
                    float* const* bases) const {
  State s;
  begin(s, memory, bases);
  for (std::size_t k = 0; k < count; ++k) run_box(s, boxes[k]);
}

void BoundTape::run_box(State& s, const Box& box) const {
  const auto enter = [&](std::size_t d) {
    s.cur[d] = std::min(tape_.dims[d].tile, box.high[d] - s.pos[d]);
  };
  for (int loop : tape_.outer_loops) {
    const auto d = static_cast<std::size_t>(loop);
    if (box.low[d] >= box.high[d]) return;
    s.pos[d] = box.low[d];
    enter(d);
  }
  while (true) {
    set_lanes(s);
    run_block(s);
    std::size_t k = tape_.outer_loops.size();
    while (k-- > 0) {
      const auto d = static_cast<std::size_t>(tape_.outer_loops[k]);
      s.pos[d] += tape_.dims[d].tile;
      if (s.pos[d] < box.high[d]) {
        enter(d);
        break;
      }
      s.pos[d] = box.low[d];
      enter(d);
    }
    if (k == static_cast<std::size_t>(-1)) return;
  }
}

void BoundTape::run_block(State& s) const {
  bool after_steps = false;
  for (std::size_t k = 1; k < sections_.size(); ++k) {
    const BoundSection& section = sections_[k];
    if (section.kind == Section::Kind::Inner) {
      if (s.mode != Mode::Finish) run_steps(s, section);
      if (s.mode != Mode::All) move_accumulators(s, section);
      after_steps = true;
    } else if (!(s.mode == Mode::Part && after_steps)) {
      execute(s, section);
    }
  }
}

void BoundTape::run_steps(State& s, const BoundSection& section) const {
  for (int id : section.reductions) {
    const Reduction& r = tape_.reductions[static_cast<std::size_t>(id)];
    const std::size_t n = s.lanes[r.lanes];
    fill_lanes(reduce_identity(r.kind, r.dtype == DType::F32), s.slots[r.accumulator], n);
    if (r.total >= 0) fill_lanes(0, s.slots[r.total], n);
  }
  const auto flush = [&] {
    for (int id : section.reductions) {
      const Reduction& r = tape_.reductions[static_cast<std::size_t>(id)];
      if (r.total < 0) continue;
      const std::size_t n = s.lanes[r.lanes];
      math_.add.vv(s.slots[r.total], s.slots[r.accumulator], s.slots[r.total], n);
      fill_lanes(0, s.slots[r.accumulator], n);
    }
  };
  const auto enter = [&](std::size_t d) {
    s.cur[d] = std::min(tape_.dims[d].tile, tape_.dims[d].extent - s.pos[d]);
  };
  const std::int64_t first = s.mode == Mode::Part ? s.first : 0;
  const std::int64_t last = s.mode == Mode::Part ? s.last : tape_.inner_steps;
  std::int64_t rest = first;
  for (std::size_t k = tape_.inner_loops.size(); k-- > 0;) {
    const auto d = static_cast<std::size_t>(tape_.inner_loops[k]);
    const std::int64_t tiles = (tape_.dims[d].extent + tape_.dims[d].tile - 1) / tape_.dims[d].tile;
    s.pos[d] = rest % tiles * tape_.dims[d].tile;
    rest /= tiles;
    enter(d);
  }
  s.first_step = true;
  for (std::int64_t step = first; step < last; ++step) {
    set_lanes(s);
    execute(s, section);
    s.first_step = false;
    if ((step - first) % kFlushSteps == kFlushSteps - 1) flush();
    for (std::size_t k = tape_.inner_loops.size(); k-- > 0;) {
      const auto d = static_cast<std::size_t>(tape_.inner_loops[k]);
      s.pos[d] += tape_.dims[d].tile;
      if (s.pos[d] < tape_.dims[d].extent) {
        enter(d);
        break;
      }
      s.pos[d] = 0;
      enter(d);
    }
  }
  flush();
  s.first_step = true;
  // What follows in the block counts full tiles again.
  for (int loop : tape_.inner_loops) {
    const auto d = static_cast<std::size_t>(loop);
    s.pos[d] = 0;
    enter(d);
  }
  set_lanes(s);
}

// ---- shared reductions

void BoundTape::move_accumulators(State& s, const BoundSection& section) const {
  for (int id : section.reductions) {
    const Reduction& r = tape_.reductions[static_cast<std::size_t>(id)];
    void* values = s.slots[r.total >= 0 ? r.total : r.accumulator];
    const std::size_t n = s.lanes[r.lanes];
    if (s.mode == Mode::Part) {
      copy_lanes(values, s.partials, n);
    } else {
      copy_lanes(s.partials, values, n);
      for (int part = 1; part < s.parts; ++part) {
        combine_lanes(math_, r.kind, r.dtype == DType::F32, values,
                      s.partials + part * partial_lanes_, n);
      }
    }
    s.partials += n;
  }
}

void BoundTape::run_part(const WorkerMemory& memory, std::int64_t first_step,
                         std::int64_t last_step, float* partials) const {
  State s;
  s.mode = Mode::Part;
  s.first = first_step;
  s.last = last_step;
  s.partials = partials;
  begin(s, memory, nullptr);
  run_box(s, whole_box(tape_));
}

void BoundTape::finish(const WorkerMemory& memory, const float* partials, int parts) const {
  State s;
  s.mode = Mode::Finish;
  s.partials = const_cast<float*>(partials);
  s.parts = parts;
  begin(s, memory, nullptr);
  run_box(s, whole_box(tape_));
}

// ---- instructions

void BoundTape::execute(State& s, const BoundSection& section) const {
  void** const p = s.slots;
  for (const Address& a : section.addresses) p[a.slot] = s.bases[a.binding] + s.at(a.at);
  for (const Bound& b : section.instructions) {
    const Instruction& i = b.i;
    const std::size_t n = s.lanes[i.mask];
    if (b.by_rows) {
      execute_rows(s, b);
      continue;
    }
    switch (i.code) {
      case Code::Unary:
        b.f1(p[i.a], p[i.out], n);
        break;
      case Code::Binary:
        b.f2(p[i.a], p[i.b], p[i.out], n);
        break;
      case Code::Ternary:
        b.f3(p[i.a], p[i.b], p[i.c], p[i.out], n);
        break;
      case Code::FloorDiv:
      case Code::FloorMod: {
        // (x + 1/2)/d is never a whole number, and far enough from one for double precision.
        const std::int32_t *x = as_i32(p[i.a]), d = static_cast<std::int32_t>(i.value);
        std::int32_t* to = as_i32(p[i.out]);
        const double inverse = 1.0 / static_cast<double>(d);
        const bool mod = i.code == Code::FloorMod;
        for (std::size_t k = 0; k < n; ++k) {
          const double exact = (static_cast<double>(x[k]) + 0.5) * inverse;
          auto quotient = static_cast<std::int32_t>(exact);
          quotient -= exact < static_cast<double>(quotient);
          to[k] = mod ? x[k] - quotient * d : quotient;
        }
        break;
      }
      case Code::Iota:
        number(s, i);
        break;
      case Code::ClipTest:
        clip_test(s, i);
        break;
      case Code::InRange:
        in_range(s, i);
        break;
      case Code::Spread:
        if (i.mask_a == 0) {
          fill_lanes(*static_cast<Lane*>(p[i.a]), p[i.out], n);
        } else if (i.mask_a == kG1) {
          spread_rows(p[i.a], p[i.out], s.lanes[kG1], s.lanes[kG0]);
        } else {
          repeat_row(p[i.a], p[i.out], s.lanes[kG1], s.lanes[kG0]);
        }
        break;
      case Code::Gather:
        gather(s, i);
        break;
      case Code::GatherRows:
        gather_rows(s, i);
        break;
      case Code::GatherLanes:
        gather_lanes(s, i);
        break;
      case Code::Reduce:
        reduce(s, i);
        break;
      case Code::Copy:
        copy_lanes(p[i.a], p[i.out], n);
        break;
      case Code::Scatter:
        scatter(s, i);
        break;
      case Code::ScatterLanes:
        scatter_lanes(s, i);
        break;
      case Code::AddRows:
        add_rows(s, i);
        break;
    }
  }
}

void BoundTape::execute_rows(State& s, const Bound& b) const {
  const std::size_t rows = s.lanes[kG1], n = s.lanes[kG0];
  char* at[3] = {};
  std::size_t step[3] = {};  // bytes from row to row
  const int operands[3] = {b.i.a, b.i.b, b.i.c};
  for (std::size_t k = 0; k < 3; ++k) {
    if (operands[k] < 0) continue;
    const Mask mask = tape_.slots[static_cast<std::size_t>(operands[k])].mask;
    at[k] = static_cast<char*>(s.slots[operands[k]]);
    step[k] = 4 * (mask == kG1 ? 1 : mask == 0 ? 0 : n);
  }
  auto* out = static_cast<char*>(s.slots[b.i.out]);
  for (std::size_t r = 0; r < rows; ++r, out += 4 * n) {
    if (b.f2) {
      b.f2(at[0], at[1], out, n);
    } else {
      b.f3(at[0], at[1], at[2], out, n);
    }
    for (std::size_t k = 0; k < 3; ++k) at[k] += step[k];
  }
}

namespace {

/// Walks the runs of a tile map: all axes but the last, whose size and stride are those of a run.
/// `visit(offset, run)` gets the offset of each run's first element and its number; offsets of
/// further maps over the same axes come through `visit`'s own bookkeeping with `position`.
struct Runs {
  std::size_t sizes[kMaxDims] = {};
  std::size_t count = 0;      // axes before the last
  std::size_t length = 1;     // of a run
  std::ptrdiff_t stride = 0;  // along a run

  template <class Size>
  Runs(const std::vector<TileAxis>& axes, Size size) {
    if (axes.empty()) return;
    count = axes.size() - 1;
    for (std::size_t k = 0; k < count; ++k) sizes[k] = size(axes[k]);
    length = size(axes.back());
    stride = axes.back().stride;
  }

  std::size_t runs() const {
    std::size_t n = 1;
    for (std::size_t k = 0; k < count; ++k) n *= sizes[k];
    return n;
  }

  /// Steps `position` on and adds the change of each map's offset.
  template <class Strides>
  void next(std::size_t* position, std::ptrdiff_t* offsets, std::size_t maps,
            Strides strides) const {
    for (std::size_t k = count; k-- > 0;) {
      if (++position[k] < sizes[k]) {
        for (std::size_t m = 0; m < maps; ++m) offsets[m] += strides(m, k);
        return;
      }
      position[k] = 0;
      for (std::size_t m = 0; m < maps; ++m) {
        offsets[m] -= strides(m, k) * static_cast<std::ptrdiff_t>(sizes[k] - 1);
      }
    }
  }
};

/// The part [begin, end) of a run where low ≤ at + stride·j < high.
void clip_run(std::int64_t at, std::int64_t stride, std::int64_t low, std::int64_t high,
              std::size_t& begin, std::size_t& end) {
  const auto length = static_cast<std::int64_t>(end);
  std::int64_t from = 0, to = length;
  const auto ceil_div = [](std::int64_t a, std::int64_t b) {
    return a > 0 ? (a + b - 1) / b : -(-a / b);
  };
  if (stride == 0) {
    if (at < low || at >= high) to = 0;
  } else if (stride > 0) {
    from = ceil_div(low - at, stride);
    to = ceil_div(high - at, stride);
  } else {
    from = ceil_div(at - high + 1, -stride);
    to = ceil_div(at - low + 1, -stride);
  }
  from = std::clamp<std::int64_t>(from, 0, length);
  to = std::clamp<std::int64_t>(to, 0, length);
  begin = std::max(begin, static_cast<std::size_t>(from));
  end = std::min(end, static_cast<std::size_t>(to));
  if (begin > end) begin = end;
}

void copy_run(const Lane* from, std::ptrdiff_t stride, Lane* to, std::size_t n) {
  if (stride == 1 && n >= 16) return copy_lanes(from, to, n);
  if (stride == 0) {
    for (std::size_t k = 0; k < n; ++k) to[k] = *from;
    return;
  }
  for (std::size_t k = 0; k < n; ++k) to[k] = from[static_cast<std::ptrdiff_t>(k) * stride];
}

/// to[r·cols + c] = from[c·stride + r]
void transpose(const Lane* from, std::ptrdiff_t stride, Lane* to, std::size_t rows,
               std::size_t cols) {
  // Lines far apart are no pattern that the machine would fetch ahead of time.
  for (std::size_t c = 0; c < cols; ++c) {
    for (std::size_t r = 0; r < rows; r += 16)
      __builtin_prefetch(from + static_cast<std::ptrdiff_t>(c) * stride + r);
  }
  for (std::size_t c = 0; c < cols; ++c, from += stride) {
    for (std::size_t r = 0; r < rows; ++r) to[r * cols + c] = from[r];
  }
}

}  // namespace

void BoundTape::number(State& s, const Instruction& i) const {
  const TileMap& map = tape_.maps[static_cast<std::size_t>(i.aux)];
  const Runs runs(map.axes, [&](const TileAxis& a) { return s.size(a); });
  std::int32_t* out = as_i32(s.slots[i.out]);
  std::size_t position[kMaxDims] = {};
  std::ptrdiff_t at = s.at(map.at);
  for (std::size_t r = runs.runs(); r-- > 0; out += runs.length) {
    iota(static_cast<std::int32_t>(at), static_cast<std::int32_t>(runs.stride), out, runs.length);
    runs.next(position, &at, 1, [&](std::size_t, std::size_t k) { return map.axes[k].stride; });
  }
}

namespace {

/// Which clips of a map cut a tile at all.
struct ActiveClips {
  const Clip* clips[kMaxClips];
  std::ptrdiff_t offsets[kMaxClips + 1];  // [0] is the caller's, [k + 1] the value of clip k
  std::size_t count = 0;
  bool nothing = false;
};

}  // namespace

// Clips that hold for the whole tile cost nothing, tiles outside one are zeros; else each run is
// cut.
void BoundTape::gather(State& s, const Instruction& i) const {
  const TileMap& map = tape_.maps[static_cast<std::size_t>(i.aux)];
  const Runs runs(map.axes, [&](const TileAxis& a) { return s.size(a); });
  const std::size_t n = s.lanes[i.mask];
  ActiveClips active;
  for (const Clip& c : map.clips) {
    const std::int64_t at = s.at(c.at);
    std::int64_t low = at, high = at;
    for (std::size_t k = 0; k < map.axes.size(); ++k) {
      const std::int64_t reach =
          c.strides[k] * (static_cast<std::int64_t>(s.size(map.axes[k])) - 1);
      (reach < 0 ? low : high) += reach;
    }
    if (high < c.low || low >= c.high) active.nothing = true;
    if (low >= c.low && high < c.high) continue;
    active.clips[active.count] = &c;
    active.offsets[++active.count] = at;
  }
  const bool is_register =
      tape_.slots[static_cast<std::size_t>(i.out)].kind == Slot::Kind::Register;
  if (is_register)
    s.slots[i.out] = s.registers + tape_.slots[static_cast<std::size_t>(i.out)].offset;
  if (active.nothing) return fill_lanes(0, s.slots[i.out], n);
  float* base = s.memory(map);
  if (active.count == 0 && map.contiguous && is_register) {
    s.slots[i.out] = base;  // nothing to cut: read it where it lies
    return;
  }
  auto* out = static_cast<Lane*>(s.slots[i.out]);
  std::size_t position[kMaxDims] = {};
  std::ptrdiff_t& at = active.offsets[0];
  at = 0;
  if (active.count == 0 && runs.count > 0 && runs.stride != 0 && runs.stride != 1 &&
      map.axes[runs.count - 1].stride == 1) {
    // Memory is contiguous across the runs: whole columns of the tile are read at a time.
    Runs tiles = runs;
    const std::size_t rows = runs.sizes[--tiles.count], cols = runs.length;
    for (std::size_t r = tiles.runs(); r-- > 0; out += rows * cols) {
      transpose(reinterpret_cast<const Lane*>(base) + at, runs.stride, out, rows, cols);
      tiles.next(position, &at, 1, [&](std::size_t, std::size_t k) { return map.axes[k].stride; });
    }
    return;
  }
  if (active.count == 0) {
    for (std::size_t r = runs.runs(); r-- > 0; out += runs.length) {
      copy_run(reinterpret_cast<const Lane*>(base) + at, runs.stride, out, runs.length);
      runs.next(position, &at, 1, [&](std::size_t, std::size_t k) { return map.axes[k].stride; });
    }
    return;
  }
  for (std::size_t r = runs.runs(); r-- > 0; out += runs.length) {
    std::size_t begin = 0, end = runs.length;
    for (std::size_t c = 0; c < active.count; ++c) {
      const Clip& clip = *active.clips[c];
      std::size_t from = 0, to = runs.length;
      clip_run(active.offsets[c + 1], clip.strides.empty() ? 0 : clip.strides.back(), clip.low,
               clip.high, from, to);
      begin = std::max(begin, from);
      end = std::min(end, to);
    }
    if (begin > end) begin = end;
    fill_lanes(0, out, begin);
    if (begin < end) {
      copy_run(reinterpret_cast<const Lane*>(base) + at +
                   static_cast<std::ptrdiff_t>(begin) * runs.stride,
               runs.stride, out + begin, end - begin);
    }
    fill_lanes(0, out + end, runs.length - end);
    runs.next(position, active.offsets, active.count + 1,
              [&](std::size_t m, std::size_t k) -> std::ptrdiff_t {
                return m == 0 ? map.axes[k].stride : active.clips[m - 1]->strides[k];
              });
  }
}

void BoundTape::clip_test(State& s, const Instruction& i) const {
  const TileMap& map = tape_.maps[static_cast<std::size_t>(i.aux)];
  const Runs runs(map.axes, [&](const TileAxis& a) { return s.size(a); });
  auto* out = static_cast<Lane*>(s.slots[i.out]);
  std::size_t position[kMaxDims] = {};
  std::ptrdiff_t values[kMaxClips];
  const std::size_t count = map.clips.size();
  for (std::size_t c = 0; c < count; ++c) values[c] = s.at(map.clips[c].at);
  for (std::size_t r = runs.runs(); r-- > 0; out += runs.length) {
    std::size_t begin = 0, end = runs.length;
    for (std::size_t c = 0; c < count; ++c) {
      const Clip& clip = map.clips[c];
      std::size_t from = 0, to = runs.length;
      clip_run(values[c], clip.strides.empty() ? 0 : clip.strides.back(), clip.low, clip.high, from,
               to);
      begin = std::max(begin, from);
      end = std::min(end, to);
    }
    if (begin > end) begin = end;
    fill_lanes(0, out, begin);
    fill_lanes(1, out + begin, end - begin);
    fill_lanes(0, out + end, runs.length - end);
    runs.next(position, values, count, [&](std::size_t m, std::size_t k) -> std::ptrdiff_t {
      return map.clips[m].strides[k];
    });
  }
}

void BoundTape::in_range(State& s, const Instruction& i) const {
  const RangeTest& range = tape_.ranges[static_cast<std::size_t>(i.aux)];
  const std::int32_t* x = as_i32(s.slots[i.a]);
  const std::int32_t* gate = i.b >= 0 ? as_i32(s.slots[i.b]) : nullptr;
  std::int32_t* out = as_i32(s.slots[i.out]);
  const std::size_t n = s.lanes[i.mask];
  constexpr std::int64_t kLeast = std::numeric_limits<std::int32_t>::min(),
                         kMost = std::numeric_limits<std::int32_t>::max();
  const auto low = static_cast<std::int32_t>(std::clamp(range.low, kLeast, kMost));
  const auto last = static_cast<std::int32_t>(std::clamp(range.high - 1, kLeast, kMost));
  std::int32_t all = 1;
  for (std::size_t k = 0; k < n; ++k) {
    out[k] = static_cast<std::int32_t>(x[k] >= low) & static_cast<std::int32_t>(x[k] <= last);
    all &= out[k];
  }
  if (range.modulus > 1) {
    for (std::size_t k = 0; k < n; ++k)
      out[k] &= static_cast<std::int32_t>((x[k] - range.low) % range.modulus == 0);
  }
  if (all || !range.indirect || !s.failure) return;
  for (std::size_t k = 0; k < n; ++k) {
    if (!out[k] && (!gate || gate[k])) return s.failure->record(range, x[k]);
  }
}

void BoundTape::gather_rows(State& s, const Instruction& i) const {
  const TileMap& map = tape_.maps[static_cast<std::size_t>(i.aux)];
  const Runs runs(map.axes, [&](const TileAxis& a) { return s.size(a); });
  const auto* base = reinterpret_cast<const Lane*>(s.memory(map));
  const std::int32_t* index = as_i32(s.slots[i.a]);
  const std::int32_t* ok = i.b >= 0 ? as_i32(s.slots[i.b]) : nullptr;
  const std::size_t rows = s.lanes[i.mask & kG1], cols = s.lanes[kG0];
  const std::size_t step = i.mask_a & kG1 ? 1 : 0;
  auto* out = static_cast<Lane*>(s.slots[i.out]);
  for (std::size_t r = 0; r < rows; ++r) {
    if (ok && !ok[r * step]) {
      fill_lanes(0, out, cols);
      out += cols;
      continue;
    }
    std::size_t position[kMaxDims] = {};
    std::ptrdiff_t at = index[r * step];
    for (std::size_t k = runs.runs(); k-- > 0; out += runs.length) {
      copy_run(base + at, runs.stride, out, runs.length);
      runs.next(position, &at, 1, [&](std::size_t, std::size_t a) { return map.axes[a].stride; });
    }
  }
}

void BoundTape::gather_lanes(State& s, const Instruction& i) const {
  const auto* base =
      reinterpret_cast<const Lane*>(s.memory(tape_.maps[static_cast<std::size_t>(i.aux)]));
  const std::int32_t* index = as_i32(s.slots[i.a]);
  const std::size_t n = s.lanes[i.mask];
  if (i.b < 0) return load_indexed(base, index, s.slots[i.out], n);
  const std::int32_t* ok = as_i32(s.slots[i.b]);
  auto* out = static_cast<Lane*>(s.slots[i.out]);
  for (std::size_t k = 0; k < n; ++k) out[k] = ok[k] ? base[index[k]] : 0;
}

void BoundTape::scatter(State& s, const Instruction& i) const {
  const TileMap& map = tape_.maps[static_cast<std::size_t>(i.aux)];
  const Runs runs(map.axes, [&](const TileAxis& a) { return s.size(a); });
  float* base = s.memory(map);
  const auto* from = static_cast<const Lane*>(s.slots[i.a]);
  std::size_t position[kMaxDims] = {};
  std::ptrdiff_t at = 0;
  for (std::size_t r = runs.runs(); r-- > 0; from += runs.length) {
    store_strided(from, base + at, runs.stride, runs.length);
    runs.next(position, &at, 1, [&](std::size_t, std::size_t k) { return map.axes[k].stride; });
  }
}

void BoundTape::scatter_lanes(State& s, const Instruction& i) const {
  auto* base = reinterpret_cast<Lane*>(s.memory(tape_.maps[static_cast<std::size_t>(i.aux)]));
  const auto* from = static_cast<const Lane*>(s.slots[i.a]);
  const std::int32_t* index = as_i32(s.slots[i.b]);
  for (std::size_t k = 0; k < s.lanes[i.mask]; ++k) base[index[k]] = from[k];
}

void BoundTape::add_rows(State& s, const Instruction& i) const {
  const TileMap& map = tape_.maps[static_cast<std::size_t>(i.aux)];
  const RangeTest& range = tape_.ranges[static_cast<std::size_t>(i.range)];
  float* base = s.memory(map);
  const auto* from = static_cast<const float*>(s.slots[i.a]);
  const std::int32_t* index = as_i32(s.slots[i.b]);
  // Either a row of lanes for each index, or (nothing but indices in the tile) one lane for each.
  const bool single = i.mask_a & kG0;
  const std::size_t rows = single ? s.lanes[kG0] : s.lanes[kG1], cols = single ? 1 : s.lanes[kG0];
  const std::size_t step = i.mask_a ? 1 : 0;
  const std::ptrdiff_t stride = map.axes.empty() ? 1 : map.axes.back().stride;
  for (std::size_t r = 0; r < rows; ++r, from += cols) {
    const std::int32_t row = index[r * step];
    if (row < range.low || row >= range.high) {
      if (s.failure) s.failure->record(range, row);
      continue;
    }
    float* to = base + row * i.value;
    if (stride == 1 && !single) {
      math_.add.vv(to, from, to, cols);
    } else {
      for (std::size_t c = 0; c < cols; ++c) to[static_cast<std::ptrdiff_t>(c) * stride] += from[c];
    }
  }
}

void BoundTape::reduce(State& s, const Instruction& i) const {
  const Reduction& r = tape_.reductions[static_cast<std::size_t>(i.aux)];
  const bool is_float = r.dtype == DType::F32;
  TileRows tile;
  tile.lanes = s.slots[i.a];
  tile.rows = s.lanes[i.mask_a & kG1];
  tile.cols = s.lanes[i.mask_a & kG0];
  tile.stride = r.row_stride >= 0 ? r.row_stride : static_cast<std::ptrdiff_t>(tile.cols);
  if (r.kind == ReduceKind::ArgMax || r.kind == ReduceKind::ArgMin) {
    const auto position = static_cast<std::int32_t>(s.at(r.position));
    (r.columns ? arg_columns : arg_rows)(math_, r.kind, is_float, tile, position,
                                         s.first_step || !r.step, s.slots[r.extreme],
                                         as_i32(s.slots[i.out]));
    return;
  }
  const std::size_t n = s.lanes[i.mask];
  if (r.columns) {
    void* to = s.slots[r.step ? r.accumulator : i.out];
    if (!r.step) fill_lanes(reduce_identity(r.kind, is_float), to, n);
    reduce_columns(math_, r.kind, is_float, tile, to);
    return;
  }
  if (!r.step) return reduce_rows(math_, r.kind, is_float, tile, s.slots[i.out]);
  // Rows of several steps: few, so a few at a time on the stack.
  constexpr std::size_t kAtOnce = 256;
  alignas(64) std::uint32_t some[kAtOnce];
  auto* accumulator = static_cast<std::uint32_t*>(s.slots[r.accumulator]);
  for (std::size_t done = 0; done < tile.rows; done += kAtOnce) {
    TileRows part = tile;
    part.rows = std::min(kAtOnce, tile.rows - done);
    part.lanes = static_cast<const std::uint32_t*>(tile.lanes) +
                 static_cast<std::ptrdiff_t>(done) * tile.stride;
    reduce_rows(math_, r.kind, is_float, part, some);
    combine_lanes(math_, r.kind, is_float, accumulator + done, some, part.rows);
  }
}

}  // namespace tensorgrad::cpu
