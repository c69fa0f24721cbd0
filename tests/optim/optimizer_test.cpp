// The update phase: its nodes, and single steps against numbers by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/evaluate.hpp"
#include "tensorgrad/autograd.hpp"
#include "tensorgrad/optim.hpp"

namespace tensorgrad::test {

namespace {

/// loss = Σ a·x + Σ b·y: the gradients of a and b are the inputs x and y. b is not meant to decay.
std::shared_ptr<Graph> training_graph(const Optimizer& optimizer) {
  auto graph = trace([]() -> Outputs {
    const Tensor a = param_input("a", {2}), b = param_input("b", {}, true, false);
    return sum(a * tensor_input("x", {2})) + b * tensor_input("y", {});
  });
  append_grad(*graph);
  append_optimizer(*graph, optimizer);
  verify(*graph);
  return graph;
}

/// Parameters and optimizer state, stepped on the reference interpreter.
class Stepper {
 public:
  explicit Stepper(const Optimizer& optimizer)
      : optimizer_(optimizer), graph_(training_graph(optimizer)) {
    leaves_ = {{"a", {1, -2}}, {"b", {3}}};
    for (const Node& node : graph_->nodes()) {
      if (const auto* state = std::get_if<StateAttr>(&node.attrs)) {
        leaves_[state->name] =
            Values(static_cast<std::size_t>(state->type.shape.size()), state->init);
      }
    }
  }

  /// One step with the gradients x of a and y of b.
  void step(const Values& x, double y) {
    leaves_["x"] = x;
    leaves_["y"] = {y};
    const auto scalars = step_scalars(optimizer_, ++step_);
    leaves_[kStepScalars] = Values(scalars.begin(), scalars.end());
    const std::vector<Values> values = reference::Interpreter(*graph_).run(leaves_);
    for (const WriteBack& wb : graph_->write_backs) {
      const Attrs& attrs = graph_->producer(wb.destination).attrs;
      const auto* param = std::get_if<InputAttr>(&attrs);
      leaves_[param ? param->name : std::get<StateAttr>(attrs).name] =
          values[static_cast<std::size_t>(wb.value)];
    }
  }

  const Values& operator[](const std::string& name) const { return leaves_.at(name); }

 private:
  Optimizer optimizer_;
  std::shared_ptr<Graph> graph_;
  std::map<std::string, Values> leaves_;
  std::int64_t step_ = 0;
};

/// The step's scalars are floats; so much they may be off.
constexpr double kFloat = 1e-7;

std::vector<const Node*> nodes_of(const Graph& graph, OpKind op) {
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes()) {
    if (node.op == op) found.push_back(&node);
  }
  return found;
}

}  // namespace

TEST(StepScalars, AreTheCorrectedRateAndDecay) {
  const auto adam = step_scalars(Adam{.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99}, 2);
  EXPECT_FLOAT_EQ(adam[0], 0.1 / (1 - 0.81));
  EXPECT_FLOAT_EQ(adam[1], 1 / std::sqrt(1 - 0.9801));
  EXPECT_FLOAT_EQ(adam[2], 1);
  const auto adamw = step_scalars(AdamW{.lr = 0.1, .weight_decay = 0.2}, 1);
  EXPECT_FLOAT_EQ(adamw[0], 1.0);
  EXPECT_FLOAT_EQ(adamw[2], 0.98);
  const auto sgd = step_scalars(SGD{.lr = lr::linear(1, 0, 4)}, 1);
  EXPECT_FLOAT_EQ(sgd[0], 0.75);
}

TEST(StepScalars, TakeAnotherRate) {
  EXPECT_FLOAT_EQ(step_scalars(SGD{.lr = 0.1}, 5, 0.7)[0], 0.7);
  EXPECT_FLOAT_EQ(step_scalars(AdamW{.lr = 0.1, .weight_decay = 0.5}, 1, 0.2)[2], 0.9);
}

TEST(StepScalars, StayAccurateAtTheMillionthStep) {
  const auto late = step_scalars(Adam{.lr = 0.1}, 1000000);
  EXPECT_FLOAT_EQ(late[0], 0.1f);
  EXPECT_FLOAT_EQ(late[1], 1.0f);
}

