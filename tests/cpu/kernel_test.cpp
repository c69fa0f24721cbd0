// Kernels as the CPU runs them, against the plain evaluator of the kernel IR.
#include <gtest/gtest.h>

#include <cstdlib>

#include "random_kernel.hpp"
#include "run_kernel.hpp"
#include "support/quick.hpp"

namespace tensorgrad::testing {
namespace {

std::shared_ptr<Backend> device(int threads, std::int64_t lanes) {
  return cpu::make_cpu_backend({.threads = threads, .lanes = lanes, .share_all = threads > 1});
}

TEST(CpuKernel, RandomKernelsGiveWhatTheEvaluatorGives) {
  const auto alone = device(1, 0), shared = device(3, 0), small_blocks = device(2, 5);
  const std::uint32_t count = test::quick() ? 25 : 500;
  for (std::uint32_t seed = 1; seed <= count; ++seed) {
    RandomKernel random(seed);
    for (const auto& on : {alone, shared, small_blocks}) {
      const std::string difference = compare_with_evaluator(on, random.kernel(), random.buffers());
      ASSERT_EQ(difference, "") << "seed " << seed;
    }
  }
}

/// The gradients of queries, keys and values, [B, heads, T, size] each, beside each other in the
/// rows of [B, T, 3·heads·size]: a sum of three loads of which one is there at each point.
struct Joined {
  std::int64_t batch, heads, time, size;
  Kernel kernel;
  HostBuffers buffers;

  Joined(std::int64_t batch_, std::int64_t heads_, std::int64_t time_, std::int64_t size_)
      : batch(batch_), heads(heads_), time(time_), size(size_) {
    KernelBuilder b("join");
    const std::int64_t width = heads * size;
    const Index i = b.outer(batch), t = b.outer(time), x = b.outer(3 * width);
    ExprId sum = -1;
    for (std::int64_t part = 0; part < 3; ++part) {
      const int from = b.input(batch * width * time);
      for (std::int64_t e = 0; e < batch * width * time; ++e) {
        buffers[from].push_back(static_cast<double>((part + 1) * 100000 + e));
      }
      const Index inside = x - part * width, head = inside.div(size);
      const Index index =
          i * (width * time) + head.mod(heads) * (time * size) + t * size + inside.mod(size);
      const ExprId value = b.load(from, index, {{x, part * width, (part + 1) * width}});
      sum = part == 0 ? value : b.op(OpKind::Add, {sum, value});
    }
    const int to = b.output(batch * time * 3 * width);
    buffers[to].assign(static_cast<std::size_t>(batch * time * 3 * width), -1);
    b.store(to, i * (time * 3 * width) + t * (3 * width) + x, sum);
    kernel = b.done();
  }
};

TEST(CpuKernel, PartsThatAreJoinedLandInTheirPlaces) {
  const std::int64_t sizes[][4] = {{2, 4, 12, 32}, {1, 1, 3, 5}, {3, 2, 7, 8}, {2, 3, 1, 1}};
  for (const auto& [batch, heads, time, size] : sizes) {
    const Joined joined(batch, heads, time, size);
    for (const auto& on : {device(1, 0), device(3, 0), device(2, 7)}) {
      EXPECT_EQ(compare_with_evaluator(on, joined.kernel, joined.buffers, 0), "");
    }
  }
}

/// The sums of the columns of x and of x·(x − r), r a value for each row: the gradients of a norm's
/// gain and bias. With `nested` the second sum needs the first, so that there are two passes.
struct Columns {
  Kernel kernel;
  HostBuffers buffers;

