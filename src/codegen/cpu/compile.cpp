// From values to instructions: levels and order.
#include <algorithm>

#include "codegen/cpu/nodes.hpp"
#include "codegen/cpu/places.hpp"

namespace tensorgrad::cpu {

namespace {

using Kind = ValueNode::Kind;

/// Bytes that the registers of a tape should fit in: most of an L1 cache, and for whole rows a part
/// of L2.
constexpr std::int64_t kRegisterBytes = 24 << 10, kRowBytes = 96 << 10;
constexpr std::int64_t kMaxLanes = 1024, kMinLanes = 128;

enum Level { kPrologue, kBlock, kInner };

/// What an operation costs, an addition being 1.
double cost(OpKind op) {
  switch (op) {
    case OpKind::Exp:
    case OpKind::Log:
    case OpKind::Log1p:
    case OpKind::Expm1:
    case OpKind::Sin:
    case OpKind::Cos:
    case OpKind::Tanh:
    case OpKind::Erf:
    case OpKind::Sigmoid:
    case OpKind::Softplus:
      return 5;
    case OpKind::Pow:
      return 12;
    case OpKind::Div:
    case OpKind::Sqrt:
    case OpKind::Rsqrt:
      return 2;
    default:
      return 1;
  }
}

double cost(const Instruction& i) {
  switch (i.code) {
    case Code::Unary:
    case Code::Binary:
    case Code::Ternary:
      return cost(i.op);
    case Code::FloorDiv:
    case Code::FloorMod:
    case Code::Gather:
    case Code::GatherRows:
    case Code::Scatter:
    case Code::InRange:
      return 2;
    case Code::GatherLanes:
    case Code::ScatterLanes:
      return 4;
    default:
      return 1;
  }
}

class Compiler {
 public:
  Compiler(const Kernel& kernel, const Layout& layout, const TapeOptions& options)
      : kernel_(kernel),
        layout_(layout),
        options_(options),
        values_(build_values(kernel, layout, options)) {
    tape_.name = kernel.name;
    tape_.dims = layout.dims;
    tape_.groups = layout.groups;
    tape_.outer_loops = layout.outer_loops;
    tape_.inner_loops = layout.inner_loops;
    tape_.columns = layout.columns;
    tape_.has_inner = layout.has_inner;
    tape_.single_step = layout.single_step;
    tape_.lanes = layout.n0 * layout.n1;
    for (int d : layout.outer_loops) tape_.outer_blocks *= tiles(d);
    for (int d : layout.inner_loops) tape_.inner_steps *= tiles(d);
    slot_of_.assign(values_.nodes.size(), -1);
    for (const ValueNode& n : values_.nodes) levels_.push_back(level(n));
  }

  Tape run() {
    sections_.push_back({Section::Kind::Prologue, {}, {}});
    find_rows_read_in_place();
    if (layout_.single_step) {
      emit_single_step();
    } else {
      emit_passes();
    }
    for (Section& s : sections_) {
      const bool empty = s.instructions.empty() && s.addresses.empty();
      if (s.kind == Section::Kind::Prologue || !empty) tape_.sections.push_back(std::move(s));
    }
    forward_stores(kernel_, tape_);
    full_registers_ = place_registers(layout_, tape_);
    estimate_work();
    return std::move(tape_);
  }

  /// Registers of the size of a tile that live at one time.
  int full_registers() const { return full_registers_; }

 private:
  std::int64_t tiles(int d) const {
    const TapeDim& dim = layout_.dims[static_cast<std::size_t>(d)];
    return (dim.extent + dim.tile - 1) / dim.tile;
  }
  const ValueNode& node(int id) const { return values_.nodes[static_cast<std::size_t>(id)]; }
  const TapeDim& dim(int d) const { return layout_.dims[static_cast<std::size_t>(d)]; }

  // ---- levels

