// The graph: printing, finding, verifying.
#include "tensorgrad/graph.hpp"

#include <gtest/gtest.h>

#include "support/evaluate.hpp"
#include "tensorgrad/autograd.hpp"
#include "tensorgrad/optim.hpp"

namespace tensorgrad::test {

namespace {

/// A training graph whose nodes have sites that do not depend on this file's lines.
std::shared_ptr<Graph> small_training_graph() {
  const Site place{"models/mlp.cpp", 12};
  auto graph = trace([&]() -> Outputs {
    SiteScope scope(place);
    const Tensor x = tensor_input("x", {4, 2});
    const Tensor w = param_input("l1.W", {2, 3});
    const Tensor state = state_input("count", {}, f32, 1.5);
    write_back(state, state + 1.0);
    return mean(capture("hidden", relu(matmul(x, w))));
  });
  append_grad(*graph);
  append_optimizer(*graph, SGD{.lr = 0.1, .momentum = 0.9});
  return graph;
}

/// A node to be broken: the graph lets only its own methods write.
Node& node_to_break(const Graph& graph, NodeId id) { return const_cast<Node&>(graph.node(id)); }

std::string verify_error(const Graph& graph) {
  try {
    verify(graph);
  } catch (const InternalError& error) {
    return error.what();
  } catch (const std::exception& other) {
    ADD_FAILURE() << "an error of another kind: " << other.what();
    return "";
  }
  ADD_FAILURE() << "no error";
  return "";
}

/// x, w, their product and its relu: nodes 0 to 3.
std::shared_ptr<Graph> four_nodes() {
  return trace([]() -> Outputs {
    const Tensor x = tensor_input("x", {4, 2}), w = tensor_input("w", {2, 3});
    return relu(matmul(x, w));
  });
}

}  // namespace

TEST(Printer, ShowsATrainingGraph) {
  // clang-format off
  const char* expected =
R"(%0: f32[4, 2] = tensor_input("x")                                  # mlp.cpp:12
%1: f32[2, 3] = param_input("l1.W")                                # mlp.cpp:12
%2: f32[] = state_input("count", init=1.5)                         # mlp.cpp:12
%3: f32[] = constant(1)                                            # mlp.cpp:12
%4: f32[] = add(%2, %3)                                            # mlp.cpp:12
%5: f32[4, 3] = matmul(%0, %1)                                     # mlp.cpp:12
%6: f32[4, 3] = relu(%5)                                           # mlp.cpp:12
%7: f32[] = reduce_sum(%6, axes=[0, 1])                            # mlp.cpp:12
%8: f32[] = constant(0.08333333333333333)                          # mlp.cpp:12
%9: f32[] = mul(%7, %8)                                            # mlp.cpp:12
%10: f32[] = constant(1)                                           # mlp.cpp:12
%11: f32[] = mul(%10, %8)                                          # mlp.cpp:12
%12: f32[1, 1] = reshape(%11)                                      # mlp.cpp:12
%13: f32[4, 3] = broadcast_to(%12)                                 # mlp.cpp:12
%14: f32[4, 3] = constant(0)                                       # mlp.cpp:12
%15: bool[4, 3] = less(%14, %6)                                    # mlp.cpp:12
%16: f32[4, 3] = constant(0)                                       # mlp.cpp:12
%17: f32[4, 3] = where(%15, %13, %16)                              # mlp.cpp:12
%18: f32[2, 4] = permute(%0, perm=[1, 0])                          # mlp.cpp:12
%19: f32[2, 3] = matmul(%18, %17)                                  # mlp.cpp:12
update:
%20: f32[4] = tensor_input("optimizer.scalars")
%21: f32[2, 3] = state_input("optimizer.momentum.l1.W")
%22: f32[2, 3], %23: f32[2, 3] = sgd_update(%1, %19, %21, %20, momentum=0.9, l2=0)
output output = %9
capture hidden = %6
gradient l1.W = %19
write_back %2 = %4
write_back %1 = %22
write_back %21 = %23
)";
  // clang-format on
  EXPECT_EQ(small_training_graph()->to_string(), expected);
}

