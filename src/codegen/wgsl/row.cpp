// Kernels with inner variables: rows that reductions fold. A row is folded by one thread, or by a
// team of threads that each take every T-th element and join their parts in workgroup memory, in a
// tree whose order is fixed. A workgroup holds P rows and a team of T threads for each.
//
// Reductions that need others go in passes over the row, which compute the inner expressions anew:
// softmax takes its maximum in the first pass, the sum in the second, and stores in the third.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "codegen/wgsl/body.hpp"
#include "codegen/wgsl/generators.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::wgsl {

namespace {

// ---- how threads are spread

struct Teams {
  std::int64_t rows = 1;     // P: rows of a workgroup
  std::int64_t threads = 1;  // T: threads of a row, a power of two
  // Neighbouring threads take neighbouring elements of a row, or neighbouring rows: whichever lie
  // side by side in memory.
  bool along_row = true;
};

std::int64_t floor_power(std::int64_t n) {
  return static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

int last_var(const Kernel& kernel, int first, int end) {
  for (int v = end - 1; v >= first; --v) {
    if (kernel.vars[static_cast<std::size_t>(v)].extent > 1) return v;
  }
  return -1;
}

/// How far an index moves in memory when a variable goes from 0 to 1.
std::int64_t step_of(const Index& index, int var) {
  if (var < 0) return 0;
  const auto at = [&](std::int64_t value) {
    return index.substitute([&](int v) { return Index(v == var ? value : 0); });
  };
  const Index difference = at(1) - at(0);
  return difference.is_constant() ? std::abs(difference.constant()) : 2;
}

Teams choose_teams(const Module& module) {
  const Kernel& kernel = module.kernel;
  const std::int64_t rows = kernel.outer_size(), length = kernel.inner_size();
  const auto most = static_cast<std::int64_t>(std::min(256u, module.limits.invocations));
  const int inner = last_var(kernel, kernel.outer_count, static_cast<int>(kernel.vars.size()));
  const int outer = last_var(kernel, 0, kernel.outer_count);

  int along = 0, across = 0;
  const auto vote = [&](const Index& index) {
    const std::int64_t in_row = step_of(index, inner), between = step_of(index, outer);
    if (in_row == 1) ++along;
    if (between == 1 && in_row != 1) ++across;
  };
  for (const Expr& e : kernel.exprs) {
    if (e.kind == Expr::Kind::Load && e.inner) vote(e.index);
  }
  for (const Store& s : kernel.stores) {
    if (s.inner) vote(s.index);
  }

  constexpr std::int64_t kManyThreads = 1 << 17;  // enough for any device
  Teams teams;
  teams.along_row = along >= across;
  if (teams.along_row) {
    teams.threads = std::min(most, floor_power(length));
    while (teams.threads > 1 && rows * teams.threads > kManyThreads && length / teams.threads < 8) {
      teams.threads /= 2;
    }
    if (length <= 4) teams.threads = 1;
    teams.rows = std::max<std::int64_t>(1, std::min(most, std::int64_t{64}) / teams.threads);
  } else {
    // At least 16 rows side by side, if there are as many.
    const std::int64_t side = std::min(most, std::max<std::int64_t>(16, most / 16));
    const auto rows_here =
        std::min(side, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows))));
    teams.threads = std::min(most / rows_here, floor_power(length));
    while (teams.threads > 1 && rows * teams.threads > kManyThreads) teams.threads /= 2;
    if (length <= 8) teams.threads = 1;
    teams.rows = std::max(rows_here, std::min(most, std::int64_t{64}) / teams.threads);
  }
  return teams;
}

// ---- how values are joined

std::string start_of(ReduceKind kind, DType dtype, std::set<std::string>& prelude) {
  const bool is_float = dtype == DType::F32;
  switch (kind) {
    case ReduceKind::Sum:
      return is_float ? "0.0" : "0";
    case ReduceKind::Prod:
      return is_float ? "1.0" : "1";
    case ReduceKind::Max:
      if (!is_float) return "i32(-2147483648)";
      prelude.insert("tg_inf");
      return "-tg_inf()";
    case ReduceKind::Min:
      if (!is_float) return "2147483647";
      prelude.insert("tg_inf");
      return "tg_inf()";
    case ReduceKind::ArgMax:
    case ReduceKind::ArgMin:
      return is_float ? "0.0" : "0";
  }
  return "?";
}

std::string joined(ReduceKind kind, DType dtype, const std::string& a, const std::string& b,
                   std::set<std::string>& prelude) {
  const auto call = [&](const std::string& name) {
    const std::string function = dtype == DType::F32 ? "tg_" + name : name;
    if (dtype == DType::F32) prelude.insert(function);
    return function + "(" + a + ", " + b + ")";
  };
  switch (kind) {
    case ReduceKind::Sum:
      return a + " + " + b;
    case ReduceKind::Prod:
      return a + " * " + b;
    case ReduceKind::Max:
      return call("max");
    case ReduceKind::Min:
      return call("min");
    case ReduceKind::ArgMax:
    case ReduceKind::ArgMin:
      break;
  }
  throw InternalError("wgsl: positions are joined in pairs");
}

