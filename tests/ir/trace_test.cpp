// Tracing: leaves, outputs, captures, write-backs and their mistakes.
#include "tensorgrad/trace.hpp"

#include <gtest/gtest.h>

#include "support/evaluate.hpp"

namespace tensorgrad::test {

namespace {

std::string trace_error(const std::function<Outputs()>& fn) {
  try {
    trace(fn);
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace

TEST(Trace, KeepsWhatTheFunctionReturns) {
  const auto one = trace([]() -> Outputs { return exp(tensor_input("x", {2})); });
  ASSERT_EQ(one->outputs.size(), 1u);
  EXPECT_EQ(one->outputs[0].name, "output");
  const auto two = trace([]() -> Outputs {
    const Tensor x = tensor_input("x", {2});
    return {{"double", x * 2}, {"ids", argmax(x)}};
  });
  ASSERT_EQ(two->outputs.size(), 2u);
  EXPECT_EQ(two->outputs[1].name, "ids");
  EXPECT_EQ(two->type(two->outputs[1].tensor).to_string(), "i32[]");
}

TEST(Trace, RecordsParametersInOrderWithTheirFlags) {
  const auto graph = trace([]() -> Outputs {
    const Tensor a = param_input("a", {2}), b = param_input("b", {2}, false, false);
    return a + b;
  });
  ASSERT_EQ(graph->params.size(), 2u);
  EXPECT_EQ(graph->params[0].name, "a");
  EXPECT_TRUE(graph->params[0].trainable && graph->params[0].decay);
  EXPECT_FALSE(graph->params[1].trainable || graph->params[1].decay);
}

TEST(Trace, RefusesANameUsedTwice) {
  const std::string text = error_of<Error>([] {
    tensor_input("x", {2});
    param_input("x", {3});
  });
  const std::string place = site(__LINE__ - 2);
  expect_contains(text, {"param_input: ", "\"x\" is used twice", "different names", place});
  expect_contains(error_of<Error>([] {
                    state_input("s", {2});
                    state_input("s", {2});
                  }),
                  {"state_input: ", "used twice"});
  expect_contains(error_of<Error>([] { tensor_input("", {2}); }),
                  {"tensor_input: the name is empty"});
}

TEST(Trace, RefusesEmptyDimensions) {
  const std::string text = error_of([] { tensor_input("x", {2, 0}); });
  expect_contains(text, {"tensor_input: ", "[2, 0]", "dimension of 0", site(__LINE__ - 1)});
}

TEST(Trace, RefusesWrongOutputs) {
  expect_contains(trace_error([] { return Outputs(); }), {"returned no tensor"});
  expect_contains(trace_error([] { return Outputs(Tensor()); }),
                  {"\"output\" is no tensor of this trace"});
  Graph other;
  Tensor stranger;
  trace_into(other, [&] { stranger = zeros({2}); });
  expect_contains(trace_error([&] { return Outputs(stranger); }), {"is no tensor of this trace"});
  expect_contains(trace_error([]() -> Outputs {
                    const Tensor x = zeros({2});
                    return {{"y", x}, {"y", x}};
                  }),
                  {"two outputs are named \"y\""});
}

TEST(Trace, EndsWhenTheFunctionThrows) {
  Graph graph;
  EXPECT_THROW(trace_into(graph, [] { throw std::runtime_error("user"); }), std::runtime_error);
  EXPECT_FALSE(is_tracing());
  EXPECT_THROW(current_graph(), Error);
}

TEST(Trace, GoesBackToTheOuterGraph) {
  Graph outer, inner;
  trace_into(outer, [&] {
    trace_into(inner, [&] { EXPECT_EQ(&current_graph(), &inner); });
    EXPECT_EQ(&current_graph(), &outer);
  });
}

TEST(Capture, GivesTheTensorItself) {
  Graph graph;
  trace_into(graph, [&] {
    const Tensor x = tensor_input("x", {2});
    EXPECT_EQ(capture("here", x).id(), x.id());
  });
  ASSERT_EQ(graph.captures.size(), 1u);
  EXPECT_EQ(graph.captures[0].name, "here");
}

TEST(Capture, RefusesANameUsedTwiceAndStrangers) {
  expect_contains(error_of<Error>([] {
                    const Tensor x = tensor_input("x", {2});
                    capture("here", x);
                    capture("here", x);
                  }),
                  {"capture: ", "\"here\" is used twice", "\n  at trace_test.cpp:"});
  expect_contains(error_of<Error>([] { capture("here", Tensor()); }),
                  {"capture: ", "not of this trace"});
}

TEST(WriteBack, IsKeptInTheGraph) {
  Graph graph;
  trace_into(graph, [] {
    const Tensor s = state_input("s", {2});
    write_back(s, s + 1.0);
  });
  ASSERT_EQ(graph.write_backs.size(), 1u);
  EXPECT_EQ(graph.write_backs[0].destination, graph.find_leaf("s"));
}

TEST(WriteBack, RefusesWhatIsNoState) {
  const std::string text = error_of([] {
    const Tensor x = tensor_input("x", {2});
    write_back(x, x + 1.0);
  });
  const std::string place = site(__LINE__ - 2);
  expect_contains(text, {"write_back: ", "neither a state_input nor a parameter", place});
}

TEST(WriteBack, RefusesAnotherType) {
  expect_contains(
      error_of([] { write_back(state_input("s", {2}), zeros({3})); }),
      {"write_back: ", "the state is f32[2]", "the value is f32[3]", "\n  at trace_test.cpp:"});
  expect_contains(error_of([] { write_back(state_input("s", {2}), zeros({2}, i32)); }), {"i32[2]"});
}

TEST(WriteBack, RefusesTwoWritesAndStrangers) {
  expect_contains(error_of([] {
                    const Tensor s = state_input("s", {2});
                    write_back(s, s + 1.0);
                    write_back(s, s + 2.0);
                  }),
                  {"write_back: ", "written twice"});
  expect_contains(error_of([] { write_back(Tensor(), zeros({2})); }),
                  {"write_back: ", "not of this trace"});
}

}  // namespace tensorgrad::test
