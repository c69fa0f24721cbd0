#include "codegen/cpu/nodes.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace tensorgrad::cpu {

namespace {

using Kind = ValueNode::Kind;

std::uint32_t constant_bits(double value, DType dtype) {
  if (dtype == DType::F32) {
    const auto x = static_cast<float>(value);
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
  }
  return static_cast<std::uint32_t>(static_cast<std::int64_t>(value));
}

double identity(ReduceKind kind, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (kind) {
    case ReduceKind::Prod:
      return 1;
    case ReduceKind::Max:
      return dtype == DType::F32 ? -kInfinity : std::numeric_limits<std::int32_t>::min();
    case ReduceKind::Min:
      return dtype == DType::F32 ? kInfinity : std::numeric_limits<std::int32_t>::max();
    case ReduceKind::Sum:
    case ReduceKind::ArgMax:
    case ReduceKind::ArgMin:
      break;
  }
  return 0;
}

class Builder {
 public:
  Builder(const Kernel& kernel, const Layout& layout, const TapeOptions& options)
      : kernel_(kernel), layout_(layout), options_(options) {
    inner_bit_ = layout.columns ? kG1 : kG0;
    of_expr_.assign(kernel.exprs.size(), -1);
    uses_.assign(kernel.exprs.size(), 0);
  }

  ValueGraph run() {
    count_uses();
    if (options_.add_rows) {
      add_rows(*options_.add_rows);
    } else {
      for (const Store& s : kernel_.stores) store(s);
    }
    return std::move(graph_);
  }

 private:
  const Expr& expr(ExprId id) const { return kernel_.exprs[static_cast<std::size_t>(id)]; }
  ValueNode& node(int id) { return graph_.nodes[static_cast<std::size_t>(id)]; }

  // ---- uses, so that a value used once can be computed together with the one around it

  void count_uses() {
    std::vector<bool> seen(kernel_.exprs.size(), false);
    std::vector<ExprId> stack;
    const auto use = [&](ExprId id) {
      ++uses_[static_cast<std::size_t>(id)];
      if (seen[static_cast<std::size_t>(id)]) return;
      seen[static_cast<std::size_t>(id)] = true;
      stack.push_back(id);
    };
    const std::function<void(const Index&)> use_data = [&](const Index& index) {
      for (const Index::Term& t : index.terms()) {
        if (t.atom->kind == IndexAtom::Kind::Data) use(t.atom->id);
        if (t.atom->arg) use_data(*t.atom->arg);
      }
    };
    for (const Store& s : kernel_.stores) {
      use(s.value);
      use_data(s.index);
    }
    if (options_.add_rows) {
      use(options_.add_rows->source);
      use(options_.add_rows->indices);
    }
    while (!stack.empty()) {
      const Expr& e = expr(stack.back());
      stack.pop_back();
      for (ExprId arg : e.args) use(arg);
      use_data(e.index);
      for (const Guard& g : e.guards) use_data(g.index);
    }
  }

  // ---- nodes

  int add(ValueNode n) {
    graph_.nodes.push_back(std::move(n));
    return static_cast<int>(graph_.nodes.size()) - 1;
  }

  int constant(std::uint32_t bits, DType dtype) {
    ValueNode n;
    n.bits = bits;
    n.dtype = dtype;
    return add(n);
  }

  Mask mask_of(const AffinePart& part) const {
    Mask mask = 0;
    for (int g = 0; g < 2; ++g) {
      for (int d : layout_.groups[static_cast<std::size_t>(g)]) {
        if (part.strides[static_cast<std::size_t>(d)] != 0) mask |= static_cast<Mask>(1 << g);
      }
    }
    return mask & layout_.all();
  }

  std::uint32_t deps_of(const AffinePart& part) const {
    std::uint32_t deps = 0;
    for (std::size_t d = 0; d < layout_.dims.size(); ++d) {
      if (part.strides[d] != 0) deps |= 1u << d;
    }
    return deps;
  }

  /// Takes over what the arguments depend on.
  void inherit(ValueNode& n) {
    for (int arg : n.args) {
      if (arg < 0) continue;
      n.mask |= node(arg).mask;
      n.deps |= node(arg).deps;
      n.rank = std::max(n.rank, node(arg).rank);
    }
  }

