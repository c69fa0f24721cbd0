// Which op a NaN or an infinity came from: values are followed back through the graph, masks that
// are meant are not blamed, and a training that was watched finds the step.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "api/debug/reads.hpp"
#include "support/evaluate.hpp"
#include "support/faulty_backend.hpp"
#include "support/op_cases.hpp"
#include "support/quick.hpp"
#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Empty {};

/// A forward program of one input x[n].
template <class Fn>
NonFinite find_in(std::vector<float> x, Fn fn, const Device& device = Device::cpu()) {
  const auto n = static_cast<std::int64_t>(x.size());
  auto forward =
      compile_forward(Empty{}, [fn](const Empty&, const Inputs& in) { return fn(in["x"]); },
                      {.inputs = {{"x", {n}}}, .device = device});
  return forward.find_nonfinite({{"x", x}});
}

TEST(FindNonFinite, NamesTheOpItsPlaceAndWhatItWorkedOn) {
  int line = 0;
  const NonFinite found = find_in({0.5f, 0, 2, 0}, [&](const Tensor& x) {
    line = __LINE__ + 1;
    return mean(log(x) * 2.0);
  });
  ASSERT_TRUE(found.found) << found.text;
  EXPECT_EQ(found.op, OpKind::Log);
  EXPECT_EQ(found.site.to_string(), "nonfinite_test.cpp:" + std::to_string(line));
  EXPECT_EQ(found.output.negative_infinity, 2);
  EXPECT_EQ(found.output.finite, 2);
  ASSERT_EQ(found.inputs.size(), 1u);
  EXPECT_EQ(found.inputs[0].min, 0);
  EXPECT_EQ(found.inputs[0].max, 2);
  expect_contains(found.text, {"Output \"output\" is not finite", "%1: f32[4] = log(%0)",
                               "at nonfinite_test.cpp:" + std::to_string(line),
                               "2 -inf of 4 values", "from %0 \"x\" f32[4] in [0, 2]"});
}

TEST(FindNonFinite, SaysSoWhereEverythingIsFinite) {
  const NonFinite found = find_in({1, 2}, [](const Tensor& x) { return log(x); });
  EXPECT_FALSE(found.found);
  expect_contains(found.text, {"reference, every result is finite", "cpu, every result is finite"});
}

TEST(FindNonFinite, WhatOverflowsInSinglePrecisionIsSeen) {
  const NonFinite found = find_in({100, 1}, [](const Tensor& x) {
    const Tensor e = exp(x);  // 2.7e43: finite in double precision
    return e / sum(e);
  });
  EXPECT_EQ(found.op, OpKind::Exp);
  EXPECT_EQ(found.output.positive_infinity, 1);
  EXPECT_EQ(found.device, "reference");
}

TEST(FindNonFinite, AnInfinityThatIsAbsorbedIsNotBlamed) {
  const auto masked = [](const Tensor& x) {
    return softmax(where(greater(x, 0.0), x, -kInfinity), -1);
  };
  EXPECT_FALSE(find_in({1, -1, 2}, masked).found);
  // A NaN of another op in a program with such a mask, which even shares tensors with it.
  const NonFinite other = find_in({1, -1, 2}, [](const Tensor& x) {
    const Tensor scores = x + log(x - 1.0) * 0.0;  // 0·log 0 and log(−2)
    return softmax(where(greater(x, -2.0), scores, -kInfinity), -1);
  });
  EXPECT_EQ(other.op, OpKind::Log) << other.text;
}

TEST(FindNonFinite, AMaskThatComesFirstIsNotBlamedForWhatComesLater) {
  auto forward = compile_forward(Empty{},
                                 [](const Empty&, const Inputs& in) {
                                   const Tensor scores =
                                       in["mask"] + in["x"];  // −inf where it is meant to be
                                   return softmax(scores / (in["x"] - 3.0), -1);
                                 },
                                 {.inputs = {{"mask", {3}}, {"x", {3}}}, .device = Device::cpu()});
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> mask{0, -inf, 0}, x{1, 2, 3};
  const NonFinite found = forward.find_nonfinite({{"mask", mask}, {"x", x}});
  ASSERT_TRUE(found.found);
  EXPECT_EQ(found.op, OpKind::Div) << found.text;
}

