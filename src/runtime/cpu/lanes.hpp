// Block functions of the executor that go beyond one operation on each lane: reductions of tiles,
// spreading values along a tile, moving tiles between memory and registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cpu/math.hpp"
#include "tensorgrad/kernel.hpp"

namespace tensorgrad::cpu {

// A tile is rows × cols lanes; its rows are `stride` lanes apart and each is contiguous.
struct TileRows {
  const void* lanes;
  ptrdiff_t stride;
  size_t rows, cols;
};

// out[r] = reduction of row r.
void reduce_rows(const Math& math, ReduceKind kind, bool is_float, const TileRows& tile, void* out);

// out[c] = out[c] ⊕ the reduction of column c.
void reduce_columns(const Math& math, ReduceKind kind, bool is_float, const TileRows& tile,
                    void* out);

// Arg reductions: best[r] and index[r] are what was found so far in the row (column) unless
// `first`; positions count from `position`.
void arg_rows(const Math& math, ReduceKind kind, bool is_float, const TileRows& tile,
              int32_t position, bool first, void* best, int32_t* index);
void arg_columns(const Math& math, ReduceKind kind, bool is_float, const TileRows& tile,
                 int32_t position, bool first, void* best, int32_t* index);

// What a reduction starts from, as bits.
uint32_t reduce_identity(ReduceKind kind, bool is_float);

// a = a ⊕ b, lane by lane.
void combine_lanes(const Math& math, ReduceKind kind, bool is_float, void* a, const void* b,
                   size_t n);

// out[r·cols + c] = x[r]. Writes up to 15 lanes behind the end.
void spread_rows(const void* x, void* out, size_t rows, size_t cols);
// out[r·cols + c] = x[c].
void repeat_row(const void* x, void* out, size_t rows, size_t cols);

// The part that is compiled for each vector unit.
struct TileFunctions {
  using Rows = void (*)(const float* x, ptrdiff_t stride, size_t rows, size_t cols, float* out);
  Rows sum_rows, max_rows, min_rows, sum_columns;
  void (*spread)(const float* x, float* out, size_t rows, size_t cols);
};

}  // namespace tensorgrad::cpu