  Columns(std::int64_t rows, std::int64_t cols, bool plain, bool nested = false) {
    KernelBuilder b("columns");
    const Index j = b.outer(cols), i = b.inner(rows);
    const int x = b.input(rows * cols), r = b.input(rows), y = b.output(cols), z = b.output(cols);
    // Whole numbers, so that sums are exact in any order.
    for (std::int64_t e = 0; e < rows * cols; ++e) {
      buffers[x].push_back(static_cast<double>(e * 7919 % 13 - 6));
    }
    for (std::int64_t e = 0; e < rows; ++e) buffers[r].push_back(static_cast<double>(e % 5 - 2));
    for (int to : {y, z}) buffers[to].assign(static_cast<std::size_t>(cols), -1);
    const ExprId value = b.load(x, i * cols + j);
    const ExprId sum = b.reduce(ReduceKind::Sum, value);
    b.store(y, j, sum);
    if (!plain) {
      const ExprId sign = b.op(OpKind::Sign, {sum});
      const ExprId less = nested ? sign : b.load(r, i);
      const ExprId product = b.op(OpKind::Mul, {value, b.op(OpKind::Sub, {value, less})});
      b.store(z, j, b.reduce(ReduceKind::Sum, product));
    }
    kernel = b.done();
  }
};

TEST(CpuKernel, SumsOfColumnsOfEverySize) {
  const std::int64_t sizes[][2] = {{1, 700}, {7, 515}, {8, 512}, {9, 160}, {63, 33}};
  const std::int64_t large[][2] = {{300, 257},  {33, 2000}, {2051, 130},
                                   {1536, 520}, {771, 129}, {4096, 1}};
  const auto check = [](std::int64_t rows, std::int64_t cols) {
    const Columns kinds[] = {{rows, cols, true}, {rows, cols, false}, {rows, cols, false, true}};
    for (const Columns& columns : kinds) {
      for (const auto& on : {device(1, 0), device(2, 0), device(3, 0)}) {
        EXPECT_EQ(compare_with_evaluator(on, columns.kernel, columns.buffers, 0), "")
            << rows << " x " << cols;
      }
    }
  };
  for (const auto& [rows, cols] : sizes) check(rows, cols);
  if (test::quick()) return;
  for (const auto& [rows, cols] : large) check(rows, cols);
}

// Columns that are the same for all rows of a tile, the last tile shorter than the others.
TEST(CpuKernel, ReductionsOfWhatIsTheSameInEveryTile) {
  KernelBuilder b("same");
  const Index i = b.outer(58), j = b.outer(6), k = b.inner(6);
  const int x = b.input(36), y = b.input(58 * 6), z = b.output(58 * 6);
  HostBuffers buffers;
  for (int e = 0; e < 36; ++e) buffers[x].push_back(e * 7919 % 13 - 6);
  for (int e = 0; e < 58 * 6; ++e) buffers[y].push_back(e);
  buffers[z].assign(58 * 6, -1);
  const ExprId most = b.reduce(ReduceKind::Max, b.op(OpKind::Abs, {b.load(x, k * 6 + j)}));
  b.store(z, i * 6 + j, b.op(OpKind::Add, {most, b.load(y, i * 6 + j)}));
  const Kernel kernel = b.done();
  for (const auto& on : {device(1, 0), device(3, 0), device(2, 7)}) {
    EXPECT_EQ(compare_with_evaluator(on, kernel, buffers, 0), "");
  }
}

// Two buffers change places, and a third gets what one of them held.
TEST(CpuKernel, StoresWhatWasThereBeforeItIsOverwritten) {
  for (const std::int64_t size : {1, 7, 300}) {
    KernelBuilder b("swap");
    const Index i = b.outer(size);
    const int x = b.output(size), y = b.output(size), z = b.output(size);
    HostBuffers buffers;
    for (int e = 0; e < size; ++e) {
      buffers[x].push_back(e);
      buffers[y].push_back(1000 + e);
      buffers[z].push_back(-1);
    }
    b.binding(x).read = b.binding(y).read = true;
    const ExprId old_x = b.load(x, i), old_y = b.load(y, i);
    b.store(x, i, old_y);
    b.store(y, i, old_x);
    b.store(z, i, old_x);
    const Kernel kernel = b.done();
    for (const auto& on : {device(1, 0), device(3, 0), device(2, 7)}) {
      EXPECT_EQ(compare_with_evaluator(on, kernel, buffers, 0), "");
    }
  }
}

}  // namespace
}  // namespace tensorgrad::testing