  int spread(int id, Mask mask) {
    if (node(id).mask == mask) return id;
    const auto key = std::pair{id, mask};
    const auto found = spreads_.find(key);
    if (found != spreads_.end()) return found->second;
    ValueNode n;
    n.kind = Kind::Spread;
    n.dtype = node(id).dtype;
    n.args[0] = id;
    inherit(n);
    n.mask = mask;
    return spreads_[key] = add(n);
  }

  /// Single lanes stay as they are: instructions take them. So do numbers of rows, if a row is
  /// worth a call of its own.
  int spread_unless_single(int id, Mask mask) {
    constexpr std::int64_t kLongRow = 64;
    const Mask own = node(id).mask;
    const bool of_rows = own == kG1 && mask == (kG0 | kG1) && layout_.n0 >= kLongRow;
    return own == 0 || of_rows ? id : spread(id, mask);
  }

  int operation(OpKind op, DType dtype, std::vector<int> args) {
    ValueNode n;
    n.kind = Kind::Op;
    n.op = op;
    n.dtype = dtype;
    n.from = node(op == OpKind::Where ? args[1] : args[0]).dtype;
    for (std::size_t k = 0; k < args.size(); ++k) n.args[k] = args[k];
    inherit(n);
    for (std::size_t k = 0; k < args.size(); ++k) {
      const bool block = args.size() == 1 || (args.size() == 3 && k == 0);
      n.args[k] = block ? spread(args[k], n.mask) : spread_unless_single(args[k], n.mask);
    }
    return add(n);
  }

  // ---- index maps

  static bool fits_i32(std::int64_t low, std::int64_t high) {
    return low >= std::numeric_limits<std::int32_t>::min() &&
           high <= std::numeric_limits<std::int32_t>::max();
  }

  AffinePart affine_part(const Index& index) const {
    AffinePart part;
    part.base = index.constant();
    for (const Index::Term& t : index.terms()) {
      if (t.atom->kind == IndexAtom::Kind::Var)
        part.strides[static_cast<std::size_t>(t.atom->id)] = t.coefficient;
    }
    return part;
  }

  int iota(const AffinePart& part, bool relative) {
    std::string key = relative ? "~" : "";
    key += std::to_string(part.base);
    for (std::size_t d = 0; d < layout_.dims.size(); ++d)
      key += "," + std::to_string(part.strides[d]);
    const auto found = iotas_.find(key);
    if (found != iotas_.end()) return found->second;
    int id;
    if (deps_of(part) == 0 || (relative && mask_of(part) == 0)) {
      id = constant(static_cast<std::uint32_t>(part.base), DType::I32);
    } else {
      ValueNode n;
      n.kind = Kind::Iota;
      n.dtype = DType::I32;
      n.map = part;
      n.relative = relative;
      n.mask = mask_of(part);
      n.deps = relative ? 0 : deps_of(part);
      id = add(n);
    }
    return iotas_[key] = id;
  }

  int atom_value(const IndexAtom& atom) {
    switch (atom.kind) {
      case IndexAtom::Kind::Data:
        return value(atom.id);
      case IndexAtom::Kind::Div:
      case IndexAtom::Kind::Mod: {
        const auto found = indices_.find(atom.key);
        if (found != indices_.end()) return found->second;
        ValueNode n;
        n.kind = atom.kind == IndexAtom::Kind::Div ? Kind::FloorDiv : Kind::FloorMod;
        n.dtype = DType::I32;
        n.args[0] = index_value(*atom.arg);
        n.value = atom.divisor;
        inherit(n);
        return indices_[atom.key] = add(n);
      }
      case IndexAtom::Kind::Var:
        break;
    }
    throw InternalError("cpu: a variable is no atom to compute");
  }

  /// The terms that are not multiples of variables, as an i32 value; -1 if there are none.
  int irregular_value(const Index& index) {
    int sum = -1;
    for (const Index::Term& t : index.terms()) {
      if (t.atom->kind == IndexAtom::Kind::Var) continue;
      int term = atom_value(*t.atom);
      if (t.coefficient != 1) {
        const int factor = constant(static_cast<std::uint32_t>(t.coefficient), DType::I32);
        term = operation(OpKind::Mul, DType::I32, {term, factor});
      }
      sum = sum < 0 ? term : operation(OpKind::Add, DType::I32, {sum, term});
    }
    return sum;
  }