  Level level(const ValueNode& n) const {
    Level result = kPrologue;
    for (std::size_t d = 0; d < layout_.dims.size(); ++d) {
      if ((n.deps >> d & 1) && layout_.dims[d].moving) {
        result = std::max(result, layout_.dims[d].inner ? kInner : kBlock);
      }
    }
    if (n.mask == (kG0 | kG1)) {  // lanes lie elsewhere when the length of runs changes
      for (int d : layout_.groups[0]) {
        if (!dim(d).fixed_size) result = std::max(result, dim(d).inner ? kInner : kBlock);
      }
    }
    if (!layout_.single_step && n.rank > 0) result = std::max(result, kBlock);
    // A reduction has fewer lanes than what it folds, but is not known before.
    for (int arg : n.args) {
      if (layout_.single_step && arg >= 0)
        result = std::max(result, levels_[static_cast<std::size_t>(arg)]);
    }
    return result;
  }

  // ---- maps over the tile

  Affine at(const AffinePart& part) const {
    Affine result;
    result.base = part.base;
    for (std::size_t d = 0; d < layout_.dims.size(); ++d) {
      if (part.strides[d] != 0 && layout_.dims[d].moving) {
        result.moving.push_back({static_cast<int>(d), part.strides[d]});
      }
    }
    return result;
  }

  /// The axes of a mask's lanes, joined where all parts run on evenly. strides[k] are those of part
  /// k.
  struct Axes {
    std::vector<TileAxis> axes;
    std::vector<std::vector<std::int64_t>> strides;
  };
  Axes axes(Mask mask, const std::vector<const AffinePart*>& parts) const {
    Axes result;
    result.strides.resize(parts.size());
    for (int g = 1; g >= 0; --g) {
      if (!(mask >> g & 1)) continue;
      for (int d : layout_.groups[static_cast<std::size_t>(g)]) {
        const bool fixed = dim(d).fixed_size;
        const TileAxis axis{fixed ? dim(d).tile : 1, fixed ? -1 : d, 0};
        if (fixed && dim(d).tile == 1) continue;
        bool joins = !result.axes.empty() && fixed;
        for (std::size_t k = 0; joins && k < parts.size(); ++k) {
          joins = result.strides[k].back() ==
                  parts[k]->strides[static_cast<std::size_t>(d)] * dim(d).tile;
        }
        if (joins) {
          result.axes.back().factor *= axis.factor;
        } else {
          result.axes.push_back(axis);
        }
        for (std::size_t k = 0; k < parts.size(); ++k) {
          const std::int64_t stride = parts[k]->strides[static_cast<std::size_t>(d)];
          if (joins) {
            result.strides[k].back() = stride;
          } else {
            result.strides[k].push_back(stride);
          }
        }
      }
    }
    return result;
  }

  TileMap map_of(const AffinePart& part, Mask mask, int binding,
                 const std::vector<GuardPart>& clips) const {
    std::vector<const AffinePart*> parts{&part};
    for (const GuardPart& c : clips) parts.push_back(&c.index);
    const Axes found = axes(mask, parts);
    TileMap map;
    map.binding = binding;
    map.at = at(part);
    map.axes = found.axes;
    for (std::size_t a = 0; a < map.axes.size(); ++a) map.axes[a].stride = found.strides[0][a];
    map.contiguous = map.axes.empty() || (map.axes.size() == 1 && map.axes[0].stride == 1);
    for (std::size_t k = 0; k < clips.size(); ++k) {
      map.clips.push_back({at(clips[k].index), found.strides[k + 1], clips[k].low, clips[k].high});
    }
    return map;
  }

  int add_map(TileMap map) {
    tape_.maps.push_back(std::move(map));
    return static_cast<int>(tape_.maps.size()) - 1;
  }

