// Both implementations, on every vector unit of this machine, against a plain double loop.
#include "runtime/cpu/gemm.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "runtime/cpu/pool.hpp"
#include "runtime/cpu/targets.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::cpu {
namespace {

// Floats that end at a page nobody may touch, so that reading past the end is a crash.
class GuardedFloats {
 public:
  explicit GuardedFloats(int64_t count) : count_(count) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = (static_cast<size_t>(count) * sizeof(float) + page - 1) / page * page;
    size_ = bytes + page;
    void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<char*>(memory);
    mprotect(base_ + bytes, page, PROT_NONE);
    data_ = reinterpret_cast<float*>(base_ + bytes) - count;
  }
  ~GuardedFloats() { munmap(base_, size_); }
  GuardedFloats(const GuardedFloats&) = delete;
  GuardedFloats& operator=(const GuardedFloats&) = delete;

  float* data() { return data_; }
  float& operator[](int64_t i) { return data_[i]; }
  int64_t size() const { return count_; }

 private:
  int64_t count_;
  size_t size_ = 0;
  char* base_ = nullptr;
  float* data_ = nullptr;
};

struct Layout {
  bool a_transposed = false, b_transposed = false;
  int64_t a_step = 1, b_step = 1;  // distance of neighbours: 1 is contiguous
  int64_t pad = 0;                 // elements between rows
  bool share_a = false, share_b = false;
};

GemmShape make_shape(int64_t batch, int64_t m, int64_t k, int64_t n, const Layout& l = {}) {
  GemmShape s{.batch = batch, .m = m, .n = n, .k = k};
  const int64_t a_lead = (l.a_transposed ? m : k) * l.a_step + l.pad;
  const int64_t b_lead = (l.b_transposed ? k : n) * l.b_step + l.pad;
  s.a_row = l.a_transposed ? l.a_step : a_lead;
  s.a_col = l.a_transposed ? a_lead : l.a_step;
  s.b_row = l.b_transposed ? l.b_step : b_lead;
  s.b_col = l.b_transposed ? b_lead : l.b_step;
  s.ldc = n + l.pad;
  s.a_batch = l.share_a ? 0 : a_lead * (l.a_transposed ? k : m);
  s.b_batch = l.share_b ? 0 : b_lead * (l.b_transposed ? n : k);
  s.c_batch = s.ldc * m;
  return s;
}

// One more than the largest index of an operand.
int64_t extent(int64_t batch, int64_t batch_stride, int64_t rows, int64_t row, int64_t cols,
               int64_t col) {
  if (batch == 0 || rows == 0 || cols == 0) return 0;
  return (batch - 1) * batch_stride + (rows - 1) * row + (cols - 1) * col + 1;
}

struct Operands {
  explicit Operands(const GemmShape& s)
      : a(extent(s.batch, s.a_batch, s.m, s.a_row, s.k, s.a_col)),
        b(extent(s.batch, s.b_batch, s.k, s.b_row, s.n, s.b_col)),
        c(extent(s.batch, s.c_batch, s.m, s.ldc, s.n, 1)) {
    for (int64_t i = 0; i < a.size(); ++i) a[i] = float(i * 7919 % 1013) / 506.5f - 1.0f;
    for (int64_t i = 0; i < b.size(); ++i) b[i] = float(i * 104729 % 997) / 498.5f - 1.0f;
    std::fill_n(c.data(), c.size(), kUntouched);
  }

  // Every element of the product, and nothing between the rows.
  void check(const GemmShape& s) {
    std::vector<bool> written(static_cast<size_t>(c.size()), false);
    for (int64_t item = 0; item < s.batch; ++item) {
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = 0; j < s.n; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < s.k; ++k) {
            sum += double(a[item * s.a_batch + i * s.a_row + k * s.a_col]) *
                   double(b[item * s.b_batch + k * s.b_row + j * s.b_col]);
          }
          const int64_t at = item * s.c_batch + i * s.ldc + j;
          written[static_cast<size_t>(at)] = true;
          // Rounding of k products of size 1, added in some order.
          const double tolerance = 1e-6 * (1 + std::sqrt(double(s.k)) + double(s.k) / 64);
          ASSERT_NEAR(c[at], sum, tolerance) << "item " << item << " row " << i << " column " << j;
        }
      }
    }
    for (int64_t i = 0; i < c.size(); ++i) {
      if (!written[static_cast<size_t>(i)]) {
        ASSERT_EQ(c[i], kUntouched) << "gap at " << i;
      }
    }
  }

  static constexpr float kUntouched = -12345.0f;
  GuardedFloats a, b, c;
};

