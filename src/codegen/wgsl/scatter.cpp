// Adding rows at places that are data. A workgroup has one row of the output and a thread for each
// of its columns. It looks through the indices together, W at a time, and notes which of them name
// its row as bits in workgroup memory; the threads then add those rows of the source, in order, so
// that the sum is the same in every run. Most rows are never named, and cost one look at the
// indices.
#include <algorithm>
#include <bit>

#include "codegen/wgsl/body.hpp"
#include "codegen/wgsl/generators.hpp"

namespace tensorgrad::wgsl {

namespace {

class ScatterPrinter {
 public:
  explicit ScatterPrinter(Module& module)
      : module_(module), kernel_(module.kernel), out_(module.main), body_(module, module.main) {}

  bool print() {
    if (!fits()) return false;
    for (int v = 0; v < kernel_.outer_count; ++v) {
      if (v != hint().row_var) columns_ *= extent(v);
    }
    // Where there are many indices to look through, more threads than columns pay.
    const std::int64_t least = extent(inner_var()) > 512 ? 128 : 32;
    size_ = static_cast<std::uint32_t>(
        std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(columns_, least, 256))));
    if (size_ > module_.limits.invocations) return false;
    copies_ = static_cast<int>(std::min<std::int64_t>(4, (columns_ + size_ - 1) / size_));
    print_place();
    print_sum();
    print_stores();
    return true;
  }

 private:
  const ScatterHint& hint() const { return *kernel_.scatter; }
  const Expr& expr(ExprId id) const { return kernel_.exprs[static_cast<std::size_t>(id)]; }
  std::int64_t extent(int v) const { return kernel_.vars[static_cast<std::size_t>(v)].extent; }
  int inner_var() const { return kernel_.outer_count; }

  /// Everything that an expression needs.
  std::vector<bool> closure(ExprId root) const {
    std::vector<bool> needed(kernel_.exprs.size());
    needed[static_cast<std::size_t>(root)] = true;
    for (ExprId id = root; id >= 0; --id) {
      if (!needed[static_cast<std::size_t>(id)]) continue;
      for (ExprId used : uses(expr(id))) needed[static_cast<std::size_t>(used)] = true;
    }
    return needed;
  }

  /// Whether the sum is all that folds, and the indices are the same for every row and column.
  bool fits() const {
    if (!kernel_.scatter ||
        kernel_.vars.size() != static_cast<std::size_t>(kernel_.outer_count) + 1)
      return false;
    if (expr(hint().sum).dtype != DType::F32 || expr(hint().indices).dtype != DType::I32)
      return false;
    for (ExprId id = 0; id < static_cast<ExprId>(kernel_.exprs.size()); ++id) {
      if (expr(id).kind == Expr::Kind::Reduce && id != hint().sum) return false;
    }
    const std::vector<bool> of_indices = closure(hint().indices),
                            of_source = closure(hint().source);
    for (std::size_t id = 0; id < kernel_.exprs.size(); ++id) {
      const Expr& e = kernel_.exprs[id];
      if (of_source[id] && e.kind == Expr::Kind::Reduce) return false;
      if (!of_indices[id]) continue;
      for (int v = 0; v < kernel_.outer_count; ++v) {
        const auto varies = [&](const Guard& g) { return g.index.uses_var(v); };
        if (e.index.uses_var(v) || std::any_of(e.guards.begin(), e.guards.end(), varies))
          return false;
      }
    }
    return std::none_of(kernel_.stores.begin(), kernel_.stores.end(),
                        [](const Store& s) { return s.inner; });
  }

  /// Names of what a thread has once for each of its columns.
  std::string suffix(int copy) const { return copies_ == 1 ? "" : "_" + std::to_string(copy); }
  std::string sum(int copy) const { return name_of(kernel_, hint().sum) + suffix(copy); }

  void print_place() {
    const std::int64_t rows = extent(hint().row_var), chunk = size_ * copies_,
                       chunks = (columns_ + chunk - 1) / chunk;
    module_.workgroups(rows * chunks, size_, "block");
    out_.line("let row = " +
              std::string(chunks == 1 ? "block" : "block / " + unsigned_text(chunks)) + ";");
    for (int copy = 0; copy < copies_; ++copy) {
      std::string column = "local";
      if (copy > 0) column += " + " + unsigned_text(copy * size_);
      if (chunks > 1)
        column += " + (block % " + unsigned_text(chunks) + ") * " + unsigned_text(chunk);
      // All threads reach the barriers: those beyond the last column repeat it and store nothing.
      if (columns_ % chunk != 0) {
        out_.line("let live" + suffix(copy) + " = " + column + " < " + unsigned_text(columns_) +
                  ";");
        column = "min(" + column + ", " + unsigned_text(columns_ - 1) + ")";
      }
      out_.line("let column" + suffix(copy) + " = " + column + ";");
      std::int64_t below = 1;
      for (int v = kernel_.outer_count - 1; v >= 0; --v) {
        if (v == hint().row_var || extent(v) == 1) continue;
        std::string text = "column" + suffix(copy);
        if (below > 1) text += " / " + unsigned_text(below);
        below *= extent(v);
        if (below < columns_) text += " % " + unsigned_text(extent(v));
        out_.line("let i" + std::to_string(v) + suffix(copy) + " = " + text + ";");
      }
    }
    body_.set_var(hint().row_var, "row");
  }