  /// A plain load whose runs of n0 lanes are contiguous and evenly spaced needs no copy to be
  /// reduced.
  void find_rows_read_in_place() {
    std::vector<int> other_uses(values_.nodes.size(), 0);
    for (const ValueNode& n : values_.nodes) {
      for (int arg : n.args) {
        if (arg >= 0 && n.kind != Kind::Reduce) ++other_uses[static_cast<std::size_t>(arg)];
      }
    }
    for (const Sink& s : values_.sinks) {
      ++other_uses[static_cast<std::size_t>(s.value)];
      if (s.index >= 0) ++other_uses[static_cast<std::size_t>(s.index)];
    }
    row_strides_.assign(values_.nodes.size(), -1);
    for (std::size_t id = 0; id < values_.nodes.size(); ++id) {
      const ValueNode& n = values_.nodes[id];
      if (n.kind != Kind::Load || !n.clips.empty() || n.mask != (kG0 | kG1) || other_uses[id] > 0)
        continue;
      const TileMap run = map_of(n.map, kG0, n.binding, {}),
                    rows = map_of(n.map, kG1, n.binding, {});
      if (run.contiguous && rows.axes.size() == 1 && rows.axes[0].stride > 0)
        row_strides_[id] = rows.axes[0].stride;
    }
  }

  // ---- emission

  Section& section(Level at_level) {
    return sections_[at_level == kPrologue
                         ? 0
                         : static_cast<std::size_t>(at_level == kBlock ? block_ : inner_)];
  }

  int new_slot(Slot slot) {
    tape_.slots.push_back(slot);
    return static_cast<int>(tape_.slots.size()) - 1;
  }
  int new_register(Mask mask) {
    Slot slot;
    slot.mask = mask;
    return new_slot(slot);
  }
  int memory_slot(Level at_level, int binding, Affine address, Mask mask) {
    Slot slot;
    slot.kind = Slot::Kind::Memory;
    slot.mask = mask;
    const int id = new_slot(slot);
    section(at_level).addresses.push_back({id, binding, std::move(address)});
    return id;
  }

  /// The slot of a value, computing it first if it has none yet.
  int emit(int id) {
    int& slot = slot_of_[static_cast<std::size_t>(id)];
    if (slot >= 0) return slot;
    const ValueNode& n = node(id);
    const Level where = levels_[static_cast<std::size_t>(id)];
    if (n.kind == Kind::Constant) {
      Slot constant;
      constant.kind = Slot::Kind::Constant;
      constant.bits = n.bits;
      return slot = new_slot(constant);
    }
    if (n.kind == Kind::Load) {
      TileMap map = map_of(n.map, n.mask, n.binding, n.clips);
      const bool in_place =
          map.clips.empty() && (map.contiguous || row_strides_[static_cast<std::size_t>(id)] >= 0);
      if (in_place) {
        slot = memory_slot(where, n.binding, map.at, n.mask);
        if (where == kInner) inner_values_.push_back(id);
        return slot;
      }
    }
    std::array<int, 3> args{-1, -1, -1};
    for (std::size_t k = 0; k < args.size(); ++k) {
      if (n.args[k] >= 0) args[k] = emit(n.args[k]);
    }
    Instruction i;
    i.a = args[0];
    i.b = args[1];
    i.c = args[2];
    i.mask = n.mask;
    i.from = n.from;
    i.to = n.dtype;
    fill(i, n);
    slot = i.out = new_register(n.mask);
    section(where).instructions.push_back(i);
    if (where == kInner) inner_values_.push_back(id);
    return slot;
  }

  Form form(const ValueNode& n) const {
    const auto single = [&](int k) {
      return node(n.args[static_cast<std::size_t>(k)]).mask != n.mask;
    };
    if (n.args[2] < 0) return single(0) ? Form::SV : single(1) ? Form::VS : Form::VV;
    return single(1) ? (single(2) ? Form::VSS : Form::VSV) : (single(2) ? Form::VVS : Form::VVV);
  }

