// sum = Σ_i [indices(i) = row]·source(i, rest): zeros first, then row after row of the source is
// added where its index says, in the order of i; columns are shared out to the workers, so the
// result does not depend on their number. The rest of the kernel follows as a tape.
#include <algorithm>
#include <optional>

#include "runtime/cpu/kernels.hpp"

namespace tensorgrad::cpu {

namespace {

class ScatterKernel final : public CpuKernel {
 public:
  ScatterKernel(const Kernel& kernel, const KernelContext& context) : kernel_(kernel) {
    fits_ = read_hint();
    if (!fits_) return;
    threads_ = context.threads;
    elements_ = kernel.outer_size();
    choose_target(context);
    make_additions(context);
    make_epilogue(context);
  }

  bool fits() const { return fits_; }

  void run(const Workers& workers) const override {
    float* sum = target_ >= 0 ? target_base_ : reinterpret_cast<float*>(workers.shared);
    clear(workers, sum);
    additions_->run(workers, sum_binding_, sum);
    if (epilogue_) epilogue_->run(workers, sum_binding_, sum);
  }

  Needs needs() const override {
    Needs n = additions_->needs();
    if (epilogue_) n.cover(epilogue_->needs());
    if (target_ < 0)
      n.shared = std::max(n.shared, static_cast<std::size_t>(elements_) * sizeof(float));
    return n;
  }

  std::string description() const override {
    std::string text = "scatter";
    if (target_ < 0) text += " in scratch";
    if (epilogue_) text += " with epilogue";
    return text;
  }

 private:
  std::int64_t extent(int var) const { return kernel_.vars[static_cast<std::size_t>(var)].extent; }
  const Expr& expr(ExprId id) const { return kernel_.exprs[static_cast<std::size_t>(id)]; }

  bool read_hint() {
    const ScatterHint& hint = *kernel_.scatter;
    if (!is_simple_epilogue(kernel_, hint.sum) || expr(hint.sum).dtype != DType::F32) return false;
    // What is added may not depend on the row it goes to.
    Kernel part = kernel_;
    part.stores.clear();
    blank_unused(part, {hint.indices, hint.source});
    bool uses_row = false;
    for_each_index(part, [&](const Index& index) { uses_row |= index.uses_var(hint.row_var); });
    return !uses_row;
  }

  Index row_major() const {
    Index index = 0;
    for (int v = 0; v < kernel_.outer_count; ++v)
      index = index * extent(v) + Index::var(v, extent(v));
    return index;
  }

  /// A store of the plain sum, if all of it lies in row-major order, can be what is added to.
  void choose_target(const KernelContext& context) {
    for (std::size_t s = 0; s < kernel_.stores.size(); ++s) {
      const Store& store = kernel_.stores[s];
      const Binding& b = kernel_.bindings[static_cast<std::size_t>(store.binding)];
      if (store.value != kernel_.scatter->sum || !(store.index == row_major())) continue;
      const bool read = std::any_of(kernel_.exprs.begin(), kernel_.exprs.end(), [&](const Expr& e) {
        return e.kind == Expr::Kind::Load &&
               overlap(kernel_.bindings[static_cast<std::size_t>(e.binding)], b);
      });
      if (read) continue;
      target_ = static_cast<int>(s);
      sum_binding_ = store.binding;
      target_base_ = binding_bases(kernel_, context)[static_cast<std::size_t>(store.binding)];
      return;
    }
    sum_binding_ = static_cast<int>(kernel_.bindings.size());
  }

  Kernel with_sum_binding() const {
    Kernel k = kernel_;
    if (target_ < 0) {
      Binding scratch;
      scratch.buffer = -2;  // overlaps nothing
      scratch.elements = elements_;
      k.bindings.push_back(scratch);
    }
    return k;
  }

  std::vector<float*> bases(const KernelContext& context) const {
    std::vector<float*> result = binding_bases(kernel_, context);
    if (target_ < 0) result.push_back(nullptr);
    return result;
  }

  /// The same expressions over (rest, i), all outer.
  void make_additions(const KernelContext& context) {
    const ScatterHint& hint = *kernel_.scatter;
    Kernel k = with_sum_binding();
    Store to;  // carries the target's map through normalisation
    to.binding = sum_binding_;
    to.value = hint.source;
    to.index = row_major();
    k.stores = {to};
    blank_unused(k, {hint.indices});
    std::vector<int> renumbered;
    int count = 0;
    for (int v = 0; v < static_cast<int>(k.vars.size()); ++v)
      renumbered.push_back(v == hint.row_var ? -1 : count++);
    for_each_index(k, [&](Index& index) {
      index = index.substitute([&](int v) -> Index {
        const int now = renumbered[static_cast<std::size_t>(v)];
        return now < 0 ? Index(0) : Index::var(now, extent(v));
      });
    });
    k.vars.erase(k.vars.begin() + hint.row_var);
    k.outer_count = static_cast<int>(k.vars.size());
    for (Expr& e : k.exprs) e.inner = false;
    const Normalised normal = normalise(k, {.keep_vars = true});

    TapeOptions::AddRows add;
    add.indices = hint.indices;
    add.source = hint.source;
    add.binding = sum_binding_;
    add.target = normal.kernel.stores[0].index;
    add.row_stride = row_major().stride(hint.row_var);
    add.rows = extent(hint.row_var);
    add.sequence = normal.parts.back();
    add.node = expr(hint.sum).node;
    TapeOptions options;
    options.threads = context.threads;
    options.lanes = context.lanes;
    options.add_rows = &add;
    Tape tape = compile_tape(normal.kernel, options);
    std::int64_t unit = 1;
    for (int d : tape.outer_loops) {
      if (std::find(add.sequence.begin(), add.sequence.end(), d) == add.sequence.end()) continue;
      const TapeDim& dim = tape.dims[static_cast<std::size_t>(d)];
      unit *= (dim.extent + dim.tile - 1) / dim.tile;
    }
    additions_.emplace(std::move(tape), bases(context), context, unit);
  }

  void make_epilogue(const KernelContext& context) {
    Kernel rest = with_sum_binding();
    if (target_ >= 0) rest.stores.erase(rest.stores.begin() + target_);
    if (rest.stores.empty()) return;
    rest = without_reduction(rest, kernel_.scatter->sum, sum_binding_, row_major());
    TapeOptions options;
    options.threads = context.threads;
    options.lanes = context.lanes;
    epilogue_.emplace(compile_tape(normalise(rest).kernel, options), bases(context), context);
  }

  void clear(const Workers& workers, float* sum) const {
    constexpr std::int64_t kWorthSharing = 1 << 18;
    if (elements_ < kWorthSharing) return fill_lanes(0, sum, static_cast<std::size_t>(elements_));
    workers.pool->run(threads_, [&](std::int64_t t, int) {
      const std::int64_t from = elements_ * t / threads_, to = elements_ * (t + 1) / threads_;
      fill_lanes(0, sum + from, static_cast<std::size_t>(to - from));
    });
  }

  Kernel kernel_;
  bool fits_ = false;
  int threads_ = 1;
  std::int64_t elements_ = 0;
  int target_ = -1;  // the store that is added to; -1: scratch memory
  int sum_binding_ = -1;
  float* target_base_ = nullptr;
  std::optional<TapeTasks> additions_, epilogue_;
};

}  // namespace

std::unique_ptr<CpuKernel> make_scatter_kernel(const Kernel& kernel, const KernelContext& context) {
  auto result = std::make_unique<ScatterKernel>(kernel, context);
  return result->fits() ? std::move(result) : nullptr;
}

}  // namespace tensorgrad::cpu
