// Mistakes speak: every error names the op, the shapes, the line of the call and, where there is
// one, the remedy.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "support/evaluate.hpp"

namespace tensorgrad::test {

namespace {

Tensor f(Shape shape) {
  static thread_local int count = 0;
  return tensor_input("f" + std::to_string(count++), std::move(shape));
}
Tensor i(Shape shape) {
  static thread_local int count = 0;
  return tensor_input("i" + std::to_string(count++), std::move(shape), i32);
}
Tensor b(Shape shape) {
  static thread_local int count = 0;
  return tensor_input("b" + std::to_string(count++), std::move(shape), boolean);
}

/// An op's error has all of `parts` and points at the call, which stands on or near `line`.
void expect_op_error(const std::string& text, int line,
                     std::initializer_list<std::string_view> parts) {
  expect_contains(text, parts);
  const std::string before = "\n  at errors_test.cpp:";
  const auto at = text.find(before);
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_NEAR(std::stoi(text.substr(at + before.size())), line, 2) << text;
}

}  // namespace

#define EXPECT_OP_ERROR(call, ...) \
  expect_op_error(error_of([] { (void)(call); }), __LINE__, {__VA_ARGS__})

TEST(Errors, OfBroadcasting) {
  EXPECT_OP_ERROR(f({2, 3}) + f({4}), "add: ", "f32[2, 3]", "f32[4]", "axis -1 has 3 and 4",
                  "equal or 1");
  EXPECT_OP_ERROR(where(b({2}), f({3}), 0.0), "where: ", "bool[2]", "f32[3]");
  EXPECT_OP_ERROR(broadcast_to(f({2, 3}), {2, 4}), "broadcast_to: ", "f32[2, 3]", "[2, 4]");
  EXPECT_OP_ERROR(broadcast_to(zeros({2}), {3}), "broadcast_to: ", "f32[2]", "[3]");
  EXPECT_OP_ERROR(sum_to_shape(f({2, 3}), {4}), "sum_to_shape: ", "f32[2, 3]", "[4]");
}

TEST(Errors, OfDtypes) {
  EXPECT_OP_ERROR(f({2}) * i({2}), "mul: ", "different dtypes", "f32[2]", "i32[2]", "cast");
  EXPECT_OP_ERROR(b({2}) + b({2}), "add: ", "bool is no number", "cast(x, f32)");
  EXPECT_OP_ERROR(i({2}) * 0.5, "mul: ", "0.5", "no i32", "Cast the tensor to f32");
  EXPECT_OP_ERROR(i({2}) + 3e9, "add: ", "3e+09", "no i32");
  EXPECT_OP_ERROR(sqrt(i({2})), "sqrt: ", "i32[2]", "cast(x, f32)");
  EXPECT_OP_ERROR(pow(i({2}), 2), "pow: ", "i32[2]", "Cast first");
  EXPECT_OP_ERROR(logical_and(f({2}), f({2})), "logical_and: ", "f32[2]", "Compare first");
  EXPECT_OP_ERROR(where(f({2}), 1.0, 0.0), "where: ", "must be bool", "f32[2]", "greater");
  EXPECT_OP_ERROR(sum(b({2})), "sum: ", "bool[2]", "cast(x, f32)");
  EXPECT_OP_ERROR(argmax(b({2})), "argmax: ", "bool[2]");
  EXPECT_OP_ERROR(full({2}, 0.5, i32), "constant: ", "0.5", "no i32");
  EXPECT_OP_ERROR(full({2}, 2, boolean), "constant: ", "2", "no bool");
}

TEST(Errors, OfComposedOpsNameThemNotTheirParts) {
  EXPECT_OP_ERROR(mean(i({2})), "mean: ", "i32[2]", "cast(x, f32)");
  EXPECT_OP_ERROR(var(i({2})), "var: ", "i32[2]");
  EXPECT_OP_ERROR(logsumexp(i({2})), "logsumexp: ", "i32[2]");
  EXPECT_OP_ERROR(softmax(i({2})), "softmax: ", "i32[2]");
  EXPECT_OP_ERROR(log_softmax(i({2})), "log_softmax: ", "i32[2]");
  EXPECT_OP_ERROR(gelu(i({2})), "gelu: ", "i32[2]");
  EXPECT_OP_ERROR(layer_norm(i({2})), "layer_norm: ", "i32[2]");
  EXPECT_OP_ERROR(mse_loss(i({2}), i({2})), "mse_loss: ", "i32[2]");
}

TEST(Errors, OfAxes) {
  EXPECT_OP_ERROR(sum(f({2, 3}), {.axes = 2}), "sum: ", "axis 2", "f32[2, 3]", "between -2 and 1");
  EXPECT_OP_ERROR(max(f({2, 3}), {.axes = {0, -2}}), "max: ", "named twice", "[0, -2]");
  EXPECT_OP_ERROR(softmax(f({})), "softmax: ", "axis -1", "f32[]", "no axes");
  EXPECT_OP_ERROR(argmin(f({2}), 1), "argmin: ", "axis 1", "f32[2]");
  EXPECT_OP_ERROR(permute(f({2, 3}), {0, 0}), "permute: ", "[0, 0]", "f32[2, 3]", "once");
  EXPECT_OP_ERROR(swap_axes(f({2}), 0, 1), "swap_axes: ", "axis 1");
  EXPECT_OP_ERROR(expand_dims(f({2}), 3), "expand_dims: ", "axis 3");
  EXPECT_OP_ERROR(flip(f({2}), 1), "flip: ", "axis 1");
  EXPECT_OP_ERROR(concat({f({2})}, 1), "concat: ", "axis 1");
  EXPECT_OP_ERROR(iota({2}, 1), "iota: ", "axis 1");
}

TEST(Errors, OfShapes) {
  EXPECT_OP_ERROR(reshape(f({2, 3}), {4, 2}), "reshape: ", "[4, 2] (8 elements)",
                  "f32[2, 3] (6 elements)");
  EXPECT_OP_ERROR(reshape(f({2, 3}), {-1, -1}), "reshape: ", "only one", "[-1, -1]");
  EXPECT_OP_ERROR(reshape(f({2, 3}), {4, -1}), "reshape: ", "no multiple of 4");
  EXPECT_OP_ERROR(squeeze(f({2, 1}), 0), "squeeze: ", "axis 0 of f32[2, 1] is not 1");
  EXPECT_OP_ERROR(narrow(f({5}), 0, 3, 4), "narrow: ", "start 3", "length 4", "f32[5]");
  EXPECT_OP_ERROR(slice(f({5}), 0, 3, 3), "slice: ", "from 3 to 3", "f32[5]", "empty");
  EXPECT_OP_ERROR(slice(f({5}), 0, 0, 5, 0), "slice: ", "step must not be 0");
  EXPECT_OP_ERROR(split(f({5}), 2), "split: ", "f32[5]", "2 equal parts");
  EXPECT_OP_ERROR(split(f({5}), {2, 2}), "split: ", "[2, 2]", "f32[5]");
  EXPECT_OP_ERROR(pad(f({5, 2}), {{1, 1}}), "pad: ", "1 widths", "f32[5, 2]", "each axis");
  EXPECT_OP_ERROR(pad(f({5}), {{-1, 0}}), "pad: ", "not be negative", "narrow");
  EXPECT_OP_ERROR(tile(f({5}), {0}), "tile: ", "[0]");
  EXPECT_OP_ERROR(concat({f({2, 3}), f({2, 4})}), "concat: ", "part 1 is f32[2, 4]", "f32[2, 3]");
  EXPECT_OP_ERROR(concat({}), "concat: ", "nothing to join");
  EXPECT_OP_ERROR(stack({f({2}), f({3})}), "concat: ", "part 1 is f32[1, 3]");
  EXPECT_OP_ERROR(zeros({2, 0}), "constant: ", "[2, 0]", "dimension of 0");
  EXPECT_OP_ERROR(zeros({2, -1}), "constant: ", "[2, -1]", "negative");
  EXPECT_OP_ERROR(arange(0), "arange: ", "positive, not 0");
  EXPECT_OP_ERROR(constant(std::vector<float>{1, 2}, {3}), "literal: ", "[3] needs 3 values",
                  "2 are given");
}

TEST(Errors, OfMatMul) {
  EXPECT_OP_ERROR(matmul(f({4, 768}), f({512, 10})), "matmul: ", "inner dimensions differ",
                  "lhs f32[4, 768] has 768", "rhs f32[512, 10] has 512");
  EXPECT_OP_ERROR(matmul(f({2, 3, 4}), f({5, 6})), "lhs f32[2, 3, 4] has 4", "rhs f32[5, 6] has 5");
  EXPECT_OP_ERROR(matmul(f({4}), f({5})), "lhs f32[4] has 4", "rhs f32[5] has 5");
  EXPECT_OP_ERROR(matmul(f({2, 3, 4}), f({3, 4, 5})), "matmul: ", "batch axes do not broadcast",
                  "f32[2, 3, 4]", "f32[3, 4, 5]");
  EXPECT_OP_ERROR(matmul(f({}), f({2})), "matmul: ", "scalar is no matrix", "Use *");
  EXPECT_OP_ERROR(matmul(i({2, 2}), f({2, 2})), "matmul: ", "i32[2, 2]", "cast(x, f32)");
}

TEST(Errors, NameTheParameterPath) {
  const std::string text = error_of([] {
    const Tensor w = param_input("mlp.fc1.W", {512, 10});
    linear(f({4, 768}), w);
  });
  EXPECT_EQ(text,
            "matmul: inner dimensions differ: lhs f32[4, 768] has 768, rhs f32[512, 10] has 512.\n"
            "  in parameter path mlp.fc1" +
                site(__LINE__ - 5));
}

TEST(Errors, OfIndices) {
  EXPECT_OP_ERROR(embedding(f({5, 2}), f({3})), "embedding: ", "must be i32, not f32[3]",
                  "Declare the input as i32");
  EXPECT_OP_ERROR(one_hot(f({3}), 4), "one_hot: ", "must be i32, not f32[3]");
  EXPECT_OP_ERROR(index_select(f({5, 2}), i({2, 2}), 0), "index_select: ", "one axis", "i32[2, 2]");
  EXPECT_OP_ERROR(take_along_axis(f({5, 2}), i({3, 3}), 0), "take_along_axis: ", "i32[3, 3]",
                  "f32[5, 2]", "but axis 0");
  EXPECT_OP_ERROR(scatter_add(f({5, 2}), i({3}), f({4, 2})), "scatter_add: ", "f32[5, 2]", "i32[3]",
                  "f32[4, 2]");
}

TEST(Errors, OfLosses) {
  EXPECT_OP_ERROR(cross_entropy(f({6, 10}), i({5})), "cross_entropy: ", "i32[5]", "f32[6, 10]",
                  "must be i32[6]");
  EXPECT_OP_ERROR(cross_entropy(f({6, 10}), f({6})), "cross_entropy: ", "must be i32, not f32[6]");
  EXPECT_OP_ERROR(cross_entropy(f({6, 10}), i({6}), {.label_smoothing = 1}),
                  "cross_entropy: ", "[0, 1)");
  EXPECT_OP_ERROR(nll_loss(f({6, 10}), i({6}), {.label_smoothing = 0.1}),
                  "nll_loss: ", "cross_entropy does");
  EXPECT_OP_ERROR(huber_loss(f({2}), f({2}), 0), "huber_loss: ", "positive");
  EXPECT_OP_ERROR(layer_norm(f({2, 3}), f({2})), "layer_norm: ", "gain f32[2]", "f32[2, 3]");
  EXPECT_OP_ERROR(layer_norm(f({2, 3}), {}, f({3, 1})), "layer_norm: ", "bias f32[3, 1]");
  EXPECT_OP_ERROR(rms_norm(f({})), "rms_norm: ", "scalar");
  EXPECT_OP_ERROR(where_causal(f({3}), 0), "where_causal: ", "rows and columns", "f32[3]");
  EXPECT_OP_ERROR(softmax_causal(f({3})), "softmax_causal: ", "rows and columns", "f32[3]");
  EXPECT_OP_ERROR(clamp(f({3}), 2, 1), "clamp: ", "lower bound 2", "upper bound 1");
}

TEST(Errors, OfAttentionAndConvolution) {
  EXPECT_OP_ERROR(attention(f({2, 3, 5, 4}), f({2, 2, 5, 4}), f({2, 2, 5, 4})),
                  "attention: ", "f32[2, 3, 5, 4]", "f32[2, 2, 5, 4]", "multiple of the key heads");
  EXPECT_OP_ERROR(attention(f({5, 4}), f({5, 4}), f({5, 4})), "attention: ", "f32[5, 4]",
                  "[batch, heads, time, dim]");
  EXPECT_OP_ERROR(rope(f({3, 5})), "rope: ", "f32[3, 5]", "even dim");
  EXPECT_OP_ERROR(cumsum(f({3}), 1), "cumsum: ", "axis 1", "f32[3]");
  EXPECT_OP_ERROR(conv2d(f({1, 3, 5, 5}), f({4, 2, 3, 3})), "conv2d: ", "f32[1, 3, 5, 5]",
                  "f32[4, 2, 3, 3]", "groups 1");
  EXPECT_OP_ERROR(conv1d(f({1, 3, 5}), f({4, 3, 3}), f({3})), "conv1d: ", "bias f32[3]");
  EXPECT_OP_ERROR(conv1d(f({1, 3, 5}), f({4, 3, 7})), "conv1d: ", "window of 7", "f32[1, 3, 5]");
  EXPECT_OP_ERROR(conv1d_causal(f({1, 5, 3}), f({2, 4})), "conv1d_causal: ", "f32[1, 5, 3]",
                  "f32[2, 4]");
  EXPECT_OP_ERROR(max_pool2d(f({1, 1, 3, 3}), {.size = 4}), "max_pool2d: ", "window of 4");
  EXPECT_OP_ERROR(avg_pool2d(f({3, 3})), "avg_pool2d: ", "f32[3, 3]");
  EXPECT_OP_ERROR(conv2d(i({1, 3, 5, 5}), f({4, 3, 3, 3})), "conv2d: ", "i32[1, 3, 5, 5]");
  EXPECT_OP_ERROR(conv1d(f({1, 3, 5}), Tensor{}), "conv1d: ", "empty tensor");
  EXPECT_OP_ERROR(attention(f({1, 1, 2, 2}), Tensor{}, Tensor{}), "attention: ", "empty tensor");
  EXPECT_OP_ERROR(nearest_upsample2d(f({3, 3}), 2), "nearest_upsample2d: ", "f32[3, 3]");
}

TEST(Errors, OfOperandsThatAreNoTensors) {
  EXPECT_OP_ERROR(Tensor{} + 1.0, "add: ", "empty tensor");
  EXPECT_OP_ERROR(exp(Tensor{}), "exp: ", "empty tensor");
  EXPECT_OP_ERROR(concat({f({2}), Tensor{}}), "concat: ", "empty tensor");
  EXPECT_OP_ERROR(embedding(f({5, 2}), Tensor{}), "embedding: ", "empty tensor");
  EXPECT_OP_ERROR(layer_norm(f({5, 2}), Tensor{}), "layer_norm: ", "empty tensor");
}

TEST(Errors, AParameterOfTheModelOutsideSaysWhichModelToUse) {
  const Tensor outside(std::make_shared<const ParamSpec>(ParamSpec{{2}, {}, true, true}));
  const std::string text = error_of([&] { f({2}) * outside; });
  expect_contains(text, {"mul: ", "a parameter that is not part of this graph",
                         "passed to the forward function", site(__LINE__ - 2)});
  try {
    outside.shape();
    FAIL();
  } catch (const Error& error) {
    expect_contains(error.what(), {"not part of a graph yet"});
  }
}

TEST(Errors, ATensorOfAnotherGraphIsRefused) {
  Graph other;
  Tensor stranger;
  trace_into(other, [&] {
    for (int k = 0; k < 50; ++k) stranger = f({3});  // ids that the other graph does not have
  });
  const std::string left = error_of([&] { stranger + 1.0; });
  expect_contains(left, {"add: ", "another graph", site(__LINE__ - 1)});
  const std::string right = error_of([&] { f({2, 3}) + stranger; });
  expect_contains(right, {"add: ", "another graph", site(__LINE__ - 1)});
  const std::string part = error_of([&] { concat({f({3}), stranger}); });
  expect_contains(part, {"concat: ", "another graph", site(__LINE__ - 1)});
}

TEST(Errors, AnOpOutsideOfATraceIsRefused) {
  Graph graph;
  Tensor x;
  trace_into(graph, [&] { x = f({3}); });
  try {
    x + 1.0;
    FAIL();
  } catch (const Error& error) {
    expect_contains(error.what(), {"add: ", "outside of a trace", "compile", site(__LINE__ - 3)});
  }
  EXPECT_THROW(zeros({2}), Error);
}

// ---- call sites

namespace {

Tensor helper(const Tensor& x) { return x + f({4}); }
constexpr int kHelperLine = __LINE__ - 1;

/// A layer as nn writes them: errors inside it point at the line that called it.
struct Layer {
  Tensor w;
  Tensor operator()(Operand x) const {
    SiteScope scope(x.site());
    return helper(matmul(x, w));
  }
};

}  // namespace

TEST(CallSites, OfAPlainFunctionIsTheLineInIt) {
  expect_contains(error_of([] { helper(f({3})); }), {site(kHelperLine)});
}

TEST(CallSites, OfALayerIsTheLineThatCallsIt) {
  const std::string text = error_of([] {
    const Layer layer{f({2, 3})};
    layer(f({5, 2}));
  });
  expect_contains(text, {"add: ", site(__LINE__ - 2)});
}

TEST(CallSites, OfNestedLayersIsTheOutermost) {
  const std::string text = error_of([] {
    const Layer layer{f({2, 3})};
    const auto block = [&](Operand x) {
      SiteScope scope(x.site());
      return layer(x);
    };
    block(f({5, 2}));
  });
  expect_contains(text, {site(__LINE__ - 2)});
}

TEST(CallSites, SurviveOperatorsAndCompositions) {
  Graph graph;
  int lines[3] = {};
  trace_into(graph, [&] {
    const Tensor x = f({3});
    lines[0] = __LINE__ + 1;
    const Tensor y = 2 * x;
    lines[1] = __LINE__ + 1;
    const Tensor z = -y / 3.0;
    lines[2] = __LINE__ + 1;
    gelu(z);
  });
  for (const Node& node : graph.nodes()) {
    if (node.op == OpKind::TensorInput) continue;
    const std::string place = node.site.to_string();
    EXPECT_EQ(place.rfind("errors_test.cpp:", 0), 0u) << place;
  }
  EXPECT_EQ(graph.nodes().back().site.line, lines[2]);
  const auto line_of = [&](OpKind op) {
    const auto node = std::find_if(graph.nodes().begin(), graph.nodes().end(),
                                   [&](const Node& n) { return n.op == op; });
    return node == graph.nodes().end() ? -1 : node->site.line;
  };
  EXPECT_EQ(line_of(OpKind::Mul), lines[0]);  // the first product
  EXPECT_EQ(line_of(OpKind::Neg), lines[1]);
  EXPECT_EQ(line_of(OpKind::Div), lines[1]);
}

TEST(CallSites, AScopeEndsWithItsBlock) {
  const std::string text = error_of([] {
    {
      SiteScope scope(Site{"elsewhere.cpp", 1});
      exp(f({2}));
    }
    f({2}) + f({3});
  });
  expect_contains(text, {site(__LINE__ - 2)});
}

TEST(CallSites, ATraceInsideATraceStartsAfresh) {
  Graph inner;
  const std::string text = error_of([&] {
    SiteScope scope(Site{"outer.cpp", 1});
    trace_into(inner, [] { f({2}) + f({3}); });
  });
  expect_contains(text, {site(__LINE__ - 2)});
}

TEST(CallSites, EachThreadHasItsOwnTrace) {
  Graph graph;
  trace_into(graph, [&] {
    std::thread([] { EXPECT_FALSE(is_tracing()); }).join();
    EXPECT_TRUE(is_tracing());
  });
  EXPECT_FALSE(is_tracing());
}

}  // namespace tensorgrad::test
