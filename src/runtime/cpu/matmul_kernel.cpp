// Matrix products with an epilogue. The product is cut into blocks that fit in the cache; each is
// computed, into the first store that takes it as it is or into scratch memory, and at once the
// rest of the kernel runs over it as a tape.
#include <algorithm>
#include <optional>

#include "runtime/cpu/gemm.hpp"
#include "runtime/cpu/kernels.hpp"

namespace tensorgrad::cpu {

namespace {

constexpr std::size_t kLine = 64;
std::size_t round_up(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

/// Multiply-adds below which a second worker is not woken for a list of small products.
constexpr double kLeastProducts = 1 << 17;

class MatMulKernel final : public CpuKernel {
 public:
  /// Throws nothing; `fits` says whether the hint could be used.
  MatMulKernel(const Kernel& kernel, const KernelContext& context)
      : kernel_(kernel), threads_(context.threads), bases_(binding_bases(kernel, context)) {
    fits_ = read_hint();
    if (!fits_) return;
    choose_target();
    collapse_batch();
    make_product();
    make_epilogue(context);
    find_beside();
  }

  bool fits() const { return fits_; }

  void run(const Workers& workers) const override {
    const auto tasks = static_cast<std::int64_t>(gemm_->tasks().size());
    const std::int64_t items = tasks * static_cast<std::int64_t>(outer_.size());
    const auto item = [&](std::int64_t i, int worker) {
      run_task(workers, static_cast<std::size_t>(worker),
               outer_[static_cast<std::size_t>(i / tasks)], static_cast<std::size_t>(i % tasks));
    };
    if (items == 0) return;
    if (alone_ || items == 1) {
      for (std::int64_t i = 0; i < items; ++i) item(i, 0);
    } else {
      workers.pool->run(items, item);
    }
  }

  Needs needs() const override {
    Needs n;
    if (epilogue_) n.cover(epilogue_->tape(), epilogue_->bases().size());
    n.scratch = round_up(gemm_->scratch_bytes()) + round_up(block_bytes_);
    return n;
  }

  std::string description() const override {
    std::string text = std::string("gemm ") + gemm_->name();
    if (target_ < 0) text += " in scratch";
    if (epilogue_) text += " with epilogue";
    return text;
  }

 private:
  struct Operand {
    Index index;
    std::int64_t stride(int var) const { return index.stride(var); }
  };
  /// One point of the batch variables that the product does not take in.
  struct Outer {
    std::vector<std::int64_t> at;  // by variable of outer_vars_
    std::int64_t a = 0, b = 0, c = 0;
  };

  std::int64_t extent(int var) const { return kernel_.vars[static_cast<std::size_t>(var)].extent; }
  const Expr& expr(ExprId id) const { return kernel_.exprs[static_cast<std::size_t>(id)]; }

  bool read_hint() {
    const MatMulHint& hint = *kernel_.matmul;
    if (!is_simple_epilogue(kernel_, hint.acc) || kernel_.outer_count < 2) return false;
    m_ = kernel_.outer_count - 2;
    n_ = kernel_.outer_count - 1;
    k_ = kernel_.outer_count;
    for (ExprId id : {hint.lhs, hint.rhs}) {
      const Expr& e = expr(id);
      if (e.kind != Expr::Kind::Load || e.dtype != DType::F32 || !e.guards.empty() ||
          !e.index.is_affine())
        return false;
    }
    a_ = {expr(hint.lhs).index};
    b_ = {expr(hint.rhs).index};
    return a_.stride(n_) == 0 && b_.stride(m_) == 0;
  }

  // ---- where the product goes

  /// Whether a store's elements can be written by the product itself: rows of contiguous columns,
  /// in memory that nothing else in the kernel reads.
  bool takes_product(const Store& s) const {
    const Binding& b = kernel_.bindings[static_cast<std::size_t>(s.binding)];
    if (b.dtype != DType::F32 || !s.index.is_affine()) return false;
    if (extent(n_) > 1 && s.index.stride(n_) != 1) return false;
    if (extent(m_) > 1 && s.index.stride(m_) < extent(n_)) return false;
    for (const Expr& e : kernel_.exprs) {
      if (e.kind == Expr::Kind::Load &&
          overlap(kernel_.bindings[static_cast<std::size_t>(e.binding)], b))
        return false;
    }
    return true;
  }

  void choose_target() {
    const auto& stores = kernel_.stores;
    for (std::size_t s = 0; s < stores.size() && target_ < 0; ++s) {
      if (stores[s].value == kernel_.matmul->acc && takes_product(stores[s]))
        target_ = static_cast<int>(s);
    }
    for (std::size_t s = 0; s < stores.size() && target_ < 0; ++s) {
      if (takes_product(stores[s])) target_ = static_cast<int>(s);
    }
    if (target_ >= 0) {
      const Store& s = stores[static_cast<std::size_t>(target_)];
      c_ = {s.index};
      c_binding_ = s.binding;
      ldc_ = extent(m_) > 1 ? s.index.stride(m_) : extent(n_);
    } else {
      c_binding_ = static_cast<int>(kernel_.bindings.size());
      ldc_ = extent(n_);
    }
  }

  // ---- the batch

  /// Takes batch variables into the product from the fastest on, as long as all operands go on
  /// evenly.
  void collapse_batch() {
    shape_.m = extent(m_);
    shape_.n = extent(n_);
    shape_.k = extent(k_);
    shape_.a_row = a_.stride(m_);
    shape_.a_col = a_.stride(k_);
    shape_.b_row = b_.stride(k_);
    shape_.b_col = b_.stride(n_);
    shape_.ldc = ldc_;
    bool open = true;
    for (int v = m_ - 1; v >= 0; --v) {
      if (extent(v) == 1) continue;
      const std::int64_t a = a_.stride(v), b = b_.stride(v);
      const std::int64_t c = target_ >= 0 ? c_.stride(v) : shape_.batch * shape_.m * ldc_;
      const bool first = batch_vars_.empty();
      const bool even = a == shape_.a_batch * shape_.batch && b == shape_.b_batch * shape_.batch &&
                        c == shape_.c_batch * shape_.batch;
      if (open && c >= 0 && (first || even)) {
        if (first) {
          shape_.a_batch = a;
          shape_.b_batch = b;
          shape_.c_batch = c;
        }
        shape_.batch *= extent(v);
        batch_vars_.insert(batch_vars_.begin(), v);
      } else {
        open = false;
        outer_vars_.insert(outer_vars_.begin(), v);
      }
    }
    list_outer();
  }

  void list_outer() {
    std::int64_t count = 1;
    for (int v : outer_vars_) count *= extent(v);
    for (std::int64_t i = 0; i < count; ++i) {
      Outer o;
      o.at.resize(outer_vars_.size());
      std::int64_t rest = i;
      for (std::size_t k = outer_vars_.size(); k-- > 0;) {
        const int v = outer_vars_[k];
        o.at[k] = rest % extent(v);
        rest /= extent(v);
        o.a += o.at[k] * a_.stride(v);
        o.b += o.at[k] * b_.stride(v);
        if (target_ >= 0) o.c += o.at[k] * c_.stride(v);
      }
      outer_.push_back(std::move(o));
    }
  }

  void make_product() {
    const auto outer = static_cast<std::int64_t>(outer_.size());
    GemmOptions options;
    options.threads = outer >= 2 * threads_ ? 1 : threads_;
    const double products = static_cast<double>(outer * shape_.batch * shape_.m * shape_.n) *
                            static_cast<double>(shape_.k + 8);
    alone_ = outer > 1 && products < kLeastProducts;
    if (alone_) options.threads = 1;
    gemm_shape_ = fold_batch(shape_);
    folded_ = gemm_shape_.batch != shape_.batch;
    gemm_ = make_gemm(gemm_shape_, options);
    if (target_ < 0) {
      for (const auto& task : gemm_->tasks()) {
        for (const GemmBlock& b : task) {
          const std::int64_t last = (b.batch_end - b.batch_begin - 1) * gemm_shape_.c_batch +
                                    (b.rows() - 1) * gemm_shape_.ldc + b.cols();
          block_bytes_ = std::max(block_bytes_, static_cast<std::size_t>(last) * sizeof(float));
        }
      }
    }
    a_base_ =
        bases_[static_cast<std::size_t>(expr(kernel_.matmul->lhs).binding)] + a_.index.constant();
    b_base_ =
        bases_[static_cast<std::size_t>(expr(kernel_.matmul->rhs).binding)] + b_.index.constant();
    if (target_ >= 0) c_base_ = bases_[static_cast<std::size_t>(c_binding_)] + c_.index.constant();
  }

  // ---- the epilogue

  /// Element of the product at a point; outer batch variables are left to the base address.
  Index product_index() const {
    if (target_ >= 0) return c_.index;
    const auto var = [&](int v) { return Index::var(v, extent(v)); };
    Index index = var(m_) * ldc_ + var(n_);
    std::int64_t stride = shape_.c_batch;
    for (std::size_t k = batch_vars_.size(); k-- > 0;) {
      index = index + var(batch_vars_[k]) * stride;
      stride *= extent(batch_vars_[k]);
    }
    return index;
  }

  void make_epilogue(const KernelContext& context) {
    Kernel rest = kernel_;
    if (target_ < 0) {
      Binding scratch;
      scratch.buffer = -2;  // overlaps nothing
      scratch.elements = std::int64_t{1} << 40;
      rest.bindings.push_back(scratch);
      bases_.push_back(nullptr);
    } else if (rest.stores[static_cast<std::size_t>(target_)].value == kernel_.matmul->acc) {
      rest.stores.erase(rest.stores.begin() + target_);
    }
    if (rest.stores.empty()) return;
    rest = without_reduction(rest, kernel_.matmul->acc, c_binding_, product_index());
    const Normalised normal = normalise(rest, {.keep_vars = true});
    const auto parts = [&](int v) -> const std::vector<int>& {
      return normal.parts[static_cast<std::size_t>(v)];
    };

    TapeOptions options;
    options.threads = context.threads;
    options.lanes = context.lanes;
    options.uses.assign(normal.kernel.vars.size(), VarUse::All);
    const auto set = [&](int v, VarUse use) {
      for (int d : parts(v)) options.uses[static_cast<std::size_t>(d)] = use;
    };
    bool cuts_batch = false, cuts_rows = false, cuts_cols = false;
    for (const auto& task : gemm_->tasks()) {
      for (const GemmBlock& b : task) {
        cuts_batch |= b.batch_end - b.batch_begin < gemm_shape_.batch;
        cuts_rows |= b.rows() < gemm_shape_.m;
        cuts_cols |= b.cols() < gemm_shape_.n;
      }
    }
    for (int v : outer_vars_) set(v, VarUse::Singles);
    for (int v : batch_vars_) {
      if (folded_ ? cuts_rows : cuts_batch) set(v, VarUse::Ranges);
    }
    if (cuts_rows) set(m_, VarUse::Ranges);
    if (cuts_cols) set(n_, VarUse::Ranges);
    epilogue_.emplace(compile_tape(normal.kernel, options), bases_);

    std::vector<int> batch_dims, row_dims, col_dims = parts(n_);
    for (int v : batch_vars_) {
      auto& to = folded_ ? row_dims : batch_dims;
      to.insert(to.end(), parts(v).begin(), parts(v).end());
    }
    row_dims.insert(row_dims.end(), parts(m_).begin(), parts(m_).end());
    for (int v : outer_vars_) outer_dims_.push_back(parts(v));
    const Tape& tape = epilogue_->tape();
    for (const auto& task : gemm_->tasks()) {
      boxes_.emplace_back();
      for (const GemmBlock& b : task) {
        boxes_.back().emplace_back();
        for (const Box& x :
             boxes_of_range(tape, whole_box(tape), batch_dims, b.batch_begin, b.batch_end)) {
          for (const Box& y : boxes_of_range(tape, x, row_dims, b.row_begin, b.row_end)) {
            for (const Box& z : boxes_of_range(tape, y, col_dims, b.col_begin, b.col_end)) {
              boxes_.back().back().push_back(z);
            }
          }
        }
      }
    }
  }

  /// The arrays that the epilogue goes through as it goes through the product.
  void find_beside() {
    if (!epilogue_ || !outer_vars_.empty()) return;
    const Index product = product_index();
    std::size_t count = 0;
    const auto add = [&](int binding, const Index& index) {
      const Binding& b = kernel_.bindings[static_cast<std::size_t>(binding)];
      bool alike = b.dtype == DType::F32 && index.is_affine();
      for (int v = 0; alike && v < kernel_.outer_count; ++v)
        alike = extent(v) == 1 || index.stride(v) == product.stride(v);
      if (!alike || count == beside_.at.size()) return;
      const float* at = bases_[static_cast<std::size_t>(binding)] + index.constant();
      if (at == c_base_ || std::find(beside_.at.begin(), beside_.at.end(), at) != beside_.at.end())
        return;
      beside_.at[count++] = at;
    };
    for (const Expr& e : kernel_.exprs) {
      if (e.kind == Expr::Kind::Load && e.guards.empty()) add(e.binding, e.index);
    }
    for (const Store& s : kernel_.stores) add(s.binding, s.index);
  }

  // ---- running

  void run_task(const Workers& workers, std::size_t worker, const Outer& outer,
                std::size_t task) const {
    const WorkerMemory& memory = workers.memory[worker];
    char* scratch = workers.scratch[worker];
    auto* block_memory = reinterpret_cast<float*>(scratch + round_up(gemm_->scratch_bytes()));
    const float *a = a_base_ + outer.a, *b = b_base_ + outer.b;
    if (epilogue_) std::copy(bases_.begin(), bases_.end(), memory.bases);
    gemm_->prepare(task, a, b, scratch);
    const std::vector<GemmBlock>& blocks = gemm_->tasks()[task];
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      const GemmBlock& block = blocks[k];
      float* c = target_ >= 0 ? c_base_ + outer.c + block.c_offset : block_memory;
      gemm_->run(task, block, a, b, c, scratch, beside_.from(block.c_offset));
      if (!epilogue_) continue;
      if (target_ < 0) memory.bases[c_binding_] = block_memory - block.c_offset;
      run_epilogue(memory, outer, boxes_[task][k]);
    }
  }

  void run_epilogue(const WorkerMemory& memory, const Outer& outer,
                    const std::vector<Box>& boxes) const {
    if (outer_dims_.empty())
      return epilogue_->run(memory, boxes.data(), boxes.size(), memory.bases);
    for (Box box : boxes) {
      for (std::size_t v = 0; v < outer_dims_.size(); ++v) {
        std::int64_t rest = outer.at[v];
        for (std::size_t k = outer_dims_[v].size(); k-- > 0;) {
          const auto d = static_cast<std::size_t>(outer_dims_[v][k]);
          const std::int64_t size = epilogue_->tape().dims[d].extent;
          box.low[d] = rest % size;
          box.high[d] = box.low[d] + 1;
          rest /= size;
        }
      }
      epilogue_->run(memory, &box, 1, memory.bases);
    }
  }

  Kernel kernel_;
  int threads_;
  std::vector<float*> bases_;
  bool fits_ = false;
  int m_ = -1, n_ = -1, k_ = -1;  // variables
  Operand a_, b_, c_;
  int target_ = -1;  // the store that takes the product; -1: scratch memory
  int c_binding_ = -1;
  std::int64_t ldc_ = 0;
  std::vector<int> batch_vars_, outer_vars_;  // inside the product, around it
  GemmShape shape_, gemm_shape_;              // gemm_shape_: the batch may be folded into the rows
  bool folded_ = false;
  bool alone_ = false;  // too little work for two
  std::vector<Outer> outer_;
  std::unique_ptr<Gemm> gemm_;
  std::size_t block_bytes_ = 0;
  float *a_base_ = nullptr, *b_base_ = nullptr, *c_base_ = nullptr;
  std::optional<BoundTape> epilogue_;
  GemmBeside beside_;                                 // of the product's first element
  std::vector<std::vector<int>> outer_dims_;          // of the epilogue, by outer variable
  std::vector<std::vector<std::vector<Box>>> boxes_;  // by task and block
};

}  // namespace

std::unique_ptr<CpuKernel> make_matmul_kernel(const Kernel& kernel, const KernelContext& context) {
  auto result = std::make_unique<MatMulKernel>(kernel, context);
  return result->fits() ? std::move(result) : nullptr;
}

}  // namespace tensorgrad::cpu