bool is_arg(ReduceKind kind) { return kind == ReduceKind::ArgMax || kind == ReduceKind::ArgMin; }

/// The prelude's comparison of two values with their positions.
std::string first_function(ReduceKind kind, DType dtype, std::set<std::string>& prelude) {
  std::string name = kind == ReduceKind::ArgMax ? "tg_first_max" : "tg_first_min";
  if (dtype == DType::I32) name += "_i32";
  prelude.insert(name);
  return name;
}

class RowPrinter {
 public:
  explicit RowPrinter(Module& module)
      : module_(module),
        kernel_(module.kernel),
        out_(module.main),
        body_(module, module.main),
        teams_(choose_teams(module)) {}

  void print() {
    order_passes();
    place_threads();
    for (int pass = 0; pass < passes_; ++pass) print_pass(pass);
    compute_outer(passes_);
    print_outer_stores();
  }

 private:
  const Expr& expr(ExprId id) const { return kernel_.exprs[static_cast<std::size_t>(id)]; }
  DType row_dtype(ExprId reduce) const { return expr(expr(reduce).args[0]).dtype; }

  // ---- passes

  /// rank_[e]: how many passes must be over before e can be computed.
  void order_passes() {
    rank_.assign(kernel_.exprs.size(), 0);
    for (std::size_t id = 0; id < kernel_.exprs.size(); ++id) {
      const Expr& e = kernel_.exprs[id];
      for (ExprId used : uses(e)) rank_[id] = std::max(rank_[id], rank(used));
      if (e.kind == Expr::Kind::Reduce) ++rank_[id];
    }
    needed_.assign(kernel_.exprs.size(), false);
    for (const Store& s : kernel_.stores) {
      for (ExprId id : body_.needs(s)) needed_[static_cast<std::size_t>(id)] = true;
    }
    for (std::size_t id = kernel_.exprs.size(); id-- > 0;) {
      if (!needed_[id]) continue;
      for (ExprId used : uses(kernel_.exprs[id])) needed_[static_cast<std::size_t>(used)] = true;
    }
    for (std::size_t id = 0; id < kernel_.exprs.size(); ++id) {
      if (needed_[id] && kernel_.exprs[id].kind == Expr::Kind::Reduce)
        passes_ = std::max(passes_, rank_[id]);
    }
    for (const Store& s : kernel_.stores) {
      if (s.inner) passes_ = std::max(passes_, store_rank(s) + 1);
    }
  }

  int rank(ExprId id) const { return rank_[static_cast<std::size_t>(id)]; }

  int store_rank(const Store& s) const {
    int result = 0;
    for (ExprId id : body_.needs(s)) result = std::max(result, rank(id));
    return result;
  }

  /// As early as it can be, but not before a later pass has read what it overwrites.
  int store_pass(const Store& s) const {
    const int buffer = kernel_.bindings[static_cast<std::size_t>(s.binding)].buffer;
    const bool read = std::any_of(kernel_.exprs.begin(), kernel_.exprs.end(), [&](const Expr& e) {
      return e.kind == Expr::Kind::Load &&
             kernel_.bindings[static_cast<std::size_t>(e.binding)].buffer == buffer;
    });
    return read ? passes_ - 1 : store_rank(s);
  }

  // ---- threads

  void place_threads() {
    const std::int64_t rows = kernel_.outer_size(), p = teams_.rows, t = teams_.threads;
    module_.workgroups((rows + p - 1) / p, static_cast<std::uint32_t>(p * t), "block");
    std::string row = "block";
    if (p > 1) {
      std::string in_block = "local";
      if (t > 1)
        in_block += (teams_.along_row ? " / " + unsigned_text(t) : " % " + unsigned_text(p));
      row = "block * " + unsigned_text(p) + " + " + in_block;
    }
    if (t > 1) {
      const std::string lane = p == 1             ? "local"
                               : teams_.along_row ? "local % " + unsigned_text(t)
                                                  : "local / " + unsigned_text(p);
      out_.line("let lane = " + lane + ";");
    }
    ragged_ = rows % p != 0;
    if (ragged_ && t > 1) {
      // All threads reach the barriers: those beyond the last row repeat it and store nothing.
      out_.line("let live = " + row + " < " + unsigned_text(rows) + ";");
      out_.line("let row = min(" + row + ", " + unsigned_text(rows - 1) + ");");
    } else {
      out_.line("let row = " + row + ";");
      if (ragged_) {
        out_.open("if (row >= " + unsigned_text(rows) + ")");
        out_.line("return;");
        out_.close();
      }
    }
    body_.unravel("row", 0, kernel_.outer_count);
    body_.alias(body_.linear(0, kernel_.outer_count), "row");
  }

