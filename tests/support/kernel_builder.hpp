// Kernels written by hand, for tests of what runs them.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tensorgrad/kernel.hpp"

namespace tensorgrad::testing {

class KernelBuilder {
 public:
  explicit KernelBuilder(std::string name) { kernel_.name = std::move(name); }

  /// Variables: all outer ones before the first inner one.
  Index outer(std::int64_t extent) {
    kernel_.vars.push_back({extent});
    kernel_.outer_count = static_cast<int>(kernel_.vars.size());
    return Index::var(kernel_.outer_count - 1, extent);
  }
  Index inner(std::int64_t extent) {
    kernel_.vars.push_back({extent});
    return Index::var(static_cast<int>(kernel_.vars.size()) - 1, extent);
  }

  /// Bindings: a buffer of its own each, unless said.
  int input(std::int64_t elements, DType dtype = f32) { return bind(elements, dtype, true, false); }
  int output(std::int64_t elements, DType dtype = f32) {
    return bind(elements, dtype, false, true);
  }
  Binding& binding(int id) { return kernel_.bindings[static_cast<std::size_t>(id)]; }

  ExprId load(int from, const Index& index, std::vector<Guard> guards = {}) {
    Expr e{Expr::Kind::Load};
    e.dtype = binding(from).dtype;
    e.binding = from;
    e.inner = varies(index) || any_varies(guards);
    e.index = index;
    e.guards = std::move(guards);
    return add(std::move(e));
  }
  ExprId constant(double value, DType dtype = f32) {
    Expr e{Expr::Kind::Const};
    e.dtype = dtype;
    e.value = value;
    return add(std::move(e));
  }
  ExprId position(const Index& index) {
    Expr e{Expr::Kind::Position};
    e.dtype = i32;
    e.inner = varies(index);
    e.index = index;
    return add(std::move(e));
  }
  ExprId test(std::vector<Guard> guards) {
    Expr e{Expr::Kind::Test};
    e.dtype = boolean;
    e.inner = any_varies(guards);
    e.guards = std::move(guards);
    return add(std::move(e));
  }
  /// The dtype is that of the last argument unless said; comparisons give bool.
  ExprId op(OpKind kind, std::vector<ExprId> args) {
    return op(kind, args, expr(args.back()).dtype);
  }
  ExprId op(OpKind kind, std::vector<ExprId> args, DType dtype) {
    Expr e{Expr::Kind::Op};
    e.op = kind;
    e.dtype = dtype;
    e.inner = std::any_of(args.begin(), args.end(), [&](ExprId a) { return expr(a).inner; });
    e.args = std::move(args);
    return add(std::move(e));
  }
  ExprId reduce(ReduceKind kind, ExprId arg) {
    Expr e{Expr::Kind::Reduce};
    e.reduce = kind;
    const bool position = kind == ReduceKind::ArgMax || kind == ReduceKind::ArgMin;
    e.dtype = position ? i32 : expr(arg).dtype;
    e.args = {arg};
    return add(std::move(e));
  }
  void store(int to, const Index& index, ExprId value) {
    kernel_.stores.push_back({to, index, value, varies(index) || expr(value).inner});
  }

  const Expr& expr(ExprId id) const { return kernel_.exprs[static_cast<std::size_t>(id)]; }
  Kernel& kernel() { return kernel_; }
  Kernel done() { return std::move(kernel_); }

 private:
  int bind(std::int64_t elements, DType dtype, bool read, bool written) {
    const auto id = static_cast<int>(kernel_.bindings.size());
    kernel_.bindings.push_back({id, 0, elements, dtype, written, read});
    return id;
  }
  ExprId add(Expr e) {
    e.node = static_cast<NodeId>(kernel_.exprs.size());  // so that lines can be told apart
    kernel_.exprs.push_back(std::move(e));
    return static_cast<ExprId>(kernel_.exprs.size()) - 1;
  }
  bool varies(const Index& index) const {
    for (std::size_t v = static_cast<std::size_t>(kernel_.outer_count); v < kernel_.vars.size();
         ++v) {
      if (index.uses_var(static_cast<int>(v))) return true;
    }
    return data_varies(index);
  }
  bool data_varies(const Index& index) const {
    return std::any_of(index.terms().begin(), index.terms().end(), [&](const Index::Term& t) {
      if (t.atom->kind == IndexAtom::Kind::Data) return expr(t.atom->id).inner;
      return t.atom->arg && data_varies(*t.atom->arg);
    });
  }
  bool any_varies(const std::vector<Guard>& guards) const {
    return std::any_of(guards.begin(), guards.end(),
                       [&](const Guard& g) { return varies(g.index); });
  }

  Kernel kernel_;
};

}  // namespace tensorgrad::testing
