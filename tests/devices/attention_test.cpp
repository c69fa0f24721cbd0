// Attention as one kernel gives what the reference interpreter gives, forward and backward, around
// the edges of tiles and blocks.
#include <gtest/gtest.h>

#include <cmath>

#include "support/op_cases.hpp"
#include "support/run_plan.hpp"
#include "tensorgrad/device.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad::test {
namespace {

struct Sizes {
  std::int64_t batch, heads, groups, queries, keys, dim, width;
  bool causal;
};

std::string name(const Sizes& s) {
  std::string text;
  for (std::int64_t n : {s.batch, s.heads, s.groups, s.queries, s.keys, s.dim, s.width})
    text += std::to_string(n) + " ";
  return text + (s.causal ? "causal" : "full");
}

Tensor by_head(const Tensor& x) { return permute(x, {0, 2, 1, 3}); }

/// Operands as models have them, [batch, time, heads, size] in memory.
OpCase attention_case(const Sizes& s) {
  return {
      "attention",
      name(s),
      {{{s.batch, s.queries, s.heads, s.dim}},
       {{s.batch, s.keys, s.groups, s.dim}},
       {{s.batch, s.keys, s.groups, s.width}}},
      [causal = s.causal](const Tensors& x) {
        return by_head(attention(by_head(x[0]), by_head(x[1]), by_head(x[2]), {.causal = causal}));
      }};
}

class FusedAttention : public ::testing::TestWithParam<const char*> {
 protected:
  Device device_ = Device::named(GetParam());

  bool on_gpu() const { return device_.name() == "webgpu"; }

  Results run(const CaseGraph& made, int kernels) {
    Backend& backend = *device_.backend();
    Target target = backend.target();
    target.passes.fused_attention = 0;
    const auto planned =
        std::make_shared<const Plan>(plan(run_passes(*made.graph, target.passes), target));
    int special = 0;
    for (const Kernel& kernel : planned->kernels) special += kernel.special.has_value();
    EXPECT_EQ(special, kernels) << planned->to_string();
    return run_on_device(backend, planned, made.feeds);
  }

