// Attention, a block of queries against a block of keys at a time. The scores of a block lie
// turned, [keys, queries]: what belongs to a query is then a lane, and nothing is added across
// lanes. They are products with a turned copy of the queries, and never leave the cache.
//
// Forward keeps for each query its largest score so far and the sum of weights relative to it;
// backward makes the weights again from their log-sum-exp. Formulas are in src/ops/attention.cpp.
#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "ir/attention_shape.hpp"
#include "ir/ceil_div.hpp"
#include "runtime/cpu/gemm.hpp"
#include "runtime/cpu/lanes.hpp"
#include "runtime/cpu/special.hpp"

namespace tensorgrad::cpu {

namespace {

constexpr std::int64_t kQueries = 64, kKeys = 256;  // in a block, at most
constexpr std::int64_t kLanes = 16;                 // of the widest vectors
/// Multiply-adds below which a second worker is not woken.
constexpr double kLeastProducts = 1 << 17;

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

/// Rows in memory.
struct Rows {
  float* data = nullptr;
  std::int64_t row = 0, column = 1;  // strides

  float* from(std::int64_t first) const { return data + first * row; }
};

/// A head of an operand, [time, size].
Rows head_of(const Strided& operand, std::int64_t b, std::int64_t h) {
  if (!operand.data) return {};
  return {operand.data + b * operand.stride(0) + h * operand.stride(1), operand.stride(2),
          operand.stride(3)};
}

/// The products of a block: what is made of what.
enum class Product : std::uint8_t {
  Scores,     // k·qᵀ, [keys, queries]
  Slopes,     // v·doᵀ, [keys, queries]
  Mixed,      // Pᵀ·v, [queries, width]
  QueryGrad,  // dSᵀ·k, [queries, dim]
  KeyGrad,    // dS·q, [keys, dim]
  ValueGrad   // P·do, [keys, width]
};
constexpr std::size_t kProducts = 6;

/// What a worker has to itself: dense blocks.
struct Scratch {
  float *queries = nullptr, *cotangents = nullptr;          // turned, times scale
  float *scores = nullptr, *slopes = nullptr;               // [keys, queries]
  float* product = nullptr;                                 // to be added to a result
  float *top = nullptr, *sum = nullptr, *shrink = nullptr;  // [queries]
  char* gemm = nullptr;
};

class AttentionKernel : public CpuKernel {
 public:
  AttentionKernel(const Kernel& kernel, const KernelContext& context)
      : hint_(*kernel.special),
        shape_(hint_.inputs[0].type.shape, hint_.inputs[1].type.shape, hint_.inputs[2].type.shape,
               std::get<AttentionAttr>(hint_.attrs)),
        threads_(context.threads) {
    for (const StridedOperand& o : hint_.inputs) in_.push_back(bind(o, kernel, context));
    for (const StridedOperand& o : hint_.outputs)
      out_.push_back(bind(o.type.shape.rank() == 4 ? o.swapped(1, 2) : o, kernel, context));
    const std::int64_t blocks = ceil_div(shape_.queries, kQueries);
    queries_ = ceil_div(ceil_div(shape_.queries, blocks), kLanes) * kLanes;
    keys_ = kKeys / queries_ * queries_;
    const double products = static_cast<double>(shape_.batch * shape_.heads * shape_.queries) *
                            static_cast<double>(shape_.keys * (shape_.dim + shape_.width));
    alone_ = products < kLeastProducts;
  }

  Needs needs() const override {
    Needs n;
    n.scratch = size(lay_out(nullptr).second);
    return n;
  }
  std::string description() const override { return std::string(to_string(hint_.op)); }

 protected:
  /// run(head, part, scratch) for the parts of `heads` heads of each item of the batch. With a
  /// mask, work grows or shrinks from part to part: the first and the last go to one worker.
  template <class Run>
  void share_out(const Workers& workers, std::int64_t heads, std::int64_t parts, Run run) const {
    const auto task = [&](std::int64_t number, int worker) {
      const std::int64_t head = number / parts, n = number % parts;
      run(head / heads, head % heads, n % 2 == 0 ? n / 2 : parts - 1 - n / 2,
          lay_out(workers.scratch[size(worker)]).first);
    };
    const std::int64_t tasks = shape_.batch * heads * parts;
    if (alone_ || tasks == 1) {
      for (std::int64_t number = 0; number < tasks; ++number) task(number, 0);
    } else {
      workers.pool->run(tasks, task);
    }
  }