class Scratch {
 public:
  explicit Scratch(const Gemm& gemm) {
    const size_t bytes = (gemm.scratch_bytes() + kGemmAlignment) / kGemmAlignment * kGemmAlignment;
    memory_ = std::aligned_alloc(kGemmAlignment, bytes);
    std::memset(memory_, 0xFF, bytes);  // NaN
  }
  ~Scratch() { std::free(memory_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* get() const { return memory_; }

 private:
  void* memory_;
};

void run_all(const Gemm& gemm, Operands& o) {
  const Scratch scratch(gemm);
  for (size_t t = 0; t < gemm.tasks().size(); ++t) {
    gemm.run_task(t, o.a.data(), o.b.data(), o.c.data(), scratch.get());
  }
}

void check_product(const GemmShape& s, const GemmOptions& options, bool must_exist = true) {
  SCOPED_TRACE(std::to_string(s.batch) + " x (" + std::to_string(s.m) + " x " +
               std::to_string(s.k) + " x " + std::to_string(s.n) + ") a " +
               std::to_string(s.a_row) + "," + std::to_string(s.a_col) + " b " +
               std::to_string(s.b_row) + "," + std::to_string(s.b_col) + " threads " +
               std::to_string(options.threads));
  const auto gemm = make_gemm(s, options);
  if (gemm == nullptr && !must_exist) return;
  ASSERT_NE(gemm, nullptr);
  SCOPED_TRACE(gemm->name());
  Operands o(s);
  run_all(*gemm, o);
  o.check(s);
}

// Calls f with each vector unit of this machine in turn.
void on_every_unit(const std::function<void(int64_t)>& f) {
  for (int64_t rest = machine_targets(); rest != 0; rest &= rest - 1) {
    const int64_t unit = rest & -rest;
    SCOPED_TRACE(hwy::TargetName(unit));
    const auto gemm =
        make_gemm(make_shape(1, 8, 8, 8), {.kind = GemmKind::Portable, .targets = unit});
    EXPECT_EQ(gemm->name(), std::string("portable ") + hwy::TargetName(unit));
    f(unit);
  }
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const bool at : {false, true}) {
    for (const bool bt : {false, true}) {
      for (const int64_t pad : {0, 3})
        all.push_back({.a_transposed = at, .b_transposed = bt, .pad = pad});
    }
  }
  return all;
}

const Layout kOdd[] = {{.a_step = 2},
                       {.b_step = 3},
                       {.a_step = 2, .b_step = 2, .pad = 1},
                       {.a_transposed = true, .b_transposed = true, .a_step = 3, .b_step = 2}};

TEST(PortableGemm, IsRightForEverySmallSize) {
  on_every_unit([](int64_t unit) {
    for (const int64_t m : {1, 2, 5, 6, 7, 12, 13, 25}) {
      for (const int64_t n : {1, 2, 4, 7, 8, 15, 16, 17, 31, 32, 33, 48, 70}) {
        for (const int64_t k : {1, 3, 4, 32, 37}) {
          for (const Layout& l : layouts()) {
            check_product(make_shape(1, m, k, n, l), {.kind = GemmKind::Portable, .targets = unit});
            if (::testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

TEST(PortableGemm, IsRightForOddStrides) {
  on_every_unit([](int64_t unit) {
    for (const Layout& l : kOdd) {
      for (const int64_t n : {1, 5, 40}) {
        for (const int64_t m : {1, 9, 30}) {
          check_product(make_shape(1, m, 21, n, l), {.kind = GemmKind::Portable, .targets = unit});
          check_product(make_shape(3, m, 21, n, l),
                        {.threads = 2, .kind = GemmKind::Portable, .targets = unit});
        }
      }
    }
  });
}

// Strides of 0 (broadcast) and below (flipped): A and B need not be matrices in memory.
TEST(PortableGemm, IsRightForBroadcastAndFlippedOperands) {
  on_every_unit([](int64_t unit) {
    for (const bool flip : {false, true}) {
      GemmShape s = make_shape(1, 20, 30, 40);
      s.a_row = flip ? -s.a_row : 0;
      s.b_row = flip ? -s.b_row : 0;
      const auto gemm = make_gemm(s, {.kind = GemmKind::Portable, .targets = unit});
      std::vector<float> a(20 * 30), b(30 * 40), c(20 * 40);
      for (size_t i = 0; i < a.size(); ++i) a[i] = float(i % 13) - 6;
      for (size_t i = 0; i < b.size(); ++i) b[i] = float(i % 11) - 5;
      const float* a0 = a.data() + (flip ? 19 * 30 : 0);
      const float* b0 = b.data() + (flip ? 29 * 40 : 0);
      const Scratch scratch(*gemm);
      gemm->run_task(0, a0, b0, c.data(), scratch.get());
      for (int64_t i = 0; i < 20; ++i) {
        for (int64_t j = 0; j < 40; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < 30; ++k) sum += double(a0[i * s.a_row + k]) * b0[k * s.b_row + j];
          ASSERT_EQ(c[static_cast<size_t>(i * 40 + j)], sum);
        }
      }
    }
  });
}

TEST(PortableGemm, IsRightWhereKAndColumnsAreCut) {
  on_every_unit([](int64_t unit) {
    for (const Layout& l : layouts()) {
      check_product(make_shape(1, 13, 1030, 35, l), {.kind = GemmKind::Portable, .targets = unit});
      check_product(make_shape(1, 14, 40, 1060, l),
                    {.threads = 3, .kind = GemmKind::Portable, .targets = unit});
      check_product(make_shape(1, 20, 600, 530, l),
                    {.threads = 2, .kind = GemmKind::Portable, .targets = unit});
    }
  });
}

// Rows a multiple of a page apart: both operands are packed.
TEST(PortableGemm, IsRightWhereStridesWouldThrash) {
  on_every_unit([](int64_t unit) {
    for (const bool at : {false, true}) {
      GemmShape s = make_shape(1, 140, 130, 150, {.a_transposed = at});
      (at ? s.a_col : s.a_row) = 1024;
      s.b_row = 1024;
      check_product(s, {.threads = 1, .kind = GemmKind::Portable, .targets = unit});
    }
  });
}

TEST(PortableGemm, IsRightForVectorsOnEitherSide) {
  on_every_unit([](int64_t unit) {
    for (const int64_t size : {1, 3, 17, 130, 300}) {
      for (const int64_t k : {1, 7, 16, 100, 700}) {
        for (const Layout& l : layouts()) {
          check_product(make_shape(1, size, k, 1, l),
                        {.threads = 2, .kind = GemmKind::Portable, .targets = unit});
          check_product(make_shape(1, 1, k, size, l),
                        {.threads = 2, .kind = GemmKind::Portable, .targets = unit});
        }
        check_product(make_shape(1, size, k, 1, kOdd[2]),
                      {.kind = GemmKind::Portable, .targets = unit});
        check_product(make_shape(1, 1, k, size, kOdd[2]),
                      {.kind = GemmKind::Portable, .targets = unit});
      }
    }
  });
}

TEST(PortableGemm, IsRightForBatches) {
  on_every_unit([](int64_t unit) {
    for (Layout l : layouts()) {
      for (const int threads : {1, 2, 5}) {
        const GemmOptions options{.threads = threads, .kind = GemmKind::Portable, .targets = unit};
        check_product(make_shape(29, 12, 32, 12, l), options);
        check_product(make_shape(3, 50, 20, 70, l), options);
        l.share_b = true;
        check_product(make_shape(10, 12, 12, 32, l), options);
        l.share_b = false, l.share_a = true;
        check_product(make_shape(10, 12, 12, 32, l), options);
        l.share_a = false;
      }
    }
  });
}

TEST(DnnlGemm, AgreesWithThePlainLoop) {
  if (make_gemm(make_shape(1, 8, 8, 8), {.kind = GemmKind::Dnnl}) == nullptr) {
    GTEST_SKIP() << "built without oneDNN";
  }
  for (const int threads : {1, 3}) {
    const GemmOptions options{.threads = threads, .block_bytes = 16 << 10, .kind = GemmKind::Dnnl};
    for (Layout l : layouts()) {
      for (const int64_t m : {1, 7, 130}) {
        for (const int64_t n : {1, 10, 150}) check_product(make_shape(1, m, 65, n, l), options);
      }
      check_product(make_shape(29, 12, 32, 12, l), options);
      check_product(make_shape(3, 90, 20, 70, l), options);
      l.share_b = true;
      check_product(make_shape(10, 12, 12, 32, l), options);
    }
    // Strides it may refuse: then there is no product, not a wrong one.
    for (const Layout& l : kOdd) check_product(make_shape(1, 20, 30, 40, l), options, false);
  }
}

TEST(DnnlGemm, RefusesWhatItCannotDo) {
  for (const Layout& l : kOdd) {
    EXPECT_EQ(make_gemm(make_shape(1, 20, 30, 40, l), {.kind = GemmKind::Dnnl}), nullptr);
  }
  EXPECT_EQ(make_gemm(make_shape(1, 20, 0, 40), {.kind = GemmKind::Dnnl}), nullptr);
}

TEST(Gemm, ZeroSizesAreFine) {
  for (const auto& [batch, m, k, n] : {std::array<int64_t, 4>{0, 3, 3, 3},
                                       {2, 0, 3, 3},
                                       {2, 3, 3, 0},
                                       {2, 3, 0, 3},
                                       {1, 0, 0, 0}}) {
    check_product(make_shape(batch, m, k, n), {.threads = 2});  // zeros if only k is 0
  }
}

TEST(Gemm, TasksCoverEveryElementOnce) {
  for (const int threads : {1, 2, 3, 16}) {
    for (const bool whole_rows : {false, true}) {
      for (const auto& [batch, m, n] : {std::array<int64_t, 3>{1, 1, 5000},
                                        {1, 5000, 1},
                                        {1, 100, 1000},
                                        {1, 1000, 100},
                                        {7, 300, 300},
                                        {100, 10, 10},
                                        {3, 20, 4000},
                                        {40, 300, 300}}) {
        const GemmShape s = make_shape(batch, m, 64, n);
        const GemmOptions options{.threads = threads, .whole_rows = whole_rows};
        std::vector<int> covered(static_cast<size_t>(batch * m * n), 0);
        const auto gemm = make_gemm(s, options);
        for (const auto& blocks : gemm->tasks()) {
          ASSERT_FALSE(blocks.empty());
          for (const GemmBlock& block : blocks) {
            EXPECT_EQ(block.c_offset,
                      (block.batch_begin * m + block.row_begin) * n + block.col_begin);
            if (whole_rows) {
              EXPECT_EQ(block.cols(), n);
            }
            for (int64_t b = block.batch_begin; b < block.batch_end; ++b) {
              for (int64_t i = block.row_begin; i < block.row_end; ++i) {
                for (int64_t j = block.col_begin; j < block.col_end; ++j) {
                  ++covered[static_cast<size_t>((b * m + i) * n + j)];
                }
              }
            }
          }
        }
        EXPECT_EQ(std::count(covered.begin(), covered.end(), 1), batch * m * n)
            << batch << " " << m << " " << n << " threads " << threads;
      }
    }
  }
}

TEST(Gemm, LargeProductsShareTheWorkEvenlyAndTinyOnesStayOnOneWorker) {
  const auto work = [](const std::vector<GemmBlock>& blocks) {
    int64_t sum = 0;
    for (const auto& b : blocks) sum += (b.batch_end - b.batch_begin) * b.rows() * b.cols();
    return sum;
  };
  for (const int threads : {2, 4, 6}) {
    for (const auto& [batch, m, n] :
         {std::array<int64_t, 3>{1, 3072, 512}, {1, 128, 512}, {1, 512, 128}, {1024, 12, 12}}) {
      const auto gemm = make_gemm(make_shape(batch, m, 512, n), {.threads = threads});
      ASSERT_EQ(gemm->tasks().size(), static_cast<size_t>(threads)) << m << " " << n;
      for (const auto& blocks : gemm->tasks()) {
        EXPECT_LE(work(blocks) * threads, batch * m * n * 115 / 100) << m << " " << n;
      }
    }
  }
  EXPECT_EQ(make_gemm(make_shape(1, 16, 16, 16), {.threads = 8})->tasks().size(), 1u);
}

TEST(Gemm, BlocksAreSmallEnoughForTheCache) {
  const auto gemm = make_gemm(make_shape(1, 3072, 128, 512), {.threads = 2});
  for (const auto& blocks : gemm->tasks()) {
    for (const GemmBlock& block : blocks) EXPECT_LE(block.rows() * block.cols() * 4, 160 << 10);
  }
}

TEST(Gemm, ABlockMayGoToMemoryOfTheCallers) {
  const GemmShape s = make_shape(1, 200, 64, 300);
  const auto gemm = make_gemm(s, {.threads = 2, .whole_rows = true, .block_bytes = 32 << 10});
  Operands o(s);
  const Scratch scratch(*gemm);
  std::vector<float> own(64 * 300);
  for (size_t t = 0; t < gemm->tasks().size(); ++t) {
    gemm->prepare(t, o.a.data(), o.b.data(), scratch.get());
    for (const GemmBlock& block : gemm->tasks()[t]) {
      ASSERT_LE(block.rows(), 64);
      gemm->run(t, block, o.a.data(), o.b.data(), own.data(), scratch.get());
      std::copy_n(own.data(), block.rows() * 300, o.c.data() + block.c_offset);
    }
  }
  o.check(s);
}

TEST(Gemm, TasksRunAtTheSameTimeWithTheSameResult) {
  Pool pool(4);
  for (const GemmKind kind : {GemmKind::Portable, GemmKind::Dnnl}) {
    for (const GemmShape& s : {make_shape(1, 300, 100, 200, {.b_transposed = true}),
                               make_shape(1, 64, 900, 300, {.a_transposed = true}),
                               make_shape(100, 12, 32, 12, {.b_transposed = true})}) {
      const auto gemm = make_gemm(s, {.threads = 4, .kind = kind});
      if (gemm == nullptr) continue;
      Operands alone(s), together(s);
      run_all(*gemm, alone);
      std::vector<std::unique_ptr<Scratch>> scratch;
      for (int i = 0; i < 4; ++i) scratch.push_back(std::make_unique<Scratch>(*gemm));
      for (int repeat = 0; repeat < 5; ++repeat) {
        pool.run(static_cast<int64_t>(gemm->tasks().size()), [&](int64_t task, int worker) {
          gemm->run_task(static_cast<size_t>(task), together.a.data(), together.b.data(),
                         together.c.data(), scratch[static_cast<size_t>(worker)]->get());
        });
        ASSERT_TRUE(std::equal(alone.c.data(), alone.c.data() + alone.c.size(), together.c.data()));
      }
    }
  }
}

TEST(Gemm, FoldsABatchWithOneBIntoRows) {
  GemmShape s = make_shape(8, 10, 20, 30, {.share_b = true});
  EXPECT_EQ(fold_batch(s).batch, 1);
  EXPECT_EQ(fold_batch(s).m, 80);
  check_product(fold_batch(s), {});
  s.b_batch = 600;
  EXPECT_EQ(fold_batch(s).batch, 8);
  s = make_shape(8, 10, 20, 30, {.a_transposed = true, .share_b = true});
  EXPECT_EQ(fold_batch(s).batch, 8);
}

TEST(Gemm, TheEnvironmentChoosesAnImplementation) {
  const GemmShape s = make_shape(1, 64, 64, 64);
  setenv("TENSORGRAD_GEMM", "dnnl", 1);
  if (make_gemm(s, {.kind = GemmKind::Dnnl}) != nullptr) {
    EXPECT_STREQ(make_gemm(s)->name(), "dnnl");
  }
  EXPECT_EQ(std::string(make_gemm(make_shape(1, 9, 9, 9, kOdd[0]))->name()).substr(0, 8),
            "portable");
  setenv("TENSORGRAD_GEMM", "mkl", 1);
  EXPECT_THROW(make_gemm(s), Error);
  unsetenv("TENSORGRAD_GEMM");
  EXPECT_EQ(std::string(make_gemm(s)->name()).substr(0, 8), "portable");
}

}  // namespace
}  // namespace tensorgrad::cpu
