// Lowering is demand-driven: it starts from what a group stores and expands inputs until it meets
// tensors that live in memory. Views only rewrite the index on the way.
#include "codegen/lower.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace tensorgrad {

namespace {

ReduceKind reduce_kind(OpKind op) {
  switch (op) {
    case OpKind::ReduceSum:
      return ReduceKind::Sum;
    case OpKind::ReduceProd:
      return ReduceKind::Prod;
    case OpKind::ReduceMax:
      return ReduceKind::Max;
    case OpKind::ReduceMin:
      return ReduceKind::Min;
    case OpKind::ArgMax:
      return ReduceKind::ArgMax;
    case OpKind::ArgMin:
      return ReduceKind::ArgMin;
    default:
      throw InternalError("lower: no reduction");
  }
}

std::vector<int> reduced_axes(const Node& n) {
  if (const auto* axes = std::get_if<AxesAttr>(&n.attrs)) return axes->axes;
  return {std::get<AxisAttr>(n.attrs).axis};
}

class Lowerer {
 public:
  Lowerer(const Graph& graph, const Fusion& fusion, int group)
      : graph_(graph), fusion_(fusion), group_(group) {}

  LoweredKernel lower_group() {
    const Group& group = fusion_.groups[static_cast<std::size_t>(group_)];
    kernel().phase = group.phase;
    if (group.kind == GroupKind::Special) return lower_special(group);
    make_space(group);
    for (TensorId id : group.stores) {
      const bool full = fusion_.full[static_cast<std::size_t>(graph_.tensor(id).producer)];
      store(id, full);
    }
    // Members that only other kernels recompute are not part of this one.
    std::set<NodeId> computed;
    for (const Expr& e : kernel().exprs) computed.insert(e.node);
    for (NodeId id : group.nodes) {
      if (computed.count(id)) kernel().nodes.push_back(id);
    }
    if (kernel().nodes.empty())
      kernel().nodes = group.nodes;  // a view made real: nothing but loads
    kernel().name = kernel_name(graph_, kernel().nodes);
    return std::move(result_);
  }

  /// Operands are read through strided views of what lives in memory.
  LoweredKernel lower_special(const Group& group) {
    const Node& n = graph_.node(group.nodes.front());
    SpecialHint hint{n.op, n.attrs, {}, {}};
    for (TensorId id : n.inputs) hint.inputs.push_back(strided(id));
    for (TensorId id : n.outputs) {
      StridedOperand operand{-1, graph_.type(id), 0, graph_.type(id).shape.strides()};
      const bool stored =
          std::find(group.stores.begin(), group.stores.end(), id) != group.stores.end();
      if (stored) operand.binding = binding(id, true);
      hint.outputs.push_back(std::move(operand));
    }
    kernel().special = std::move(hint);
    kernel().nodes = group.nodes;
    kernel().name = to_string(n.op);
    return std::move(result_);
  }

  LoweredKernel lower_copy(TensorId source) {
    add_vars(graph_.type(source).shape, true);
    store(source, false);
    result_.tensors.back() = -1;
    const NodeId node = graph_.tensor(source).producer;
    kernel().nodes = {node};
    kernel().phase = graph_.node(node).phase;
    kernel().name = "copy";
    return std::move(result_);
  }

 private:
  Kernel& kernel() { return result_.kernel; }

  // ---- iteration space

  void add_vars(const Shape& shape, bool outer) {
    Index& linear = outer ? outer_ : inner_;
    for (const Dim& dim : shape) {
      const auto id = static_cast<int>(kernel().vars.size());
      kernel().vars.push_back({dim.size});
      linear = linear * dim.size + Index::var(id, dim.size);
    }
    if (outer) kernel().outer_count = static_cast<int>(kernel().vars.size());
  }

  void make_space(const Group& group) {
    switch (group.kind) {
      case GroupKind::Elementwise:
        add_vars(graph_.type(group.stores.front()).shape, true);
        break;
      case GroupKind::Row:
      case GroupKind::Column: {
        for (NodeId id : group.nodes) {
          const Node& n = graph_.node(id);
          if (op_class(n.op) != OpClass::Reduce) continue;
          const Shape& shape = graph_.type(n.inputs[0]).shape;
          Shape reduced;
          for (int axis : reduced_axes(n)) reduced.push_back(shape.dim(axis));
          add_vars(graph_.type(n.output()).shape, true);
          add_vars(reduced, false);
          break;
        }
        break;
      }
      case GroupKind::MatMul: {
        const Node& n = anchor(group, OpKind::MatMul);
        const Shape& lhs = graph_.type(n.inputs[0]).shape;
        add_vars(graph_.type(n.output()).shape, true);
        add_vars({lhs[lhs.rank() - 1]}, false);
        break;
      }
      case GroupKind::Scatter: {
        const Node& n = anchor(group, OpKind::ScatterAdd);
        add_vars(graph_.type(n.output()).shape, true);
        add_vars(graph_.type(n.inputs[1]).shape, false);
        break;
      }
      case GroupKind::Special:
        break;
    }
  }

