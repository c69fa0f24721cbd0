// The formulas stand at the head of src/optim/optimizer.cpp; here they are as kernels.
#include "codegen/update.hpp"

namespace tensorgrad {

namespace {

/// A small vocabulary to write kernels by hand.
class Builder {
 public:
  explicit Builder(std::string name, std::vector<std::int64_t> extents, int outer_count) {
    result.kernel.name = std::move(name);
    result.kernel.phase = Phase::Update;
    for (std::int64_t extent : extents) result.kernel.vars.push_back({extent});
    result.kernel.outer_count = outer_count;
  }
  int bind(std::int64_t elements, bool read, bool written) {
    Binding b;
    b.elements = elements;
    b.read = read;
    b.written = written;
    result.kernel.bindings.push_back(b);
    result.tensors.push_back(-1);
    return static_cast<int>(result.kernel.bindings.size()) - 1;
  }
  ExprId load(int binding, const Index& index, std::vector<Guard> guards = {}) {
    Expr e{Expr::Kind::Load};
    e.binding = binding;
    e.index = index;
    e.guards = std::move(guards);
    for (std::size_t v = static_cast<std::size_t>(result.kernel.outer_count);
         v < result.kernel.vars.size(); ++v) {
      e.inner = e.inner || index.uses_var(static_cast<int>(v));
    }
    return add(std::move(e));
  }
  ExprId constant(double value) {
    Expr e{Expr::Kind::Const};
    e.value = value;
    return add(std::move(e));
  }
  ExprId op(OpKind kind, std::vector<ExprId> args) {
    Expr e{Expr::Kind::Op};
    e.op = kind;
    for (ExprId a : args)
      e.inner = e.inner || result.kernel.exprs[static_cast<std::size_t>(a)].inner;
    e.args = std::move(args);
    return add(std::move(e));
  }
  // Operands stand in braces, which are evaluated in order: every compiler makes the same kernel.
  ExprId mul(std::vector<ExprId> factors) { return op(OpKind::Mul, std::move(factors)); }
  ExprId plus(std::vector<ExprId> terms) { return op(OpKind::Add, std::move(terms)); }
  ExprId sum(ExprId a) {
    if (!result.kernel.exprs[static_cast<std::size_t>(a)].inner) return a;  // a row of one
    Expr e{Expr::Kind::Reduce};
    e.args = {a};
    return add(std::move(e));
  }
  ExprId below(const Index& index, std::int64_t bound) {
    Expr e{Expr::Kind::Test};
    e.dtype = boolean;
    e.guards = {Guard{index, 0, bound, 1, false, -1}};
    return add(std::move(e));
  }
  void store(int binding, const Index& index, ExprId value) {
    Store s;
    s.binding = binding;
    s.index = index;
    s.value = value;
    result.kernel.stores.push_back(s);
  }
  ExprId add(Expr e) {
    result.kernel.exprs.push_back(std::move(e));
    return static_cast<ExprId>(result.kernel.exprs.size()) - 1;
  }
  LoweredKernel result;
};

}  // namespace

LoweredKernel lower_update(OpKind op, const UpdateAttr& a, const UpdateRange& range) {
  const bool adam = op == OpKind::AdamUpdate;
  Builder b(to_string(op), {range.elements}, 1);
  const Index i = Index::var(0, range.elements);
  const int states = adam ? 2 : a.momentum != 0 ? 1 : 0;
  const int param = b.bind(range.elements, true, true), grad = b.bind(range.elements, true, false);
  std::vector<int> state;
  for (int k = 0; k < states; ++k) state.push_back(b.bind(range.elements, true, true));
  const int scalars = b.bind(4, true, false);
  const ExprId p = b.load(param, i);
  ExprId g = b.load(grad, i);
  if (a.max_norm > 0) {
    const ExprId norm = b.load(b.bind(1, true, false), 0);
    const ExprId ratio =
        b.op(OpKind::Div, {b.constant(a.max_norm), b.plus({norm, b.constant(1e-6)})});
    g = b.mul({g, b.op(OpKind::Minimum, {b.constant(1), ratio})});
  }
  const auto where_decayed = [&](ExprId decayed, ExprId otherwise) {
    if (range.decayed == 0) return otherwise;
    if (range.decayed >= range.elements) return decayed;
    return b.op(OpKind::Where, {b.below(i, range.decayed), decayed, otherwise});
  };
  const ExprId rate = b.load(scalars, 0);
  if (adam) {
    const ExprId m = b.plus(
        {b.mul({b.constant(a.beta1), b.load(state[0], i)}), b.mul({b.constant(1 - a.beta1), g})});
    const ExprId v = b.plus({b.mul({b.constant(a.beta2), b.load(state[1], i)}),
                             b.mul({b.constant(1 - a.beta2), b.mul({g, g})})});
    const ExprId spread =
        b.plus({b.mul({b.op(OpKind::Sqrt, {v}), b.load(scalars, 1)}), b.constant(a.eps)});
    const ExprId step = b.op(OpKind::Div, {b.mul({rate, m}), spread});
    const ExprId shrunk = where_decayed(b.mul({p, b.load(scalars, 2)}), p);
    b.store(param, i, b.op(OpKind::Sub, {shrunk, step}));
    b.store(state[0], i, m);
    b.store(state[1], i, v);
  } else {
    if (a.weight_decay != 0)
      g = where_decayed(b.plus({g, b.mul({b.constant(a.weight_decay), p})}), g);
    ExprId step = g;
    if (states == 1) {
      const ExprId momentum = b.plus({b.mul({b.constant(a.momentum), b.load(state[0], i)}), g});
      step = a.nesterov ? b.plus({g, b.mul({b.constant(a.momentum), momentum})}) : momentum;
      b.store(state[0], i, momentum);
    }
    b.store(param, i, b.op(OpKind::Sub, {p, b.mul({rate, step})}));
  }
  return std::move(b.result);
}

LoweredKernel lower_norm_partial(std::int64_t elements, std::int64_t parts) {
  const std::int64_t length = (elements + parts - 1) / parts;
  Builder b("global_norm_partial", {parts, length}, 1);
  const Index at = Index::var(0, parts) * length + Index::var(1, length);
  const int grads = b.bind(elements, true, false), sums = b.bind(parts, false, true);
  std::vector<Guard> guards;
  if (parts * length > elements) guards.push_back({at, 0, elements, 1, false, -1});
  const ExprId g = b.load(grads, at, guards);
  b.store(sums, Index::var(0, parts), b.sum(b.mul({g, g})));
  return std::move(b.result);
}

LoweredKernel lower_norm_final(std::int64_t parts) {
  Builder b("global_norm", {parts}, 0);
  const int sums = b.bind(parts, true, false), norm = b.bind(1, false, true);
  b.store(norm, 0, b.op(OpKind::Sqrt, {b.sum(b.load(sums, Index::var(0, parts)))}));
  return std::move(b.result);
}

}  // namespace tensorgrad
