// The reverse pass: what flows where, what is left out, and custom gradients.
#include "tensorgrad/autograd.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/evaluate.hpp"

namespace tensorgrad::test {

using X = const std::vector<Tensor>&;

namespace {

long count(const Graph& graph, OpKind op) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [&](const Node& node) { return node.op == op; });
}

std::vector<std::string> names(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> result;
  for (const NamedTensor& tensor : tensors) result.push_back(tensor.name);
  return result;
}

std::string append_error(Graph& graph) {
  try {
    append_grad(graph);
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

using Names = std::vector<std::string>;

}  // namespace

TEST(AppendGrad, ListsTheGradientOfEveryParameterReached) {
  const auto graph = trace([]() -> Outputs {
    const Tensor a = param_input("a", {2}), unused = param_input("unused", {2}),
                 b = param_input("b", {2});
    return sum(a * b * b);
  });
  const GradResult result = append_grad(*graph);
  EXPECT_EQ(names(graph->gradients), (Names{"a", "b"}));
  EXPECT_EQ(result.unreached, (Names{"unused"}));
  EXPECT_EQ(result.loss.id(), graph->outputs[0].tensor);
  const auto values =
      reference::Interpreter(*graph).run({{"a", {1, 2}}, {"unused", {0, 0}}, {"b", {3, 4}}});
  expect_near(values[static_cast<std::size_t>(graph->gradients[0].tensor)], {9, 16});
  expect_near(values[static_cast<std::size_t>(graph->gradients[1].tensor)], {6, 16});
}

TEST(AppendGrad, LeavesFrozenParametersOut) {
  const auto graph = trace([]() -> Outputs {
    const Tensor x = tensor_input("x", {2, 3});
    const Tensor w = param_input("w", {3, 4}, false), v = param_input("v", {4, 1});
    return mean(matmul(matmul(x, w), v));
  });
  const GradResult result = append_grad(*graph);
  EXPECT_EQ(names(graph->gradients), (Names{"v"}));
  EXPECT_TRUE(result.unreached.empty());
  EXPECT_EQ(count(*graph, OpKind::MatMul), 3);  // two forward, one for v: none for x or w
}

TEST(AppendGrad, WantsAScalarLoss) {
  int line = 0;
  const auto graph = trace([&]() -> Outputs {
    line = __LINE__ + 1;
    return exp(param_input("w", {2, 3}));
  });
  expect_contains(append_error(*graph),
                  {"append_grad: ", "single f32", "f32[2, 3]", "mean", site(line)});
  const auto integer = trace([]() -> Outputs { return argmax(param_input("w", {3})); });
  expect_contains(append_error(*integer), {"i32[]"});
  const auto one_element =
      trace([]() -> Outputs { return sum(param_input("w", {3}), {.keepdims = true}); });
  EXPECT_NO_THROW(append_grad(*one_element));
}

TEST(AppendGrad, RefusesAGraphWithoutOutputAndASecondCall) {
  Graph empty;
  expect_contains(append_error(empty), {"no output"});
  const auto graph = trace([]() -> Outputs { return sum(param_input("w", {3})); });
  append_grad(*graph);
  expect_contains(append_error(*graph), {"already"});
}

TEST(AppendGrad, BackwardNodesBelongToTheLineThatCausedThem) {
  const auto graph = trace([]() -> Outputs {
    SiteScope scope(Site{"model.cpp", 7});
    return mean(tanh(matmul(tensor_input("x", {2, 3}), param_input("w", {3, 2}))));
  });
  append_grad(*graph);
  for (const Node& node : graph->nodes())
    EXPECT_EQ(node.site.to_string(), "model.cpp:7") << to_string(node.op);
}

TEST(AppendGrad, TakesTheFirstOutputAsTheLoss) {
  const auto graph = trace([]() -> Outputs {
    const Tensor w = param_input("w", {2});
    return {{"loss", sum(w * 3)}, {"other", exp(w)}};
  });
  append_grad(*graph);
  const auto values = reference::Interpreter(*graph).run({{"w", {1, 2}}});
  expect_near(values[static_cast<std::size_t>(graph->gradients[0].tensor)], {3, 3});
}

TEST(AppendVjp, SumsOverSeveralOutputsAndConsumers) {
  Graph graph;
  Tensor x, y, z, g, h;
  trace_into(graph, [&] {
    x = tensor_input("x", {2});
    y = x * x;
    z = y + x;  // y is an output and is used
    g = tensor_input("g", {2});
    h = tensor_input("h", {2});
  });
  const auto grads = append_vjp(graph, {y, z}, {g, h}, {x});
  const auto values =
      reference::Interpreter(graph).run({{"x", {3, 5}}, {"g", {1, 10}}, {"h", {100, 1000}}});
  // g·2x + h·(2x + 1)
  expect_near(values[static_cast<std::size_t>(grads[0].id())], {6 + 700, 100 + 11000});
}

TEST(AppendVjp, GivesNothingForWhatNoOutputDependsOn) {
  Graph graph;
  Tensor x, y, z, g;
  trace_into(graph, [&] {
    x = tensor_input("x", {2});
    z = tensor_input("z", {2});
    y = x * stop_gradient(z) + cast(argmax(z), f32);
    g = ones({2});
  });
  const auto before = graph.nodes().size();
  const auto grads = append_vjp(graph, {y}, {g}, {z, x});
  EXPECT_FALSE(grads[0].valid());
  EXPECT_TRUE(grads[1].valid());
  EXPECT_EQ(graph.nodes().size(), before + 1);  // g·stop_gradient(z), nothing else
}

TEST(AppendVjp, OfATensorByItselfIsTheCotangent) {
  Graph graph;
  Tensor x, y, g;
  trace_into(graph, [&] {
    x = tensor_input("x", {2});
    y = exp(x);
    g = tensor_input("g", {2});
  });
  EXPECT_EQ(append_vjp(graph, {y}, {g}, {y})[0].id(), g.id());
}

TEST(AppendVjp, ByAnIntermediateTensorStopsThere) {
  Graph graph;
  Tensor x, y, z, g;
  trace_into(graph, [&] {
    x = tensor_input("x", {2});
    y = exp(x);
    z = y * y;
    g = ones({2});
  });
  const auto grads = append_vjp(graph, {z}, {g}, {y});
  const auto values = reference::Interpreter(graph).run({{"x", {0, 1}}});
  expect_near(values[static_cast<std::size_t>(grads[0].id())], {2, 2 * std::exp(1.0)});
}

TEST(AppendVjp, RefusesCotangentsThatDoNotFit) {
  Graph graph;
  Tensor x, y, g;
  trace_into(graph, [&] {
    x = tensor_input("x", {2});
    y = exp(x);
    g = ones({3});
  });
  try {
    append_vjp(graph, {y}, {g}, {x});
    FAIL();
  } catch (const ShapeError& error) {
    expect_contains(error.what(), {"append_vjp: ", "output 0", "f32[3]", "f32[2]"});
  }
  EXPECT_THROW(append_vjp(graph, {y}, {}, {x}), ShapeError);
}

TEST(AppendVjp, DifferentiatesItsOwnResult) {
  // d²/dx² of tanh(x)·x², by differences of the first derivative.
  const auto first = [](X x) -> Tensor {
    const Tensor y = tanh(x[0]) * square(x[0]);
    return append_vjp(*x[0].graph(), {y}, {ones(y.shape())}, {x[0]})[0];
  };
  const Values at{0.3, -1.2, 2};
  const Values second = derivative(at, first);
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double up = evaluate({vector({at[i] + kStep})}, first).values[0];
    const double down = evaluate({vector({at[i] - kStep})}, first).values[0];
    EXPECT_NEAR(second[i], (up - down) / (2 * kStep), 1e-8);
  }
}