  StridedOperand strided(TensorId id) {
    StridedOperand operand;
    operand.type = graph_.type(id);
    const Shape& shape = operand.type.shape;
    std::vector<Index> index;
    for (int axis = 0; axis < shape.rank(); ++axis) index.push_back(Index::var(axis, shape[axis]));
    while (!fusion_.realised[static_cast<std::size_t>(id)]) {
      const Node& view = graph_.producer(id);
      index = through_view(graph_, view, index);
      id = view.inputs[0];
    }
    const Index at = ravel(index, graph_.type(id).shape);
    if (!at.is_affine()) throw InternalError("lower: an operand that is no strided view");
    operand.offset = at.constant();
    for (int axis = 0; axis < shape.rank(); ++axis) operand.strides.push_back(at.stride(axis));
    operand.binding = binding(id, false);
    return operand;
  }

  const Node& anchor(const Group& group, OpKind op) const {
    for (NodeId id : group.nodes) {
      if (graph_.node(id).op == op) return graph_.node(id);
    }
    throw InternalError("lower: a group without its anchor");
  }

  // ---- expressions

  ExprId add(Expr e) {
    kernel().exprs.push_back(std::move(e));
    return static_cast<ExprId>(kernel().exprs.size()) - 1;
  }
  const Expr& expr(ExprId id) const { return result_.kernel.exprs[static_cast<std::size_t>(id)]; }

  bool varies(const Index& index) const {
    for (std::size_t v = static_cast<std::size_t>(result_.kernel.outer_count);
         v < result_.kernel.vars.size(); ++v) {
      if (index.uses_var(static_cast<int>(v))) return true;
    }
    return data_varies(index);
  }
  bool data_varies(const Index& index) const {
    for (const Index::Term& t : index.terms()) {
      if (t.atom->kind == IndexAtom::Kind::Data && expr(t.atom->id).inner) return true;
      if (t.atom->arg && data_varies(*t.atom->arg)) return true;
    }
    return false;
  }
  bool varies(const std::vector<Guard>& guards) const {
    return std::any_of(guards.begin(), guards.end(),
                       [&](const Guard& g) { return varies(g.index); });
  }

  ExprId constant(double value, DType dtype, NodeId node) {
    Expr e{Expr::Kind::Const};
    e.dtype = dtype;
    e.value = value;
    e.node = node;
    return add(std::move(e));
  }

  ExprId operation(OpKind op, DType dtype, std::vector<ExprId> args, NodeId node) {
    Expr e{Expr::Kind::Op};
    e.op = op;
    e.dtype = dtype;
    e.node = node;
    e.inner = std::any_of(args.begin(), args.end(), [&](ExprId a) { return expr(a).inner; });
    e.args = std::move(args);
    return add(std::move(e));
  }

  ExprId reduction(ReduceKind kind, DType dtype, ExprId arg, NodeId node) {
    Expr e{Expr::Kind::Reduce};
    e.reduce = kind;
    e.dtype = dtype;
    e.node = node;
    e.args = {arg};
    return add(std::move(e));
  }

  int binding(TensorId id, bool written) {
    for (std::size_t k = 0; k < result_.tensors.size(); ++k) {
      if (result_.tensors[k] == id && result_.kernel.bindings[k].written == written)
        return static_cast<int>(k);
    }
    Binding b;
    b.elements = graph_.type(id).shape.size();
    b.dtype = graph_.type(id).dtype;
    b.written = written;
    b.read = !written;
    kernel().bindings.push_back(b);
    result_.tensors.push_back(id);
    return static_cast<int>(kernel().bindings.size()) - 1;
  }

  ExprId load(TensorId id, const std::vector<Index>& index) {
    Expr e{Expr::Kind::Load};
    e.dtype = graph_.type(id).dtype;
    e.index = ravel(index, graph_.type(id).shape);
    e.guards = guards_;
    e.inner = varies(e.index) || varies(e.guards);
    e.node = graph_.tensor(id).producer;
    e.binding = binding(id, false);
    return add(std::move(e));
  }

