// The table of op cases, one function a family, in the order of ops.hpp.
#include <cmath>
#include <limits>

#include "support/op_cases.hpp"
#include "tensorgrad/mamba.hpp"

namespace tensorgrad::test {

namespace {

/// The table as it grows.
struct Cases {
  std::vector<OpCase> all;

  OpCase& add(std::string op, std::string variant, std::vector<InputSpec> inputs,
              std::function<Outputs(const Tensors&)> build) {
    all.push_back({std::move(op), std::move(variant), std::move(inputs), std::move(build)});
    return all.back();
  }

  /// At a kink or an extreme.
  OpCase& add_special(std::string op, std::string variant, std::vector<InputSpec> inputs,
                      std::function<Outputs(const Tensors&)> build) {
    OpCase& added = add(std::move(op), std::move(variant), std::move(inputs), std::move(build));
    added.smooth = false;
    return added;
  }

  /// With infinities or NaN.
  OpCase& add_non_finite(std::string op, std::string variant, std::vector<InputSpec> inputs,
                         std::function<Outputs(const Tensors&)> build) {
    OpCase& added =
        add_special(std::move(op), std::move(variant), std::move(inputs), std::move(build));
    added.non_finite = true;
    return added;
  }
};

using X = const Tensors&;
constexpr double kInf = std::numeric_limits<double>::infinity();

InputSpec ints(Shape shape, double low, double high) { return {std::move(shape), low, high, i32}; }
InputSpec bools(Shape shape) { return {std::move(shape), 0, 1, boolean}; }
InputSpec values(Values numbers, DType dtype = f32) {
  const auto size = static_cast<std::int64_t>(numbers.size());
  return {{size}, 0, 0, dtype, std::move(numbers)};
}
InputSpec values(Shape shape, Values numbers) {
  return {std::move(shape), 0, 0, f32, std::move(numbers)};
}

/// Several results of one op.
Outputs several(const Tensors& tensors) {
  Outputs outputs;
  for (const Tensor& tensor : tensors) outputs.items.emplace_back("", tensor);
  return outputs;
}

void leaf_cases(Cases& cases) {
  cases.add("constant", "scalar", {{{3}}}, [](X x) { return x[0] * constant(1.5); });
  cases.add("constant", "literal", {{{2, 3}}}, [](X x) {
    const std::vector<float> numbers{1, -2, 0.5f, 4, 0, -0.25f};
    return x[0] * constant(numbers, {2, 3});
  });
  cases.add("constant", "i32_literal", {ints({3}, -5, 5)}, [](X x) {
    return x[0] + constant(std::vector<std::int32_t>{7, -1, 2000000000}, {3});
  });
  cases.add("full", "added", {{{2, 3}}}, [](X x) { return x[0] + full({2, 3}, -0.75); });
  cases.add("zeros", "joined", {{{2, 3}}}, [](X x) { return concat({x[0], zeros({1, 3})}); });
  cases.add("ones", "alone", {}, [](X) { return several({ones({3}), ones({2, 1}, i32)}); });
  cases.add("arange", "i32_and_f32", {{{5}}}, [](X x) {
    return several({x[0] * arange(5, f32), arange(7)});
  });
  cases.add("iota", "each_axis", {{{2, 3, 4}}}, [](X x) {
    return several({iota({2, 3, 4}, 0), iota({2, 3, 4}, 1), x[0] * iota({2, 3, 4}, -1, f32)});
  });
}

void arithmetic_cases(Cases& cases) {
  using Binary = Tensor (*)(Operand, Operand);
  struct Op {
    const char* name;
    Binary fn;
    double low_b = -2, high_b = 2;
  };
  const Op ops[] = {{"add", add},         {"sub", sub},         {"mul", mul},
                    {"div", div, 0.5, 2}, {"minimum", minimum}, {"maximum", maximum}};
  for (const Op& op : ops) {
    const Binary fn = op.fn;
    const double lo = op.low_b, hi = op.high_b;
    const auto apply = [fn](X x) { return fn(x[0], x[1]); };
    cases.add(op.name, "same_shape", {{{3, 5}}, {{3, 5}, lo, hi}}, apply);
    cases.add(op.name, "broadcast_both", {{{4, 1, 3}}, {{5, 1}, lo, hi}}, apply);
    cases.add(op.name, "scalar_and_vector", {{{}}, {{7}, lo, hi}}, apply);
    cases.add(op.name, "rank0", {{{}}, {{}, lo, hi}}, apply);
    cases.add(op.name, "numbers", {{{5}}, {{5}, lo, hi}}, [fn](X x) {
      return several({fn(x[0], 1.25), fn(-0.5, x[1])});
    });
    cases.add(op.name, "i32",
              {values({7, -7, 7, -7, 0, 2147483647, -2147483648.0, -2147483648.0, 65537, 5}, i32),
               values({2, 2, -2, -2, 3, 1, -1, -2147483648.0, 65537, 0}, i32)},
              apply);
  }
  cases.add("pow", "positive_base", {{{3, 1, 5}, 0.3, 2}, {{2, 1}}},
            [](X x) { return pow(x[0], x[1]); });
  cases.add("pow", "number_exponent", {{{7}, -2, -0.3}}, [](X x) {
    return several({pow(x[0], 3), pow(x[0], 2), pow(x[0], -2), pow(x[0], 1), pow(x[0], 0)});
  });
  cases.add("pow", "number_base", {{{7}}}, [](X x) { return pow(2.5, x[0]); });
  // A negative base with an integer exponent; by the exponent there is no derivative then.
  cases.add_special("pow", "special", {values({-2, -2, 0, 0, 0, 1.5}), values({3, -2, 2, 1, 0, 0})},
                    [](X x) { return pow(x[0], x[1]); });

  using Unary = Tensor (*)(Operand);
  struct Op1 {
    const char* name;
    Unary fn;
    double low = -2, high = 2;
  };
  const Op1 unary[] = {
      {"neg", neg}, {"abs", abs}, {"square", square}, {"reciprocal", reciprocal, 0.4, 3}};
  for (const Op1& op : unary) {
    const Unary fn = op.fn;
    const auto apply = [fn](X x) { return fn(x[0]); };
    cases.add(op.name, "rank3", {{{3, 1, 5}, op.low, op.high}}, apply);
    cases.add(op.name, "rank0", {{{}, op.low, op.high}}, apply);
  }
  cases.add("neg", "i32", {values({3, 0, -5, -2147483648.0}, i32)}, [](X x) {
    return several({neg(x[0]), abs(x[0]), sign(x[0]), square(x[0])});
  });
  cases.add_special("abs", "at_zero", {values({0, -1, 2})}, [](X x) { return abs(x[0]); });
  cases.add_special("minimum", "ties", {values({1, 2, 3}), values({1, 3, 3})}, [](X x) {
    return several({minimum(x[0], x[1]), maximum(x[0], x[1])});
  });
  cases.add_non_finite("maximum", "nan", {values({1, NAN, 3}), values({NAN, 2, 1})}, [](X x) {
    return several({minimum(x[0], x[1]), maximum(x[0], x[1])});
  });
}

void unary_cases(Cases& cases) {
  using Unary = Tensor (*)(Operand);
  struct Op {
    const char* name;
    Unary fn;
    double low = -3, high = 3;
  };
  const Op ops[] = {{"sqrt", sqrt, 0.2, 4},
                    {"rsqrt", rsqrt, 0.2, 4},
                    {"exp", exp},
                    {"log", log, 0.2, 4},
                    {"log1p", log1p, -0.7, 3},
                    {"expm1", expm1},
                    {"sin", sin},
                    {"cos", cos},
                    {"tanh", tanh},
                    {"erf", erf},
                    {"relu", relu},
                    {"sigmoid", sigmoid},
                    {"silu", silu},
                    {"softplus", softplus}};
  for (const Op& op : ops) {
    const Unary fn = op.fn;
    const auto apply = [fn](X x) { return fn(x[0]); };
    cases.add(op.name, "rank3", {{{3, 1, 5}, op.low, op.high}}, apply);
    cases.add(op.name, "rank0", {{{}, op.low, op.high}}, apply);
    cases.add(op.name, "long", {{{1031}, op.low, op.high}}, apply);
  }
  cases.add("floor", "both_signs", {{{3, 5}, -4, 4}}, [](X x) { return floor(x[0]); })
      .no_gradient = {0};
  cases
      .add_special("sign", "both_signs", {values({-2, 0, 3, -0.5})}, [](X x) { return sign(x[0]); })
      .no_gradient = {0};

  // Small and large arguments: no cancellation, no overflow.
  const auto special = [&](const char* op, const char* variant, Unary fn, Values numbers) {
    for (double& number : numbers) number = static_cast<float>(number);
    cases.add_special(op, variant, {values(std::move(numbers))}, [fn](X x) { return fn(x[0]); });
  };
  special("expm1", "tiny", expm1, {1e-6, -1e-6, 3e-7, 0});
  special("expm1", "very_negative", expm1, {-100, -1000, -20});
  special("log1p", "tiny", log1p, {1e-6, -1e-6, 3e-7, 0});
  special("tanh", "large", tanh, {100, -100, 1000, -1000, 20});
  special("tanh", "tiny", tanh, {1e-6, -1e-6, 0});
  special("erf", "large", erf, {10, -10, 100, 4});
  special("erf", "tiny", erf, {1e-6, -1e-6, 0});
  special("sin", "large", sin, {100, -1000, 1e4, 3e4});
  special("cos", "large", cos, {100, -1000, 1e4, 3e4});
  special("sin", "tiny", sin, {1e-6, -1e-6, 0});
  special("exp", "very_negative", exp, {-100, -1000, -87});
  special("log", "tiny_and_huge", log, {1e-37, 1e37, 1});
  special("relu", "at_zero", relu, {0, -1, 1});
  special("sigmoid", "extreme", sigmoid, {1000, -1000, 100, -100, 20, -20});
  special("softplus", "extreme", softplus, {1000, -1000, 100, -100});
  special("softplus", "very_negative", softplus, {-30, -50, -80});
}

void activation_cases(Cases& cases) {
  cases.add("leaky_relu", "alpha", {{{3, 1, 5}}}, [](X x) {
    return several({leaky_relu(x[0], 0.1), leaky_relu(x[0])});
  });
  cases.add("gelu", "erf", {{{3, 1, 5}, -4, 4}}, [](X x) { return gelu(x[0]); });
  cases.add("gelu", "tanh", {{{15}, -4, 4}},
            [](X x) { return gelu(x[0], {.approximate = GeluForm::Tanh}); });
  cases.add("elu", "alpha", {{{3, 5}}}, [](X x) { return several({elu(x[0], 0.7), elu(x[0])}); });
  cases.add_special("elu", "extreme", {values({0, 1000, -1000})}, [](X x) { return elu(x[0]); });
  cases.add("clamp", "inside_and_outside", {{{3, 5}}}, [](X x) { return clamp(x[0], -0.5, 0.8); });
  cases.add_special("clamp", "at_ends", {values({-1, -0.5, 0, 0.75, 1})},
                    [](X x) { return clamp(x[0], -0.5, 0.75); });
  cases.add("clamp", "i32", {ints({9}, -9, 9)}, [](X x) { return clamp(x[0], -3, 4); });
}

void compare_cases(Cases& cases) {
  using Binary = Tensor (*)(Operand, Operand);
  struct Op {
    const char* name;
    Binary fn;
  };
  const Op ops[] = {{"less", less},
                    {"greater", greater},
                    {"less_equal", less_equal},
                    {"greater_equal", greater_equal},
                    {"equal", equal}};
  for (const Op& op : ops) {
    const Binary fn = op.fn;
    cases
        .add(op.name, "f32", {{{4, 1, 3}}, {{5, 1}}},
             [fn](X x) {
               return several({fn(x[0], x[1]), fn(x[0], 0.5)});
             })
        .no_gradient = {0, 1};
    cases.add(op.name, "i32", {ints({3, 4}, 0, 2), ints({4}, 0, 2)}, [fn](X x) {
      return several({fn(x[0], x[1]), fn(1, x[0])});
    });
    cases
        .add_non_finite(op.name, "nan", {values({NAN, 1, NAN, 2}), values({1, NAN, NAN, 2})},
                        [fn](X x) { return fn(x[0], x[1]); })
        .no_gradient = {0, 1};
  }
  cases.add("logical_and", "broadcast", {bools({3, 4}), bools({4})},
            [](X x) { return logical_and(x[0], x[1]); });
  cases.add("logical_or", "broadcast", {bools({3, 1}), bools({4})},
            [](X x) { return logical_or(x[0], x[1]); });
  cases.add("logical_not", "", {bools({7})}, [](X x) { return logical_not(x[0]); });
  cases.add("where", "same_shape", {bools({3, 5}), {{3, 5}}, {{3, 5}}},
            [](X x) { return where(x[0], x[1], x[2]); });
  cases.add("where", "broadcast_all", {bools({4, 1}), {{3}}, {{2, 1, 1}}},
            [](X x) { return where(x[0], x[1], x[2]); });
  cases.add("where", "wide_condition", {bools({2, 3}), {{}}, {{3}}},
            [](X x) { return where(x[0], x[1], x[2]); });
  cases.add("where", "numbers", {bools({7}), {{7}}}, [](X x) {
    return several({where(x[0], x[1], 0.5), where(x[0], -1, x[1])});
  });
  cases.add("where", "i32", {bools({7}), ints({7}, -9, 9), ints({}, -9, 9)},
            [](X x) { return where(x[0], x[1], x[2]); });
}

void reduction_cases(Cases& cases) {
  using Reduce = Tensor (*)(Operand, ReduceOptions);
  struct Op {
    const char* name;
    Reduce fn;
  };
  const Op ops[] = {
      {"sum", sum}, {"mean", mean},          {"max", max}, {"min", min}, {"prod", prod},
      {"var", var}, {"logsumexp", logsumexp}};
  for (const Op& op : ops) {
    const Reduce fn = op.fn;
    const auto add_case = [&](const char* variant, Shape shape, ReduceOptions options) {
      cases.add(op.name, variant, {{std::move(shape)}},
                [fn, options](X x) { return fn(x[0], options); });
    };
    add_case("all", {3, 1, 5}, {});
    add_case("all_keepdims", {3, 5}, {.keepdims = true});
    add_case("first_axis", {5, 3}, {.axes = 0});
    add_case("middle_keepdims", {2, 5, 3}, {.axes = 1, .keepdims = true});
    add_case("last_axis", {3, 7}, {.axes = -1});
    add_case("outer_axes", {3, 4, 5}, {.axes = {0, -1}});
    add_case("inner_axes_keepdims", {2, 3, 5}, {.axes = {2, 1}, .keepdims = true});
    add_case("axis_of_one", {3, 1}, {.axes = 1});
    add_case("rank0", {}, {});
  }
  struct Long {
    const char* name;
    Reduce fn;
    double low = -2, high = 2;
  };
  const Long longs[] = {{"sum", sum}, {"mean", mean},
                        {"max", max}, {"prod", prod, 0.9, 1.1},
                        {"var", var}, {"logsumexp", logsumexp}};
  for (const Long& op : longs) {
    const Reduce fn = op.fn;
    cases
        .add(op.name, "long_row", {{{2, 1031}, op.low, op.high}},
             [fn](X x) { return fn(x[0], {.axes = -1}); })
        .tolerance = 3e-5;
    cases
        .add(op.name, "long_column", {{{519, 3}, op.low, op.high}},
             [fn](X x) { return fn(x[0], {.axes = 0}); })
        .tolerance = 3e-5;
  }
  cases.add("sum", "i32", {ints({3, 5}, -2000000000, 2000000000)}, [](X x) {
    return several(
        {sum(x[0], {.axes = 0}), max(x[0], {.axes = 1}), min(x[0]), prod(x[0], {.axes = -1})});
  });
  cases.add_special("max", "ties", {values({2, 4}, {1, 3, 3, 2, 5, 5, 5, 5})}, [](X x) {
    return several(
        {max(x[0], {.axes = 1}), min(x[0], {.axes = 1}), max(x[0]), max(x[0], {.axes = 0})});
  });
  cases.add("prod", "zeros", {values({4, 3}, {2, 3, 4, 0, 3, 4, 0, 0, 4, 0, 0, 0})},
            [](X x) { return prod(x[0], {.axes = 1}); });
  cases.add("var", "large_mean",
            {values({2, 4}, {10000, 10001, 10003, 9998, 10000.5, 10000.5, 10000, 9999.5})},
            [](X x) { return var(x[0], {.axes = 1}); });
  cases.add_special("logsumexp", "extreme",
                    {values({3, 3}, {1e4, -1e4, 0, -1e4, -1e4, -1e4, 1e4, 1e4, 1e4})},
                    [](X x) { return logsumexp(x[0], {.axes = 1}); });
  cases.add_non_finite("logsumexp", "minus_infinity",
                       {values({2, 3}, {-kInf, -kInf, -kInf, 1, -kInf, 2})},
                       [](X x) { return logsumexp(x[0], {.axes = 1}); });

  using Arg = Tensor (*)(Operand, std::optional<int>, bool);
  struct ArgOp {
    const char* name;
    Arg fn;
  };
  for (const ArgOp& op : {ArgOp{"argmax", argmax}, ArgOp{"argmin", argmin}}) {
    const Arg fn = op.fn;
    cases
        .add(op.name, "axes", {{{3, 4, 5}}},
             [fn](X x) {
               return several({fn(x[0], 0, false), fn(x[0], 1, true), fn(x[0], -1, false),
                               fn(x[0], {}, false), fn(x[0], {}, true)});
             })
        .no_gradient = {0};
    cases.add(op.name, "ties", {ints({4, 9}, 0, 2)}, [fn](X x) {
      return several({fn(x[0], 0, false), fn(x[0], 1, false)});
    });
    cases
        .add(op.name, "long", {{{2, 1031}}},
             [fn](X x) {
               return several({fn(x[0], 1, false), fn(x[0], {}, false)});
             })
        .no_gradient = {0};
    cases.add(op.name, "rank0", {{{}}}, [fn](X x) { return fn(x[0], {}, true); }).no_gradient = {0};
  }
}

void shape_cases(Cases& cases) {
  const auto add_case = [&](const char* op, const char* variant, Shape shape,
                            std::function<Outputs(X)> build) {
    cases.add(op, variant, {{std::move(shape)}}, std::move(build));
  };
  add_case("reshape", "unknown_axis", {3, 4, 2}, [](X x) { return reshape(x[0], {6, -1}); });
  add_case("reshape", "to_and_from_rank0", {}, [](X x) {
    return reshape(reshape(x[0] * 2, {1, 1}), Shape{});
  });
  add_case("permute", "rank4", {2, 3, 4, 5}, [](X x) { return permute(x[0], {2, 0, -1, 1}); });
  add_case("permute", "axis_of_one", {3, 1, 5}, [](X x) { return permute(x[0], {1, 2, 0}); });
  add_case("swap_axes", "negative", {2, 3, 4}, [](X x) { return swap_axes(x[0], -1, 0); });
  add_case("expand_dims", "each_place", {2, 3}, [](X x) {
    return several({expand_dims(x[0], 0), expand_dims(x[0], 1), expand_dims(x[0], -1)});
  });
  add_case("squeeze", "all_and_some", {1, 3, 1}, [](X x) {
    return several({squeeze(x[0]), squeeze(x[0], 0), squeeze(x[0], {0, -1})});
  });
  add_case("broadcast_to", "new_axis", {3, 1}, [](X x) { return broadcast_to(x[0], {4, 3, 5}); });
  add_case("broadcast_to", "rank0", {}, [](X x) { return broadcast_to(x[0], {2, 3}); });
  add_case("sum_to_shape", "both_ways", {4, 3, 5}, [](X x) {
    return several(
        {sum_to_shape(x[0], {3, 1}), sum_to_shape(x[0], Shape{}), sum_to_shape(x[0], {4, 1, 5})});
  });
  add_case("narrow", "middle", {2, 7, 3}, [](X x) { return narrow(x[0], 1, 2, 3); });
  add_case("narrow", "from_the_end", {5, 4}, [](X x) {
    return several({narrow(x[0], -1, -2, 1), narrow(x[0], 0, 0, 5)});
  });
  add_case("slice", "steps", {3, 11}, [](X x) {
    return several({slice(x[0], 1, 1, 9, 3), slice(x[0], 1, 0, kEnd, 2), slice(x[0], -1, -4, -1)});
  });
  add_case("slice", "backwards", {3, 11}, [](X x) {
    return several(
        {slice(x[0], 1, -1, kEnd, -1), slice(x[0], 1, 8, 1, -3), slice(x[0], 0, 2, 0, -2)});
  });
  add_case("pad", "value", {3, 4}, [](X x) { return pad(x[0], {{0, 3}, {1, 2}}, 0.5); });
  add_case("pad", "zero_widths", {2, 1}, [](X x) { return pad(x[0], {{0, 0}, {2, 0}}); });
  add_case("flip", "one_and_all", {2, 5, 3}, [](X x) {
    return several({flip(x[0], 1), flip(x[0], {0, -1})});
  });
  add_case("tile", "new_axis", {2, 3}, [](X x) {
    return several({tile(x[0], {2, 3}), tile(x[0], {2, 1, 2}), tile(x[0], {2})});
  });
  add_case("split", "equal_parts", {3, 6}, [](X x) { return several(split(x[0], 3, 1)); });
  add_case("split", "sizes", {7, 2}, [](X x) { return several(split(x[0], {1, 4, 2}, 0)); });
  cases.add("concat", "three", {{{2, 3, 2}}, {{2, 1, 2}}, {{2, 4, 2}}},
            [](X x) { return concat(x, 1); });
  cases.add("concat", "same_twice", {{{2, 3}}}, [](X x) {
    return concat({x[0], x[0] * 2, x[0]}, -1);
  });
  cases.add("stack", "axes", {{{2, 3}}, {{2, 3}}}, [](X x) {
    return several({stack(x, 0), stack(x, 1), stack(x, -1)});
  });
  cases.add("stack", "scalars", {{{}}, {{}}, {{}}}, [](X x) { return stack(x); });
  cases.add("reshape", "i32_and_bool_views", {ints({3, 4}, -9, 9), bools({3, 4})}, [](X x) {
    return several({permute(x[0], {1, 0}), pad(x[0], {{1, 0}, {0, 1}}, 7), flip(x[1], 0),
                    concat({x[0], x[0]}, 1), concat({x[1], x[1]}),
                    broadcast_to(narrow(x[1], 0, 1, 1), {2, 4})});
  });
}

void matmul_cases(Cases& cases) {
  const auto add_case = [&](const char* variant, Shape a, Shape b) {
    cases.add("matmul", variant, {{std::move(a)}, {std::move(b)}},
              [](X x) { return matmul(x[0], x[1]); });
  };
  add_case("plain", {5, 7}, {7, 3});
  add_case("shared_rhs", {2, 5, 7}, {7, 3});
  add_case("batched", {2, 3, 4, 5}, {2, 3, 5, 6});
  add_case("batch_broadcast", {2, 1, 4, 5}, {3, 5, 2});
  add_case("rhs_batched_only", {4, 5}, {3, 5, 2});
  add_case("vector_matrix", {7}, {7, 3});
  add_case("matrix_vector", {5, 7}, {7});
  add_case("batched_vector", {2, 3, 7}, {7});
  add_case("vector_batched", {5}, {2, 5, 3});
  add_case("dot", {7}, {7});
  add_case("outer", {5, 1}, {1, 3});
  add_case("row_by_column", {1, 33}, {33, 1});
  add_case("odd_and_larger", {33, 65}, {65, 17});
  // Long sums, forward and in the weight's gradient, which a GPU splits.
  cases.add("matmul", "long_sum", {{{3, 2048}}, {{2048, 5}}},
            [](X x) { return matmul(x[0], x[1]); });
  cases.add("matmul", "many_rows", {{{1, 2048, 3}}, {{3, 5}}},
            [](X x) { return matmul(x[0], x[1]); });
  cases.add("matmul", "transposed_operands", {{{7, 5}}, {{3, 7}}},
            [](X x) { return matmul(swap_axes(x[0], 0, 1), swap_axes(x[1], 0, 1)); });
  cases.add("matmul", "same_operand_twice", {{{4, 4}}}, [](X x) { return matmul(x[0], x[0]); });
  cases.add("linear", "bias",
            {{{2, 3, 5}},
             {{5, 4}, -1, 1, f32, {}, OpKind::ParamInput},
             {{4}, -1, 1, f32, {}, OpKind::ParamInput}},
            [](X x) { return linear(x[0], x[1], x[2]); });
  cases.add("linear", "no_bias", {{{3, 5}}, {{5, 1}}}, [](X x) { return linear(x[0], x[1]); });
}

void indexing_cases(Cases& cases) {
  cases.add("one_hot", "dtypes", {ints({2, 5}, -1, 7)}, [](X x) {
    return several({one_hot(x[0], 7), one_hot(x[0], 3, i32), one_hot(x[0], 7, boolean)});
  });
  cases.add("embedding", "repeated_rows", {{{5, 3}}, ints({4, 7}, 0, 4)},
            [](X x) { return embedding(x[0], x[1]); });
  cases.add("embedding", "scalar_index", {{{5, 3}}, ints({}, 0, 4)},
            [](X x) { return embedding(x[0], x[1]); });
  cases.add("embedding", "deep_rows", {{{4, 2, 3}}, ints({5}, 0, 3)},
            [](X x) { return embedding(x[0], x[1]); });
  cases.add("take_along_axis", "many", {{{3, 8, 2}}, ints({3, 5, 2}, 0, 7)},
            [](X x) { return take_along_axis(x[0], x[1], 1); });
  cases.add("take_along_axis", "one_each", {{{4, 7}}, ints({4, 1}, 0, 6)},
            [](X x) { return take_along_axis(x[0], x[1], -1); });
  cases.add("take_along_axis", "i32_values", {ints({4, 3}, -9, 9), ints({2, 3}, 0, 3)},
            [](X x) { return take_along_axis(x[0], x[1], 0); });
  cases.add("index_select", "middle_axis", {{{3, 8, 2}}, ints({5}, 0, 7)},
            [](X x) { return index_select(x[0], x[1], 1); });
  cases.add("index_select", "bools", {bools({4, 3}), ints({5}, 0, 2)},
            [](X x) { return index_select(x[0], x[1], -1); });
  cases.add("scatter_add", "rows", {{{5, 3}}, ints({7}, 0, 4), {{7, 3}}},
            [](X x) { return scatter_add(x[0], x[1], x[2]); });
  cases.add("scatter_add", "last_axis", {{{2, 3, 5}}, ints({4}, 0, 4), {{2, 3, 4}}},
            [](X x) { return scatter_add(x[0], x[1], x[2], -1); });
}

void softmax_cases(Cases& cases) {
  using Soft = Tensor (*)(Operand, int);
  struct Op {
    const char* name;
    Soft fn;
  };
  for (const Op& op : {Op{"softmax", softmax}, Op{"log_softmax", log_softmax}}) {
    const Soft fn = op.fn;
    const auto add_case = [&](const char* variant, Shape shape, int axis) {
      cases.add(op.name, variant, {{std::move(shape)}}, [fn, axis](X x) { return fn(x[0], axis); });
    };
    add_case("last_axis", {2, 3, 7}, -1);
    add_case("first_axis", {5, 3}, 0);
    add_case("axis_of_one", {3, 1}, -1);
    add_case("one_row", {1, 300}, 1);
    cases.add_special(op.name, "extreme",
                      {values({3, 3}, {1e4, -1e4, 0, -1e4, -1e4, -1e4, 1e4, 9999, 1e4})},
                      [fn](X x) { return fn(x[0], -1); });
    cases.add_non_finite(op.name, "masked_row",
                         {values({2, 3}, {-kInf, -kInf, -kInf, 1, -kInf, 2})},
                         [fn](X x) { return fn(x[0], -1); });
  }
  cases.add("where_causal", "square", {{{2, 5, 5}}}, [](X x) { return where_causal(x[0], -7.5); });
  cases.add("where_causal", "wide", {{{3, 5}}}, [](X x) { return where_causal(x[0], 0); });
  cases.add("softmax_causal", "heads", {{{2, 3, 5, 5}}}, [](X x) { return softmax_causal(x[0]); });
  cases.add_special("softmax_causal", "extreme", {{{7, 7}, -1e4, 1e4}},
                    [](X x) { return softmax_causal(x[0]); });
  cases.add_non_finite("softmax_causal", "masked_rows",
                       {values({3, 3}, {-kInf, 1, 2, 1, 2, 3, -kInf, -kInf, -kInf})},
                       [](X x) { return softmax_causal(x[0]); });

  const auto entropy = [&](const char* variant, Shape logits, Shape targets,
                           CrossEntropyOptions options) {
    const double classes = static_cast<double>(logits[logits.rank() - 1]);
    cases.add("cross_entropy", variant,
              {{std::move(logits)}, ints(std::move(targets), 0, classes - 1)},
              [options](X x) { return cross_entropy(x[0], x[1], options); });
  };
  entropy("mean", {6, 10}, {6}, {});
  entropy("sum", {6, 10}, {6}, {.reduction = Reduction::Sum});
  entropy("none", {2, 3, 7}, {2, 3}, {.reduction = Reduction::None});
  entropy("one_position", {5}, {}, {});
  entropy("ignore_index", {7, 3}, {7}, {.ignore_index = 1});
  entropy("label_smoothing", {6, 10}, {6}, {.label_smoothing = 0.1});
  entropy("smoothing_and_ignore_none", {6, 4}, {6},
          {.reduction = Reduction::None, .ignore_index = 2, .label_smoothing = 0.2});
  entropy("many_classes", {3, 1031}, {3}, {});
  cases.add("cross_entropy", "ignored_is_no_class", {{{4, 3}}, values({2, -100, 0, -100}, i32)},
            [](X x) { return cross_entropy(x[0], x[1], {.ignore_index = -100}); });
  cases.add_special("cross_entropy", "extreme",
                    {values({2, 3}, {1e4, -1e4, 0, -1e4, 1e4, -1e4}), values({1, 1}, i32)},
                    [](X x) { return cross_entropy(x[0], x[1], {.reduction = Reduction::None}); });
  cases.add("nll_loss", "mean", {{{6, 5}, -3, 0}, ints({6}, 0, 4)},
            [](X x) { return nll_loss(x[0], x[1]); });
  cases.add("nll_loss", "ignore_none", {{{2, 4, 5}, -3, 0}, ints({2, 4}, 0, 4)}, [](X x) {
    return nll_loss(x[0], x[1], {.reduction = Reduction::None, .ignore_index = 3});
  });
}

void norm_cases(Cases& cases) {
  cases.add("layer_norm", "gain_and_bias", {{{3, 4, 7}}, {{7}}, {{7}}},
            [](X x) { return layer_norm(x[0], x[1], x[2]); });
  cases.add("layer_norm", "plain", {{{5, 3}}}, [](X x) { return layer_norm(x[0]); });
  cases.add("layer_norm", "vector_gain", {{{300}}, {{300}}},
            [](X x) { return layer_norm(x[0], x[1], {}, 1e-3); });
  OpCase& large_mean = cases.add("layer_norm", "large_mean", {{{3, 64}, 9999.9, 10000.1}},
                                 [](X x) { return layer_norm(x[0]); });
  large_mean.step = 2e-5;
  large_mean.tolerance = 1e-4;

  cases.add("rms_norm", "gain", {{{3, 4, 7}}, {{7}}}, [](X x) { return rms_norm(x[0], x[1]); });
  cases.add("rms_norm", "plain", {{{5, 3}}}, [](X x) { return rms_norm(x[0], {}, 1e-2); });
}

void control_cases(Cases& cases) {
  cases
      .add("stop_gradient", "one_path", {{{5}}, {{5}}},
           [](X x) { return stop_gradient(x[0]) * x[1]; })
      .no_gradient = {0};
  cases.add("with_gradient", "stable_quotient", {{{5}, 0.5, 2}, {{5}, 0.5, 2}}, [](X x) {
    const Tensor a = x[0], b = x[1], y = a / b;
    return with_gradient(y, {a, b}, [=](const Tensor& g) -> Tensors {
      return {g / b, -(g * y) / b};
    });
  });
  cases.add("cast", "from_f32", {{{3, 5}, -3, 3}}, [](X x) {
    return several({cast(x[0], i32), cast(x[0], boolean), cast(x[0], f32) * 2});
  });
  cases.add("cast", "from_i32", {ints({9}, -2, 2)}, [](X x) {
    return several({cast(x[0], f32), cast(x[0], boolean)});
  });
  cases.add("cast", "from_bool", {bools({9})}, [](X x) {
    return several({cast(x[0], f32), cast(x[0], i32)});
  });
  cases.add("capture", "in_the_middle", {{{3, 2}}},
            [](X x) { return exp(capture("doubled", x[0] * 2)); });
  cases.add("write_back", "running_mean", {{{3}, -2, 2, f32, {}, OpKind::StateInput}, {{4, 3}}},
            [](X x) {
              write_back(x[0], 0.9 * x[0] + 0.1 * mean(x[1], {.axes = 0}));
              return x[1] - x[0];
            });
}

void loss_cases(Cases& cases) {
  using Loss = Tensor (*)(Operand, Operand, LossOptions);
  struct Op {
    const char* name;
    Loss fn;
  };
  const Op ops[] = {{"mse_loss", mse_loss},
                    {"l1_loss", l1_loss},
                    {"binary_cross_entropy_with_logits", binary_cross_entropy_with_logits}};
  for (const Op& op : ops) {
    const Loss fn = op.fn;
    cases.add(op.name, "reductions", {{{4, 3}}, {{4, 3}, 0, 1}}, [fn](X x) {
      return several({fn(x[0], x[1], {}), fn(x[0], x[1], {Reduction::Sum}),
                      fn(x[0], x[1], {Reduction::None})});
    });
  }
  cases.add("huber_loss", "deltas", {{{4, 3}}, {{4, 3}}}, [](X x) {
    return several({huber_loss(x[0], x[1]), huber_loss(x[0], x[1], 0.5, {Reduction::None})});
  });
  cases.add_special("binary_cross_entropy_with_logits", "extreme",
                    {values({1e4, -1e4, 1e4, -1e4}), values({1, 0, 0, 1})}, [](X x) {
                      return binary_cross_entropy_with_logits(x[0], x[1], {Reduction::None});
                    });
}

void attention_cases(Cases& cases) {
  cases.add("attention", "causal", {{{2, 3, 5, 4}}, {{2, 3, 5, 4}}, {{2, 3, 5, 4}}},
            [](X x) { return attention(x[0], x[1], x[2]); });
  cases.add("attention", "grouped", {{{1, 4, 3, 2}}, {{1, 2, 5, 2}}, {{1, 2, 5, 3}}},
            [](X x) { return attention(x[0], x[1], x[2], {.causal = false, .scale = 0.3}); });
  cases.add("rope", "offset", {{{2, 5, 6}}, {{1, 1, 3, 2}}}, [](X x) {
    return several({rope(x[0]), rope(x[0], {.base = 100, .offset = constant(3.0)}), rope(x[1])});
  });
  cases.add("linear_scan", "axes", {{{2, 5, 3}}, {{2, 5, 3}}, {{2, 3}}, {{5, 3}}, {{2, 5}}},
            [](X x) {
              return several({linear_scan(x[0], x[1], x[2], 1), linear_scan(x[0], x[1], x[3], 0),
                              linear_scan(x[0], x[1], x[4], -1)});
            });
  cases.add("linear_scan", "views", {{{4, 1, 3}}, {{3, 7, 4}}, {{7, 4}}, {{1, 2}}, {{2}}}, [](X x) {
    const Tensor a = flip(permute(broadcast_to(x[0], {4, 7, 3}), {2, 1, 0}), 0);
    return several({linear_scan(a, flip(x[1], 1), x[2], 0), linear_scan(x[3], x[3], x[4], 0)});
  });
  cases.add("cumsum", "axes", {{{2, 5, 3}}}, [](X x) {
    return several({cumsum(x[0]), cumsum(x[0], 0), cumsum(x[0], 1)});
  });
  cases.add("cumsum", "long", {{{2, 67, 3}}, {{131}}}, [](X x) {
    return several({cumsum(x[0], 1), cumsum(x[1]), cumsum(cast(x[1], i32))});
  });
}

void state_space_cases(Cases& cases) {
  struct Size {
    const char* name;
    std::int64_t batch, length, channels, states;
  };
  const Size sizes[] = {{"short", 2, 7, 3, 2},
                        {"one", 1, 1, 1, 1},
                        {"chunks", 1, 300, 2, 3},
                        {"blocks", 1, 3, 200, 2}};
  for (const Size& s : sizes) {
    const Shape sequence{s.batch, s.length, s.channels}, rates{s.channels, s.states},
        inputs{s.batch, s.length, s.states}, state{s.batch, s.channels, s.states};
    for (const bool zoh : {true, false}) {
      cases.add(
          "selective_scan", std::string(s.name) + (zoh ? "_zoh" : "_euler"),
          {{sequence}, {sequence}, {rates, -1, 1}, {inputs}, {inputs}, {{s.channels}}, {state}},
          [zoh](X x) {
            const ScanResult r =
                selective_scan(x[0], x[1], x[2], x[3], x[4], x[5],
                               {.discretization = zoh ? Discretization::Zoh : Discretization::Euler,
                                .initial_state = x[6]});
            return several({r.y, r.final_state});
          });
    }
  }
  cases.add(
      "selective_scan", "plain_delta_from_zero",
      {{{2, 5, 3}}, {{2, 5, 3}, 0.01, 1}, {{3, 4}, -1, 1}, {{2, 5, 4}}, {{2, 5, 4}}, {{3}}},
      [](X x) {
        return selective_scan(x[0], x[1], x[2], x[3], x[4], x[5], {.delta_softplus = false}).y;
      });
  // Δ·a near zero, and so large that a state decays to nothing within a step.
  cases.add_special("selective_scan", "extreme_rates",
                    {{{1, 4, 5}},
                     values({1, 4, 5}, {-30, 30, -10, 0, 5,  -30, 30, -10, 0, 5,
                                        -30, 30, -10, 0, -5, 30,  30, 0,   0, 5}),
                     values({5, 2}, {-8, 6, 4, -20, 0, 1, -12, 3, 5, -3}),
                     {{1, 4, 2}},
                     {{1, 4, 2}},
                     {{5}}},
                    [](X x) { return selective_scan(x[0], x[1], x[2], x[3], x[4], x[5]).y; });
}

/// Not an op of its own but matmuls and a linear scan, in an arrangement worth a look.
void chunked_scan_cases(Cases& cases) {
  struct Size {
    const char* name;
    std::int64_t batch, length, heads, dim, groups, states, chunk;
  };
  for (const Size& s :
       {Size{"one_step", 2, 1, 4, 3, 2, 2, 4}, Size{"one_chunk", 1, 5, 2, 3, 1, 4, 8},
        Size{"padded_chunks", 2, 7, 4, 2, 2, 3, 3}}) {
    const Shape inputs{s.batch, s.length, s.groups, s.states};
    cases.add("chunked_scan", s.name,
              {{{s.batch, s.length, s.heads, s.dim}},
               {{s.batch, s.length, s.heads}, 0.01, 1},
               {{s.heads}, -1, 1},
               {inputs},
               {inputs},
               {{s.heads}},
               {{s.batch, s.heads, s.dim, s.states}}},
              [chunk = s.chunk](X x) {
                const ScanResult r = nn::chunked_scan(x[0], x[1], x[2], x[3], x[4], x[5],
                                                      {.chunk = chunk, .initial_state = x[6]});
                return several({r.y, r.final_state});
              });
  }
}

void convolution_cases(Cases& cases) {
  cases.add("conv2d", "plain", {{{2, 3, 5, 6}}, {{4, 3, 3, 2}}, {{4}}},
            [](X x) { return conv2d(x[0], x[1], x[2]); });
  cases.add("conv2d", "strided_padded_dilated_grouped", {{{1, 4, 7, 5}}, {{6, 2, 3, 3}}}, [](X x) {
    return conv2d(x[0], x[1], {}, {.stride = 2, .padding = 2, .dilation = 2, .groups = 2});
  });
  cases.add("conv1d", "plain", {{{2, 3, 7}}, {{2, 3, 3}}, {{2}}},
            [](X x) { return conv1d(x[0], x[1], x[2], {.padding = 1}); });
  cases.add("conv1d", "strided_grouped", {{{1, 4, 9}}, {{4, 1, 2}}},
            [](X x) { return conv1d(x[0], x[1], {}, {.stride = 3, .dilation = 2, .groups = 4}); });
  cases.add("conv1d_causal", "bias", {{{2, 6, 3}}, {{3, 4}}, {{3}}}, [](X x) {
    return several({conv1d_causal(x[0], x[1], x[2]), conv1d_causal(x[0], x[1])});
  });
  cases.add("conv1d_causal", "window", {{{2, 6, 3}}, {{3, 4}}, {{3}}, {{2, 3, 3}}},
            [](X x) { return conv1d_causal(x[0], x[1], x[2], x[3]); });
  cases.add("last_window", "long_and_short", {{{2, 6, 3}}, {{2, 2, 3}}, {{2, 3, 3}}}, [](X x) {
    return several({last_window(x[0], 4), last_window(x[1], 4), last_window(x[1], 4, x[2])});
  });
  cases.add("max_pool2d", "overlapping", {{{2, 2, 5, 6}}}, [](X x) {
    return several({max_pool2d(x[0]), max_pool2d(x[0], {.size = 3, .stride = 1})});
  });
  cases.add("avg_pool2d", "overlapping", {{{2, 2, 5, 6}}}, [](X x) {
    return several({avg_pool2d(x[0]), avg_pool2d(x[0], {.size = 3, .stride = 2})});
  });
  cases.add("nearest_upsample2d", "three", {{{1, 2, 3, 2}}},
            [](X x) { return nearest_upsample2d(x[0], 3); });
}

void random_cases(Cases& cases) {
  cases.add("uniform", "shapes", {{{3, 5}}}, [](X x) {
    return several({uniform({3, 5}) * x[0], uniform({}, -1, 1), uniform({7}, 2, 3)});
  });
  cases.add("randn", "shapes", {{{3, 5}}}, [](X x) {
    return several({randn({3, 5}) + x[0], randn({}), randn({2, 1, 33})});
  });
  cases
      .add("categorical", "axes", {{{4, 9}}, {{2, 3}}},
           [](X x) {
             return several({categorical(x[0]), categorical(x[0], 0), categorical(x[1])});
           })
      .no_gradient = {0, 1};
  cases.add("dropout", "rates", {{{6, 7}}}, [](X x) {
    return several({dropout(x[0], 0.5), dropout(x[0], 0.1), dropout(x[0], 0), dropout(x[0], 1)});
  });
}

void optimizer_cases(Cases& cases) {
  const auto never = [](const std::string&) { return false; };
  const auto add_case = [&](const char* variant, Optimizer optimizer) {
    const auto param = [](Shape shape) {
      return InputSpec{std::move(shape), -1, 1, f32, {}, OpKind::ParamInput};
    };
    cases
        .add("append_optimizer", variant, {param({5, 3}), param({3}), {{4, 5}}, {{4, 3}}},
             [](X x) { return mse_loss(linear(x[2], x[0], x[1]), x[3]); })
        .optimizer = std::move(optimizer);
  };
  add_case("adam", Adam{.lr = 0.05});
  add_case("adam_clipped", Adam{.lr = 0.05, .clip_norm = 0.1});
  add_case("adamw", AdamW{.lr = 0.05, .weight_decay = 0.1});
  add_case("adamw_filtered",
           AdamW{.lr = 0.05, .weight_decay = 0.1, .clip_norm = 1e3, .decay_filter = never});
  add_case("sgd", SGD{.lr = 0.1});
  add_case("sgd_momentum_l2", SGD{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.05});
  add_case("sgd_nesterov_clipped",
           SGD{.lr = 0.1, .momentum = 0.9, .nesterov = true, .clip_norm = 0.2});
}

}  // namespace

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> all = [] {
    Cases cases;
    leaf_cases(cases);
    arithmetic_cases(cases);
    unary_cases(cases);
    activation_cases(cases);
    compare_cases(cases);
    reduction_cases(cases);
    shape_cases(cases);
    matmul_cases(cases);
    indexing_cases(cases);
    softmax_cases(cases);
    norm_cases(cases);
    control_cases(cases);
    attention_cases(cases);
    state_space_cases(cases);
    chunked_scan_cases(cases);
    convolution_cases(cases);
    loss_cases(cases);
    random_cases(cases);
    optimizer_cases(cases);
    return cases.all;
  }();
  return all;
}

}  // namespace tensorgrad::test