TEST(FindNonFinite, ANaNMadeOfInfinitiesThatAreMeantIsBlamedOnItsMaker) {
  const NonFinite found = find_in({1, 2}, [](const Tensor& x) {
    const Tensor masked = where(greater(x, 5.0), x, -kInfinity);  // nothing is left
    return exp(masked - max(masked));
  });
  ASSERT_TRUE(found.found);
  EXPECT_EQ(found.op, OpKind::Sub) << found.text;
  EXPECT_EQ(found.output.nan, 2);
  expect_contains(found.text, {"out of infinities that come from", "constant(-inf)"});
}

TEST(FindNonFinite, AnInfinityThatIsGivenAndReachesTheOutputIsNamedItself) {
  const NonFinite found =
      find_in({1, std::numeric_limits<float>::infinity()}, [](const Tensor& x) { return x * 2.0; });
  EXPECT_EQ(found.op, OpKind::TensorInput);
  expect_contains(found.text, {"tensor_input(\"x\")", "1 inf of 2 values"});
}

TEST(FindNonFinite, ANaNInAnInputIsNamed) {
  const NonFinite found = find_in({1, kNaN, 3}, [](const Tensor& x) { return sum(tanh(x)); });
  EXPECT_EQ(found.op, OpKind::TensorInput);
}

/// A CPU that takes a logarithm instead of a tanh, where `in` says so.
Device with_logarithms(const std::function<bool(const Kernel&)>& in) {
  return faulty("cpu", [in](Plan& plan) {
    for (Kernel& kernel : plan.kernels) {
      for (Expr& expr : kernel.exprs) {
        if (expr.kind == Expr::Kind::Op && expr.op == OpKind::Tanh && in(kernel))
          expr.op = OpKind::Log;
      }
    }
  });
}

TEST(FindNonFinite, WhatOnlyTheDeviceMakesIsFoundOnTheDevice) {
  const Device device = with_logarithms([](const Kernel&) { return true; });
  const NonFinite found = find_in(
      {1, -1}, [](const Tensor& x) { return exp(tanh(x * 2.0) + 1.0); }, device);
  ASSERT_TRUE(found.found) << found.text;
  EXPECT_EQ(found.op, OpKind::Tanh);
  EXPECT_EQ(found.device, "faulty");
  expect_contains(found.text, {"Op by op on reference, every result is finite", "= tanh(%"});
}

TEST(FindNonFinite, WhatOnlyFusedKernelsMakeIsSaidToBeThat) {
  struct Model {
    Tensor w = param({2}, {.init = init::literal({1, -1})});
  };
  auto train = compile(
      Model{}, [](const Model& m, const Inputs& in) { return sum(tanh(m.w * in["x"]) + 1.0); },
      {.inputs = {{"x", {2}}},
       .optimizer = Adam{},
       .device = with_logarithms([](const Kernel& kernel) { return kernel.nodes.size() > 1; })});
  train.watch_nonfinite();
  const std::vector<float> x{1, 1};
  EXPECT_TRUE(std::isnan(train.step({{"x", x}}).loss));
  const NonFinite found = train.find_nonfinite();
  EXPECT_FALSE(found.found);
  EXPECT_EQ(found.step, 1);
  expect_contains(found.text, {"faulty, every result is finite", "compare_devices"});
}