  void expect_right(const OpCase& op_case, int kernels = 3) {
    SCOPED_TRACE(op_case.name());
    const CaseGraph made = build_case(op_case);
    EXPECT_EQ(difference(run(made, kernels), reference_results(*made.graph, made.feeds),
                         op_case.tolerance),
              "");
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, FusedAttention, ::testing::Values("cpu", "webgpu"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(FusedAttention, AroundTheEdgesOfTiles) {
  if (on_gpu()) {  // compiling a shader takes long: few cases, each with several edges
    for (const Sizes& s : std::vector<Sizes>{{1, 1, 1, 1, 1, 1, 1, true},
                                             {1, 2, 1, 2, 15, 8, 20, false},
                                             {2, 2, 2, 16, 17, 20, 8, true},
                                             {1, 4, 2, 33, 31, 32, 32, true},
                                             {1, 4, 1, 31, 33, 16, 16, false},
                                             {1, 2, 1, 65, 64, 64, 64, true},
                                             {1, 1, 1, 63, 130, 128, 96, false},
                                             {1, 1, 1, 130, 65, 64, 128, true}}) {
      expect_right(attention_case(s));
    }
    return;
  }
  for (const std::int64_t queries : {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 130}) {
    for (const std::int64_t keys : {1, 2, 17, 64, 65, 130}) {
      for (const bool causal : {false, true})
        expect_right(attention_case({1, 2, 1, queries, keys, 5, 3, causal}));
    }
  }
  for (const std::int64_t dim : {1, 8, 16, 20, 32, 64, 96, 128, 256}) {
    for (const std::int64_t width : {1, 16, 20, 64, 256})
      expect_right(attention_case({1, 2, 2, 20, 20, dim, width, true}));
  }
  for (const std::int64_t groups : {1, 2, 4})
    expect_right(attention_case({2, 4, groups, 33, 40, 8, 8, true}));
  for (const bool causal : {false, true})  // several blocks of keys
    expect_right(attention_case({1, 2, 1, 300, 530, 8, 8, causal}));
}

TEST_P(FusedAttention, ReadsItsOperandsThroughViews) {
  // Parts of one tensor, one of them backwards and one the same for the whole batch; strides that
  // are no multiples of four, and elements that are not neighbours.
  expect_right({"attention", "slices", {{{2, 9, 3, 2, 6}}}, [](const Tensors& x) {
                  const auto part = [&](std::int64_t i) {
                    return by_head(squeeze(slice(x[0], 2, i, i + 1), 2));
                  };
                  return attention(part(0), flip(part(1), 2), part(2));
                }});
  expect_right({"attention",
                "turned and broadcast",
                {{{2, 2, 8, 7}}, {{1, 2, 5, 8}}, {{2, 2, 5, 4}}},
                [](const Tensors& x) {
                  return attention(swap_axes(x[0], 2, 3), broadcast_to(x[1], {2, 2, 5, 8}), x[2],
                                   {.causal = false});
                }});
}

TEST_P(FusedAttention, MakesOnlyWhatIsNeeded) {
  const auto of = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return attention(q, k, v);
  };
  const std::vector<InputSpec> inputs{{{1, 2, 9, 8}}, {{1, 1, 9, 8}}, {{1, 1, 9, 8}}};
  expect_right({"attention", "no dv", inputs,
                [&](const Tensors& x) { return of(x[0], x[1], stop_gradient(x[2])); }});
  expect_right({"attention", "no dk", inputs,
                [&](const Tensors& x) { return of(x[0], stop_gradient(x[1]), x[2]); }});
  expect_right({"attention", "no dq", inputs,
                [&](const Tensors& x) { return of(stop_gradient(x[0]), x[1], x[2]); }},
               2);
  // Forward alone: nobody asks for the log-sum-exp.
  const OpCase forward{"attention", "forward", inputs,
                       [&](const Tensors& x) { return of(x[0], x[1], x[2]); }};
  const CaseGraph made = build_case(forward, false);
  EXPECT_EQ(difference(run(made, 1), reference_results(*made.graph, made.feeds), 1e-5), "");
}

TEST_P(FusedAttention, LargeScoresStayFinite) {
  // Scores of ±10,000 that f32 holds exactly: weights are 0 or equal shares. Their log-sum-exp is
  // near 10,000, where f32 has steps of 0.001, and the backward pass knows the weights as well.
  OpCase op_case = attention_case({1, 2, 2, 40, 40, 1, 4, true});
  for (std::size_t i : {0u, 1u}) {
    InputSpec& input = op_case.inputs[i];
    for (std::int64_t n = 0; n < input.shape.size(); ++n)
      input.values.push_back((n * 7 + static_cast<std::int64_t>(i)) % 3 == 0 ? -100 : 100);
  }
  op_case.tolerance = 1e-3;
  expect_right(op_case);
  // And such that it does not: no infinities, no NaN.
  OpCase rough = attention_case({1, 1, 1, 40, 40, 16, 4, true});
  for (std::size_t i : {0u, 1u}) rough.inputs[i].low = -100, rough.inputs[i].high = 100;
  for (const auto& [result, values] : run(build_case(rough), 3)) {
    for (double value : values) EXPECT_TRUE(std::isfinite(value)) << result;
  }
}

TEST_P(FusedAttention, GivesTheSameBitsEveryTime) {
  const CaseGraph made = build_case(attention_case({2, 4, 2, 70, 70, 16, 16, true}));
  EXPECT_EQ(run(made, 3), run(made, 3));
}

TEST_P(FusedAttention, LeavesHeadsThatAreTooLargeToProducts) {
  if (!on_gpu()) return;  // the CPU takes all
  expect_right(attention_case({1, 1, 1, 9, 9, 200, 8, true}), 0);
}

}  // namespace
}  // namespace tensorgrad::test