  void fill(Instruction& i, const ValueNode& n) {
    switch (n.kind) {
      case Kind::Op:
        i.op = n.op;
        i.code = n.args[1] < 0 ? Code::Unary : n.args[2] < 0 ? Code::Binary : Code::Ternary;
        if (i.code != Code::Unary) i.form = form(n);
        return;
      case Kind::Pair:
        i.code = Code::Ternary;
        i.pair = n.pair;
        i.form = form(n);
        return;
      case Kind::FloorDiv:
      case Kind::FloorMod:
        i.code = n.kind == Kind::FloorDiv ? Code::FloorDiv : Code::FloorMod;
        i.value = n.value;
        return;
      case Kind::Iota: {
        i.code = Code::Iota;
        TileMap map = map_of(n.map, n.mask, -1, {});
        if (n.relative) map.at = Affine{n.map.base, {}};
        i.aux = add_map(std::move(map));
        return;
      }
      case Kind::ClipTest:
        i.code = Code::ClipTest;
        i.aux = add_map(map_of(n.map, n.mask, -1, n.clips));
        return;
      case Kind::InRange:
        i.code = Code::InRange;
        tape_.ranges.push_back(n.range);
        i.aux = static_cast<int>(tape_.ranges.size()) - 1;
        return;
      case Kind::Spread:
        i.code = Code::Spread;
        i.mask_a = node(n.args[0]).mask;
        return;
      case Kind::Load:
        i.code = Code::Gather;
        i.aux = add_map(map_of(n.map, n.mask, n.binding, n.clips));
        return;
      case Kind::LoadRows: {
        i.code = Code::GatherRows;
        TileMap map = map_of(n.map, kG0, n.binding, {});
        i.mask_a = node(n.args[0]).mask;
        i.aux = add_map(std::move(map));
        return;
      }
      case Kind::LoadLanes: {
        i.code = Code::GatherLanes;
        TileMap map;
        map.binding = n.binding;
        map.at = at(n.map);
        i.aux = add_map(std::move(map));
        return;
      }
      case Kind::Reduce: {
        i.code = Code::Reduce;
        i.mask_a = node(n.args[0]).mask;
        i.aux = add_reduction(n);
        return;
      }
      case Kind::Constant:
        break;
    }
    throw InternalError("cpu: no instruction for a value");
  }

  int add_reduction(const ValueNode& n) {
    Reduction r;
    r.kind = n.reduce;
    r.dtype = n.from;
    r.columns = layout_.columns;
    r.lanes = n.mask;
    r.row_stride = row_strides_[static_cast<std::size_t>(n.args[0])];
    std::int64_t weight = 1;
    for (std::size_t d = layout_.dims.size(); d-- > 0;) {
      if (!layout_.dims[d].inner) continue;
      if (layout_.dims[d].moving) r.position.moving.push_back({static_cast<int>(d), weight});
      weight *= layout_.dims[d].extent;
    }
    if (n.reduce == ReduceKind::ArgMax || n.reduce == ReduceKind::ArgMin)
      r.extreme = new_register(n.mask);
    tape_.reductions.push_back(r);
    return static_cast<int>(tape_.reductions.size()) - 1;
  }

  bool needed(int id) const { return reachable_[static_cast<std::size_t>(id)]; }

  void find_reachable() {
    reachable_.assign(values_.nodes.size(), false);
    for (const Sink& s : values_.sinks) {
      reachable_[static_cast<std::size_t>(s.value)] = true;
      if (s.index >= 0) reachable_[static_cast<std::size_t>(s.index)] = true;
    }
    for (std::size_t id = values_.nodes.size(); id-- > 0;) {
      if (!reachable_[id]) continue;
      for (int arg : values_.nodes[id].args) {
        if (arg >= 0) reachable_[static_cast<std::size_t>(arg)] = true;
      }
    }
  }

  /// Whether a store before `s` may overwrite what it stores, a value read where it lies.
  bool is_overwritten(const Sink& s) const {
    const ValueNode& value = node(s.value);
    if (value.kind != Kind::Load) return false;
    return std::any_of(values_.sinks.begin(), values_.sinks.end(), [&](const Sink& other) {
      return &other != &s && overlap(kernel_, other.binding, value.binding);
    });
  }

