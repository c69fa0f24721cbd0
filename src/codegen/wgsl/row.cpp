// Kernels with inner variables: rows that reductions fold. A row is folded by one thread, or by a
// team of threads that each take every T-th element and join their parts in workgroup memory,
// always in the same order. A workgroup holds P rows and a team of T threads for each.
//
// Reductions that need others go in passes over the row: softmax takes its maximum in the first,
// the sum in the second, and stores in the third. Where a thread has few elements it keeps what it
// computed of them from pass to pass; otherwise each pass computes the inner expressions anew.
#include <algorithm>

#include "codegen/wgsl/body.hpp"
#include "codegen/wgsl/fold.hpp"
#include "codegen/wgsl/generators.hpp"
#include "codegen/wgsl/teams.hpp"

namespace tensorgrad::wgsl {

namespace {

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
    if (keeps_row()) {
      print_kept_row();
    } else {
      for (int pass = 0; pass < passes_; ++pass) print_pass(pass);
    }
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
      const bool folds = needed_[id] && kernel_.exprs[id].kind == Expr::Kind::Reduce;
      if (folds) passes_ = std::max(passes_, rank_[id]);
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
    const auto buffer = [&](int binding) {
      return kernel_.bindings[static_cast<std::size_t>(binding)].buffer;
    };
    const bool read = std::any_of(kernel_.exprs.begin(), kernel_.exprs.end(), [&](const Expr& e) {
      return e.kind == Expr::Kind::Load && buffer(e.binding) == buffer(s.binding);
    });
    return read ? passes_ - 1 : store_rank(s);
  }

  /// What is done in one pass.
  struct Pass {
    std::vector<ExprId> folds;         // reductions
    std::vector<const Store*> stores;  // at every point of the row
    std::vector<ExprId> values;        // what both need
  };

  Pass pass_of(int number) const {
    Pass pass;
    for (std::size_t id = 0; id < kernel_.exprs.size(); ++id) {
      const Expr& e = kernel_.exprs[id];
      if (!needed_[id] || e.kind != Expr::Kind::Reduce || rank_[id] != number + 1) continue;
      pass.folds.push_back(static_cast<ExprId>(id));
      pass.values.push_back(e.args[0]);
    }
    for (const Store& s : kernel_.stores) {
      if (!s.inner || store_pass(s) != number) continue;
      pass.stores.push_back(&s);
      for (ExprId id : body_.needs(s)) pass.values.push_back(id);
    }
    return pass;
  }

  void print_pass_comment(int pass) {
    out_.line("// pass " + std::to_string(pass + 1) + " of " + std::to_string(passes_));
  }

  // ---- threads

