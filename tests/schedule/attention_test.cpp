// What attention costs in kernels and memory, as one kernel and spelled out.
#include <gtest/gtest.h>

#include "tensorgrad/compile.hpp"
#include "tensorgrad/nn.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad::test {
namespace {

constexpr std::int64_t kBatch = 2, kHeads = 4, kTime = 96, kDim = 32;

Target gpu(bool fused) {
  Target target;
  target.whole_buffers = true;
  target.max_bindings = 8;
  target.passes.parallelism = 64;
  if (fused) target.passes.fused_attention = 0;
  return target;
}

struct Gpt {
  nn::Embedding tokens{50, kDim}, positions{kTime, kDim};
  std::vector<nn::TransformerBlock> blocks;
  nn::Linear head{kDim, 50, {.bias = false}};

  Tensor operator()(const Tensor& ids) const {
    Tensor x = tokens(ids) + positions.W;
    for (const auto& block : blocks) x = block(x);
    return head(x);
  }
};

/// A training step of a GPT.
CompiledIR gpt(int layers, const Target& target) {
  return compile_to_ir(
      [&] {
        Gpt model;
        for (int i = 0; i < layers; ++i) model.blocks.emplace_back(kDim, static_cast<int>(kHeads));
        materialize_params(model);
        const Tensor ids = tensor_input("ids", {kBatch, kTime}, i32);
        return cross_entropy(model(ids), ids);
      },
      true, AdamW{.clip_norm = 1.0}, target);
}

std::int64_t largest_temp(const Plan& plan) {
  std::int64_t most = 0;
  for (const BufferSpec& spec : plan.buffers) {
    if (spec.role == BufferRole::Temp) most = std::max(most, spec.bytes / 4);
  }
  return most;
}

TEST(FusedAttention, NoBufferHoldsTheScores) {
  constexpr std::int64_t kScores = kBatch * kHeads * kTime * kTime;
  const CompiledIR fused = gpt(2, gpu(true)), expanded = gpt(2, gpu(false));
  EXPECT_LT(largest_temp(*fused.plan), kScores) << fused.plan->to_string();
  EXPECT_GE(largest_temp(*expanded.plan), kScores) << "the test would see it";
  for (const auto& [id, place] : fused.plan->places) EXPECT_LT(place.type.shape.size(), kScores);
  EXPECT_LT(fused.plan->memory().temps, expanded.plan->memory().temps);
}

TEST(FusedAttention, ALayerHasFewerKernels) {
  const auto layer = [](bool fused) {
    return gpt(3, gpu(fused)).plan->kernel_count() - gpt(2, gpu(fused)).plan->kernel_count();
  };
  // One kernel instead of three forward, two and the rows' δ instead of five backward; and four
  // copies less, because results are time-major.
  EXPECT_EQ(layer(false) - layer(true), 8);
}

TEST(FusedAttention, ATargetSaysFromWhatSizeAndUpToWhatHead) {
  const auto kernels = [](std::int64_t queries, std::int64_t keys, std::int64_t size) {
    Target target = gpu(false);
    target.passes.fused_attention = 64;
    target.passes.fused_head = 128;
    const auto graph = trace([&]() -> Outputs {
      return attention(tensor_input("q", {1, 1, queries, size}),
                       tensor_input("k", {1, 1, keys, size}),
                       tensor_input("v", {1, 1, keys, size}));
    });
    return plan(run_passes(*graph, target.passes), target).kernel_count();
  };
  EXPECT_EQ(kernels(64, 64, 128), 1);
  EXPECT_EQ(kernels(63, 64, 128), 3) << "few queries have few scores";
  EXPECT_EQ(kernels(64, 63, 128), 3);
  EXPECT_EQ(kernels(64, 64, 129), 3);
}

}  // namespace
}  // namespace tensorgrad::test