  int index_value(const Index& index) {
    if (!index.uses_data() && !fits_i32(index.low(), index.high())) {
      throw DeviceError("cpu: kernel " + kernel_.name +
                        " counts beyond 2^31: " + index.to_string() + ".");
    }
    const std::string key = index.to_string();
    const auto found = indices_.find(key);
    if (found != indices_.end()) return found->second;
    const int regular = iota(affine_part(index), false), irregular = irregular_value(index);
    int id = regular;
    if (irregular >= 0) {
      const bool zero = node(regular).kind == Kind::Constant && node(regular).bits == 0;
      id = zero ? irregular : operation(OpKind::Add, DType::I32, {irregular, regular});
    }
    return indices_[key] = id;
  }

  // ---- guards

  struct Guards {
    bool never = false;     ///< one of them cannot hold
    bool all_clips = true;  ///< all are clips: affine, and not data
    std::vector<GuardPart> clips;
    std::vector<const Guard*> others;       ///< in order
    std::vector<std::size_t> clips_before;  ///< by `others`
  };

  Guards sort(const std::vector<Guard>& guards) const {
    Guards result;
    for (const Guard& g : guards) {
      if (!g.index.uses_data()) {
        const std::int64_t low = g.index.low(), high = g.index.high();
        if (high < g.low || low >= g.high) result.never = true;
        if (g.modulus == 1) {
          if (low >= g.low && high < g.high) continue;
          if (g.index.is_affine() && result.clips.size() < kMaxClips) {
            result.clips.push_back({affine_part(g.index), g.low, g.high});
            continue;
          }
        }
      }
      result.all_clips = false;
      result.others.push_back(&g);
      result.clips_before.push_back(result.clips.size());
    }
    return result;
  }

  int both(int a, int b) {
    return a < 0 ? b : b < 0 ? a : operation(OpKind::LogicalAnd, DType::Bool, {a, b});
  }

  int clip_test(std::vector<GuardPart> clips) {
    if (clips.empty()) return -1;
    ValueNode n;
    n.kind = Kind::ClipTest;
    n.dtype = DType::Bool;
    n.clips = std::move(clips);
    for (const GuardPart& c : n.clips) {
      n.mask |= mask_of(c.index);
      n.deps |= deps_of(c.index);
    }
    return add(n);
  }

  int in_range(const Guard& g, bool reports, int gate) {
    ValueNode n;
    n.kind = Kind::InRange;
    n.dtype = DType::Bool;
    n.range = {g.low, g.high, g.modulus, g.indirect && reports, g.node};
    n.args[0] = index_value(g.index);
    n.args[1] = n.range.indirect ? gate : -1;
    inherit(n);
    n.args[0] = spread(n.args[0], n.mask);
    if (n.args[1] >= 0) n.args[1] = spread(n.args[1], n.mask);
    return add(n);
  }

  /// The conjunction as a bool value; -1 if all hold everywhere. An index out of range is an error
  /// only where the guards before it hold.
  int test(const Guards& guards, bool reports) {
    int ok = -1;
    std::size_t done = 0;
    const auto take_clips = [&](std::size_t end) {
      ok = both(ok, clip_test({guards.clips.begin() + static_cast<std::ptrdiff_t>(done),
                               guards.clips.begin() + static_cast<std::ptrdiff_t>(end)}));
      done = end;
    };
    for (std::size_t k = 0; k < guards.others.size(); ++k) {
      take_clips(guards.clips_before[k]);
      ok = both(ok, in_range(*guards.others[k], reports, ok));
    }
    take_clips(guards.clips.size());
    return ok;
  }

  /// Whether a load of the kernel has this guard: then that reports, knowing the guards around it.
  bool a_load_reports(const Guard& g) const {
    for (std::size_t id = 0; id < kernel_.exprs.size(); ++id) {
      if (uses_[id] == 0 || kernel_.exprs[id].kind != Expr::Kind::Load) continue;
      for (const Guard& other : kernel_.exprs[id].guards) {
        if (other.indirect && other.node == g.node && other.index == g.index) return true;
      }
    }
    return false;
  }

  // ---- loads

