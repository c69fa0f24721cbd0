// Matrix products of the CPU executor, f32: C[b] = A[b] · B[b], prepared once, run often.
//
// make_gemm picks an implementation and cuts the product into tasks that the workers of the
// pool share evenly. A task is a list of blocks; the caller computes a block and at once
// applies its epilogue to it, while the block is in the cache:
//
//   pool.run(gemm.tasks().size(), [&](int64_t t, int worker) {
//     gemm.prepare(t, a, b, scratch[worker]);
//     for (const GemmBlock& block : gemm.tasks()[t]) {
//       gemm.run(t, block, a, b, c + block.c_offset, scratch[worker]);
//       epilogue(block);
//     }
//   });
//
// Results are the same from run to run, and for the same shape and options from machine to
// machine of the same vector unit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tensorgrad::cpu {

// A[b] is m×k, B[b] is k×n, C[b] is m×n. Strides count elements: element (i, j) of A[b] is
// a[b a_batch + i a_row + j a_col]. Rows of C are contiguous, ldc >= n apart. A transposed
// operand is one with its strides swapped; a batch stride of 0 broadcasts. Any dimension may
// be 0; C is all zeros if k is.
struct GemmShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_col = 0, b_row = 0, b_col = 0, ldc = 0;
  int64_t a_batch = 0, b_batch = 0, c_batch = 0;
};

// If B is the same for the whole batch and the rows of A and C go on evenly from one item to
// the next, the batch is one tall product: returns it with batch 1 and m = batch m. Else
// returns the shape as it is.
GemmShape fold_batch(const GemmShape& shape);

// The part of C that one run() writes: rows × columns of each of some items.
struct GemmBlock {
  int64_t batch_begin = 0, batch_end = 0;
  int64_t row_begin = 0, row_end = 0;
  int64_t col_begin = 0, col_end = 0;
  int64_t c_offset = 0;  // of its first element, from the start of C

  int64_t rows() const { return row_end - row_begin; }
  int64_t cols() const { return col_end - col_begin; }
};

// What the epilogue of a block will read or write beside C, element by element: arrays that lie as
// C does, each given by the element that belongs to the block's first. They are fetched while the
// product is computed. Null is none.
struct GemmBeside {
  std::array<const float*, 2> at{};

  // The same further on.
  GemmBeside from(int64_t offset) const {
    GemmBeside moved = *this;
    for (const float*& place : moved.at) place = place == nullptr ? nullptr : place + offset;
    return moved;
  }
};

enum class GemmKind : uint8_t {
  Automatic,  // Portable, unless the environment says TENSORGRAD_GEMM=dnnl
  Portable,   // our own kernels: any shape and strides
  Dnnl,       // oneDNN; null if it is not in this build or does not take the strides
};

struct GemmOptions {
  int threads = 1;          // workers to share the tasks; few are used for a small product
  bool whole_rows = false;  // every block spans all columns (the epilogue reduces over them)
  int64_t block_bytes = 128 << 10;  // of C in a block, roughly
  GemmKind kind = GemmKind::Automatic;
  int64_t targets = -1;  // vector units to choose from, bits as in targets.hpp; for tests
};

class Gemm {
 public:
  virtual ~Gemm() = default;
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  const GemmShape& shape() const { return shape_; }
  // Every element of C is in exactly one block of one task.
  const std::vector<std::vector<GemmBlock>>& tasks() const { return tasks_; }
  // Memory that a worker lends to a task from prepare() to the last run(), aligned to
  // kGemmAlignment.
  size_t scratch_bytes() const { return scratch_bytes_; }
  // For listings: "dnnl", "portable AVX3".
  virtual const char* name() const = 0;

  // Once a task and before its blocks: packs what they share.
  virtual void prepare(size_t task, const float* a, const float* b, void* scratch) const = 0;
  // Writes one of the task's blocks. `c` is where the block's first element goes, with the
  // strides of the shape; it may be in C itself or in memory of the caller's own. Different
  // tasks may run at the same time, one task may not.
  virtual void run(size_t task, const GemmBlock& block, const float* a, const float* b, float* c,
                   void* scratch, const GemmBeside& beside = {}) const = 0;

  // prepare() and all blocks of a task into C, for callers without an epilogue.
  void run_task(size_t task, const float* a, const float* b, float* c, void* scratch) const;

 protected:
  explicit Gemm(const GemmShape& shape) : shape_(shape) {}

  GemmShape shape_;
  std::vector<std::vector<GemmBlock>> tasks_;
  size_t scratch_bytes_ = 0;
};

inline constexpr size_t kGemmAlignment = 64;

// Throws tensorgrad::Error if TENSORGRAD_GEMM is neither "dnnl" nor "portable".
std::unique_ptr<Gemm> make_gemm(const GemmShape& shape, const GemmOptions& options = {});

// --- For the implementations ---

// Cuts C into tasks of blocks. Columns are cut at multiples of col_tile only; a task has at
// least row_tile rows where there are as many, and a block at least min_rows.
std::vector<std::vector<GemmBlock>> cut_into_tasks(const GemmShape& shape,
                                                   const GemmOptions& options, int64_t row_tile,
                                                   int64_t col_tile, int64_t min_rows);

std::unique_ptr<Gemm> make_gemm_portable(const GemmShape& shape, const GemmOptions& options);
std::unique_ptr<Gemm> make_gemm_dnnl(const GemmShape& shape, const GemmOptions& options);

}  // namespace tensorgrad::cpu