TEST(Printer, ShowsEveryKindOfAttribute) {
  Graph graph;
  trace_into(graph, [] {
    SiteScope scope(Site{"a.cpp", 1});
    const Tensor x = tensor_input("x", {2, 6});
    sum(x, {.axes = {0, 1}});
    permute(x, {1, 0});
    slice(x, 1, 4, 0, -2);
    pad(x, {{0, 1}, {2, 0}}, 0.1);
    concat({x, x}, 1);
    argmax(x, 1);
    constant(std::vector<float>{1, 2.5f, 3, 4, 5}, {5});
    constant(7, i32);
    iota({2, 3}, 1);
    cast(x, i32);
    full({2}, 1.0 / 3.0);
  });
  // clang-format off
  const char* expected =
R"(%0: f32[2, 6] = tensor_input("x")                                  # a.cpp:1
%1: f32[] = reduce_sum(%0, axes=[0, 1])                            # a.cpp:1
%2: f32[6, 2] = permute(%0, perm=[1, 0])                           # a.cpp:1
%3: f32[2, 2] = slice(%0, start=[0, 4], step=[1, -2])              # a.cpp:1
%4: f32[3, 8] = pad(%0, low=[0, 2], high=[1, 0], interior=[0, 0], value=0.1)   # a.cpp:1
%5: f32[2, 12] = concat(%0, %0, axis=1)                            # a.cpp:1
%6: i32[2] = argmax(%0, axis=1)                                    # a.cpp:1
%7: f32[5] = literal({1, 2.5, 3, 4, ...})                          # a.cpp:1
%8: i32[] = constant(7)                                            # a.cpp:1
%9: i32[2, 3] = iota(axis=1)                                       # a.cpp:1
%10: i32[2, 6] = cast(%0)                                          # a.cpp:1
%11: f32[2] = constant(0.3333333333333333)                         # a.cpp:1
)";
  // clang-format on
  EXPECT_EQ(graph.to_string(), expected);
}

TEST(Printer, LeavesOutUnknownSites) {
  Graph graph;
  graph.add(OpKind::TensorInput, {}, InputAttr{"x", {f32, {2}}}, {});
  EXPECT_EQ(graph.to_string(), "%0: f32[2] = tensor_input(\"x\")\n");
}

TEST(Dot, DrawsNodesEdgesAndResults) {
  const std::string dot = four_nodes()->to_dot();
  expect_contains(dot,
                  {"digraph tensorgrad {", "n0 [label=\"x\\n%0 f32[4, 2]\"", "lightblue",
                   "n2 [label=\"matmul\\n%2 f32[4, 3]\"]", "n0 -> n2;", "n1 -> n2;", "n2 -> n3;",
                   "n3 [label=\"relu\\n%3 f32[4, 3]\", style=filled, fillcolor=lightgreen]"});
  EXPECT_EQ(dot.substr(dot.size() - 2), "}\n");
  expect_contains(small_training_graph()->to_dot(), {"lightyellow"});
}

TEST(Graph, FindsLeavesByName) {
  const auto graph = small_training_graph();
  EXPECT_EQ(graph->find_leaf("x"), 0);
  EXPECT_EQ(graph->producer(graph->find_leaf("l1.W")).op, OpKind::ParamInput);
  EXPECT_EQ(graph->producer(graph->find_leaf("count")).op, OpKind::StateInput);
  EXPECT_EQ(graph->producer(graph->find_leaf("optimizer.momentum.l1.W")).op, OpKind::StateInput);
  EXPECT_EQ(graph->find_leaf("hidden"), -1);
}

TEST(Graph, NamesItsOpsAsTheListDoes) {
  EXPECT_STREQ(to_string(OpKind::TakeAlongAxis), "take_along_axis");
  EXPECT_EQ(op_arity(OpKind::Where), 3);
  EXPECT_EQ(op_arity(OpKind::Concat), -1);
  EXPECT_EQ(op_class(OpKind::MatMul), OpClass::Contract);
}

TEST(Graph, ARefusedNodeLeavesItUnchanged) {
  Graph graph;
  trace_into(graph, [&] {
    const Tensor x = tensor_input("x", {2, 3});
    EXPECT_THROW(graph.add(OpKind::MatMul, {x.id(), x.id()}, NoAttrs{}, {}), ShapeError);
  });
  EXPECT_EQ(graph.nodes().size(), 1u);
  EXPECT_EQ(graph.tensor_count(), 1);
}