  int load(const Expr& e) {
    const Guards guards = sort(e.guards);
    if (guards.never) return constant(0, e.dtype);
    ValueNode n;
    n.dtype = e.dtype;
    n.binding = e.binding;
    n.map = affine_part(e.index);
    n.mask = mask_of(n.map);
    n.deps = deps_of(n.map);
    if (guards.all_clips && e.index.is_affine()) {
      n.kind = Kind::Load;
      n.clips = guards.clips;
      for (const GuardPart& c : n.clips) {
        n.mask |= mask_of(c.index);
        n.deps |= deps_of(c.index);
      }
      return add(n);
    }
    if (!fits_i32(0, kernel_.bindings[static_cast<std::size_t>(e.binding)].elements)) {
      throw DeviceError("cpu: kernel " + kernel_.name + " gathers from more than 2^31 elements.");
    }
    const int ok = test(guards, true);
    int offset = irregular_value(e.index);
    const Mask offset_mask = offset < 0 ? Mask{0} : node(offset).mask;
    const Mask ok_mask = ok < 0 ? Mask{0} : node(ok).mask;
    const bool by_rows = (n.mask & kG0) && !((offset_mask | ok_mask) & kG0);
    // What the affine part adds inside the tile: along G1 for rows, along both for lanes.
    AffinePart inside;
    for (int g = by_rows ? 1 : 0; g < 2; ++g) {
      for (int d : layout_.groups[static_cast<std::size_t>(g)]) {
        inside.strides[static_cast<std::size_t>(d)] = n.map.strides[static_cast<std::size_t>(d)];
      }
    }
    const int regular = iota(inside, true);
    const bool zero = node(regular).kind == Kind::Constant;
    offset = offset < 0 ? regular
             : zero     ? offset
                        : operation(OpKind::Add, DType::I32, {offset, regular});
    n.kind = by_rows ? Kind::LoadRows : Kind::LoadLanes;
    n.args[0] = offset;
    n.args[1] = ok;
    inherit(n);
    const Mask chosen = static_cast<Mask>(by_rows ? node(offset).mask | ok_mask : n.mask);
    n.args[0] = spread(offset, chosen);
    if (ok >= 0) n.args[1] = spread(ok, chosen);
    return add(n);
  }

  // ---- expressions

  int value(ExprId id) {
    int& known = of_expr_[static_cast<std::size_t>(id)];
    if (known >= 0) return known;
    const int result = compute(expr(id));
    return of_expr_[static_cast<std::size_t>(id)] = result;
  }

  int compute(const Expr& e) {
    switch (e.kind) {
      case Expr::Kind::Const:
        return constant(constant_bits(e.value, e.dtype), e.dtype);
      case Expr::Kind::Position: {
        const int position = index_value(e.index);
        return e.dtype == DType::I32 ? position : operation(OpKind::Cast, e.dtype, {position});
      }
      case Expr::Kind::Load:
        return load(e);
      case Expr::Kind::Test: {
        const Guards guards = sort(e.guards);
        if (guards.never) return constant(0, DType::Bool);
        const bool reports = std::none_of(e.guards.begin(), e.guards.end(), [&](const Guard& g) {
          return g.indirect && a_load_reports(g);
        });
        const int ok = test(guards, reports);
        return ok < 0 ? constant(1, DType::Bool) : ok;
      }
      case Expr::Kind::Op:
        return elementwise(e);
      case Expr::Kind::Reduce:
        return reduce(e);
    }
    throw InternalError("cpu: unknown kind of expression");
  }

  int elementwise(const Expr& e) {
    if (e.op == OpKind::Cast) {
      const DType from = expr(e.args[0]).dtype;
      // A bool is a 0 or 1 already.
      if (from == e.dtype || (from == DType::Bool && e.dtype == DType::I32))
        return value(e.args[0]);
    }
    if (e.dtype == DType::F32 && e.args.size() == 2) {
      for (std::size_t side = 0; side < 2; ++side) {
        const int both = pair(e.op, side == 0, e.args[side], e.args[1 - side]);
        if (both >= 0) return both;
      }
    }
    std::vector<int> args;
    for (ExprId arg : e.args) args.push_back(value(arg));
    return operation(e.op, e.dtype, std::move(args));
  }