  /// Prints expressions of one of the thread's columns from now on.
  void enter(int copy) {
    for (int v = 0; v < kernel_.outer_count; ++v) {
      if (v != hint().row_var) body_.set_var(v, "i" + std::to_string(v) + suffix(copy));
    }
    body_.set_suffix(suffix(copy));
  }

  void print_sum() {
    const NodeId node = expr(hint().sum).node;
    const std::int64_t length = extent(inner_var());
    const std::int64_t looks = std::min<std::int64_t>(4, (length + size_ - 1) / size_);
    const std::int64_t batch = looks * size_, words = batch / 32;
    const std::string i = "i" + std::to_string(inner_var());
    const auto outside = body_.names();
    module_.share("hits", "atomic<u32>", words + 1, 4);  // the last one says whether there are any
    for (int copy = 0; copy < copies_; ++copy) out_.line("var " + sum(copy) + " = 0.0;", node);
    out_.open(
        "for (var step = 0u; step < " + unsigned_text((length + batch - 1) / batch) + "; step++)",
        node);
    out_.open("if (local <= " + unsigned_text(words) + ")");
    out_.line("atomicStore(&hits[local], 0u);");
    out_.close();
    out_.line("workgroupBarrier();");

    out_.open("for (var look = 0u; look < " + unsigned_text(looks) + "; look++)");
    out_.line("let bit = look * " + unsigned_text(size_) + " + local;");
    out_.line("let " + i + " = step * " + unsigned_text(batch) + " + bit;");
    const bool partial = length % batch != 0;
    if (partial) out_.open("if (" + i + " < " + unsigned_text(length) + ")");
    body_.compute({hint().indices});
    out_.open("if (" + body_.value(hint().indices) + " == i32(row))", node);
    out_.line("atomicOr(&hits[bit / 32u], 1u << (bit % 32u));", node);
    out_.line("atomicStore(&hits[" + unsigned_text(words) + "], 1u);", node);
    out_.close();
    if (partial) out_.close();
    out_.close();
    body_.restore(outside);
    out_.line("workgroupBarrier();");

    out_.open("if (atomicLoad(&hits[" + unsigned_text(words) + "]) != 0u)");
    out_.open("for (var word = 0u; word < " + unsigned_text(words) + "; word++)");
    out_.line("var bits = atomicLoad(&hits[word]);");
    out_.open("for (var left = countOneBits(bits); left > 0u; left--)");
    out_.line("let " + i + " = step * " + unsigned_text(batch) +
              " + word * 32u + firstTrailingBit(bits);");
    out_.line("bits &= bits - 1u;");
    for (int copy = 0; copy < copies_; ++copy) {
      enter(copy);
      body_.compute({hint().source});
      out_.line(sum(copy) + " += " + body_.value(hint().source) + ";", node);
      body_.restore(outside);
    }
    out_.close();
    out_.close();
    out_.close();
    out_.line("workgroupBarrier();");
    out_.close();
  }

  void print_stores() {
    std::vector<ExprId> needed;
    for (const Store& s : kernel_.stores) {
      const std::vector<ExprId> ids = body_.needs(s);
      needed.insert(needed.end(), ids.begin(), ids.end());
    }
    const auto outside = body_.names();
    for (int copy = 0; copy < copies_; ++copy) {
      enter(copy);
      body_.restore(outside);
      body_.name(hint().sum, sum(copy));
      body_.compute(needed);
      const bool guard = columns_ % (size_ * copies_) != 0;
      if (guard) out_.open("if (live" + suffix(copy) + ")");
      for (const Store& s : kernel_.stores) body_.store(s);
      if (guard) out_.close();
    }
  }

  Module& module_;
  const Kernel& kernel_;
  Writer& out_;
  Body body_;
  std::int64_t columns_ = 1;
  std::uint32_t size_ = 32;  // threads of a workgroup
  int copies_ = 1;           // columns of a thread
};

}  // namespace

bool emit_scatter(Module& module) { return ScatterPrinter(module).print(); }

}  // namespace tensorgrad::wgsl