TEST(FindNonFinite, IntegersAndBoolsPassThrough) {
  auto forward = compile_forward(
      Empty{},
      [](const Empty&, const Inputs& in) {
        const Tensor row = index_select(log(in["x"]), in["ids"], 0);
        return Outputs{{"sum", sum(where(in["keep"], row, 0.0))}, {"ids", in["ids"] + 1}};
      },
      {.inputs = {{"x", {4}}, {"ids", {{3}, i32}}, {"keep", {{3}, boolean}}},
       .device = Device::cpu()});
  const std::vector<float> x{0, 1, 2, -1};
  const std::vector<std::int32_t> ids{1, 0, 3};
  const auto with = [&](std::vector<std::int32_t> keep) {
    return forward.find_nonfinite({{"x", x}, {"ids", ids}, {"keep", keep}});
  };
  EXPECT_FALSE(with({1, 0, 0}).found) << "the bad rows are not selected";
  EXPECT_EQ(with({1, 1, 0}).op, OpKind::Log);
}

// ---- following values back

bool visits(const debug::Reads& reads, std::size_t element, std::size_t input, std::size_t i) {
  bool found = false;
  const auto [first, second] = reads.bundles(element);
  for (const std::size_t bundle : {first, second}) {
    EXPECT_LT(bundle, reads.bundle_count());
    reads.visit_bundle(
        bundle, [&](std::size_t k, std::size_t at) { found = found || (k == input && at == i); });
  }
  return found;
}

TEST(Reads, NameEveryElementThatMatters) {
  // Whatever changes an output element when it is changed must be among what that is made of.
  const std::size_t tried = quick() ? 1 : 6;
  for (const OpCase& op_case : op_cases()) {
    if (op_case.non_finite) continue;
    SCOPED_TRACE(op_case.name());
    const CaseGraph made = build_case(op_case);
    const Graph& graph = *made.graph;
    std::vector<Values> tensors = reference::Interpreter(graph).run(made.feeds);
    for (const Node& node : graph.nodes()) {
      const debug::Reads reads(graph, node, tensors);
      std::vector<Values> changed = tensors;
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const auto id = static_cast<std::size_t>(node.inputs[k]);
        if (graph.type(node.inputs[k]).dtype != f32) continue;
        for (std::size_t i = 0; i < std::min(tensors[id].size(), tried); ++i) {
          changed[id][i] = tensors[id][i] * 1.5 + 0.25;
          reference::compute(graph, node, changed);
          changed[id][i] = tensors[id][i];
          for (TensorId output : node.outputs) {
            const Values& was = tensors[static_cast<std::size_t>(output)];
            const Values& is = changed[static_cast<std::size_t>(output)];
            for (std::size_t e = 0; e < was.size(); ++e) {
              const bool same = is[e] == was[e] || (std::isnan(is[e]) && std::isnan(was[e]));
              bool named = same;
              for (std::size_t j = 0; j < node.inputs.size() && !named; ++j)
                named = node.inputs[j] == node.inputs[k] && visits(reads, e, j, i);
              ASSERT_TRUE(named) << to_string(node.op) << " input " << k << "[" << i
                                 << "] matters to output element " << e;
            }
          }
        }
      }
    }
  }
}

TEST(Reads, NameNothingButWhatMatters) {
  const auto read_by = [](const Graph& graph, TensorId id, std::size_t element) {
    const std::vector<Values> tensors =
        reference::Interpreter(graph).run({{"x", {1, 2, 3, 4, 5, 6}}, {"y", {1, 2, 3, 4, 5, 6}}});
    const debug::Reads reads(graph, graph.producer(id), tensors);
    std::set<std::pair<std::size_t, std::size_t>> found;
    const auto [first, second] = reads.bundles(element);
    for (const std::size_t bundle : {first, second})
      reads.visit_bundle(bundle, [&](std::size_t k, std::size_t i) { found.insert({k, i}); });
    return found;
  };
  using Found = std::set<std::pair<std::size_t, std::size_t>>;
  Graph graph;
  trace_into(graph, [&] {
    const Tensor x = tensor_input("x", {2, 3}), y = tensor_input("y", {3, 2});
    EXPECT_EQ(read_by(graph, matmul(x, y).id(), 3),  // row 1, column 1
              (Found{{0, 3}, {0, 4}, {0, 5}, {1, 1}, {1, 3}, {1, 5}}));
    EXPECT_EQ(read_by(graph, permute(x, {1, 0}).id(), 1), (Found{{0, 3}}));
    EXPECT_EQ(read_by(graph, concat({x, x}, 0).id(), 7), (Found{{0, 1}}));
    EXPECT_EQ(read_by(graph, pad(x, {{1, 0}, {0, 0}}).id(), 2), (Found{})) << "padding";
    EXPECT_EQ(read_by(graph, sum(x, {0}).id(), 2), (Found{{0, 2}, {0, 5}}));
    EXPECT_EQ(read_by(graph, where(greater(x, 3.0), x, x * 2.0).id(), 0), (Found{{2, 0}}));
  });
}