TEST(Verifier, AcceptsSoundGraphs) {
  EXPECT_NO_THROW(verify(*small_training_graph()));
  EXPECT_NO_THROW(verify(Graph()));
}

TEST(Verifier, FindsAWrongArity) {
  const auto graph = four_nodes();
  node_to_break(*graph, 3).inputs.push_back(0);
  expect_contains(verify_error(*graph), {"node 3 (relu)", "wrong arity"});
}

TEST(Verifier, FindsAnInputThatDoesNotExist) {
  const auto graph = four_nodes();
  node_to_break(*graph, 2).inputs[1] = 17;
  expect_contains(verify_error(*graph), {"node 2 (matmul)", "input that does not exist", "%17"});
  node_to_break(*graph, 2).inputs[1] = -1;
  expect_contains(verify_error(*graph), {"node 2 (matmul)", "input that does not exist"});
}

TEST(Verifier, FindsAUseBeforeTheDefinition) {
  const auto graph = four_nodes();
  node_to_break(*graph, 3).inputs[0] = 3;
  expect_contains(verify_error(*graph), {"node 3 (relu)", "uses a later tensor"});
}

TEST(Verifier, FindsAnOutputThatDoesNotExistOrBelongsToAnother) {
  const auto graph = four_nodes();
  node_to_break(*graph, 3).outputs[0] = 40;
  expect_contains(verify_error(*graph), {"node 3 (relu)", "output that does not exist"});
  node_to_break(*graph, 3).outputs[0] = 2;
  expect_contains(verify_error(*graph), {"node 3 (relu)", "does not own its output"});
}

TEST(Verifier, FindsInputsThatBreakTheShapeRule) {
  const auto graph = four_nodes();
  node_to_break(*graph, 2).inputs[1] = 0;  // [4, 2]·[4, 2]
  expect_contains(verify_error(*graph),
                  {"node 2 (matmul)", "breaks its shape rule", "inner dimensions differ"});
}

TEST(Verifier, FindsATypeThatItsRuleWouldNotGive) {
  const auto graph = four_nodes();
  node_to_break(*graph, 3).inputs[0] = 0;  // relu of [4, 2], but the output says [4, 3]
  expect_contains(verify_error(*graph), {"node 3 (relu)", "output of the wrong type"});
}

TEST(Verifier, FindsAttributesOfAnotherKindOfNode) {
  const auto graph = trace([]() -> Outputs { return sum(tensor_input("x", {3})); });
  node_to_break(*graph, 1).attrs = NoAttrs{};
  expect_contains(verify_error(*graph), {"node 1 (reduce_sum)", "breaks its shape rule"});
}

TEST(Verifier, FindsAWrongNumberOfOutputs) {
  const auto graph = four_nodes();
  node_to_break(*graph, 3).outputs.push_back(2);
  expect_contains(verify_error(*graph), {"node 3 (relu)", "wrong number of outputs"});
}

TEST(Verifier, FindsResultsAndWriteBacksThatAreNone) {
  const auto broken = [](const std::function<void(Graph&)>& breaking) {
    const auto graph = small_training_graph();
    breaking(*graph);
    return verify_error(*graph);
  };
  expect_contains(broken([](Graph& g) { g.outputs[0].tensor = 999; }),
                  {"an output does not exist"});
  expect_contains(broken([](Graph& g) { g.captures[0].tensor = -1; }),
                  {"a capture does not exist"});
  expect_contains(broken([](Graph& g) { g.gradients[0].tensor = 999; }),
                  {"a gradient does not exist"});
  expect_contains(broken([](Graph& g) { g.params[0].tensor = 999; }),
                  {"a parameter does not exist"});
  expect_contains(broken([](Graph& g) { g.write_backs[0].destination = g.outputs[0].tensor; }),
                  {"is no leaf"});
  expect_contains(broken([](Graph& g) { g.write_backs[0].value = 0; }), {"changes the type"});
  expect_contains(broken([](Graph& g) { g.write_backs[0].value = -7; }), {"value does not exist"});
}

}  // namespace tensorgrad::test