  /// Queries of the block from `first` on.
  std::int64_t queries_from(std::int64_t first) const {
    return std::min(queries_, shape_.queries - first);
  }
  /// Keys of the block from `key` on that some query of the block from `query` on sees.
  std::int64_t keys_from(std::int64_t key, std::int64_t query) const {
    return std::min(keys_, shape_.seen(query + queries_from(query)) - key);
  }

  // ---- results, whose rows are not neighbours

  static void clear(const Rows& rows, std::int64_t first, std::int64_t count, std::int64_t width) {
    for (std::int64_t i = 0; i < count; ++i) std::fill_n(rows.from(first + i), width, 0.0f);
  }
  void add(const Rows& rows, std::int64_t first, std::int64_t count, std::int64_t width,
           const float* block) const {
    for (std::int64_t i = 0; i < count; ++i) {
      float* row = rows.from(first + i);
      math_.add.vv(row, block + i * width, row, size(width));
    }
  }

  // ---- products

  void prepare(const std::vector<Product>& products) {
    for (std::int64_t query = 0; query < shape_.queries; query += queries_) {
      for (std::int64_t key = 0; keys_from(key, query) > 0; key += keys_) {
        auto& gemms = gemms_[{queries_from(query), keys_from(key, query)}];
        for (Product product : products) {
          std::unique_ptr<Gemm>& gemm = gemms[static_cast<std::size_t>(product)];
          if (gemm) continue;
          gemm = make_gemm(shape_of(product, queries_from(query), keys_from(key, query)));
          gemm_bytes_ = std::max(gemm_bytes_, gemm->scratch_bytes());
        }
      }
    }
  }

  GemmShape shape_of(Product product, std::int64_t queries, std::int64_t keys) const {
    const auto make = [](std::int64_t m, std::int64_t n, std::int64_t k, const Rows& a,
                         const Rows& b) {
      GemmShape s;
      s.m = m, s.n = n, s.k = k, s.ldc = n;
      s.a_row = a.row, s.a_col = a.column, s.b_row = b.row, s.b_col = b.column;
      return s;
    };
    const Rows turned{nullptr, queries, 1}, by_query{nullptr, 1, queries};
    const auto operand = [&](std::size_t i) { return head_of(in_[i], 0, 0); };
    switch (product) {
      case Product::Scores:
        return make(keys, queries, shape_.dim, operand(1), turned);
      case Product::Slopes:
        return make(keys, queries, shape_.width, operand(2), turned);
      case Product::Mixed:
        return make(queries, shape_.width, keys, by_query, operand(2));
      case Product::QueryGrad:
        return make(queries, shape_.dim, keys, by_query, operand(1));
      case Product::KeyGrad:
        return make(keys, shape_.dim, queries, turned, operand(0));
      case Product::ValueGrad:
        return make(keys, shape_.width, queries, turned, operand(5));
    }
    throw InternalError("attention: no such product");
  }

  void multiply(Product product, std::int64_t queries, std::int64_t keys, const float* a,
                const float* b, float* c, const Scratch& s) const {
    const Gemm& gemm = *gemms_.at({queries, keys})[static_cast<std::size_t>(product)];
    for (std::size_t t = 0; t < gemm.tasks().size(); ++t) gemm.run_task(t, a, b, c, s.gemm);
  }

  // ---- blocks

  /// scale·xᵀ of `count` rows of `width` elements.
  void turn(const Rows& x, std::int64_t first, std::int64_t count, std::int64_t width,
            float* out) const {
    for (std::int64_t d = 0; d < width; ++d)
      load_strided(x.from(first) + d * x.column, x.row, out + d * count, size(count));
    const auto scale = static_cast<float>(shape_.scale);
    math_.mul.vs(out, &scale, out, size(count * width));
  }