// ---- trainings

struct Root {
  Tensor w = param({3}, {.init = init::ones});
};

/// √(w·x): its gradient is infinite where w·x is 0, though the loss is not.
Tensor root_loss(const Root& m, const Inputs& in) { return mean(sqrt(m.w * in["x"])); }

class Watched : public ::testing::TestWithParam<const char*> {
 protected:
  Training<Root> make() const {
    return compile(Root{}, root_loss,
                   {.inputs = {{"x", {3}}},
                    .optimizer = Adam{.lr = 0.01},
                    .device = Device::named(GetParam())});
  }
  static float step(Training<Root>& train, std::vector<float> x) {
    return train.step({{"x", x}}).loss;
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, Watched, ::testing::Values("reference", "cpu", "webgpu"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Watched, TheStepAndTheOpThatSpoiledTheParametersAreFound) {
  for (const int good : {0, 1, 3, 4, 9}) {
    SCOPED_TRACE(good);
    auto train = make();
    train.watch_nonfinite(4);
    for (int i = 0; i < good; ++i) step(train, {1, 2, 3});
    EXPECT_TRUE(std::isfinite(step(train, {1, 0, 2}))) << "only its gradient is not";
    EXPECT_FALSE(std::isfinite(step(train, {1, 2, 3})));
    const ParamValues before = train.download_params();
    const NonFinite found = train.find_nonfinite();
    ASSERT_TRUE(found.found) << found.text;
    EXPECT_EQ(found.step, good + 1);
    EXPECT_EQ(found.result, "the gradient of \"w\"");
    EXPECT_EQ(found.site.to_string().rfind("nonfinite_test.cpp:", 0), 0u) << found.text;
    expect_contains(found.text, {"step " + std::to_string(good + 1) + ": The gradient of \"w\"",
                                 "parameter path w"});
    EXPECT_EQ(train.step_count(), good + 2) << "nothing has changed";
    const ParamValues after = train.download_params();
    for (std::size_t i = 0; i < 3; ++i) {
      const float was = before.at("w")[i], is = after.at("w")[i];
      EXPECT_TRUE(was == is || (std::isnan(was) && std::isnan(is)));
    }
  }
}

TEST_P(Watched, WhatGoesBadUnseenIsStillFoundLater) {
  auto train = make();
  train.watch_nonfinite(3);
  step(train, {1, 2, 3});
  step(train, {1, 0, 2});  // the parameters are spoiled, and more steps follow than are kept
  for (int i = 0; i < 20; ++i) step(train, {1, 2, 3});
  EXPECT_EQ(train.find_nonfinite().step, 2);
}

TEST_P(Watched, StepsInFlightAreKeptToo) {
  auto train = make();
  train.watch_nonfinite(16);
  std::vector<PendingLoss> pending;
  for (int i = 0; i < 6; ++i) {
    const std::vector<float> x{1, i == 2 ? 0.0f : 1.0f, 1};
    pending.push_back(train.step_async({{"x", x}}));
  }
  for (PendingLoss& loss : pending) loss.get();
  EXPECT_EQ(train.find_nonfinite().step, 3);
}

TEST_P(Watched, WithoutTroubleNothingIsFound) {
  auto train = make();
  EXPECT_THROW(train.find_nonfinite(), Error) << "it was not watched";
  train.watch_nonfinite();
  EXPECT_FALSE(train.find_nonfinite().found);
  auto other = make();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(step(train, {1, 2, 3}), step(other, {1, 2, 3}));
  const NonFinite none = train.find_nonfinite();
  EXPECT_FALSE(none.found);
  EXPECT_EQ(none.text, "Steps 1 to 5, taken again, leave nothing that is not finite.");
  EXPECT_EQ(step(train, {1, 2, 3}), step(other, {1, 2, 3})) << "as if it had not been asked";
}

TEST_P(Watched, StepsBeforeAResetOrAnUploadAreForgotten) {
  auto train = make();
  train.watch_nonfinite();
  step(train, {1, 0, 3});
  train.reset();
  step(train, {1, 2, 3});
  EXPECT_FALSE(train.find_nonfinite().found);
  train.upload_params({{"w", {1, kNaN, 1}}});
  step(train, {1, 2, 3});
  const NonFinite found = train.find_nonfinite();
  ASSERT_TRUE(found.found);
  EXPECT_EQ(found.op, OpKind::ParamInput);
  EXPECT_EQ(found.step, 2);
  expect_contains(found.text, {"param_input(\"w\")", "before the step began"});
}

TEST(WatchedSteps, ThatFailedAreNotTakenAgain) {
  struct Model {
    nn::Embedding table{3, 2};
  };
  auto train = compile(
      Model{},
      [](const Model& m, const Inputs& in) { return mean(log(m.table(in["ids"]) * in["x"])); },
      {.inputs = {{"ids", {{1}, i32}}, {"x", {1, 2}}},
       .optimizer = SGD{.lr = 1e-3},
       .device = Device::cpu()});
  train.upload_params({{"table.W", std::vector<float>(6, 1.0f)}});
  train.watch_nonfinite();
  const auto step = [&](std::int32_t id, float x) {
    train.step({{"ids", std::vector{id}}, {"x", std::vector{x, 1.0f}}});
  };
  step(0, 1);
  EXPECT_THROW(step(9, 1), Error);
  step(1, 1);
  step(2, 0);
  const NonFinite found = train.find_nonfinite();
  EXPECT_EQ(found.step, 3) << found.text;
  EXPECT_EQ(found.op, OpKind::Log);
}

TEST(WatchedSteps, DropTheSameElementsWhenTheyAreTakenAgain) {
  auto train = compile(
      Root{},
      [](const Root& m, const Inputs& in) { return mean(sqrt(dropout(m.w * in["x"], 0.5) + 1.0)); },
      {.inputs = {{"x", {3}}}, .optimizer = SGD{.lr = 0.1}, .device = Device::cpu()});
  train.watch_nonfinite(100);
  // Below −0.5, what is not dropped and doubled has no root; what is dropped has.
  std::int64_t first_bad = 0;
  for (int i = 1; i <= 20 && first_bad == 0; ++i) {
    const std::vector<float> x{i % 4 == 0 ? -0.7f : 0.7f, 0.5f, 0.5f};
    if (!std::isfinite(train.step({{"x", x}}).loss)) first_bad = i;
  }
  ASSERT_GT(first_bad, 0);
  const NonFinite found = train.find_nonfinite();
  EXPECT_EQ(found.step, first_bad);
  EXPECT_EQ(found.op, OpKind::Sqrt) << found.text;
}

TEST_P(Watched, TheNextStepCanBeAskedAboutBeforeItIsTaken) {
  auto train = make();
  const std::vector<float> good{1, 2, 3}, bad{-1, 2, 3};
  EXPECT_FALSE(train.find_nonfinite({{"x", good}}).found);
  const NonFinite found = train.find_nonfinite({{"x", bad}});
  EXPECT_EQ(found.op, OpKind::Sqrt);
  EXPECT_EQ(found.step, 1);
  EXPECT_EQ(found.result, "the loss");
  EXPECT_TRUE(std::isfinite(step(train, good))) << "nothing was done";
}

}  // namespace
}  // namespace tensorgrad::test