  /// What `first` and then `second`, which has its result on the left or on the right, are
  /// together.
  static Pair pair_of(OpKind first, OpKind second, bool left) {
    if (first == OpKind::Mul) {
      if (second == OpKind::Add) return Pair::MulAdd;
      if (second == OpKind::Sub) return left ? Pair::MulSub : Pair::NegMulAdd;
      if (second == OpKind::Mul) return Pair::MulMul;
    }
    if (first == OpKind::Add && second == OpKind::Add) return Pair::AddAdd;
    if (first == OpKind::Add && second == OpKind::Mul) return Pair::AddMul;
    if (first == OpKind::Sub && second == OpKind::Mul) return Pair::SubMul;
    if (first == OpKind::Sub && second == OpKind::Sub && left) return Pair::SubSub;
    return Pair::None;
  }

  /// `inside` and the operation around it as one instruction, if nobody else wants the former and
  /// it has all the lanes of the latter; else -1.
  int pair(OpKind second, bool left, ExprId inside, ExprId other) {
    const Expr& first = expr(inside);
    if (first.kind != Expr::Kind::Op || first.dtype != DType::F32 || first.args.size() != 2 ||
        uses_[static_cast<std::size_t>(inside)] != 1)
      return -1;
    const Pair both = pair_of(first.op, second, left);
    if (both == Pair::None) return -1;
    int a = value(first.args[0]), b = value(first.args[1]);
    const int c = value(other);
    const Mask mask = node(a).mask | node(b).mask | node(c).mask;
    if (node(a).mask != mask && first.op != OpKind::Sub) std::swap(a, b);
    if (node(a).mask != mask) return -1;
    ValueNode n;
    n.kind = Kind::Pair;
    n.pair = both;
    n.args = {a, b, c};
    inherit(n);
    n.args = {a, spread_unless_single(b, mask), spread_unless_single(c, mask)};
    return add(n);
  }

  int reduce(const Expr& e) {
    const DType from = expr(e.args[0]).dtype;
    if (kernel_.inner_size() == 0)
      return constant(constant_bits(identity(e.reduce, from), e.dtype), e.dtype);
    const Mask inner = inner_bit_ & layout_.all();
    ValueNode n;
    n.kind = Kind::Reduce;
    n.reduce = e.reduce;
    n.dtype = e.dtype;
    n.from = from;
    const int arg = value(e.args[0]);
    n.args[0] = spread(arg, node(arg).mask | inner);
    inherit(n);
    n.mask = static_cast<Mask>(n.mask & ~inner);
    ++n.rank;
    for (std::size_t d = 0; d < layout_.dims.size(); ++d) {
      if (layout_.dims[d].inner) n.deps &= ~(1u << d);
    }
    return add(n);
  }

  // ---- sinks

  void store(const Store& s) {
    Sink sink;
    sink.binding = s.binding;
    sink.inner = s.inner;
    sink.map = affine_part(s.index);
    const int id = value(s.value);
    sink.mask = static_cast<Mask>(mask_of(sink.map) | node(id).mask);
    int offset = irregular_value(s.index);
    if (offset >= 0) {
      AffinePart inside;
      for (const std::vector<int>& group : layout_.groups) {
        for (int d : group)
          inside.strides[static_cast<std::size_t>(d)] =
              sink.map.strides[static_cast<std::size_t>(d)];
      }
      const int regular = iota(inside, true);
      if (node(regular).kind != Kind::Constant)
        offset = operation(OpKind::Add, DType::I32, {offset, regular});
      sink.mask |= node(offset).mask;
      sink.index = spread(offset, sink.mask);
    }
    sink.value = spread(id, sink.mask);
    graph_.sinks.push_back(sink);
  }

  void add_rows(const TapeOptions::AddRows& a) {
    Sink sink;
    sink.add_rows = true;
    sink.binding = a.binding;
    sink.map = affine_part(a.target);
    sink.index = value(a.indices);
    sink.mask = layout_.all();
    sink.value = spread(value(a.source), sink.mask);
    graph_.sinks.push_back(sink);
  }

  const Kernel& kernel_;
  const Layout& layout_;
  const TapeOptions& options_;
  Mask inner_bit_ = kG0;
  ValueGraph graph_;
  std::vector<int> of_expr_, uses_;
  std::map<std::pair<int, Mask>, int> spreads_;
  std::map<std::string, int> iotas_, indices_;
};

}  // namespace

ValueGraph build_values(const Kernel& kernel, const Layout& layout, const TapeOptions& options) {
  return Builder(kernel, layout, options).run();
}

}  // namespace tensorgrad::cpu