  /// Puts `value` where a query does not see a key.
  void mask(float* block, std::int64_t query, std::int64_t queries, std::int64_t key,
            std::int64_t keys, float value) const {
    if (!shape_.causal) return;
    for (std::int64_t j = std::max<std::int64_t>(0, query - key); j < keys; ++j)
      std::fill_n(block + j * queries, std::clamp<std::int64_t>(key + j - query, 0, queries),
                  value);
  }

  /// Each row of a block minus `x`.
  void subtract(float* block, const float* x, std::int64_t queries, std::int64_t keys) const {
    for (std::int64_t j = 0; j < keys; ++j)
      math_.sub.vv(block + j * queries, x, block + j * queries, size(queries));
  }

  const SpecialHint hint_;
  const AttentionShape shape_;
  const int threads_;
  std::vector<Strided> in_, out_;
  std::int64_t queries_, keys_;  // of a block
  const Math& math_ = math();

 private:
  /// Where a worker's blocks are, and the bytes they take.
  std::pair<Scratch, std::int64_t> lay_out(char* memory) const {
    std::int64_t used = 0;
    const auto take = [&](std::int64_t bytes) {
      char* place = memory ? memory + used : nullptr;
      used += ceil_div(bytes, 64) * 64;
      return place;
    };
    const auto floats = [&](std::int64_t count) {
      return reinterpret_cast<float*>(take(4 * count));
    };
    const bool grad = hint_.op != OpKind::Attention;
    Scratch s;
    s.queries = floats(shape_.dim * queries_);
    s.cotangents = grad ? floats(shape_.width * queries_) : nullptr;
    s.scores = floats(keys_ * queries_);
    s.slopes = grad ? floats(keys_ * queries_) : nullptr;
    s.product = floats(std::max(keys_, queries_) * std::max(shape_.dim, shape_.width));
    s.top = floats(queries_);
    s.sum = floats(queries_);
    s.shrink = floats(queries_);
    s.gemm = take(static_cast<std::int64_t>(gemm_bytes_));
    return {s, used};
  }

  bool alone_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::array<std::unique_ptr<Gemm>, kProducts>>
      gemms_;  // by the sizes of a block
  std::size_t gemm_bytes_ = 0;
};

// ---- forward

class Forward final : public AttentionKernel {
 public:
  Forward(const Kernel& kernel, const KernelContext& context) : AttentionKernel(kernel, context) {
    prepare({Product::Scores, Product::Mixed});
  }

  void run(const Workers& workers) const override {
    share_out(workers, shape_.heads, ceil_div(shape_.queries, queries_),
              [&](std::int64_t b, std::int64_t h, std::int64_t part, const Scratch& s) {
                run_block(b, h, part * queries_, s);
              });
  }

 private:
  void run_block(std::int64_t b, std::int64_t h, std::int64_t query, const Scratch& s) const {
    const std::int64_t group = h / shape_.share(), queries = queries_from(query);
    const Rows q = head_of(in_[0], b, h), k = head_of(in_[1], b, group),
               v = head_of(in_[2], b, group), o = head_of(out_[0], b, h);
    turn(q, query, queries, shape_.dim, s.queries);
    std::fill_n(s.top, queries, -std::numeric_limits<float>::infinity());
    std::fill_n(s.sum, queries, 0.0f);
    for (std::int64_t key = 0; keys_from(key, query) > 0; key += keys_) {
      const std::int64_t keys = keys_from(key, query);
      multiply(Product::Scores, queries, keys, k.from(key), s.queries, s.scores, s);
      mask(s.scores, query, queries, key, keys, -std::numeric_limits<float>::infinity());
      weigh(queries, keys, s);
      if (!o.data) continue;
      multiply(Product::Mixed, queries, keys, s.scores, v.from(key), s.product, s);
      for (std::int64_t i = 0; i < queries; ++i) {
        float *row = o.from(query + i), *block = s.product + i * shape_.width;
        if (key == 0) {
          std::copy_n(block, shape_.width, row);
        } else {
          math_.fma.vsv(row, s.shrink + i, block, row, size(shape_.width));
        }
      }
    }
    for (std::int64_t i = 0; o.data && i < queries; ++i) {
      float* row = o.from(query + i);
      const float share = 1.0f / s.sum[i];
      math_.mul.vs(row, &share, row, size(shape_.width));
    }
    if (const Strided& log_sums = out_[1]; log_sums.data) {
      float* to = log_sums.data + b * log_sums.stride(0) + h * log_sums.stride(1) + query;
      math_.log(s.sum, to, size(queries));
      math_.add.vv(to, s.top, to, size(queries));
    }
  }

