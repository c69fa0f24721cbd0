#include "bench_models.hpp"

#include <algorithm>
#include <cmath>

namespace tensorgrad::cli {

namespace {

struct Mlp {
  nn::Linear l1{1, 64}, l2{64, 64}, l3{64, 1};
  Tensor operator()(const Tensor& x) const { return l3(relu(l2(relu(l1(x))))); }
};

struct GptConfig {
  std::int64_t layers, dim, heads, context, batch, vocabulary;
  bool relu = false;
};

/// A pre-norm block whose queries, keys and values are one product.
struct Block {
  nn::LayerNorm n1;
  nn::Linear qkv, o;
  nn::LayerNorm n2;
  nn::Linear up, down;
  int heads;
  bool use_relu;

  explicit Block(const GptConfig& c)
      : n1(c.dim),
        qkv(c.dim, 3 * c.dim),
        o(c.dim, c.dim),
        n2(c.dim),
        up(c.dim, 4 * c.dim),
        down(4 * c.dim, c.dim),
        heads(static_cast<int>(c.heads)),
        use_relu(c.relu) {}

  Tensor operator()(const Tensor& x) const {
    const std::vector<Tensor> parts = split(qkv(n1(x)), 3, -1);
    const auto by_head = [&](int k) {
      return nn::split_heads(parts[static_cast<std::size_t>(k)], heads);
    };
    const Tensor mixed = x + o(nn::merge_heads(attention(by_head(0), by_head(1), by_head(2))));
    const Tensor hidden = up(n2(mixed));
    return mixed + down(use_relu ? relu(hidden) : gelu(hidden));
  }
  TENSORGRAD_MEMBERS(n1, qkv, o, n2, up, down)
};

/// Learned positions, untied head without bias.
struct Gpt {
  nn::Embedding tokens;
  Tensor positions;
  std::vector<Block> blocks;
  nn::LayerNorm norm;
  Tensor head;  // [V, D], as in PyTorch

  explicit Gpt(const GptConfig& c)
      : tokens(c.vocabulary, c.dim),
        positions(param({c.context, c.dim})),
        blocks(static_cast<std::size_t>(c.layers), Block(c)),
        norm(c.dim),
        head(param({c.vocabulary, c.dim})) {}

  Tensor operator()(const Tensor& ids) const {
    Tensor x = tokens(ids) + positions;
    for (const Block& block : blocks) x = block(x);
    return matmul(norm(x), swap_axes(head, 0, 1));
  }
  TENSORGRAD_MEMBERS(tokens, positions, blocks, norm, head)
};

template <class Model>
class ModelStepper final : public Stepper {
 public:
  ModelStepper(Training<Model> training, Batch batch)
      : training_(std::move(training)), batch_(std::move(batch)), feed_(batch_.view()) {}

  float step() override { return training_.step(feed_).loss; }
  PendingLoss step_async() override { return training_.step_async(feed_); }
  std::vector<float> run_steps(std::int64_t n) override {
    return training_.run_steps(n, [&](std::int64_t) { return batch_; });
  }
  std::vector<KernelTime> profile() override { return training_.profile(feed_); }
  const Plan& plan() const override { return *training_.ir().plan; }