  /// Stores come at the end of their section, after everything has been read.
  void emit_store(const Sink& s, Level where, std::vector<Instruction>& stores) {
    Instruction i;
    i.mask = s.mask;
    i.a = emit(s.value);
    if (is_overwritten(s)) {
      Instruction keep;
      keep.code = Code::Copy;
      keep.mask = node(s.value).mask;
      keep.a = i.a;
      keep.out = i.a = new_register(keep.mask);
      section(where).instructions.push_back(keep);
    }
    if (s.add_rows) {
      i.code = Code::AddRows;
      i.b = emit(s.index);
      i.mask_a = node(s.index).mask;
      i.aux = add_map(map_of(s.map, kG0, s.binding, {}));
      i.value = options_.add_rows->row_stride;
      tape_.ranges.push_back({0, options_.add_rows->rows, 1, true, options_.add_rows->node});
      i.range = static_cast<int>(tape_.ranges.size()) - 1;
    } else if (s.index >= 0) {
      i.code = Code::ScatterLanes;
      i.b = emit(s.index);
      TileMap map;
      map.binding = s.binding;
      map.at = at(s.map);
      i.aux = add_map(std::move(map));
    } else {
      TileMap map = map_of(s.map, s.mask, s.binding, {});
      if (map.contiguous) {
        i.code = Code::Copy;
        i.out = memory_slot(where, s.binding, map.at, s.mask);
      } else {
        i.code = Code::Scatter;
        i.aux = add_map(std::move(map));
      }
    }
    stores.push_back(i);
  }

  void append(std::vector<Instruction>& stores, Level where) {
    auto& to = section(where).instructions;
    to.insert(to.end(), stores.begin(), stores.end());
    stores.clear();
  }

  void emit_single_step() {
    sections_.push_back({Section::Kind::Block, {}, {}});
    block_ = inner_ = 1;
    std::vector<Instruction> stores;
    for (const Sink& s : values_.sinks) emit_store(s, kBlock, stores);
    append(stores, kBlock);
  }

  void emit_passes() {
    find_reachable();
    int last = 0;
    std::vector<int> reductions;
    for (std::size_t id = 0; id < values_.nodes.size(); ++id) {
      if (values_.nodes[id].kind != Kind::Reduce || !needed(static_cast<int>(id))) continue;
      reductions.push_back(static_cast<int>(id));
      last = std::max(last, values_.nodes[id].rank - 1);
    }
    for (const Sink& s : values_.sinks) {
      if (s.inner) last = std::max(last, sink_rank(s));
    }
    bool arg = false;
    std::vector<Instruction> stores;
    for (int pass = 0; pass <= last; ++pass) {
      begin_pass();
      for (int id : reductions) {
        const ValueNode& n = node(id);
        if (n.rank != pass + 1) continue;
        arg |= n.reduce == ReduceKind::ArgMax || n.reduce == ReduceKind::ArgMin;
        emit_step(id);
      }
      for (const Sink& s : values_.sinks) {
        if (!s.inner) continue;
        // What is read again in a later pass may not be overwritten before.
        const int when = is_read(s.binding) ? last : sink_rank(s);
        if (when == pass) emit_store(s, kInner, stores);
      }
      append(stores, kInner);
    }
    tape_.splits_inner = last == 0 && !arg && !reductions.empty();
    sections_.push_back({Section::Kind::Block, {}, {}});
    block_ = static_cast<int>(sections_.size()) - 1;
    for (const Sink& s : values_.sinks) {
      if (!s.inner) emit_store(s, kBlock, stores);
    }
    append(stores, kBlock);
  }

  int sink_rank(const Sink& s) const {
    return std::max(node(s.value).rank, s.index >= 0 ? node(s.index).rank : 0);
  }

  void begin_pass() {
    // Values of the last pass's steps are gone.
    for (int id : inner_values_) slot_of_[static_cast<std::size_t>(id)] = -1;
    inner_values_.clear();
    sections_.push_back({Section::Kind::Block, {}, {}});
    sections_.push_back({Section::Kind::Inner, {}, {}});
    inner_ = static_cast<int>(sections_.size()) - 1;
    block_ = inner_ - 1;
  }

  /// A reduction that adds to accumulators at each inner step.
  void emit_step(int id) {
    const ValueNode& n = node(id);
    Instruction i;
    i.a = emit(n.args[0]);
    i.mask = n.mask;
    i.from = n.from;
    i.to = n.dtype;
    fill(i, n);
    Reduction& r = tape_.reductions.back();
    r.step = true;
    r.accumulator = new_register(n.mask);
    i.out = r.accumulator;
    // Sums go to a second accumulator now and then, which keeps rounding errors small.
    if (n.reduce == ReduceKind::Sum && n.from == DType::F32) i.out = r.total = new_register(n.mask);
    slot_of_[static_cast<std::size_t>(id)] = i.out;
    section(kInner).instructions.push_back(i);
  }