  /// Scores become weights relative to the largest score so far; what was relative to the one
  /// before is to be multiplied by `shrink`.
  void weigh(std::int64_t queries, std::int64_t keys, const Scratch& s) const {
    const TileRows block{s.scores, static_cast<std::ptrdiff_t>(queries), size(keys), size(queries)};
    std::copy_n(s.top, queries, s.shrink);
    reduce_columns(math_, ReduceKind::Max, true, block, s.top);
    math_.sub.vv(s.shrink, s.top, s.shrink, size(queries));
    math_.exp(s.shrink, s.shrink, size(queries));
    math_.mul.vv(s.sum, s.shrink, s.sum, size(queries));
    subtract(s.scores, s.top, queries, keys);
    math_.exp(s.scores, s.scores, size(queries * keys));
    reduce_columns(math_, ReduceKind::Sum, true, block, s.sum);
  }
};

// ---- backward

class Backward : public AttentionKernel {
 public:
  using AttentionKernel::AttentionKernel;

 protected:
  struct Head {
    Rows q, k, v, g;
    const Strided &log_sums, &delta;
    std::int64_t b, h;
  };
  Head head(std::int64_t b, std::int64_t h) const {
    const std::int64_t group = h / shape_.share();
    return {head_of(in_[0], b, h),
            head_of(in_[1], b, group),
            head_of(in_[2], b, group),
            head_of(in_[5], b, h),
            in_[3],
            in_[4],
            b,
            h};
  }

  /// What a block of queries needs of its own: turned queries and cotangents, L (in `top`) and
  /// scale·δ (in `shrink`).
  void begin(const Head& x, std::int64_t query, const Scratch& s) const {
    const std::int64_t queries = queries_from(query);
    const auto load = [&](const Strided& of, float* to) {
      load_strided(of.data + x.b * of.stride(0) + x.h * of.stride(1) + query * of.stride(2),
                   of.stride(2), to, size(queries));
    };
    turn(x.q, query, queries, shape_.dim, s.queries);
    load(x.log_sums, s.top);
    if (!needs_slopes_) return;
    turn(x.g, query, queries, shape_.width, s.cotangents);
    load(x.delta, s.shrink);
    const auto scale = static_cast<float>(shape_.scale);
    math_.mul.vs(s.shrink, &scale, s.shrink, size(queries));
  }

  /// P of a block, in `scores`.
  void weigh(const Head& x, std::int64_t query, std::int64_t key, const Scratch& s) const {
    const std::int64_t queries = queries_from(query), keys = keys_from(key, query);
    multiply(Product::Scores, queries, keys, x.k.from(key), s.queries, s.scores, s);
    subtract(s.scores, s.top, queries, keys);
    math_.exp(s.scores, s.scores, size(queries * keys));
    mask(s.scores, query, queries, key, keys, 0.0f);
  }

  /// scale·dS of a block, in `slopes`.
  void differentiate(const Head& x, std::int64_t query, std::int64_t key, const Scratch& s) const {
    const std::int64_t queries = queries_from(query), keys = keys_from(key, query);
    multiply(Product::Slopes, queries, keys, x.v.from(key), s.cotangents, s.slopes, s);
    subtract(s.slopes, s.shrink, queries, keys);
    math_.mul.vv(s.slopes, s.scores, s.slopes, size(queries * keys));
  }

  bool needs_slopes_ = true;
};

class QueryGrad final : public Backward {
 public:
  QueryGrad(const Kernel& kernel, const KernelContext& context) : Backward(kernel, context) {
    prepare({Product::Scores, Product::Slopes, Product::QueryGrad});
  }

