#include "codegen/cpu/layout.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "ir/ceil_div.hpp"

namespace tensorgrad::cpu {

namespace {

/// Enough lanes to make the cost of an instruction's call small.
constexpr std::int64_t kEnoughLanes = 192;
/// Rows of a plain load that one column reduction folds at a time.
constexpr std::int64_t kDirectRows = 256;
/// Sides of a tile that is read along one side and written along the other.
constexpr std::int64_t kTransposeLanes = 32;

class Chooser {
 public:
  Chooser(const Kernel& kernel, const LayoutOptions& options) : kernel_(kernel), options_(options) {
    for (std::size_t v = 0; v < kernel.vars.size(); ++v) {
      TapeDim dim;
      dim.extent = kernel.vars[v].extent;
      dim.inner = kernel.is_inner(static_cast<int>(v));
      layout_.has_inner |= dim.inner;
      layout_.dims.push_back(dim);
    }
    for (const Expr& e : kernel.exprs) layout_.has_inner |= e.kind == Expr::Kind::Reduce;
  }

  Layout run() {
    const int fast = fastest();
    std::vector<int> outer = in_order(false, fast), inner = in_order(true, fast);
    if (!options_.sequence.empty()) {
      sequence(outer, fast);
    } else if (!layout_.has_inner) {
      elementwise(outer);
    } else if (fast < 0 || layout_.dims[static_cast<std::size_t>(fast)].inner) {
      rows(outer, inner);
    } else {
      columns(outer, inner);
    }
    finish(outer, inner);
    return std::move(layout_);
  }

 private:
  TapeDim& dim(int d) { return layout_.dims[static_cast<std::size_t>(d)]; }
  bool in_sequence(int d) const {
    return !options_.sequence.empty() && options_.sequence[static_cast<std::size_t>(d)];
  }
  VarUse use(int d) const {
    return options_.uses.empty() ? VarUse::All : options_.uses[static_cast<std::size_t>(d)];
  }

  // ---- the fastest dimension

  static double access_cost(const Index& index, int d) {
    for (const Index::Term& t : index.terms()) {
      if (t.atom->arg && t.atom->arg->uses_var(d)) return 1.2;
    }
    const std::int64_t stride = index.stride(d);
    if (stride == 1) return 0;
    return stride == 0 ? 0.15 : 1;
  }

  /// The dimension along which memory is read and written most evenly; -1 if there is none.
  int fastest() {
    int best = -1;
    double best_cost = std::numeric_limits<double>::infinity();
    for (int d = 0; d < static_cast<int>(layout_.dims.size()); ++d) {
      if (in_sequence(d) || use(d) == VarUse::Singles) continue;
      double cost = 0;
      for (const Expr& e : kernel_.exprs) {
        if (e.kind == Expr::Kind::Load) cost += access_cost(e.index, d);
      }
      for (const Store& s : kernel_.stores) cost += 1.5 * access_cost(s.index, d);
      if (dim(d).extent < 4) cost += 1;  // short runs
      if (cost <= best_cost) {
        best = d;
        best_cost = cost;
      }
    }
    return best;
  }

  bool keeps_inner_order() const {
    return std::any_of(kernel_.exprs.begin(), kernel_.exprs.end(), [](const Expr& e) {
      return e.kind == Expr::Kind::Reduce &&
             (e.reduce == ReduceKind::ArgMax || e.reduce == ReduceKind::ArgMin);
    });
  }

  /// Outer or inner dimensions, slow to fast, `fast` last.
  std::vector<int> in_order(bool inner, int fast) {
    std::vector<int> result;
    bool has_fast = false;
    for (int d = 0; d < static_cast<int>(layout_.dims.size()); ++d) {
      if (dim(d).inner != inner) continue;
      if (d == fast && !(inner && keeps_inner_order())) {
        has_fast = true;
      } else {
        result.push_back(d);
      }
    }
    if (has_fast) result.push_back(fast);
    return result;
  }

  // ---- tiles

