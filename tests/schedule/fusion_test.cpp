// How many kernels a step has, and why.
#include <gtest/gtest.h>

#include "tensorgrad/autograd.hpp"
#include "tensorgrad/compile.hpp"
#include "tensorgrad/nn.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad::test {
namespace {

Target gpu() {
  Target target;
  target.whole_buffers = true;
  target.max_bindings = 8;
  target.passes.parallelism = 64;
  return target;
}

Plan planned(const std::function<Outputs()>& fn, const Target& target = gpu()) {
  return plan(run_passes(*trace(fn), target.passes), target);
}

std::vector<std::string> names(const Plan& plan) {
  std::vector<std::string> result;
  for (const Kernel& kernel : plan.kernels) result.push_back(kernel.name);
  return result;
}

TEST(Fusion, AChainOfElementwiseNodesAndViewsIsOneKernel) {
  const Plan p = planned([] {
    const Tensor x = tensor_input("x", {4, 6}), y = tensor_input("y", {6});
    return flip(permute(exp(x) * 2.0 + y, {1, 0}), 0) - 1.0;
  });
  EXPECT_EQ(p.kernel_count(), 1) << p.to_string();
}

TEST(Fusion, SoftmaxIsOneRowKernel) {
  const Plan p = planned([] { return softmax(tensor_input("x", {5, 40})); });
  ASSERT_EQ(p.kernel_count(), 1) << p.to_string();
  EXPECT_EQ(p.kernels[0].outer_size(), 5);
  EXPECT_EQ(p.kernels[0].inner_size(), 40);
}

TEST(Fusion, LayerNormIsOneRowKernelAndItsBackwardKeepsOnlyRowStatistics) {
  Target target = gpu();
  const auto ir = compile_to_ir(
      [] {
        const Tensor x = param_input("x", {64, 32}), w = tensor_input("w", {64, 32});
        return sum(layer_norm(x) * w);
      },
      true, std::nullopt, target);
  // Forward: statistics and the row's loss; the sum of those; backward in one more row kernel.
  EXPECT_LE(ir.plan->kernel_count(), 3) << ir.plan->to_string();
  EXPECT_LT(ir.plan->memory().temps, 64 * 32 * 4) << "no tensor of the input's size is kept";
}

TEST(Fusion, ATransposedOperandIsReadInPlace) {
  const Plan p = planned([] {
    const Tensor a = tensor_input("a", {3, 5, 7}), b = tensor_input("b", {3, 5, 7});
    return matmul(swap_axes(a, -1, -2), b);
  });
  EXPECT_EQ(names(p), std::vector<std::string>{"matmul"});
}

TEST(Fusion, MatmulTakesBiasActivationAndResidual) {
  const Plan p = planned([] {
    const Tensor x = tensor_input("x", {8, 6}), w = tensor_input("w", {6, 6}),
                 b = tensor_input("b", {6});
    return x + gelu(matmul(x, w) + b);
  });
  EXPECT_EQ(p.kernel_count(), 1) << p.to_string();
}

TEST(Fusion, AReductionTakesItsPrologueAndEpilogue) {
  const Plan p = planned([] { return sqrt(sum(square(tensor_input("x", {6, 10})), {0}) * 0.1); });
  EXPECT_EQ(p.kernel_count(), 1) << p.to_string();
}

TEST(Fusion, NeighbouringSlicesJoinedAreReadInPlace) {
  const Plan p = planned([] {
    const Tensor x = tensor_input("x", {4, 5, 9}), w = tensor_input("w", {5, 3});
    const Tensor joined =
        concat({narrow(x, -1, 2, 3), narrow(x, -1, 5, 1), narrow(x, -1, 6, 1)}, -1);
    const Tensor flipped = flip(x, -1);  // 8 … 0: steps of −1
    const Tensor backwards = concat({narrow(flipped, -1, 1, 2), narrow(flipped, -1, 3, 3)}, -1);
    return Outputs{{"joined", matmul(joined, w)}, {"backwards", matmul(backwards, w)}};
  });
  EXPECT_EQ(names(p), (std::vector<std::string>{"matmul", "matmul"})) << p.to_string();
}

TEST(Fusion, SlicesThatAreNoNeighboursAreCopied) {
  const auto kernels = [](const std::function<Tensor(const Tensor&)>& join) {
    return planned([&] {
             const Tensor x = tensor_input("x", {4, 5, 9});
             return matmul(join(x), tensor_input("w", {4, 3}));
           })
        .kernel_count();
  };
  const auto part = [](const Tensor& x, std::int64_t start) { return narrow(x, -1, start, 2); };
  EXPECT_EQ(kernels([&](const Tensor& x) { return concat({part(x, 3), part(x, 5)}, -1); }), 1);
  EXPECT_EQ(kernels([&](const Tensor& x) { return concat({part(x, 3), part(x, 6)}, -1); }), 2);
  EXPECT_EQ(kernels([&](const Tensor& x) { return concat({part(x, 5), part(x, 3)}, -1); }), 2);
  EXPECT_EQ(kernels([&](const Tensor& x) {
              return concat({part(x, 3), part(x * 2.0, 5)}, -1);
            }),
            2);
}

TEST(Fusion, SlicesThatMakeTheWholeAreIt) {
  const Plan p = planned([] {
    const Tensor x = tensor_input("x", {4, 6});
    return matmul(concat({narrow(x, 0, 0, 1), narrow(x, 0, 1, 3)}, 0), tensor_input("w", {6, 2}));
  });
  EXPECT_EQ(names(p), std::vector<std::string>{"matmul"});
  EXPECT_EQ(p.kernels[0].exprs[0].index.to_string(),
            planned([] {
              return matmul(tensor_input("x", {4, 6}), tensor_input("w", {6, 2}));
            })
                .kernels[0]
                .exprs[0]
                .index.to_string());
}

TEST(Fusion, TheBackwardOfASelectiveScanKeepsNoStates) {
  constexpr std::int64_t B = 8, L = 512, D = 512, N = 16;
  const auto scan = [&](bool training) {
    return compile_to_ir(
        [&] {
          const Tensor u = param_input("u", {B, L, D}), delta = param_input("delta", {B, L, D});
          const Tensor bc = param_input("bc", {B, L, 2 * N}), a = param_input("A_log", {D, N});
          const Tensor y = selective_scan(u, delta, a, narrow(bc, -1, 0, N), narrow(bc, -1, N, N),
                                          param_input("D", {D}), {.delta_softplus = false})
                               .y;
          return sum(y * tensor_input("w", {B, L, D}));
        },
        training, std::nullopt, gpu());
  };
  const std::int64_t sequence = B * L * D * 4, states = sequence * N;
  const MemoryReport memory = scan(true).plan->memory();
  // du and dΔ are of the size of a sequence; beyond them a sixteenth of the states.
  EXPECT_LE(memory.temps, 2 * sequence + states / 16) << scan(true).plan->to_string();
  EXPECT_LE(scan(false).plan->memory().temps, sequence + states / 16);
}

TEST(Fusion, AnOperandAlongTheSumIsCopiedStraightForALargeProduct) {
  Target target = gpu();
  target.straight_product = 100 * 20 * 30;
  const auto product = [&](std::int64_t rows, bool turned, bool broadcast) {
    return names(planned(
        [&] {
          const Tensor a = tensor_input("a", {2, rows / 2, 20});
          Tensor b = tensor_input("b", turned ? Shape{30, 20} : Shape{20, 30});
          if (turned) b = swap_axes(b, 0, 1);
          return broadcast ? matmul(a, broadcast_to(reshape(b, {1, 20, 30}), {2, 20, 30}))
                           : matmul(reshape(a, {rows, 20}), b);
        },
        target));
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(product(100, true, false), (Names{"permute", "matmul"}));
  EXPECT_EQ(product(98, true, false), (Names{"matmul"})) << "too small";
  EXPECT_EQ(product(100, false, false), (Names{"matmul"})) << "straight as it is";
  EXPECT_EQ(product(100, true, true), (Names{"matmul"})) << "would be copied for each of a batch";
}

TEST(Fusion, KeepsToTheBindingsOfTheTarget) {
  Target target = gpu();
  target.max_bindings = 4;
  const Plan p = planned(
      [] {
        Tensor total = tensor_input("x0", {9});
        for (int i = 1; i < 12; ++i) total = total + tensor_input("x" + std::to_string(i), {9});
        return total;
      },
      target);
  for (const Kernel& kernel : p.kernels)
    EXPECT_LE(static_cast<int>(kernel.bindings.size()), 4) << kernel.to_string();
}

struct Mlp {
  nn::Linear l1{1, 64}, l2{64, 64}, l3{64, 1};
  Tensor operator()(const Tensor& x) const { return l3(relu(l2(relu(l1(x))))); }
};

TEST(Fusion, AStepOfTheSineMlpHasTwelveKernels) {
  const auto ir = compile_to_ir(
      [] {
        Mlp m;
        materialize_params(m);
        return mean(square(m(tensor_input("x", {256, 1})) - tensor_input("y", {256, 1})));
      },
      true, Adam{}, gpu());
  // 3 forward, the loss, 3 weight and 3 bias gradients, 2 for the hidden layers, the optimizer.
  EXPECT_EQ(ir.plan->kernel_count(), 12) << ir.plan->to_string();
}

TEST(Fusion, ATransformerLayerHasFewKernels) {
  const auto step = [](int layers) {
    const auto ir = compile_to_ir(
        [&] {
          std::vector<nn::TransformerBlock> blocks;
          for (int i = 0; i < layers; ++i) blocks.emplace_back(32, 4);
          materialize_params(blocks);
          Tensor x = tensor_input("x", {4, 12, 32});
          for (const auto& block : blocks) x = block(x);
          return mean(square(x));
        },
        true, AdamW{.clip_norm = 1.0}, gpu());
    return ir.plan->kernel_count();
  };
  // Forward and backward of one layer: the difference between two layers and one.
  EXPECT_EQ(step(3) - step(2), 36);
}

}  // namespace
}  // namespace tensorgrad::test