  void place_threads() {
    const std::int64_t rows = kernel_.outer_size(), p = teams_.rows, t = teams_.threads;
    module_.workgroups((rows + p - 1) / p, static_cast<std::uint32_t>(p * t), "block");
    std::string row = "block";
    if (p > 1) {
      std::string in_block = "local";
      if (t > 1) in_block += teams_.along_row ? " / " + unsigned_text(t) : " % " + unsigned_text(p);
      row = "block * " + unsigned_text(p) + " + " + in_block;
    }
    if (t > 1) {
      std::string lane = "local";
      if (p > 1) lane += teams_.along_row ? " % " + unsigned_text(t) : " / " + unsigned_text(p);
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
  int end_var() const { return static_cast<int>(kernel_.vars.size()); }
  std::int64_t steps() const {
    return (kernel_.inner_size() + teams_.threads - 1) / teams_.threads;
  }

  // ---- the row, computed anew in each pass

  struct Step;
  static constexpr std::int64_t kLap = 4;  // elements at a time

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

  void print_pass(int number) {
    compute_outer(number);
    const Pass pass = pass_of(number);
    for (ExprId fold : pass.folds) start(fold);
    const std::vector<std::string> outside = body_.names();
    print_pass_comment(number);
    if (teams_.threads > 1 && steps() >= 2 * kLap) {
      print_laps(pass, outside);
    } else {
      const int scopes = open_row();
      body_.compute(pass.values);
      print_uses(pass, {"", position_, ""});
      for (int i = 0; i < scopes; ++i) out_.close();
    }
    body_.restore(outside);
    for (ExprId fold : pass.folds) finish(fold);
  }

  /// The loop over a long row, several elements at a time.
  void print_laps(const Pass& pass, const std::vector<std::string>& outside) {
    const std::int64_t stride = kLap * teams_.threads, length = kernel_.inner_size();
    out_.open("for (var lap = 0u; lap < " + unsigned_text((length + stride - 1) / stride) +
              "; lap++)");
    std::vector<Step> lap;
    std::vector<std::vector<std::string>> names;
    for (std::int64_t i = 0; i < kLap; ++i) {
      const std::string at = "lap * " + unsigned_text(stride) +
                             (i == 0 ? "" : " + " + unsigned_text(i * teams_.threads)) + " + lane";
      lap.push_back(print_position("_" + std::to_string(i), at, length % stride != 0));
      body_.restore(outside);
      body_.compute(pass.values);
      names.push_back(body_.names());
    }
    for (std::size_t i = 0; i < lap.size(); ++i) {
      body_.restore(names[i]);
      set_vars(lap[i]);
      print_uses(pass, lap[i]);
    }
    body_.set_suffix("");
    out_.close();
  }

  /// Opens the loop over this thread's elements of the row; how many scopes that took.
  int open_row() {
    const std::int64_t length = kernel_.inner_size(), t = teams_.threads;
    if (t == 1) {
      int scopes = 0;
      for (int v = kernel_.outer_count; v < end_var(); ++v) {
        const std::int64_t extent = kernel_.vars[static_cast<std::size_t>(v)].extent;
        if (extent == 1) continue;
        const std::string name = "i" + std::to_string(v);
        out_.open("for (var " + name + " = 0u; " + name + " < " + unsigned_text(extent) + "; " +
                  name + "++)");
        body_.set_var(v, name);
        ++scopes;
      }
      if (scopes == 0) out_.open(""), ++scopes;
      position_ = body_.index(body_.linear(kernel_.outer_count, end_var()));
      return scopes;
    }
    int scopes = 1;
    if (steps() > 1) {
      out_.open("for (var step = 0u; step < " + unsigned_text(steps()) + "; step++)");
      out_.line("let j = step * " + unsigned_text(t) + " + lane;");
    } else {
      out_.open("");
      out_.line("let j = lane;");
    }
    if (length % t != 0) {
      out_.open("if (j < " + unsigned_text(length) + ")");
      ++scopes;
    }
    body_.unravel("j", kernel_.outer_count, end_var());
    position_ = "j";
    return scopes;
  }

  // ---- the row, kept from pass to pass

  /// Whether a thread's part of the row fits into registers, and is needed more than once.
  bool keeps_row() const {
    constexpr std::int64_t kMostElements = 16, kMostValues = 128;
    std::int64_t values = 0;
    for (std::size_t id = 0; id < kernel_.exprs.size(); ++id) {
      if (needed_[id] && kernel_.exprs[id].inner) ++values;
    }
    return passes_ > 1 && steps() <= kMostElements && steps() * values <= kMostValues;
  }

  void print_kept_row() {
    const std::int64_t t = teams_.threads, length = kernel_.inner_size();
    std::vector<Step> row;
    std::vector<std::vector<std::string>> names;
    for (int number = 0; number < passes_; ++number) {
      compute_outer(number);
      const Pass pass = pass_of(number);
      for (ExprId fold : pass.folds) start(fold);
      const std::vector<std::string> outside = body_.names();
      print_pass_comment(number);
      for (std::int64_t i = 0; i < steps(); ++i) {
        if (number == 0) {
          const std::string suffix = steps() == 1 ? "" : "_" + std::to_string(i);
          std::string at = t == 1 ? unsigned_text(i) : "lane";
          if (t > 1 && i > 0) at = unsigned_text(i * t) + " + lane";
          row.push_back(print_position(suffix, at, (i + 1) * t > length));
          names.emplace_back(outside.size());
        }
        set_vars(row[static_cast<std::size_t>(i)]);
        std::vector<std::string>& known = names[static_cast<std::size_t>(i)];
        for (std::size_t id = 0; id < outside.size(); ++id) {
          if (!outside[id].empty()) known[id] = outside[id];
        }
        body_.restore(known);
        body_.compute(pass.values);
        known = body_.names();
        print_uses(pass, row[static_cast<std::size_t>(i)]);
      }
      body_.set_suffix("");
      body_.restore(outside);
      for (ExprId fold : pass.folds) finish(fold);
    }
  }

  // ---- elements of the row that are printed side by side

  struct Step {
    std::string suffix;    // of all names
    std::string position;  // in the row
    std::string inside;    // whether it is one, or empty: then it surely is
  };

  /// Prints a position in the row and its variables. Threads beyond the end repeat the last
  /// element.
  Step print_position(const std::string& suffix, const std::string& at, bool may_be_outside) {
    const std::int64_t length = kernel_.inner_size();
    Step step{suffix, "j" + suffix, ""};
    if (teams_.threads == 1) {
      step.position = at;
    } else if (may_be_outside) {
      step.inside = "inside" + suffix;
      out_.line("let " + step.inside + " = " + at + " < " + unsigned_text(length) + ";");
      out_.line("let " + step.position + " = min(" + at + ", " + unsigned_text(length - 1) + ");");
    } else {
      out_.line("let " + step.position + " = " + at + ";");
    }
    body_.set_suffix(suffix);
    body_.unravel(step.position, kernel_.outer_count, end_var());
    return step;
  }

  void set_vars(const Step& step) {
    body_.set_suffix(step.suffix);
    for (int v = kernel_.outer_count; v < end_var(); ++v) {
      body_.set_var(v, "i" + std::to_string(v) + step.suffix);
    }
  }

  /// What a pass does with an element, once its values are computed.
  void print_uses(const Pass& pass, const Step& step) {
    position_ = step.position;
    if (!pass.folds.empty()) {
      if (!step.inside.empty()) out_.open("if (" + step.inside + ")");
      for (ExprId fold : pass.folds) take(fold);
      if (!step.inside.empty()) out_.close();
    }
    if (!pass.stores.empty()) {
      std::string guard = step.inside;
      if (guards_stores()) guard += guard.empty() ? "live" : " && live";
      if (!guard.empty()) out_.open("if (" + guard + ")");
      for (const Store* s : pass.stores) body_.store(*s);
      if (!guard.empty()) out_.close();
    }
  }

  // ---- reductions

  /// Where a thread collects its part of a reduction.
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
      const std::string value = start_of(e.reduce, row_dtype(id), module_.prelude);
      out_.line("var " + part(id) + ": " + type + " = " + value + ";", e.node);
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
    const bool team = teams_.threads > 1;
    if (is_arg(e.reduce)) {
      std::string at = part(id) + "_at";
      if (team) {
        at = team_function(e.reduce, row_dtype(id)) + "(" + part(id) + "_best, " + at +
             ", local, lane)";
      }
      out_.line("let " + name + " = i32(" + at + ");", e.node);
    } else if (team) {
      const std::string function = team_function(e.reduce, row_dtype(id));
      out_.line("let " + name + " = " + function + "(" + part(id) + ", local, lane);", e.node);
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
    const std::string type = value_type(dtype), values = "team_" + type;
    const std::string name = std::string("team_") + reduce_name(kind) + "_" + type;
    const bool arg = is_arg(kind);
    share(type);
    if (arg) share("u32");
    if (!functions_.insert(name).second) return name;

    // Two rounds: the first lanes join what the others left for them, then everybody joins theirs.
    // More steps than a tree has, but few barriers.
    const std::int64_t t = teams_.threads, first_lanes = t <= 16 ? t : 16;
    const std::int64_t stride = teams_.along_row ? 1 : teams_.rows;
    Writer& f = module_.functions;
    if (!f.empty()) f.blank();
    if (arg) {
      f.line("// The position of the first among a team's best values.");
      f.open("fn " + name + "(best: " + type + ", at: u32, id: u32, lane: u32) -> u32");
    } else {
      f.line("// Joins the parts of a team.");
      f.open("fn " + name + "(part: " + type + ", id: u32, lane: u32) -> " + type);
    }
    f.line("var value = " + std::string(arg ? "best" : "part") + ";");
    if (arg) f.line("var place = at;");
    f.line("workgroupBarrier();");
    f.line(values + "[id] = value;");
    if (arg) f.line("team_u32[id] = place;");
    f.line("workgroupBarrier();");
    if (first_lanes < t) {
      f.open("if (lane < " + unsigned_text(first_lanes) + ")");
      print_join(f, kind, dtype, t / first_lanes, "id", first_lanes * stride);
      f.line(values + "[id] = value;");
      if (arg) f.line("team_u32[id] = place;");
      f.close();
      f.line("workgroupBarrier();");
    }
    f.line("let first = id - lane" + (stride == 1 ? "" : " * " + unsigned_text(stride)) + ";");
    f.line("value = " + values + "[first];");
    if (arg) f.line("place = team_u32[first];");
    print_join(f, kind, dtype, first_lanes, "first", stride);
    f.line(arg ? "return place;" : "return value;");
    f.close();
    return name;
  }

  /// Joins `value` with the count - 1 that lie after `from`, in order.
  void print_join(Writer& f, ReduceKind kind, DType dtype, std::int64_t count,
                  const std::string& from, std::int64_t stride) {
    const std::string values = std::string("team_") + value_type(dtype);
    f.open("for (var k = 1u; k < " + unsigned_text(count) + "; k++)");
    f.line("let other = " + from + " + k" + (stride == 1 ? "" : " * " + unsigned_text(stride)) +
           ";");
    if (is_arg(kind)) {
      const std::string first = first_function(kind, dtype, module_.prelude);
      f.open("if (" + first + "(" + values + "[other], team_u32[other], value, place))");
      f.line("value = " + values + "[other];");
      f.line("place = team_u32[other];");
      f.close();
    } else {
      f.line("value = " + joined(kind, dtype, "value", values + "[other]", module_.prelude) + ";");
    }
    f.close();
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