  bool guards_stores() const { return ragged_ && teams_.threads > 1; }

  // ---- printing

  /// Values of the row that can be computed before this pass.
  void compute_outer(int pass) {
    std::vector<ExprId> ids;
    for (std::size_t id = 0; id < kernel_.exprs.size(); ++id) {
      const Expr& e = kernel_.exprs[id];
      if (needed_[id] && !e.inner && e.kind != Expr::Kind::Reduce && rank_[id] <= pass) {
        ids.push_back(static_cast<ExprId>(id));
      }
    }
    body_.compute(ids);
  }

  void print_pass(int pass) {
    compute_outer(pass);
    std::vector<ExprId> folds, values;
    for (std::size_t id = 0; id < kernel_.exprs.size(); ++id) {
      const Expr& e = kernel_.exprs[id];
      if (!needed_[id] || e.kind != Expr::Kind::Reduce || rank_[id] != pass + 1) continue;
      folds.push_back(static_cast<ExprId>(id));
      values.push_back(e.args[0]);
    }
    std::vector<const Store*> stores;
    for (const Store& s : kernel_.stores) {
      if (!s.inner || store_pass(s) != pass) continue;
      stores.push_back(&s);
      for (ExprId id : body_.needs(s)) values.push_back(id);
    }
    for (ExprId fold : folds) start(fold);
    const auto outside = body_.names();
    const int scopes = open_row(pass);
    body_.compute(values);
    for (ExprId fold : folds) take(fold);
    if (!stores.empty() && guards_stores()) out_.open("if (live)");
    for (const Store* s : stores) body_.store(*s);
    if (!stores.empty() && guards_stores()) out_.close();
    for (int i = 0; i < scopes; ++i) out_.close();
    body_.restore(outside);
    for (ExprId fold : folds) finish(fold);
  }

  /// Opens the loop over this thread's elements of the row; how many scopes that took.
  int open_row(int pass) {
    const std::int64_t length = kernel_.inner_size(), t = teams_.threads;
    const auto end = static_cast<int>(kernel_.vars.size());
    out_.line("// pass " + std::to_string(pass + 1) + " of " + std::to_string(passes_));
    if (t == 1) {
      int scopes = 0;
      for (int v = kernel_.outer_count; v < end; ++v) {
        const std::int64_t extent = kernel_.vars[static_cast<std::size_t>(v)].extent;
        if (extent == 1) continue;
        const std::string name = "i" + std::to_string(v);
        out_.open("for (var " + name + " = 0u; " + name + " < " + unsigned_text(extent) + "; " +
                  name + "++)");
        body_.set_var(v, name);
        ++scopes;
      }
      if (scopes == 0) out_.open(""), ++scopes;
      position_ = body_.index(body_.linear(kernel_.outer_count, end));
      return scopes;
    }
    const std::int64_t steps = (length + t - 1) / t;
    int scopes = 1;
    if (steps > 1) {
      out_.open("for (var step = 0u; step < " + unsigned_text(steps) + "; step++)");
      out_.line("let j = step * " + unsigned_text(t) + " + lane;");
    } else {
      out_.open("");
      out_.line("let j = lane;");
    }
    if (length % t != 0) {
      out_.open("if (j < " + unsigned_text(length) + ")");
      ++scopes;
    }
    body_.unravel("j", kernel_.outer_count, end);
    position_ = "j";
    return scopes;
  }

  std::string part(ExprId id) const {
    return name_of(kernel_, id) + (teams_.threads > 1 ? "_part" : "");
  }

  void start(ExprId id) {
    const Expr& e = expr(id);
    const std::string type = value_type(row_dtype(id));
    if (is_arg(e.reduce)) {
      out_.line("var " + part(id) + "_best: " + type + ";", e.node);
      out_.line("var " + part(id) + "_at = 0xffffffffu;", e.node);
    } else {
      out_.line("var " + part(id) + ": " + type + " = " +
                    start_of(e.reduce, row_dtype(id), module_.prelude) + ";",
                e.node);
    }
  }

  void take(ExprId id) {
    const Expr& e = expr(id);
    const std::string value = body_.value(e.args[0]), name = part(id);
    if (is_arg(e.reduce)) {
      const std::string first = first_function(e.reduce, row_dtype(id), module_.prelude);
      out_.open("if (" + first + "(" + value + ", " + position_ + ", " + name + "_best, " + name +
                    "_at))",
                e.node);
      out_.line(name + "_best = " + value + ";", e.node);
      out_.line(name + "_at = " + position_ + ";", e.node);
      out_.close();
    } else {
      out_.line(name + " = " + joined(e.reduce, row_dtype(id), name, value, module_.prelude) + ";",
                e.node);
    }
  }

