#include "codegen/parts.hpp"

#include <algorithm>
#include <set>

namespace tensorgrad {

namespace {

/// A variable is cut into at most so many pieces, and not near its ends: the few points there that
/// a convolution pads are not worth a kernel of their own.
constexpr std::size_t kMostPieces = 16;
constexpr std::int64_t kLeastShare = 32;

std::int64_t extent(const Kernel& kernel, int v) {
  return kernel.vars[static_cast<std::size_t>(v)].extent;
}

/// Where guards of variable v alone begin and end to hold, 0 and its extent included.
std::vector<std::int64_t> cuts(const Kernel& kernel, int v) {
  const std::int64_t end = extent(kernel, v), least = std::max<std::int64_t>(end / kLeastShare, 1);
  std::set<std::int64_t> found{0, end};
  for (const Expr& e : kernel.exprs) {
    for (const Guard& g : e.guards) {
      if (g.indirect || g.index.terms().size() != 1 || g.index.stride(v) != 1) continue;
      for (const std::int64_t at : {g.low - g.index.constant(), g.high - g.index.constant()}) {
        if (at >= least && at <= end - least) found.insert(at);
      }
    }
  }
  return {found.begin(), found.end()};
}

/// Takes out the guards that hold everywhere. False if one of them fails everywhere.
bool simplify(std::vector<Guard>& guards) {
  std::vector<Guard> rest;
  for (Guard& g : guards) {
    const std::int64_t low = g.index.low(), high = g.index.high();
    if (!g.indirect && (high < g.low || low >= g.high)) return false;
    const bool holds = !g.indirect && g.modulus <= 1 && low >= g.low && high < g.high;
    if (!holds) rest.push_back(std::move(g));
  }
  guards = std::move(rest);
  return true;
}

Expr constant(double value, const Expr& instead) {
  Expr e{Expr::Kind::Const};
  e.value = value;
  e.dtype = instead.dtype;
  e.node = instead.node;
  return e;
}

/// Loads and tests that are the same everywhere become constants, and what they decide goes.
void fold(Kernel& kernel) {
  std::vector<ExprId> same(kernel.exprs.size());  // as this earlier one
  const auto is = [&](ExprId id, double value) {
    const Expr& e = kernel.exprs[static_cast<std::size_t>(id)];
    return e.kind == Expr::Kind::Const && e.value == value;
  };
  for (std::size_t id = 0; id < kernel.exprs.size(); ++id) {
    Expr& e = kernel.exprs[id];
    same[id] = static_cast<ExprId>(id);
    for (ExprId& arg : e.args) arg = same[static_cast<std::size_t>(arg)];
    if (e.kind == Expr::Kind::Load || e.kind == Expr::Kind::Test) {
      if (!simplify(e.guards)) {
        e = constant(0, e);
      } else if (e.kind == Expr::Kind::Test && e.guards.empty()) {
        e = constant(1, e);
      }
    } else if (e.kind == Expr::Kind::Op && e.op == OpKind::Where) {
      if (is(e.args[0], 1)) same[id] = e.args[1];
      if (is(e.args[0], 0)) same[id] = e.args[2];
    } else if (e.kind == Expr::Kind::Op && e.op == OpKind::Add) {
      if (is(e.args[0], 0)) same[id] = e.args[1];
      if (is(e.args[1], 0)) same[id] = e.args[0];
    }
  }
  for (Store& s : kernel.stores) s.value = same[static_cast<std::size_t>(s.value)];
}

/// The points [low, high) of variable v.
Kernel piece(const Kernel& kernel, int v, std::int64_t low, std::int64_t high) {
  Kernel part = kernel;
  part.vars[static_cast<std::size_t>(v)].extent = high - low;
  const auto move = [&](Index& index) {
    index = index.substitute([&](int id) {
      return id == v ? Index::var(id, high - low) + low : Index::var(id, extent(kernel, id));
    });
  };
  for (Expr& e : part.exprs) {
    move(e.index);
    for (Guard& g : e.guards) move(g.index);
  }
  for (Store& s : part.stores) move(s.index);
  fold(part);
  return part;
}

}  // namespace

std::vector<Kernel> cut_into_parts(const Kernel& kernel) {
  std::vector<Kernel> parts{kernel};
  const bool reduces = static_cast<int>(kernel.vars.size()) > kernel.outer_count ||
                       std::any_of(kernel.exprs.begin(), kernel.exprs.end(),
                                   [](const Expr& e) { return e.kind == Expr::Kind::Reduce; });
  if (reduces) return parts;
  for (int v = 0; v < kernel.outer_count; ++v) {
    const std::vector<std::int64_t> at = cuts(kernel, v);
    if (at.size() < 3 || (at.size() - 1) * parts.size() > kMostPieces) continue;
    std::vector<Kernel> next;
    for (const Kernel& part : parts) {
      for (std::size_t k = 0; k + 1 < at.size(); ++k)
        next.push_back(piece(part, v, at[k], at[k + 1]));
    }
    parts = std::move(next);
  }
  return parts;
}

}  // namespace tensorgrad