TEST(AppendVjp, DifferentiatesTwiceThroughCustomGradients) {
  const auto first = [](X x) -> Tensor {
    const Tensor y = log_softmax(x[0]);
    const Tensor g = constant(std::vector<float>{1, 2, -1}, {3});
    return append_vjp(*x[0].graph(), {y}, {g}, {x[0]})[0];
  };
  const Values at{0.3, -1.2, 0.9}, cotangent{1, -0.5, 2};
  const Values second = gradients({vector(at)}, first, cotangent)[0];
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < at.size(); ++i) {
    double slope = 0;
    for (double sign : {1.0, -1.0}) {
      Values moved = at;
      moved[i] += sign * kStep;
      const Values values = evaluate({vector(moved)}, first).values;
      for (std::size_t k = 0; k < values.size(); ++k)
        slope += sign * cotangent[k] * values[k] / (2 * kStep);
    }
    EXPECT_NEAR(second[i], slope, 1e-8);
  }
}

TEST(WithGradient, ReplacesTheDerivative) {
  const auto f = [](X x) -> Tensor {
    return with_gradient(exp(x[0]), {x[0]},
                         [](const Tensor& g) -> std::vector<Tensor> { return {g * 7}; });
  };
  expect_near(evaluate({vector({0, 1})}, f).values, {1, std::exp(1.0)});
  expect_near(derivative({0, 1}, f), {7, 7});
}

