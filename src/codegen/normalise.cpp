#include "codegen/normalise.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tensorgrad {

namespace {

struct Var {
  std::int64_t extent;
  int origin;  // the old variable it comes from
  bool inner;
};

struct Split {
  int var;
  std::int64_t low_extent;
};

bool has_arg_reduction(const Kernel& kernel) {
  return std::any_of(kernel.exprs.begin(), kernel.exprs.end(), [](const Expr& e) {
    return e.kind == Expr::Kind::Reduce &&
           (e.reduce == ReduceKind::ArgMax || e.reduce == ReduceKind::ArgMin);
  });
}

class Normaliser {
 public:
  Normaliser(const Kernel& kernel, const NormaliseOptions& options)
      : kernel_(kernel), options_(options) {
    kernel_.matmul.reset();
    kernel_.scatter.reset();
    keep_inner_order_ = has_arg_reduction(kernel);
    for (std::size_t v = 0; v < kernel.vars.size(); ++v) {
      vars_.push_back(
          {kernel.vars[v].extent, static_cast<int>(v), kernel.is_inner(static_cast<int>(v))});
    }
    // Maps do not mention variables of extent 1.
    for (std::size_t v = vars_.size(); v-- > 0;) {
      if (vars_[v].extent == 1) remove(static_cast<int>(v));
    }
  }

  Normalised run() {
    while (static_cast<int>(vars_.size()) < kMaxDims) {
      const std::optional<Split> split = find_split();
      if (!split) break;
      apply(*split);
    }
    while (join_one()) {
    }
    Normalised result;
    result.parts.resize(kernel_.vars.size());
    kernel_.vars.clear();
    kernel_.outer_count = 0;
    for (std::size_t v = 0; v < vars_.size(); ++v) {
      kernel_.vars.push_back({vars_[v].extent});
      if (!vars_[v].inner) ++kernel_.outer_count;
      if (options_.keep_vars) {
        result.parts[static_cast<std::size_t>(vars_[v].origin)].push_back(static_cast<int>(v));
      }
    }
    result.kernel = std::move(kernel_);
    return result;
  }

 private:
  Index var(int id) const { return Index::var(id, vars_[static_cast<std::size_t>(id)].extent); }

  void substitute(const std::function<Index(int)>& replacement) {
    for_each_index(kernel_, [&](Index& index) { index = index.substitute(replacement); });
  }

  /// Takes variable v, which no map uses any more, off the list.
  void remove(int v) {
    const std::vector<Var> before = vars_;
    vars_.erase(vars_.begin() + v);
    substitute([&](int id) -> Index {
      if (id == v) return 0;
      return Index::var(id > v ? id - 1 : id, before[static_cast<std::size_t>(id)].extent);
    });
  }

  // ---- splitting

  /// floor((a·v + …)/d): with v = s·hi + lo and s = d/gcd(a, d) the multiple of hi leaves the
  /// quotient.
  std::optional<Split> find_split(const Index& index) const {
    for (const Index::Term& t : index.terms()) {
      const IndexAtom& atom = *t.atom;
      if (atom.kind != IndexAtom::Kind::Div && atom.kind != IndexAtom::Kind::Mod) continue;
      if (const auto inside = find_split(*atom.arg)) return inside;
      for (const Index::Term& u : atom.arg->terms()) {
        if (u.atom->kind != IndexAtom::Kind::Var) continue;
        const std::int64_t s = atom.divisor / std::gcd(u.coefficient, atom.divisor);
        const std::int64_t extent = vars_[static_cast<std::size_t>(u.atom->id)].extent;
        if (s > 1 && s < extent && extent % s == 0) return Split{u.atom->id, s};
      }
    }
    return std::nullopt;
  }

  std::optional<Split> find_split() const {
    std::optional<Split> found;
    for_each_index(kernel_, [&](const Index& index) {
      if (!found) found = find_split(index);
    });
    return found;
  }

  void apply(const Split& split) {
    const auto v = static_cast<std::size_t>(split.var);
    Var high = vars_[v], low = vars_[v];
    high.extent /= split.low_extent;
    low.extent = split.low_extent;
    vars_[v] = high;
    vars_.insert(vars_.begin() + split.var + 1, low);
    substitute([&](int id) -> Index {
      if (id == split.var) return var(id) * split.low_extent + var(id + 1);
      return var(id > split.var ? id + 1 : id);
    });
  }

  // ---- joining

  static bool inside_quotient(const Index& index, int id) {
    return std::any_of(index.terms().begin(), index.terms().end(), [&](const Index::Term& t) {
      return t.atom->arg && t.atom->arg->uses_var(id);
    });
  }

  bool may_join(int slow, int fast) const {
    const Var &s = vars_[static_cast<std::size_t>(slow)],
              &f = vars_[static_cast<std::size_t>(fast)];
    if (s.inner != f.inner) return false;
    if (options_.keep_vars && (s.origin != f.origin || fast != slow + 1)) return false;
    // The position of an extreme counts inner points in their order.
    if (s.inner && keep_inner_order_ && fast != slow + 1) return false;
    bool agree = true;
    for_each_index(kernel_, [&](const Index& index) {
      if (!agree) return;
      agree = index.stride(slow) == index.stride(fast) * f.extent &&
              !inside_quotient(index, slow) && !inside_quotient(index, fast);
    });
    return agree;
  }

  bool join_one() {
    const auto n = static_cast<int>(vars_.size());
    for (int fast = n - 1; fast >= 0; --fast) {
      for (int slow = n - 1; slow >= 0; --slow) {
        if (slow == fast || !may_join(slow, fast)) continue;
        const std::int64_t extent = vars_[static_cast<std::size_t>(slow)].extent *
                                    vars_[static_cast<std::size_t>(fast)].extent;
        vars_[static_cast<std::size_t>(fast)].extent = extent;
        substitute([&](int id) -> Index { return id == slow ? Index(0) : var(id); });
        remove(slow);
        return true;
      }
    }
    return false;
  }

  Kernel kernel_;
  NormaliseOptions options_;
  bool keep_inner_order_ = false;
  std::vector<Var> vars_;
};

}  // namespace

Normalised normalise(const Kernel& kernel, const NormaliseOptions& options) {
  return Normaliser(kernel, options).run();
}

}  // namespace tensorgrad
