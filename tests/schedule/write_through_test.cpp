// Which copies become stores of the kernels before them.
#include <gtest/gtest.h>

#include "support/run_plan.hpp"
#include "tensorgrad/compile.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad::test {
namespace {

Plan plan_of(const std::function<Outputs()>& fn) {
  const Target target;
  return plan(run_passes(*trace(fn), target.passes), target);
}

/// Some rows times a matrix.
Tensor product(const char* name, std::int64_t width) {
  return matmul(tensor_input(std::string("rows of ") + name, {8, 32}),
                tensor_input(name, {32, width}));
}
Tensor weight(const char* name, std::int64_t rows, std::int64_t columns) {
  return tensor_input(name, {rows, columns});
}

/// The tensor that products are read from by a last one, of the width it needs.
int kernels_until(std::int64_t width, const std::function<Tensor()>& read) {
  const Plan p = plan_of([&] { return matmul(read(), weight("last", width, 4)); });
  return p.kernel_count();
}

TEST(WriteThrough, ProductsSideBySideAreWrittenSideBySide) {
  const Plan p = plan_of([] {
    const Tensor a = product("a", 16), b = product("b", 48);
    return matmul(concat({a, b}, -1), weight("last", 64, 4));
  });
  ASSERT_EQ(p.kernel_count(), 3) << p.to_string();
  EXPECT_EQ(p.kernels[0].stores[0].index.to_string(), "64*i0 + i1");
  EXPECT_EQ(p.kernels[1].stores[0].index.to_string(), "64*i0 + i1 + 16");
  EXPECT_EQ(p.kernels[0].bindings[2].offset, p.kernels[1].bindings[2].offset);
  EXPECT_EQ(p.kernels[0].nodes.size(), 1u);
  EXPECT_EQ(p.kernels[1].nodes.size(), 2u) << "what is joined is there after the last";
}

TEST(WriteThrough, HeadsAreWrittenWhereTheyAreMerged) {
  const auto merged = [](std::int64_t size) {
    return kernels_until(2 * size, [&] {
      const Tensor heads = matmul(tensor_input("q", {3, 2, 5, 7}),
                                  tensor_input("v", {3, 2, 7, size}));  // [batch, head, …]
      return reshape(permute(heads, {0, 2, 1, 3}), {3, 5, 2 * size});
    });
  };
  EXPECT_EQ(merged(16), 2);
  EXPECT_EQ(merged(15), 3) << "short runs are gathered";
}

TEST(WriteThrough, WhatIsTurnedIsCopied) {
  EXPECT_EQ(kernels_until(40,
                          [] {
                            const Tensor y = product("a", 20);  // [8, 20]
                            return reshape(permute(reshape(y, {2, 4, 20}), {2, 0, 1}), {4, 40});
                          }),
            3);
}

TEST(WriteThrough, OtherReadersReadThereToo) {
  const Plan p = plan_of([] {
    const Tensor a = product("a", 16), b = product("b", 16);
    return Outputs{{"joined", matmul(concat({a, b}, -1), weight("last", 32, 4))},
                   {"alone", matmul(a, weight("other", 16, 4))}};
  });
  EXPECT_EQ(p.kernel_count(), 4) << p.to_string();
}

TEST(WriteThrough, WhatHasAPlaceOfItsOwnStaysThere) {
  const Plan p = plan_of([] {
    const Tensor a = product("a", 16), b = product("b", 16);
    return Outputs{{"y", matmul(concat({a, b}, -1), weight("last", 32, 4))}, {"a", a}};
  });
  EXPECT_EQ(p.kernel_count(), 4) << "an output is not moved: " << p.to_string();
}

TEST(WriteThrough, AKernelThatReadsOnePartAndWritesAnotherIsLeftAlone) {
  EXPECT_EQ(kernels_until(32,
                          [] {
                            const Tensor a = product("a", 16), b = matmul(a, weight("b", 16, 16));
                            return concat({a, b}, -1);
                          }),
            4);
}

TEST(WriteThrough, ACopyOfACopyIsWrittenOnce) {
  EXPECT_EQ(kernels_until(64,
                          [] {
                            const Tensor both = concat({product("a", 16), product("b", 16)}, -1);
                            const Tensor first =
                                matmul(both, weight("first", 32, 32));  // wants it in memory
                            return concat({both, first}, -1);
                          }),
            5)
      << "the second join reads and writes for one kernel, so it stays";
}

TEST(WriteThrough, AnOutputBehindAJoinIsReadWhereItIs) {
  const auto graph = trace([]() -> Outputs {
    const Tensor t = concat({tensor_input("x", {8, 16}), tensor_input("y", {8, 16})}, -1);
    const Tensor joined = concat({t, product("a", 16)}, -1);
    return {{"first", matmul(t, weight("w", 32, 4))},
            {"second", matmul(joined, weight("v", 48, 4))},
            {"t", t}};
  });
  const auto feeds = some_feeds(*graph);
  const Target target;
  const Plan planned = plan(run_passes(*graph, target.passes), target);
  EXPECT_EQ(difference(evaluate_plan(planned, feeds), reference_results(*graph, feeds), 1e-6), "");
}

TEST(WriteThrough, ATensorJoinedTwiceIsCopied) {
  EXPECT_EQ(kernels_until(32,
                          [] {
                            const Tensor a = product("a", 16);
                            return concat({a, a}, -1);
                          }),
            3);
}

}  // namespace
}  // namespace tensorgrad::test