  /// Puts dimensions into a group, from the fastest on, until it has `budget` lanes: whole ones,
  /// then a part of the next. The rest of `dims` stays.
  std::int64_t fill(int group, std::vector<int>& dims, std::int64_t budget) {
    std::int64_t lanes = 1;
    std::vector<int> taken;
    while (!dims.empty()) {
      TapeDim& d = dim(dims.back());
      const std::int64_t room = std::max<std::int64_t>(budget / lanes, 1);
      if (d.extent > room && room == 1) break;
      d.group = group;
      taken.push_back(dims.back());
      if (d.extent <= room) {
        d.tile = d.extent;
        lanes *= std::max<std::int64_t>(d.extent, 1);
        dims.pop_back();
        continue;
      }
      // Parts of nearly equal size; multiples of 16 where that is a small change.
      d.tile = ceil_div(d.extent, ceil_div(d.extent, room));
      const std::int64_t rounded = ceil_div(d.tile, 16) * 16;
      if (lanes == 1 && d.tile >= 64 && rounded <= room) d.tile = rounded;
      lanes *= d.tile;
      break;  // stays in `dims`: the rest of it is a loop
    }
    std::reverse(taken.begin(), taken.end());
    auto& members = layout_.groups[static_cast<std::size_t>(group)];
    members.insert(members.begin(), taken.begin(), taken.end());
    return lanes;
  }

  static std::int64_t points(const Layout& layout, const std::vector<int>& dims) {
    std::int64_t n = 1;
    for (int d : dims) n *= layout.dims[static_cast<std::size_t>(d)].extent;
    return n;
  }

  void elementwise(std::vector<int> outer) {
    outer.erase(std::remove_if(outer.begin(), outer.end(),
                               [&](int d) { return use(d) == VarUse::Singles; }),
                outer.end());
    if (outer.empty()) return;
    const int fast = outer.back();
    outer.pop_back();
    const auto across = std::find(outer.begin(), outer.end(), transposed(fast));
    const bool transposes = across != outer.end();
    std::vector<int> fastest{fast};
    layout_.n0 = fill(0, fastest, transposes ? kTransposeLanes : options_.lanes);
    if (transposes) {
      // Square tiles: both sides touch few cache lines.
      std::vector<int> other{*across};
      layout_.n1 = fill(1, other, kTransposeLanes);
    } else if (fastest.empty() && layout_.n0 < kEnoughLanes) {
      layout_.n1 = fill(1, outer, options_.lanes / std::max<std::int64_t>(layout_.n0, 1));
    }
  }

  /// A dimension along which something is contiguous that is strided along `fast`; -1 if there is
  /// none.
  int transposed(int fast) {
    const auto strided = [&](const Index& index, int& found) {
      const std::int64_t stride = index.stride(fast);
      if (stride == 0 || stride == 1) return;
      for (int d = 0; d < static_cast<int>(layout_.dims.size()); ++d) {
        if (index.stride(d) == 1 && dim(d).extent >= 8) found = d;
      }
    };
    int found = -1;
    for (const Expr& e : kernel_.exprs) {
      if (e.kind == Expr::Kind::Load) strided(e.index, found);
    }
    for (const Store& s : kernel_.stores) strided(s.index, found);
    return found;
  }

  void rows(std::vector<int> outer, std::vector<int> inner) {
    const std::int64_t length = points(layout_, inner);
    const std::int64_t whole_row =
        options_.no_registers ? std::int64_t{1} << 16 : options_.row_lanes;
    layout_.single_step = length <= whole_row;
    const std::int64_t part = options_.no_registers ? whole_row : options_.lanes;
    layout_.n0 = fill(0, inner, layout_.single_step ? std::max<std::int64_t>(length, 1) : part);
    if (layout_.single_step) {
      // All threads should find a block.
      const std::int64_t count = points(layout_, outer);
      const std::int64_t share = std::max<std::int64_t>(count / options_.threads, 1);
      layout_.n1 =
          fill(1, outer,
               std::min(share, std::max<std::int64_t>(
                                   options_.lanes / std::max<std::int64_t>(layout_.n0, 1), 1)));
    }
  }

