// The reference interpreter itself: feeds, errors, node by node.
#include "runtime/reference/interpreter.hpp"

#include <gtest/gtest.h>

#include "support/evaluate.hpp"
#include "support/op_cases.hpp"

namespace tensorgrad::test {

using X = const std::vector<Tensor>&;

namespace {

/// The error of running a graph.
std::string run_error(const Graph& graph, const std::map<std::string, Values>& feeds) {
  try {
    reference::Interpreter(graph).run(feeds);
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace

TEST(Interpreter, GivesAllTensorsById) {
  Graph graph;
  Tensor x, y;
  trace_into(graph, [&] {
    x = tensor_input("x", {2});
    y = x * 3 + 1;
  });
  const auto values = reference::Interpreter(graph).run({{"x", {1, 2}}});
  ASSERT_EQ(static_cast<int>(values.size()), graph.tensor_count());
  expect_near(values[static_cast<std::size_t>(x.id())], {1, 2});
  expect_near(values[static_cast<std::size_t>(y.id())], {4, 7});
}

TEST(Interpreter, NamesAMissingLeaf) {
  Graph graph;
  trace_into(graph, [] { tensor_input("tokens", {2, 3}, i32); });
  expect_contains(run_error(graph, {}), {"tensor_input", "\"tokens\"", "i32[2, 3]", "not given"});
}

TEST(Interpreter, NamesALeafWithTheWrongNumberOfValues) {
  Graph graph;
  trace_into(graph, [] { param_input("w", {2, 3}); });
  expect_contains(run_error(graph, {{"w", {1, 2}}}),
                  {"\"w\"", "f32[2, 3]", "takes 6", "2 are given"});
}

TEST(Interpreter, ComputesNodeByNodeWhatItRunsAsAWhole) {
  for (const OpCase& op_case : op_cases()) {
    const CaseGraph made = build_case(op_case);
    const Graph& graph = *made.graph;
    std::vector<Values> tensors(static_cast<std::size_t>(graph.tensor_count()));
    for (const auto& [name, values] : made.feeds) {
      tensors[static_cast<std::size_t>(graph.find_leaf(name))] = values;
    }
    for (const Node& node : graph.nodes()) {
      if (tensors[static_cast<std::size_t>(node.output())].empty()) {
        reference::compute(graph, node, tensors);
      }
    }
    const std::vector<Values> whole = reference::Interpreter(graph).run(made.feeds);
    for (std::size_t i = 0; i < whole.size(); ++i) expect_near(tensors[i], whole[i], 0);
  }
}

TEST(Interpreter, IndexOutOfRangeNamesOpIndexRangeAndPlace) {
  Graph graph;
  trace_into(graph, [] {
    embedding(tensor_input("table", {5, 3}), tensor_input("ids", {2}, i32));
  });
  const std::string place = site(__LINE__ - 2);
  const Values table(15, 0.0);
  expect_contains(run_error(graph, {{"table", table}, {"ids", {4, 5}}}),
                  {"index_select: ", "the index 5", "axis 0 of f32[5, 3]", "0 to 4", place});
  expect_contains(run_error(graph, {{"table", table}, {"ids", {-1, 0}}}), {"the index -1"});
}

TEST(Interpreter, TakeAlongAxisAndScatterAddCheckTheirIndices) {
  Graph take, scatter;
  trace_into(take, [] {
    take_along_axis(tensor_input("x", {2, 3}), tensor_input("i", {2, 1}, i32), 1);
  });
  const std::string take_place = site(__LINE__ - 2);
  expect_contains(
      run_error(take, {{"x", Values(6, 0.0)}, {"i", {0, 3}}}),
      {"take_along_axis: ", "the index 3", "axis 1 of f32[2, 3]", "0 to 2", take_place});
  trace_into(scatter, [] {
    scatter_add(tensor_input("x", {2}), tensor_input("i", {1}, i32), tensor_input("s", {1}));
  });
  const std::string scatter_place = site(__LINE__ - 2);
  expect_contains(run_error(scatter, {{"x", {0, 0}}, {"i", {2}}, {"s", {1}}}),
                  {"scatter_add: ", "the index 2", "0 to 1", scatter_place});
}

TEST(Interpreter, ATargetThatIsNoClassIsAnError) {
  const std::vector<Array> args{{{1, 3}, {0, 0, 0}}, indices({3})};
  EXPECT_THROW(evaluate(args, [](X x) { return cross_entropy(x[0], x[1]); }), Error);
}

}  // namespace tensorgrad::test