  ExprId test(std::vector<Guard> guards, NodeId node) {
    Expr e{Expr::Kind::Test};
    e.dtype = boolean;
    e.inner = varies(guards);
    e.guards = std::move(guards);
    e.node = node;
    return add(std::move(e));
  }

  /// `fn`'s value where the guards hold, else `otherwise`. Loads inside never leave their buffers.
  template <class Fn>
  ExprId guarded(std::vector<Guard> guards, double otherwise, DType dtype, NodeId node, Fn fn) {
    const std::size_t before = guards_.size();
    guards_.insert(guards_.end(), guards.begin(), guards.end());
    const ExprId value = fn();
    const bool plain_load =
        expr(value).kind == Expr::Kind::Load && expr(value).guards.size() == guards_.size();
    guards_.resize(before);
    if (plain_load && otherwise == 0 && before == 0) return value;  // a failed guard loads 0
    const ExprId holds = test(std::move(guards), node);
    return operation(OpKind::Where, dtype, {holds, value, constant(otherwise, dtype, node)}, node);
  }

  std::string guard_key() const {
    std::string key;
    for (const Guard& g : guards_) {
      key += g.index.to_string() + ":" + std::to_string(g.low) + ":" + std::to_string(g.high) +
             ":" + std::to_string(g.modulus) + ";";
    }
    return key;
  }

  /// The value of a tensor at an index.
  ExprId value(TensorId id, const std::vector<Index>& index) {
    std::string key = std::to_string(id) + "|";
    for (const Index& i : index) key += i.to_string() + ",";
    key += "|" + guard_key();
    const auto found = memo_.find(key);
    if (found != memo_.end()) return found->second;
    const ExprId result = expand(id, index);
    memo_[key] = result;
    return result;
  }

  ExprId expand(TensorId id, const std::vector<Index>& index) {
    const NodeId node_id = graph_.tensor(id).producer;
    const Node& n = graph_.node(node_id);
    const bool own = group_ >= 0 && fusion_.group_of[static_cast<std::size_t>(node_id)] == group_;
    if (fusion_.realised[static_cast<std::size_t>(id)] && !own) return load(id, index);
    const DType dtype = graph_.type(id).dtype;
    switch (op_class(n.op)) {
      case OpClass::Generated:
        return generated(n, node_id, index);
      case OpClass::Elementwise: {
        if (!own) result_.recomputed.push_back(id);
        std::vector<ExprId> args;
        for (TensorId input : n.inputs) args.push_back(value(input, index));
        return operation(n.op, dtype, std::move(args), node_id);
      }
      case OpClass::View:
        if (n.op == OpKind::Pad) return pad(n, node_id, index);
        return value(n.inputs[0], through_view(graph_, n, index));
      case OpClass::Join:
        return concat(n, node_id, index);
      case OpClass::Gather:
        return gather(n, node_id, index);
      case OpClass::Reduce:
        return reduce(n, node_id, index);
      case OpClass::Contract:
        return matmul(n, node_id, index);
      case OpClass::Scatter:
        return scatter(n, node_id, index);
      case OpClass::Special:
      case OpClass::Input:
      case OpClass::Update:
        break;
    }
    throw InternalError(std::string("lower: ") + to_string(n.op) + " cannot be part of a kernel");
  }

  ExprId generated(const Node& n, NodeId node_id, const std::vector<Index>& index) {
    if (n.op == OpKind::Constant) {
      const auto& a = std::get<ValueAttr>(n.attrs);
      return constant(a.value, a.type.dtype, node_id);
    }
    const auto& a = std::get<IotaAttr>(n.attrs);
    Expr e{Expr::Kind::Position};
    e.dtype = i32;
    e.index = index[static_cast<std::size_t>(a.axis)];
    e.inner = varies(e.index);
    e.node = node_id;
    const ExprId position = add(std::move(e));
    return a.type.dtype == i32 ? position
                               : operation(OpKind::Cast, a.type.dtype, {position}, node_id);
  }