 private:
  Training<Model> training_;
  Batch batch_;
  std::vector<FeedItem> feed_;
};

template <class Model>
std::unique_ptr<Stepper> stepper(Training<Model> training, Batch batch) {
  return std::make_unique<ModelStepper<Model>>(std::move(training), std::move(batch));
}

std::unique_ptr<Stepper> make_mlp(const Device& device, std::int64_t batch) {
  std::vector<float> x, y;
  for (std::int64_t i = 0; i < batch; ++i) {
    x.push_back(6.0f * static_cast<float>(i * 7919 % 10007) / 10007.0f - 3.0f);
    y.push_back(std::sin(x.back()));
  }
  return stepper(
      compile(Mlp{},
              [](const Mlp& m, const Inputs& in) { return mean(square(m(in["x"]) - in["y"])); },
              {.inputs = {{"x", {batch, 1}}, {"y", {batch, 1}}},
               .optimizer = Adam{.lr = 1e-3},
               .seed = 1,
               .device = device}),
      Batch{{"x", x}, {"y", y}});
}

std::unique_ptr<Stepper> make_gpt(const Device& device, const GptConfig& c) {
  Rng rng(7);
  const auto random_ids = [&] {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(c.batch * c.context));
    for (std::int32_t& id : ids)
      id = static_cast<std::int32_t>(rng.uniform() * static_cast<double>(c.vocabulary));
    return ids;
  };
  const std::vector<std::int32_t> ids = random_ids(), targets = random_ids();
  return stepper(compile(Gpt(c),
                         [](const Gpt& m, const Inputs& in) {
                           return cross_entropy(m(in["ids"]), in["targets"]);
                         },
                         {.inputs = {{"ids", {{c.batch, c.context}, i32}},
                                     {"targets", {{c.batch, c.context}, i32}}},
                          .optimizer = Adam{.lr = 1e-3},
                          .seed = 1,
                          .device = device}),
                 Batch{{"ids", ids}, {"targets", targets}});
}

TrainingWorkload gpt_workload(std::string name, std::string what, std::int64_t steps,
                              const GptConfig& c) {
  const GptConfig small{std::min<std::int64_t>(c.layers, 2),
                        32,
                        4,
                        std::min<std::int64_t>(c.context, 70),
                        2,
                        65,
                        c.relu};
  return {std::move(name), std::move(what), steps,
          [c](const Device& device) { return make_gpt(device, c); },
          [small](const Device& device) { return make_gpt(device, small); }};
}

// ---- single ops

Tensor operand(Shape shape) { return param(std::move(shape), {.init = init::uniform(1.0)}); }

OpWorkload matmul_workload(std::int64_t m, std::int64_t k, std::int64_t n, bool lhs_t, bool rhs_t) {
  OpWorkload w;
  const std::string kind = std::string(lhs_t ? "t" : "n") + (rhs_t ? "t" : "n");
  w.name = "matmul-" + std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n) +
           (kind == "nn" ? "" : "-" + kind);
  w.what = "[M, K]·[K, N]";
  w.flops = 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  w.bytes = 4.0 * static_cast<double>(m * k + k * n + m * n);
  w.operands.x = {lhs_t ? operand({k, m}) : operand({m, k}),
                  rhs_t ? operand({n, k}) : operand({k, n})};
  w.forward = [=](const Operands& o) {
    return matmul(lhs_t ? swap_axes(o.x[0], 0, 1) : o.x[0],
                  rhs_t ? swap_axes(o.x[1], 0, 1) : o.x[1]);
  };
  w.expected = [=](const std::vector<std::vector<float>>& x, std::size_t at) {
    const auto i = static_cast<std::int64_t>(at) / n, j = static_cast<std::int64_t>(at) % n;
    double sum = 0;
    for (std::int64_t s = 0; s < k; ++s) {
      sum += static_cast<double>(x[0][static_cast<std::size_t>(lhs_t ? s * m + i : i * k + s)]) *
             static_cast<double>(x[1][static_cast<std::size_t>(rhs_t ? j * k + s : s * n + j)]);
    }
    return sum;
  };
  return w;
}

/// An op on rows [R, C] that reads x and writes as much (or one number a row).
OpWorkload row_workload(std::string name, std::int64_t rows, std::int64_t cols, bool full,
                        std::function<Tensor(const Tensor&)> op,
                        std::function<double(const std::vector<double>&, std::size_t)> of_row) {
  OpWorkload w;
  w.name = name + "-" + std::to_string(rows) + "x" + std::to_string(cols);
  w.what = "rows of " + std::to_string(cols);
  w.bytes = 4.0 * static_cast<double>(rows) * static_cast<double>(full ? 2 * cols : cols + 1);
  w.operands.x = {operand({rows, cols})};
  w.forward = [op](const Operands& o) { return op(o.x[0]); };
  w.expected = [=](const std::vector<std::vector<float>>& x, std::size_t at) {
    const auto c = static_cast<std::size_t>(cols);
    const std::size_t row = full ? at / c : at;
    return of_row({x[0].begin() + static_cast<std::ptrdiff_t>(row * c),
                   x[0].begin() + static_cast<std::ptrdiff_t>((row + 1) * c)},
                  full ? at % c : row);
  };
  return w;
}