TEST(AppendOptimizer, AddsOneUpdateAParameterWithItsStateAndWriteBacks) {
  const auto graph = training_graph(Adam{});
  EXPECT_EQ(nodes_of(*graph, OpKind::AdamUpdate).size(), 2u);
  EXPECT_EQ(nodes_of(*graph, OpKind::GlobalNorm).size(), 0u);
  for (const char* name : {"optimizer.m.a", "optimizer.v.a", "optimizer.m.b", "optimizer.v.b"}) {
    const TensorId leaf = graph->find_leaf(name);
    ASSERT_GE(leaf, 0) << name;
    EXPECT_EQ(std::get<StateAttr>(graph->producer(leaf).attrs).init, 0);
  }
  EXPECT_EQ(graph->type(graph->find_leaf(kStepScalars)).to_string(), "f32[4]");
  ASSERT_EQ(graph->write_backs.size(), 6u);
  EXPECT_EQ(graph->write_backs[0].destination, graph->find_leaf("a"));
  EXPECT_EQ(graph->phase, Phase::Gradient);
}

TEST(AppendOptimizer, KeepsThePhasesApart) {
  const auto graph = training_graph(AdamW{.clip_norm = 1});
  for (const Node& node : graph->nodes()) {
    const bool update = op_class(node.op) == OpClass::Update || node.op == OpKind::StateInput ||
                        node.output() == graph->find_leaf(kStepScalars);
    EXPECT_EQ(node.phase == Phase::Update, update) << to_string(node.op);
  }
}

TEST(AppendOptimizer, SgdWithoutMomentumHasNoState) {
  const auto graph = training_graph(SGD{});
  EXPECT_EQ(nodes_of(*graph, OpKind::StateInput).size(), 0u);
  EXPECT_EQ(graph->write_backs.size(), 2u);
  EXPECT_GE(training_graph(SGD{.momentum = 0.9})->find_leaf("optimizer.momentum.a"), 0);
}

TEST(AppendOptimizer, ClippingTakesTheNormOfAllGradients) {
  const auto graph = training_graph(SGD{.clip_norm = 1});
  const auto norms = nodes_of(*graph, OpKind::GlobalNorm);
  ASSERT_EQ(norms.size(), 1u);
  EXPECT_EQ(norms[0]->inputs.size(), 2u);
  for (const Node* update : nodes_of(*graph, OpKind::SgdUpdate)) {
    EXPECT_EQ(update->inputs.back(), norms[0]->output());
  }
}

TEST(AppendOptimizer, DecayFollowsTheFlagsOrTheFilter) {
  const auto decays = [](const Optimizer& optimizer) {
    std::vector<bool> flags;
    const auto graph = training_graph(optimizer);
    for (const Node& node : graph->nodes()) {
      if (const auto* attrs = std::get_if<UpdateAttr>(&node.attrs)) flags.push_back(attrs->decay);
    }
    return flags;
  };
  const auto only_b = [](const std::string& name) { return name == "b"; };
  EXPECT_EQ(decays(AdamW{}), (std::vector<bool>{true, false}));
  EXPECT_EQ(decays(AdamW{.decay_filter = only_b}), (std::vector<bool>{false, true}));
  EXPECT_EQ(decays(AdamW{.weight_decay = 0}), (std::vector<bool>{false, false}));
  EXPECT_EQ(decays(Adam{}), (std::vector<bool>{false, false}));
  EXPECT_EQ(decays(SGD{.weight_decay = 0.1}), (std::vector<bool>{true, false}));
}

TEST(AppendOptimizer, RefusesWhatCannotTrain) {
  EXPECT_THROW(training_graph(SGD{.nesterov = true}), Error);
  Graph graph;
  try {
    append_optimizer(graph, Adam{});
    FAIL();
  } catch (const Error& error) {
    expect_contains(error.what(), {"append_optimizer: ", "append_grad first"});
  }
}

TEST(Sgd, GoesDownTheGradient) {
  Stepper s(SGD{.lr = 0.5});
  s.step({2, -4}, 1);
  expect_near(s["a"], {1 - 1, -2 + 2}, kFloat);
  expect_near(s["b"], {2.5}, kFloat);
}