  ExprId pad(const Node& n, NodeId node_id, const std::vector<Index>& index) {
    const auto& a = std::get<PadAttr>(n.attrs);
    const Shape& from = graph_.type(n.inputs[0]).shape;
    std::vector<Guard> guards;
    std::vector<Index> inside;
    for (std::size_t k = 0; k < index.size(); ++k) {
      const std::int64_t step = a.interior[k] + 1, length = from[static_cast<int>(k)];
      inside.push_back((index[k] - a.low[k]).div(step));
      Guard g{index[k], a.low[k], a.low[k] + (length - 1) * step + 1, step, false, node_id};
      if (g.index.low() < g.low || g.index.high() >= g.high || step > 1)
        guards.push_back(std::move(g));
    }
    return guarded(std::move(guards), a.value, graph_.type(n.output()).dtype, node_id,
                   [&] { return value(n.inputs[0], inside); });
  }

  ExprId concat(const Node& n, NodeId node_id, const std::vector<Index>& index) {
    const auto axis = static_cast<std::size_t>(std::get<AxisAttr>(n.attrs).axis);
    const DType dtype = graph_.type(n.output()).dtype;
    std::vector<std::pair<ExprId, ExprId>> cases;  // test, value
    std::int64_t start = 0;
    for (TensorId input : n.inputs) {
      const std::int64_t length = graph_.type(input).shape[static_cast<int>(axis)];
      std::vector<Index> at = index;
      at[axis] = at[axis] - start;
      const Guard guard{index[axis], start, start + length, 1, false, node_id};
      start += length;
      if (index[axis].low() >= guard.low && index[axis].high() < guard.high)
        return value(input, at);
      if (index[axis].high() < guard.low || index[axis].low() >= guard.high) continue;
      guards_.push_back(guard);
      const ExprId part = value(input, at);
      guards_.pop_back();
      cases.push_back({test({guard}, node_id), part});
    }
    ExprId result = cases.back().second;
    for (std::size_t k = cases.size() - 1; k-- > 0;) {
      result = operation(OpKind::Where, dtype, {cases[k].first, cases[k].second, result}, node_id);
    }
    return result;
  }

  ExprId gather(const Node& n, NodeId node_id, const std::vector<Index>& index) {
    const auto axis = static_cast<std::size_t>(std::get<AxisAttr>(n.attrs).axis);
    const std::int64_t extent = graph_.type(n.inputs[0]).shape[static_cast<int>(axis)];
    const std::vector<Index> where =
        n.op == OpKind::IndexSelect ? std::vector<Index>{index[axis]} : index;
    const ExprId position = value(n.inputs[1], where);
    std::vector<Index> at = index;
    at[axis] = Index::data(position, extent);
    return guarded({Guard{at[axis], 0, extent, 1, true, node_id}}, 0, graph_.type(n.output()).dtype,
                   node_id, [&] { return value(n.inputs[0], at); });
  }

  void check_point(const Node& n, const std::vector<Index>& index) const {
    if (!(ravel(index, graph_.type(n.output()).shape) == outer_) || !guards_.empty()) {
      throw InternalError(std::string("lower: ") + to_string(n.op) +
                          " is used at another point than its group's");
    }
  }

  ExprId reduce(const Node& n, NodeId node_id, const std::vector<Index>& index) {
    check_point(n, index);
    const Shape& shape = graph_.type(n.inputs[0]).shape;
    const std::vector<int> axes = reduced_axes(n);
    Shape reduced;
    for (int axis : axes) reduced.push_back(shape.dim(axis));
    const std::vector<Index> folded = unravel(inner_, reduced);
    std::vector<Index> at;
    std::size_t kept = 0, fold = 0;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const bool is_reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
      at.push_back(is_reduced ? folded[fold++] : index[kept++]);
    }
    const ExprId arg = value(n.inputs[0], at);
    const DType dtype = graph_.type(n.output()).dtype;
    if (expr(arg).inner) return reduction(reduce_kind(n.op), dtype, arg, node_id);
    return reduce_invariant(reduce_kind(n.op), dtype, arg, node_id);
  }

  /// A reduction whose argument is the same all along the row needs no loop.
  ExprId reduce_invariant(ReduceKind kind, DType dtype, ExprId arg, NodeId node_id) {
    const auto terms = static_cast<double>(kernel().inner_size());
    switch (kind) {
      case ReduceKind::Sum:
        return terms == 1
                   ? arg
                   : operation(OpKind::Mul, dtype, {arg, constant(terms, dtype, node_id)}, node_id);
      case ReduceKind::Prod:
        if (terms == 1) return arg;
        if (dtype == f32)
          return operation(OpKind::Pow, dtype, {arg, constant(terms, dtype, node_id)}, node_id);
        for (ExprId result = arg, k = 1;; ++k) {
          if (k == static_cast<int>(terms)) return result;
          result = operation(OpKind::Mul, dtype, {result, arg}, node_id);
        }
      case ReduceKind::Max:
      case ReduceKind::Min:
        return arg;
      case ReduceKind::ArgMax:
      case ReduceKind::ArgMin:
        return constant(0, i32, node_id);
    }
    return arg;
  }