double log_sum_exp(const std::vector<double>& row) {
  const double top = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (double v : row) sum += std::exp(v - top);
  return top + std::log(sum);
}

std::vector<OpWorkload> make_op_workloads() {
  std::vector<OpWorkload> all;
  all.push_back(row_workload(
      "copy", 65536, 1024, true, [](const Tensor& x) { return x * 1.5; },
      [](const auto& row, std::size_t i) { return row[i] * 1.5; }));
  for (const std::int64_t n : {256, 512, 1024, 2048, 4096})
    all.push_back(matmul_workload(n, n, n, false, false));
  all.push_back(matmul_workload(1024, 1024, 1024, false, true));
  all.push_back(matmul_workload(1024, 1024, 1024, true, false));
  all.push_back(matmul_workload(16384, 384, 1536, false, false));
  all.push_back(matmul_workload(16384, 1536, 384, false, true));
  all.push_back(matmul_workload(384, 16384, 1536, true, false));
  all.push_back(matmul_workload(768, 4096, 3072, true, false));
  all.push_back(matmul_workload(4096, 768, 50257, false, false));
  all.push_back(matmul_workload(3072, 128, 512, false, false));
  all.push_back(matmul_workload(128, 3072, 512, true, false));
  all.push_back(matmul_workload(1, 4096, 4096, false, false));
  for (const std::int64_t cols : {256, 1024, 4096}) {
    const std::int64_t rows = (1 << 26) / cols;
    all.push_back(row_workload(
        "softmax", rows, cols, true, [](const Tensor& x) { return softmax(x); },
        [](const auto& row, std::size_t i) { return std::exp(row[i] - log_sum_exp(row)); }));
    all.push_back(row_workload(
        "layer-norm", rows, cols, true, [](const Tensor& x) { return layer_norm(x); },
        [](const auto& row, std::size_t i) {
          double mean = 0, variance = 0;
          for (double v : row) mean += v / static_cast<double>(row.size());
          for (double v : row)
            variance += (v - mean) * (v - mean) / static_cast<double>(row.size());
          return (row[i] - mean) / std::sqrt(variance + 1e-5);
        }));
    all.push_back(row_workload(
        "cross-entropy", rows, cols, false,
        [rows, cols](const Tensor& x) {
          const Tensor targets = iota({rows}, 0) - iota({rows}, 0) / static_cast<double>(cols) *
                                                       static_cast<double>(cols);
          return cross_entropy(x, targets, {.reduction = Reduction::None});
        },
        [](const auto& row, std::size_t i) { return log_sum_exp(row) - row[i % row.size()]; }));
  }
  return all;
}

}  // namespace

const std::vector<TrainingWorkload>& training_workloads() {
  static const std::vector<TrainingWorkload> all{
      {"mlp", "MLP 1-64-64-1, batch 256", 500,
       [](const Device& device) { return make_mlp(device, 256); },
       [](const Device& device) { return make_mlp(device, 256); }},
      gpt_workload("transformer", "L2 d128 h4 T32 B32 V64, relu", 100,
                   {2, 128, 4, 32, 32, 64, true}),
      gpt_workload("addition", "L3 d128 h4 T12 B256 V13", 50, {3, 128, 4, 12, 256, 13}),
      gpt_workload("char-gpt", "L6 d384 h6 T256 B64 V65", 10, {6, 384, 6, 256, 64, 65}),
      gpt_workload("gpt2", "GPT-2 124M: L12 d768 h12 T1024 B4 V50257", 5,
                   {12, 768, 12, 1024, 4, 50257}),
  };
  return all;
}

const std::vector<OpWorkload>& op_workloads() {
  static const std::vector<OpWorkload> all = make_op_workloads();
  return all;
}

}  // namespace tensorgrad::cli