  /// Whether anything the kernel loads may lie in what this binding stores.
  bool is_read(int binding) const {
    return std::any_of(values_.nodes.begin(), values_.nodes.end(), [&](const ValueNode& n) {
      return n.binding >= 0 && overlap(kernel_, n.binding, binding);
    });
  }

  void estimate_work() {
    const double blocks = static_cast<double>(tape_.outer_blocks);
    for (const Section& s : tape_.sections) {
      if (s.kind == Section::Kind::Prologue) continue;
      double one = 0;
      for (const Instruction& i : s.instructions) {
        const Mask mask = i.code == Code::Reduce ? i.mask_a : i.mask;
        one += (cost(i) + 1) * static_cast<double>(layout_.lanes(mask));
      }
      tape_.work += one * blocks *
                    (s.kind == Section::Kind::Inner ? static_cast<double>(tape_.inner_steps) : 1);
    }
  }

  const Kernel& kernel_;
  const Layout& layout_;
  const TapeOptions& options_;
  ValueGraph values_;
  Tape tape_;
  std::vector<Section> sections_;
  int block_ = 0, inner_ = 0;              // sections that values of these levels go to
  std::vector<Level> levels_;              // by node
  std::vector<int> slot_of_;               // by value
  std::vector<int> inner_values_;          // values of this pass's steps
  std::vector<std::int64_t> row_strides_;  // by value: see find_rows_read_in_place
  std::vector<bool> reachable_;
  int full_registers_ = 0;
};

}  // namespace

Tape compile_tape(const Kernel& kernel, const TapeOptions& options) {
  if (static_cast<int>(kernel.vars.size()) > kMaxDims) {
    throw DeviceError("cpu: kernel " + kernel.name + " runs over " +
                      std::to_string(kernel.vars.size()) + " dimensions; " +
                      std::to_string(kMaxDims) + " are the most.");
  }
  LayoutOptions layout_options;
  layout_options.threads = options.threads;
  layout_options.uses = options.uses;
  if (options.add_rows) {
    layout_options.sequence.assign(kernel.vars.size(), false);
    for (int v : options.add_rows->sequence)
      layout_options.sequence[static_cast<std::size_t>(v)] = true;
  }
  // The size of a tile depends on how many registers it needs, which is known afterwards.
  layout_options.lanes = options.lanes > 0 ? options.lanes : kMaxLanes;
  layout_options.row_lanes = options.lanes > 0 ? options.lanes : kRowBytes / 4;
  for (int attempt = 0;; ++attempt) {
    const Layout layout = choose_layout(kernel, layout_options);
    Compiler compiler(kernel, layout, options);
    Tape tape = compiler.run();
    const std::int64_t registers = compiler.full_registers();
    if (options.lanes > 0) return tape;
    if (registers == 0 && !layout_options.no_registers && layout.has_inner) {
      LayoutOptions large = layout_options;
      large.no_registers = true;
      const Layout large_layout = choose_layout(kernel, large);
      Compiler again(kernel, large_layout, options);
      Tape other = again.run();
      return again.full_registers() == 0 ? std::move(other) : std::move(tape);
    }
    const std::int64_t lanes = std::clamp(
        kRegisterBytes / 4 / std::max<std::int64_t>(registers, 1) / 64 * 64, kMinLanes, kMaxLanes);
    const std::int64_t row_lanes =
        std::max(kRowBytes / 4 / std::max<std::int64_t>(registers, 1), lanes);
    const bool fits =
        layout.n0 * layout.n1 <= (layout.single_step && !layout.columns ? row_lanes : lanes);
    if (fits || attempt == 3) return tape;
    layout_options.lanes = std::min(lanes, layout_options.lanes);
    layout_options.row_lanes = std::min(row_lanes, layout_options.row_lanes);
  }
}

}  // namespace tensorgrad::cpu