  ExprId matmul(const Node& n, NodeId node_id, const std::vector<Index>& index) {
    check_point(n, index);
    std::vector<Index> lhs = index, rhs = index;
    lhs[index.size() - 1] = inner_;
    rhs[index.size() - 2] = inner_;
    MatMulHint hint;
    hint.lhs = value(n.inputs[0], lhs);
    hint.rhs = value(n.inputs[1], rhs);
    const ExprId product = operation(OpKind::Mul, f32, {hint.lhs, hint.rhs}, node_id);
    hint.acc = reduction(ReduceKind::Sum, f32, product, node_id);
    kernel().matmul = hint;
    return hint.acc;
  }

  // x[.., v, ..] + Σ_i [indices(i) = v]·src[.., i, ..]
  ExprId scatter(const Node& n, NodeId node_id, const std::vector<Index>& index) {
    check_point(n, index);
    const auto axis = static_cast<std::size_t>(std::get<AxisAttr>(n.attrs).axis);
    ScatterHint hint;
    std::vector<Index> at = index;
    at[axis] = inner_;
    hint.indices = value(n.inputs[1], {inner_});
    hint.source = value(n.inputs[2], at);
    hint.row_var = static_cast<int>(axis);  // the outer variables are the axes of the output
    Expr row{Expr::Kind::Position};
    row.dtype = i32;
    row.index = index[axis];
    row.node = node_id;
    const ExprId row_id = add(std::move(row));
    const ExprId hit = operation(OpKind::Equal, boolean, {hint.indices, row_id}, node_id);
    const ExprId term =
        operation(OpKind::Where, f32, {hit, hint.source, constant(0, f32, node_id)}, node_id);
    hint.sum = reduction(ReduceKind::Sum, f32, term, node_id);
    kernel().scatter = hint;
    const ExprId base = value(n.inputs[0], index);
    if (expr(base).kind == Expr::Kind::Const && expr(base).value == 0) return hint.sum;
    return operation(OpKind::Add, f32, {base, hint.sum}, node_id);
  }

  void store(TensorId id, bool full) {
    const Index linear = full ? outer_ * kernel().inner_size() + inner_ : outer_;
    Store s;
    s.value = value(id, unravel(linear, graph_.type(id).shape));
    s.index = linear;
    s.inner = full;
    s.binding = binding(id, true);
    kernel().stores.push_back(std::move(s));
  }

  const Graph& graph_;
  const Fusion& fusion_;
  int group_;
  LoweredKernel result_;
  Index outer_, inner_;  // linear positions in the outer and inner space
  std::vector<Guard> guards_;
  std::map<std::string, ExprId> memo_;
};

}  // namespace

std::string kernel_name(const Graph& graph, const std::vector<NodeId>& nodes) {
  constexpr std::size_t kMostOps = 4;
  std::vector<std::string> ops;
  for (NodeId id : nodes) {
    const std::string op = to_string(graph.node(id).op);
    if (ops.empty() || ops.back() != op) ops.push_back(op);
  }
  // The anchor of a group says most; elementwise work before and after it is named by its ends.
  std::string name;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops.size() > kMostOps && i >= kMostOps - 1 && i + 1 < ops.size()) continue;
    name += (name.empty() ? "" : "_") + ops[i];
  }
  return name.empty() ? "copy" : name;
}

LoweredKernel lower_group(const Graph& graph, const Fusion& fusion, int group) {
  return Lowerer(graph, fusion, group).lower_group();
}

LoweredKernel lower_copy(const Graph& graph, const Fusion& fusion, TensorId source) {
  return Lowerer(graph, fusion, -1).lower_copy(source);
}

void drop_binding(Kernel& kernel, std::size_t binding) {
  kernel.bindings.erase(kernel.bindings.begin() + static_cast<std::ptrdiff_t>(binding));
  const auto renumber = [&](int& b) {
    if (b > static_cast<int>(binding)) --b;
  };
  for (Expr& e : kernel.exprs) renumber(e.binding);
  for (Store& s : kernel.stores) renumber(s.binding);
  if (!kernel.special) return;
  for (auto* operands : {&kernel.special->inputs, &kernel.special->outputs}) {
    for (StridedOperand& operand : *operands) renumber(operand.binding);
  }
}

}  // namespace tensorgrad