  /// Whether all reductions are made in one pass over the inner points, which threads can share.
  bool one_pass() const {
    std::vector<bool> reduced(kernel_.exprs.size(), false);
    for (std::size_t id = 0; id < kernel_.exprs.size(); ++id) {
      const Expr& e = kernel_.exprs[id];
      const bool from_reduced = std::any_of(e.args.begin(), e.args.end(), [&](ExprId a) {
        return reduced[static_cast<std::size_t>(a)];
      });
      const bool reduces = e.kind == Expr::Kind::Reduce;
      if (reduces &&
          (from_reduced || e.reduce == ReduceKind::ArgMax || e.reduce == ReduceKind::ArgMin))
        return false;
      reduced[id] = reduces || from_reduced;
    }
    return std::none_of(kernel_.stores.begin(), kernel_.stores.end(), [&](const Store& s) {
      return s.inner && reduced[static_cast<std::size_t>(s.value)];
    });
  }

  void columns(std::vector<int> outer, std::vector<int> inner) {
    layout_.columns = true;
    const std::int64_t count = points(layout_, outer), length = points(layout_, inner);
    // Threads share long columns by rows, as the rows were written; else by columns.
    const bool by_rows =
        one_pass() && count <= options_.lanes && length >= kDirectRows * options_.threads;
    const std::int64_t share =
        by_rows ? count
                : std::max<std::int64_t>(ceil_div(ceil_div(count, options_.threads), 16) * 16, 64);
    layout_.n0 = fill(0, outer, std::min(options_.lanes, share));
    std::int64_t budget = 1;
    if (options_.no_registers) {
      budget = kDirectRows;
    } else if (layout_.n0 < kEnoughLanes) {
      budget = std::max<std::int64_t>(options_.lanes / std::max<std::int64_t>(layout_.n0, 1), 1);
    }
    layout_.n1 = fill(1, inner, budget);
    layout_.single_step = layout_.n1 >= length;
  }

  /// Rows of G0, added in the order of G1.
  void sequence(std::vector<int>& outer, int fast) {
    std::vector<int> rest, ordered;
    for (int d : outer) (in_sequence(d) ? ordered : rest).push_back(d);
    outer = rest;
    outer.insert(outer.end(), ordered.begin(), ordered.end());
    if (fast >= 0) {
      std::vector<int> fastest{fast};
      const std::int64_t share = std::max<std::int64_t>(
          ceil_div(ceil_div(dim(fast).extent, options_.threads), 16) * 16, 32);
      layout_.n0 = fill(0, fastest, std::min(options_.lanes, share));
    }
    const int group = fast >= 0 ? 1 : 0;
    const std::int64_t lanes =
        fill(group, ordered, std::max<std::int64_t>(options_.lanes / layout_.n0, 1));
    (group == 1 ? layout_.n1 : layout_.n0) = lanes;
  }

  // ---- loops

  void finish(const std::vector<int>& outer, const std::vector<int>& inner) {
    for (const std::vector<int>* dims : {&outer, &inner}) {
      for (int d : *dims) {
        TapeDim& t = dim(d);
        const bool movable = use(d) != VarUse::All;
        t.moving = movable || t.tile < t.extent;
        t.fixed_size = !movable && t.tile > 0 && t.extent % t.tile == 0;
        if (t.moving) (t.inner ? layout_.inner_loops : layout_.outer_loops).push_back(d);
      }
    }
    if (!layout_.inner_loops.empty()) layout_.single_step = false;
  }

  const Kernel& kernel_;
  const LayoutOptions& options_;
  Layout layout_;
};

}  // namespace

Layout choose_layout(const Kernel& kernel, const LayoutOptions& options) {
  return Chooser(kernel, options).run();
}

}  // namespace tensorgrad::cpu