TEST(WithGradient, DifferentiatesOnlyThroughItsInputs) {
  const auto f = [](X x) -> Tensor {
    return with_gradient(x[0] * x[1], {x[1]},
                         [](const Tensor& g) -> std::vector<Tensor> { return {g}; });
  };
  const auto g = gradients({vector({2}), vector({3})}, f);
  EXPECT_TRUE(g[0].empty());
  expect_near(g[1], {1});
}

TEST(WithGradient, PassesStraightThroughWhatHasNone) {
  const auto straight = [](const Tensor& value, const Tensor& x) {
    return with_gradient(value, {x}, [](const Tensor& g) -> std::vector<Tensor> { return {g}; });
  };
  expect_near(derivative({1.5, -2.5}, [&](X x) { return straight(floor(x[0]), x[0]) * 2; }),
              {2, 2});
  expect_near(derivative({1.5, -2.5}, [&](X x) { return straight(stop_gradient(x[0] * 5), x[0]); }),
              {1, 1});
  expect_near(
      derivative({1.5, -2.5}, [&](X x) { return straight(cast(cast(x[0], i32), f32), x[0]); }),
      {1, 1});
}

TEST(WithGradient, OfAnInputItselfLeavesItsOtherUsesAlone) {
  // Gradient reversal on one of two paths.
  const auto f = [](X x) -> Tensor {
    const Tensor reversed =
        with_gradient(x[0], {x[0]}, [](const Tensor& g) -> std::vector<Tensor> { return {-g}; });
    return reversed * 10 + x[0];
  };
  expect_near(derivative({1, 2}, f), {-9, -9});
}

TEST(WithGradient, ASecondRuleLeavesTheFirstAlone) {
  const auto f = [](X x) -> Tensor {
    const auto times = [&](const Tensor& value, double factor) {
      return with_gradient(value, {x[0]},
                           [=](const Tensor& g) -> std::vector<Tensor> { return {g * factor}; });
    };
    const Tensor once = times(exp(x[0]), 3), twice = times(once, 5);
    return once + twice;
  };
  expect_near(derivative({0}, f), {8});
}

TEST(WithGradient, RefusesARuleThatDoesNotFit) {
  const auto with_rule = [](const std::function<std::vector<Tensor>(const Tensor&)>& rule) {
    return [rule](X x) -> Tensor { return with_gradient(exp(x[0]), {x[0]}, rule); };
  };
  try {
    derivative({1, 2}, with_rule([](const Tensor& g) -> std::vector<Tensor> { return {g, g}; }));
    FAIL();
  } catch (const ShapeError& error) {
    expect_contains(error.what(),
                    {"with_gradient: ", "2 gradients for 1 inputs", "\n  at autograd_test.cpp:"});
  }
  try {
    derivative({1, 2}, with_rule([](const Tensor& g) -> std::vector<Tensor> { return {sum(g)}; }));
    FAIL();
  } catch (const ShapeError& error) {
    expect_contains(error.what(),
                    {"with_gradient: ", "f32[] as the gradient of input 0", "f32[2]"});
  }
}

TEST(StopGradient, CutsOnePathOnly) {
  expect_near(derivative({3}, [](X x) { return stop_gradient(x[0]) * x[0]; }), {3});
  expect_near(evaluate({vector({3})}, [](X x) { return stop_gradient(x[0]); }).values, {3});
}

TEST(Embedding, BackwardIsAScatterAddNotAMatMul) {
  const auto graph = trace([]() -> Outputs {
    return sum(embedding(param_input("table", {5, 3}), tensor_input("ids", {2, 2}, i32)));
  });
  append_grad(*graph);
  EXPECT_EQ(count(*graph, OpKind::ScatterAdd), 1);
  EXPECT_EQ(count(*graph, OpKind::MatMul), 0);
}

}  // namespace tensorgrad::test