  void run(const Workers& workers) const override {
    share_out(workers, shape_.heads, ceil_div(shape_.queries, queries_),
              [&](std::int64_t b, std::int64_t h, std::int64_t part, const Scratch& s) {
                run_block(head(b, h), head_of(out_[0], b, h), part * queries_, s);
              });
  }

 private:
  void run_block(const Head& x, const Rows& dq, std::int64_t query, const Scratch& s) const {
    const std::int64_t queries = queries_from(query);
    begin(x, query, s);
    for (std::int64_t key = 0; keys_from(key, query) > 0; key += keys_) {
      weigh(x, query, key, s);
      differentiate(x, query, key, s);
      multiply(Product::QueryGrad, queries, keys_from(key, query), s.slopes, x.k.from(key),
               s.product, s);
      if (key == 0) clear(dq, query, queries, shape_.dim);
      add(dq, query, queries, shape_.dim, s.product);
    }
  }
};

class KeyValueGrad final : public Backward {
 public:
  KeyValueGrad(const Kernel& kernel, const KernelContext& context) : Backward(kernel, context) {
    needs_slopes_ = out_[0].data != nullptr;
    std::vector<Product> products{Product::Scores};
    if (out_[0].data) {
      products.push_back(Product::Slopes);
      products.push_back(Product::KeyGrad);
    }
    if (out_[1].data) products.push_back(Product::ValueGrad);
    prepare(products);
    // Blocks of keys turn the same queries: they go to several workers only if those lack work.
    blocks_ = ceil_div(shape_.keys, keys_);
    const std::int64_t heads = shape_.batch * shape_.groups;
    if (heads < 2 * threads_) parts_ = std::min(blocks_, ceil_div(2 * threads_, heads));
  }

  void run(const Workers& workers) const override {
    share_out(workers, shape_.groups, parts_,
              [&](std::int64_t b, std::int64_t group, std::int64_t part, const Scratch& s) {
                run_keys(b, group, blocks_ * part / parts_ * keys_,
                         std::min(shape_.keys, blocks_ * (part + 1) / parts_ * keys_), s);
              });
  }

 private:
  void run_keys(std::int64_t b, std::int64_t group, std::int64_t first, std::int64_t end,
                const Scratch& s) const {
    const Rows dk = head_of(out_[0], b, group), dv = head_of(out_[1], b, group);
    if (dk.data) clear(dk, first, end - first, shape_.dim);
    if (dv.data) clear(dv, first, end - first, shape_.width);
    for (std::int64_t h = group * shape_.share(); h < (group + 1) * shape_.share(); ++h) {
      const Head x = head(b, h);
      for (std::int64_t query = 0; query < shape_.queries; query += queries_) {
        if (keys_from(first, query) <= 0) continue;
        begin(x, query, s);
        for (std::int64_t key = first; key < end && keys_from(key, query) > 0; key += keys_)
          run_block(x, dk, dv, query, key, s);
      }
    }
  }

  void run_block(const Head& x, const Rows& dk, const Rows& dv, std::int64_t query,
                 std::int64_t key, const Scratch& s) const {
    const std::int64_t queries = queries_from(query), keys = keys_from(key, query);
    weigh(x, query, key, s);
    if (dv.data) {
      multiply(Product::ValueGrad, queries, keys, s.scores, x.g.from(query), s.product, s);
      add(dv, key, keys, shape_.width, s.product);
    }
    if (dk.data) {
      differentiate(x, query, key, s);
      multiply(Product::KeyGrad, queries, keys, s.slopes, x.q.from(query), s.product, s);
      add(dk, key, keys, shape_.dim, s.product);
    }
  }

  std::int64_t blocks_ = 1, parts_ = 1;  // of the keys
};

}  // namespace

std::unique_ptr<CpuKernel> make_attention(const Kernel& kernel, const KernelContext& context) {
  switch (kernel.special->op) {
    case OpKind::Attention:
      return std::make_unique<Forward>(kernel, context);
    case OpKind::AttentionGradQ:
      return std::make_unique<QueryGrad>(kernel, context);
    default:
      return std::make_unique<KeyValueGrad>(kernel, context);
  }
}

}  // namespace tensorgrad::cpu