TEST(Sgd, MomentumAccumulates) {
  Stepper s(SGD{.lr = 0.5, .momentum = 0.5});
  s.step({2, -4}, 1);  // buffer 2, −4, 1
  s.step({2, 0}, 3);   // buffer 3, −2, 3.5
  expect_near(s["optimizer.momentum.a"], {3, -2}, kFloat);
  expect_near(s["a"], {1 - 1 - 1.5, -2 + 2 + 1}, kFloat);
  expect_near(s["b"], {3 - 0.5 - 1.75}, kFloat);
}

TEST(Sgd, NesterovLooksAhead) {
  Stepper s(SGD{.lr = 0.5, .momentum = 0.5, .nesterov = true});
  s.step({2, -4}, 1);  // g + 0.5·buffer = 3, −6, 1.5
  expect_near(s["a"], {1 - 1.5, -2 + 3}, kFloat);
  s.step({2, 0}, 3);  // buffer 3, −2, 3.5; steps 3.5, −1, 4.75
  expect_near(s["a"], {-0.5 - 1.75, 1 + 0.5}, kFloat);
  expect_near(s["b"], {3 - 0.75 - 2.375}, kFloat);
}

TEST(Sgd, WeightDecayIsAnL2TermOfTheGradient) {
  Stepper s(SGD{.lr = 0.5, .weight_decay = 0.1});
  s.step({2, -4}, 1);
  expect_near(s["a"], {1 - 0.5 * 2.1, -2 + 0.5 * 4.2}, kFloat);
  expect_near(s["b"], {2.5}, kFloat);  // not meant to decay
}

TEST(Adam, FirstStepIsTheRateInTheGradientsDirection) {
  Stepper s(Adam{.lr = 0.1});
  s.step({2, -4}, 1e-3);
  expect_near(s["a"], {0.9, -1.9}, kFloat);
  expect_near(s["b"], {2.9}, 1e-5);  // ε shows beside a small gradient
  expect_near(s["optimizer.m.a"], {0.2, -0.4}, kFloat);
  expect_near(s["optimizer.v.a"], {0.004, 0.016}, kFloat);
}

TEST(Adam, SecondStepByHand) {
  Stepper s(Adam{.lr = 0.1, .beta1 = 0.5, .beta2 = 0.75, .eps = 0.01});
  s.step({2, -4}, 0);
  // m̂ = g, v̂ = g²
  const double first = 1 - 0.1 * 2 / (2 + 0.01);
  expect_near({s["a"][0]}, {first}, kFloat);
  s.step({4, 0}, 0);
  // m = 0.5·1 + 0.5·4 = 2.5, v = 0.75·1 + 0.25·16 = 4.75; corrections 0.75 and 0.4375
  expect_near({s["a"][0]}, {first - 0.1 * (2.5 / 0.75) / (std::sqrt(4.75 / 0.4375) + 0.01)},
              kFloat);
  expect_near(s["b"], {3}, kFloat);  // never a gradient, never moved
}

TEST(AdamW, DecaysTheWeightApartFromTheGradient) {
  Stepper s(AdamW{.lr = 0.1, .weight_decay = 0.5});
  s.step({2, -4}, 1);
  expect_near(s["a"], {1 * 0.95 - 0.1, -2 * 0.95 + 0.1}, kFloat);
  expect_near(s["b"], {2.9}, kFloat);  // not meant to decay
}

TEST(Clipping, ScalesGradientsToTheNorm) {
  Stepper s(SGD{.lr = 1, .clip_norm = 1});
  s.step({2, -4}, 4);  // norm 6
  const double scale = 1 / (6 + 1e-6);
  expect_near(s["a"], {1 - 2 * scale, -2 + 4 * scale}, kFloat);
  expect_near(s["b"], {3 - 4 * scale}, kFloat);
}

TEST(Clipping, LeavesSmallGradientsAlone) {
  Stepper s(SGD{.lr = 1, .clip_norm = 10});
  s.step({2, -4}, 4);
  expect_near(s["a"], {-1, 2}, kFloat);
}

TEST(Clipping, ComesBeforeTheMomentsOfAdam) {
  Stepper s(Adam{.lr = 0.1, .clip_norm = 3});
  s.step({2, -4}, 4);
  const double scale = 3 / (6 + 1e-6);
  expect_near(s["optimizer.m.a"], {0.1 * 2 * scale, -0.1 * 4 * scale}, kFloat);
}

}  // namespace tensorgrad::test
