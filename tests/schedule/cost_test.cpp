// What a kernel is said to move at least.
#include <gtest/gtest.h>

#include "tensorgrad/passes.hpp"
#include "tensorgrad/profile.hpp"

namespace tensorgrad::test {
namespace {

/// Bytes of each kernel.
std::vector<std::int64_t> moved(const std::function<Outputs()>& fn, const Target& target = {}) {
  std::vector<std::int64_t> result;
  for (const Kernel& kernel : plan(run_passes(*trace(fn), target.passes), target).kernels)
    result.push_back(kernel_cost(kernel).bytes);
  return result;
}

Outputs a_product() { return matmul(tensor_input("x", {8, 32}), tensor_input("w", {32, 16})); }
constexpr std::int64_t kProduct = 4 * (8 * 32 + 32 * 16 + 8 * 16);

TEST(Cost, IsWhatIsReadAndWrittenOnce) { EXPECT_EQ(moved(a_product).at(0), kProduct); }

TEST(Cost, OfAPartIsThatOfThePart) {
  EXPECT_EQ(moved([] {
              return exp(narrow(tensor_input("x", {4, 100}), -1, 10, 5));
            }),
            (std::vector<std::int64_t>{4 * 2 * 4 * 5}));
  const auto joined = moved([] {
    const Tensor a = matmul(tensor_input("x", {8, 32}), tensor_input("w", {32, 16}));
    const Tensor b = matmul(tensor_input("y", {8, 32}), tensor_input("v", {32, 48}));
    return matmul(concat({a, b}, -1), tensor_input("last", {64, 4}));
  });
  EXPECT_EQ(joined.at(0), kProduct) << "it writes its part of 64 columns";
}

TEST(Cost, OfANodeForTheInterpreterIsAllItBinds) {
  Target target;
  target.fuse = false;
  EXPECT_EQ(moved(a_product, target).at(0), kProduct);
}

}  // namespace
}  // namespace tensorgrad::test