  void finish(ExprId id) {
    const Expr& e = expr(id);
    const std::string name = name_of(kernel_, id);
    if (is_arg(e.reduce)) {
      const std::string at = teams_.threads == 1
                                 ? part(id) + "_at"
                                 : team_function(e.reduce, row_dtype(id)) + "(" + part(id) +
                                       "_best, " + part(id) + "_at, local, lane)";
      out_.line("let " + name + " = i32(" + at + ");", e.node);
    } else if (teams_.threads > 1) {
      out_.line("let " + name + " = " + team_function(e.reduce, row_dtype(id)) + "(" + part(id) +
                    ", local, lane);",
                e.node);
    }
    body_.name(id, name);
  }

  void print_outer_stores() {
    std::vector<const Store*> stores;
    for (const Store& s : kernel_.stores) {
      if (!s.inner) stores.push_back(&s);
    }
    if (stores.empty()) return;
    const bool one_lane = teams_.threads > 1;
    if (one_lane) out_.open(guards_stores() ? "if (lane == 0u && live)" : "if (lane == 0u)");
    for (const Store* s : stores) body_.store(*s);
    if (one_lane) out_.close();
  }

  // ---- joining a team's parts

  void share(const std::string& type) {
    if (!shared_.insert(type).second) return;
    module_.share("team_" + type, type, teams_.rows * teams_.threads, 4);
  }

  /// A function that joins the parts of a team's threads, printed when it is first asked for.
  std::string team_function(ReduceKind kind, DType dtype) {
    const std::string type = value_type(dtype);
    std::string name = "team_" + name_of_kind(kind) + "_" + type;
    share(type);
    if (is_arg(kind)) share("u32");
    if (!functions_.insert(name).second) return name;

    Writer& f = module_.functions;
    if (!f.empty()) f.blank();
    const std::int64_t stride = teams_.along_row ? 1 : teams_.rows;
    const std::string values = "team_" + type;
    f.line(is_arg(kind) ? "// The position of the first among a team's best values."
                        : "// Joins the parts of a team.");
    if (is_arg(kind)) {
      f.open("fn " + name + "(best: " + type + ", at: u32, id: u32, lane: u32) -> u32");
    } else {
      f.open("fn " + name + "(part: " + type + ", id: u32, lane: u32) -> " + type);
    }
    f.line("workgroupBarrier();");
    f.line(values + "[id] = " + (is_arg(kind) ? "best" : "part") + ";");
    if (is_arg(kind)) f.line("team_u32[id] = at;");
    f.line("workgroupBarrier();");
    const int levels = std::countr_zero(static_cast<std::uint64_t>(teams_.threads));
    f.open("for (var level = 0u; level < " + unsigned_text(levels) + "; level++)");
    f.line("let half = " + unsigned_text(teams_.threads / 2) + " >> level;");
    f.open("if (lane < half)");
    f.line("let other = id + half" + (stride == 1 ? "" : " * " + unsigned_text(stride)) + ";");
    if (is_arg(kind)) {
      const std::string first = first_function(kind, dtype, module_.prelude);
      f.open("if (" + first + "(" + values + "[other], team_u32[other], " + values +
             "[id], team_u32[id]))");
      f.line(values + "[id] = " + values + "[other];");
      f.line("team_u32[id] = team_u32[other];");
      f.close();
    } else {
      f.line(values + "[id] = " +
             joined(kind, dtype, values + "[id]", values + "[other]", module_.prelude) + ";");
    }
    f.close();
    f.line("workgroupBarrier();");
    f.close();
    const std::string first = "id - lane" + (stride == 1 ? "" : " * " + unsigned_text(stride));
    f.line("return " + (is_arg(kind) ? "team_u32" : values) + "[" + first + "];");
    f.close();
    return name;
  }

  static std::string name_of_kind(ReduceKind kind) {
    switch (kind) {
      case ReduceKind::Sum:
        return "sum";
      case ReduceKind::Prod:
        return "prod";
      case ReduceKind::Max:
        return "max";
      case ReduceKind::Min:
        return "min";
      case ReduceKind::ArgMax:
        return "argmax";
      case ReduceKind::ArgMin:
        return "argmin";
    }
    return "?";
  }

  Module& module_;
  const Kernel& kernel_;
  Writer& out_;
  Body body_;
  Teams teams_;
  std::vector<int> rank_;
  std::vector<bool> needed_;
  int passes_ = 0;
  bool ragged_ = false;
  std::string position_;  // in the row, where a pass is printed
  std::set<std::string> shared_, functions_;
};

}  // namespace

void emit_row(Module& module) { RowPrinter(module).print(); }

}  // namespace tensorgrad::wgsl
