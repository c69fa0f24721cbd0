// Our own matrix product: register tiles of R rows by two vectors, broadcasting A.
//
// Row strips of at most kRows rows go over the columns of B in panels of two vectors. B is
// read in place where its rows are contiguous, else packed into panels: once a task, or once
// an item of a batch. Scalars of A are broadcast from wherever they are; A is packed only
// where its strides are bad for the cache. k is cut into pieces of at most kDepth so that a
// strip of A stays in L1, and columns into pieces of kColumns so that their rows of B stay in
// L2. A product with a vector has kernels of its own. The limits below were measured on Zen 4,
// with AVX-512 and with AVX2 alone.
#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/cpu/gemm.hpp"
#include "runtime/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/gemm_portable.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef TENSORGRAD_GEMM_PORTABLE_PLAN
#define TENSORGRAD_GEMM_PORTABLE_PLAN
namespace tensorgrad::cpu::portable {

enum class PackA : uint8_t { None, Rows, Columns };
enum class PackB : uint8_t { None, Task, Item };
enum class Method : uint8_t { Zero, Tiles, Dots, Axpys };

struct Plan {
  GemmShape shape;
  Method method = Method::Tiles;
  PackA pack_a = PackA::None;
  PackB pack_b = PackB::None;
  int64_t pack_a_floats = 0;  // at the start of the scratch memory; B's panels follow
};

// What one vector unit offers.
struct Kernels {
  const char* target;
  int64_t rows, lanes;  // of a register tile, of a vector
  int64_t depth;        // of a piece of k, at most
  bool masks;           // B may be read in place if its columns do not fill vectors
  bool pack_columns;    // of A, if it is transposed and k is long
  // Scratch floats for a product of `cols` columns.
  int64_t (*packed_b_floats)(const Plan&, int64_t cols);
  void (*pack_b)(const Plan&, const float* b, int64_t col_begin, int64_t col_end, float* packed);
  void (*run)(const Plan&, const GemmBlock&, const GemmBlock& task, const float* a, const float* b,
              float* c, float* scratch, const GemmBeside&);
};

constexpr int64_t kPage = 1024;  // floats

// The distance of packed rows of A: not a multiple of a page.
inline int64_t packed_row(int64_t depth) { return depth + 16; }

}  // namespace tensorgrad::cpu::portable
#endif

#if defined(__clang__)
#define TENSORGRAD_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TENSORGRAD_UNROLL _Pragma("GCC unroll 16")
#endif

HWY_BEFORE_NAMESPACE();
namespace tensorgrad::cpu::portable::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using Vec = hn::Vec<F32>;

constexpr int64_t kLanes = hn::MaxLanes(F32());
// Rows in a tile: with two vectors a row, the accumulators leave room for B and a broadcast.
// Fewer rows use each row of B less often, so that it must come from nearer by.
#if HWY_TARGET == HWY_AVX3
constexpr int kRows = 12;
constexpr int64_t kDepth = 512, kColumns = 512;
constexpr int64_t kPrefetch = 24;  // rows of B ahead; 0 is none
#else
constexpr int kRows = HWY_TARGET == HWY_SCALAR ? 4 : 6;
constexpr int64_t kDepth = 256, kColumns = 256;
constexpr int64_t kPrefetch = 0;
#endif

// An operand of at most so many elements is fetched while the item before it is computed.
constexpr int64_t kFetched = 2048;

// k is cut into equal pieces, at most kDepth long.
HWY_INLINE int64_t depth_pieces(int64_t k) { return (k + kDepth - 1) / kDepth; }

// Masked loads and stores never touch memory outside the mask: AVX2 and up.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
constexpr bool kMasks = true;
#else
constexpr bool kMasks = false;
#endif

HWY_INLINE Vec load_first(const float* p, int64_t n) {
  const F32 d;
  if constexpr (kMasks) {
    return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n)), d, p);
  } else {
    HWY_ALIGN float lanes[kLanes] = {};
    std::memcpy(lanes, p, static_cast<size_t>(n) * sizeof(float));
    return hn::Load(d, lanes);
  }
}

HWY_INLINE void store_first(Vec v, float* p, int64_t n) {
  const F32 d;
  if constexpr (kMasks) {
    hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, p);
  } else {
    HWY_ALIGN float lanes[kLanes];
    hn::Store(v, d, lanes);
    std::memcpy(p, lanes, static_cast<size_t>(n) * sizeof(float));
  }
}

// Some rows of A times some rows of B.
struct Strip {
  const float* a;
  int64_t a_row, a_col;
  int64_t k;
  int64_t ldc;
  bool add;           // to what C holds, from an earlier piece of k
  int64_t b_ahead;    // what to prefetch of B: its rows may be pages apart, which the hardware
                      // does not foresee. 0 if B is packed: behind it is another worker's memory.
  GemmBeside beside;  // of the strip's first element of C
};

// Fetches what will be wanted beside two vectors of columns of C, from column j on.
HWY_INLINE void fetch_beside(const Strip& s, int rows, int64_t j) {
  for (const float* at : s.beside.at) {
    if (at == nullptr) continue;
    for (int i = 0; i < rows; ++i) {
      const float* row = at + i * s.ldc + j;
      __builtin_prefetch(row);
      __builtin_prefetch(row + kLanes);
    }
  }
}

// One register tile. With kPart, its last vector has `part` columns only; the loads of B are
// then masked, or B is padded.
template <int R, int V, bool kPart>
HWY_INLINE void tile(const Strip& s, const float* HWY_RESTRICT b, int64_t ldb,
                     float* HWY_RESTRICT c, int64_t part) {
  const F32 d;
  Vec acc[R][V];
  TENSORGRAD_UNROLL
  for (int i = 0; i < R; ++i) {
    TENSORGRAD_UNROLL
    for (int v = 0; v < V; ++v) acc[i][v] = hn::Zero(d);
  }
  const auto mask = hn::FirstN(d, static_cast<size_t>(part));
  // Three base pointers and small multiples of the stride reach twelve rows without more
  // registers.
  const int64_t row = s.a_row, row3 = 3 * s.a_row;
  const float* a0 = s.a;
  const float* a4 = s.a + 4 * row;
  const float* a8 = s.a + 8 * row;
  for (int64_t k = 0; k < s.k; ++k) {
    if constexpr (kPrefetch > 0) {
      __builtin_prefetch(b + s.b_ahead);
      if constexpr (V > 1) __builtin_prefetch(b + s.b_ahead + kLanes);
    }
    Vec bk[V];
    TENSORGRAD_UNROLL
    for (int v = 0; v < V; ++v) {
      if constexpr (kPart && kMasks) {
        bk[v] = v + 1 < V ? hn::LoadU(d, b + v * kLanes) : hn::MaskedLoad(mask, d, b + v * kLanes);
      } else {
        bk[v] = hn::LoadU(d, b + v * kLanes);
      }
    }
    TENSORGRAD_UNROLL
    for (int i = 0; i < R; ++i) {
      const float* base = i < 4 ? a0 : i < 8 ? a4 : a8;
      const int64_t offset = i % 4 == 3 ? row3 : (i % 4) * row;
      const Vec ai = hn::Set(d, base[offset]);
      TENSORGRAD_UNROLL
      for (int v = 0; v < V; ++v) acc[i][v] = hn::MulAdd(ai, bk[v], acc[i][v]);
    }
    b += ldb;
    a0 += s.a_col;
    a4 += s.a_col;
    a8 += s.a_col;
  }
  TENSORGRAD_UNROLL
  for (int i = 0; i < R; ++i) {
    float* ci = c + i * s.ldc;
    TENSORGRAD_UNROLL
    for (int v = 0; v < V; ++v) {
      if (kPart && v + 1 == V) {
        if (s.add) acc[i][v] = hn::Add(acc[i][v], load_first(ci + v * kLanes, part));
        store_first(acc[i][v], ci + v * kLanes, part);
      } else {
        if (s.add) acc[i][v] = hn::Add(acc[i][v], hn::LoadU(d, ci + v * kLanes));
        hn::StoreU(acc[i][v], d, ci + v * kLanes);
      }
    }
  }
}

// All columns of a strip of R rows. `packed` says that B is in panels: [column pair][k][2
// vectors], the last perhaps of one vector; else its rows are ldb apart.
template <int R>
void strip(const Strip& s, const float* b, int64_t ldb, bool packed, float* c, int64_t cols) {
  constexpr int64_t kPanel = 2 * kLanes;
  int64_t j = 0;
  for (; j + kPanel <= cols; j += kPanel) {
    fetch_beside(s, R, j);
    tile<R, 2, false>(s, packed ? b + j * s.k : b + j, packed ? kPanel : ldb, c + j, kLanes);
  }
  const int64_t left = cols - j;
  if (left == 0) return;
  const float* bj = packed ? b + j * s.k : b + j;
  if (left > kLanes) {
    tile<R, 2, true>(s, bj, packed ? kPanel : ldb, c + j, left - kLanes);
  } else if (left == kLanes) {
    tile<R, 1, false>(s, bj, packed ? kLanes : ldb, c + j, kLanes);
  } else {
    tile<R, 1, true>(s, bj, packed ? kLanes : ldb, c + j, left);
  }
}

using StripFn = void (*)(const Strip&, const float*, int64_t, bool, float*, int64_t);

template <int... R>
constexpr StripFn strip_of(int rows, std::integer_sequence<int, R...>) {
  constexpr StripFn kTable[] = {strip<R + 1>...};
  return kTable[rows - 1];
}

// Copies some rows of A to where they are near each other.
HWY_INLINE void pack_strip(PackA how, Strip& s, int rows, float* to) {
  if (how == PackA::Rows) {
    const int64_t stride = packed_row(s.k);
    for (int i = 0; i < rows; ++i) {
      std::memcpy(to + i * stride, s.a + i * s.a_row, static_cast<size_t>(s.k) * sizeof(float));
    }
    s.a_row = stride;
  } else {
    const F32 d;
    for (int64_t k = 0; k < s.k; ++k) {
      const float* from = s.a + k * s.a_col;
      if constexpr (kMasks) {  // the next k overwrites the lanes behind `rows`
        hn::StoreU(load_first(from, rows), d, to + k * rows);
      } else {
        for (int i = 0; i < rows; ++i) to[k * rows + i] = from[i];
      }
    }
    s.a_col = rows;
  }
  s.a = to;
}

// Four rows of four columns, transposed: to[r] gets from[.][r].
HWY_INLINE void transpose_4x4(const float* from, int64_t from_stride, float* to,
                              int64_t to_stride) {
#if HWY_TARGET == HWY_SCALAR
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 4; ++c) to[r * to_stride + c] = from[c * from_stride + r];
  }
#else
  const hn::Full128<float> d;
  const hn::Full128<double> dd;
  const auto v0 = hn::LoadU(d, from), v1 = hn::LoadU(d, from + from_stride);
  const auto v2 = hn::LoadU(d, from + 2 * from_stride), v3 = hn::LoadU(d, from + 3 * from_stride);
  const auto low01 = hn::BitCast(dd, hn::InterleaveLower(d, v0, v1));
  const auto low23 = hn::BitCast(dd, hn::InterleaveLower(d, v2, v3));
  const auto high01 = hn::BitCast(dd, hn::InterleaveUpper(d, v0, v1));
  const auto high23 = hn::BitCast(dd, hn::InterleaveUpper(d, v2, v3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, low01, low23)), d, to + to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, high01, high23)), d, to + 2 * to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, high01, high23)), d, to + 3 * to_stride);
#endif
}

// One panel of B: `cols` columns of `depth` rows to [depth][width]. Where tile() cannot mask
// its loads, the rest of the width is zeros.
void pack_panel(const float* b, int64_t b_row, int64_t b_col, int64_t depth, int64_t cols,
                int64_t width, float* to) {
  const F32 d;
  if (b_col == 1) {
    const int64_t whole = cols / kLanes * kLanes;
    for (int64_t k = 0; k < depth; ++k, b += b_row, to += width) {
      for (int64_t j = 0; j < whole; j += kLanes) hn::StoreU(hn::LoadU(d, b + j), d, to + j);
      if (whole < cols) hn::StoreU(load_first(b + whole, cols - whole), d, to + whole);
    }
    return;
  }
  if (cols < width && !kMasks) std::fill_n(to, depth * width, 0.0f);
  int64_t j = 0;
  if (b_row == 1) {
    for (; j + 4 <= cols; j += 4) {
      int64_t k = 0;
      for (; k + 4 <= depth; k += 4) {
        transpose_4x4(b + j * b_col + k, b_col, to + k * width + j, width);
      }
      for (; k < depth; ++k) {
        for (int64_t jj = j; jj < j + 4; ++jj) to[k * width + jj] = b[jj * b_col + k];
      }
    }
  }
  for (; j < cols; ++j) {
    for (int64_t k = 0; k < depth; ++k) to[k * width + j] = b[k * b_row + j * b_col];
  }
}

int64_t padded(int64_t cols) { return (cols + kLanes - 1) / kLanes * kLanes; }

int64_t packed_b_floats(const Plan& plan, int64_t cols) { return plan.shape.k * padded(cols); }

// All of B's columns [col_begin, col_end): for each piece of k, its panels.
void pack_b(const Plan& plan, const float* b, int64_t col_begin, int64_t col_end, float* packed) {
  const GemmShape& s = plan.shape;
  const int64_t pieces = depth_pieces(s.k), cols = col_end - col_begin;
  for (int64_t p = 0; p < pieces; ++p) {
    const int64_t k0 = s.k * p / pieces, depth = s.k * (p + 1) / pieces - k0;
    for (int64_t j = 0; j < cols; j += 2 * kLanes) {
      const int64_t count = std::min(cols - j, 2 * kLanes);
      pack_panel(b + k0 * s.b_row + (col_begin + j) * s.b_col, s.b_row, s.b_col, depth, count,
                 padded(count), packed + k0 * padded(cols) + j * depth);
    }
  }
}

// One item of the batch. `packed` are B's panels for the columns [packed_begin, packed_end).
void run_tiles(const Plan& plan, const GemmBlock& block, const float* a, const float* b,
               const float* packed, int64_t packed_begin, int64_t packed_end, float* c,
               float* pack_a, const GemmBeside& beside) {
  const GemmShape& s = plan.shape;
  const int64_t pieces = depth_pieces(s.k);
  const int64_t rows = block.rows(), strips = (rows + kRows - 1) / kRows;
  for (int64_t j = block.col_begin; j < block.col_end; j += kColumns) {
    const int64_t cols = std::min(kColumns, block.col_end - j);
    for (int64_t p = 0; p < pieces; ++p) {
      const int64_t k0 = s.k * p / pieces, depth = s.k * (p + 1) / pieces - k0;
      const float* bp = packed != nullptr ? packed + k0 * padded(packed_end - packed_begin) +
                                                (j - packed_begin) * depth
                                          : b + k0 * s.b_row + j;
      for (int64_t i = 0; i < strips; ++i) {  // strips of nearly equal height
        const int64_t r0 = rows * i / strips;
        const int height = static_cast<int>(rows * (i + 1) / strips - r0);
        const float* rows_of_a = a + (block.row_begin + r0) * s.a_row + k0 * s.a_col;
        const int64_t b_ahead = packed != nullptr ? 0 : kPrefetch * s.b_row;
        const int64_t at = r0 * s.ldc + j - block.col_begin;
        Strip strip{rows_of_a, s.a_row, s.a_col, depth, s.ldc, p > 0, b_ahead, {}};
        if (p + 1 == pieces) strip.beside = beside.from(at);
        if (plan.pack_a != PackA::None) pack_strip(plan.pack_a, strip, height, pack_a);
        strip_of(height, std::make_integer_sequence<int, kRows>())(strip, bp, s.b_row,
                                                                   packed != nullptr, c + at, cols);
      }
    }
  }
}

// y[i y_stride] = sum over k of m[i row + k] x[k]: each row is a dot product.
void run_dots(const float* m, int64_t row, int64_t rows, const float* x, int64_t k, float* y,
              int64_t y_stride) {
  const F32 d;
  const int64_t whole = k / kLanes * kLanes;
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    const float* m0 = m + i * row;
    Vec s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    for (int64_t j = 0; j < whole; j += kLanes) {
      const Vec xj = hn::LoadU(d, x + j);
      s0 = hn::MulAdd(hn::LoadU(d, m0 + j), xj, s0);
      s1 = hn::MulAdd(hn::LoadU(d, m0 + row + j), xj, s1);
      s2 = hn::MulAdd(hn::LoadU(d, m0 + 2 * row + j), xj, s2);
      s3 = hn::MulAdd(hn::LoadU(d, m0 + 3 * row + j), xj, s3);
    }
    if (whole < k) {
      const Vec xj = load_first(x + whole, k - whole);
      s0 = hn::MulAdd(load_first(m0 + whole, k - whole), xj, s0);
      s1 = hn::MulAdd(load_first(m0 + row + whole, k - whole), xj, s1);
      s2 = hn::MulAdd(load_first(m0 + 2 * row + whole, k - whole), xj, s2);
      s3 = hn::MulAdd(load_first(m0 + 3 * row + whole, k - whole), xj, s3);
    }
    y[i * y_stride] = hn::GetLane(hn::SumOfLanes(d, s0));
    y[(i + 1) * y_stride] = hn::GetLane(hn::SumOfLanes(d, s1));
    y[(i + 2) * y_stride] = hn::GetLane(hn::SumOfLanes(d, s2));
    y[(i + 3) * y_stride] = hn::GetLane(hn::SumOfLanes(d, s3));
  }
  for (; i < rows; ++i) {
    Vec sum = hn::Zero(d);
    for (int64_t j = 0; j < whole; j += kLanes) {
      sum = hn::MulAdd(hn::LoadU(d, m + i * row + j), hn::LoadU(d, x + j), sum);
    }
    if (whole < k) {
      sum = hn::MulAdd(load_first(m + i * row + whole, k - whole), load_first(x + whole, k - whole),
                       sum);
    }
    y[i * y_stride] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

// y[i] = sum over k of m[k col + i] x[k x_stride]: columns times scalars, V vectors at once.
template <int V>
HWY_INLINE void axpys(const float* m, int64_t col, const float* x, int64_t x_stride, int64_t k,
                      float* y) {
  const F32 d;
  Vec acc[V];
  TENSORGRAD_UNROLL
  for (int v = 0; v < V; ++v) acc[v] = hn::Zero(d);
  for (int64_t j = 0; j < k; ++j, m += col, x += x_stride) {
    const Vec xj = hn::Set(d, *x);
    TENSORGRAD_UNROLL
    for (int v = 0; v < V; ++v) acc[v] = hn::MulAdd(xj, hn::LoadU(d, m + v * kLanes), acc[v]);
  }
  TENSORGRAD_UNROLL
  for (int v = 0; v < V; ++v) hn::StoreU(acc[v], d, y + v * kLanes);
}

// The same for a matrix that is too large for the cache: by rows, so that it is read in order.
void stream_axpys(const float* m, int64_t col, int64_t rows, const float* x, int64_t x_stride,
                  int64_t k, float* y) {
  const F32 d;
  constexpr int kAtOnce = 8;
  for (int64_t j = 0; j < k; j += kAtOnce, m += kAtOnce * col, x += kAtOnce * x_stride) {
    const int count = static_cast<int>(std::min<int64_t>(kAtOnce, k - j));
    Vec xs[kAtOnce];
    for (int q = 0; q < kAtOnce; ++q) xs[q] = hn::Set(d, q < count ? x[q * x_stride] : 0.0f);
    const auto add = [&](int64_t i, int64_t lanes, Vec sum) HWY_ATTR {
      for (int q = 0; q < count; ++q) {
        sum = hn::MulAdd(xs[q], load_first(m + q * col + i, lanes), sum);
      }
      return sum;
    };
    int64_t i = 0;
    if (count == kAtOnce) {
      for (; i + kLanes <= rows; i += kLanes) {
        Vec sum = j == 0 ? hn::Zero(d) : hn::LoadU(d, y + i);
        TENSORGRAD_UNROLL
        for (int q = 0; q < kAtOnce; ++q) {
          sum = hn::MulAdd(xs[q], hn::LoadU(d, m + q * col + i), sum);
        }
        hn::StoreU(sum, d, y + i);
      }
    }
    for (; i < rows; i += kLanes) {
      const int64_t lanes = std::min(kLanes, rows - i);
      store_first(add(i, lanes, j == 0 ? hn::Zero(d) : load_first(y + i, lanes)), y + i, lanes);
    }
  }
}

void run_axpys(const float* m, int64_t col, int64_t rows, const float* x, int64_t x_stride,
               int64_t k, float* y, int64_t y_stride) {
  constexpr int64_t kLarge = 1 << 16;  // floats
  int64_t i = 0;
  if (y_stride == 1) {
    if (rows * k > kLarge) return stream_axpys(m, col, rows, x, x_stride, k, y);
    for (; i + 8 * kLanes <= rows; i += 8 * kLanes) axpys<8>(m + i, col, x, x_stride, k, y + i);
    for (; i + 2 * kLanes <= rows; i += 2 * kLanes) axpys<2>(m + i, col, x, x_stride, k, y + i);
  }
  const F32 d;
  for (; i < rows; i += kLanes) {
    const int64_t count = std::min(kLanes, rows - i);
    Vec acc = hn::Zero(d);
    for (int64_t j = 0; j < k; ++j) {
      acc = hn::MulAdd(hn::Set(d, x[j * x_stride]), load_first(m + j * col + i, count), acc);
    }
    if (y_stride == 1) {
      store_first(acc, y + i, count);
    } else {
      HWY_ALIGN float lanes[kLanes];
      hn::Store(acc, d, lanes);
      for (int64_t r = 0; r < count; ++r) y[(i + r) * y_stride] = lanes[r];
    }
  }
}

// A product with a vector on one side: m × 1 or 1 × n.
void run_vector(const Plan& plan, const GemmBlock& block, const float* a, const float* b, float* c,
                float* scratch) {
  const GemmShape& s = plan.shape;
  const bool column = s.n == 1;  // A times a column, else a row times B
  const float* m = column ? a + block.row_begin * s.a_row : b + block.col_begin * s.b_col;
  const float* x = column ? b : a;
  const int64_t x_stride = column ? s.b_row : s.a_col;
  const int64_t outputs = column ? block.rows() : block.cols();
  const int64_t y_stride = column ? s.ldc : 1;
  if (plan.method == Method::Axpys) {
    const int64_t col = column ? s.a_col : s.b_row;
    return run_axpys(m, col, outputs, x, x_stride, s.k, c, y_stride);
  }
  if (x_stride != 1) {
    for (int64_t k = 0; k < s.k; ++k) scratch[k] = x[k * x_stride];
    x = scratch;
  }
  run_dots(m, column ? s.a_row : s.b_col, outputs, x, s.k, c, y_stride);
}

// Fetches a small matrix ahead of time: its rows may be anywhere.
HWY_INLINE void fetch(const float* x, int64_t rows, int64_t row, int64_t cols, int64_t col) {
  if (col != 1) {
    std::swap(rows, cols);
    std::swap(row, col);
  }
  if (rows * cols > kFetched) return;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; j += 16) __builtin_prefetch(x + i * row + j);
  }
}

void run_block(const Plan& plan, const GemmBlock& block, const GemmBlock& task, const float* a,
               const float* b, float* c, float* scratch, const GemmBeside& beside) {
  const GemmShape& s = plan.shape;
  for (int64_t item = block.batch_begin; item < block.batch_end; ++item) {
    const float* ai = a + item * s.a_batch;
    const float* bi = b + item * s.b_batch;
    float* ci = c + (item - block.batch_begin) * s.c_batch;
    float* panels = scratch + plan.pack_a_floats;
    if (item + 1 < block.batch_end) {
      if (s.a_batch != 0) fetch(ai + s.a_batch, s.m, s.a_row, s.k, s.a_col);
      if (s.b_batch != 0) fetch(bi + s.b_batch, s.k, s.b_row, s.n, s.b_col);
    }
    switch (plan.method) {
      case Method::Zero:
        for (int64_t i = 0; i < block.rows(); ++i) std::fill_n(ci + i * s.ldc, block.cols(), 0.0f);
        break;
      case Method::Tiles:
        if (plan.pack_b == PackB::Item) pack_b(plan, bi, block.col_begin, block.col_end, panels);
        run_tiles(plan, block, ai, bi, plan.pack_b == PackB::None ? nullptr : panels,
                  plan.pack_b == PackB::Task ? task.col_begin : block.col_begin,
                  plan.pack_b == PackB::Task ? task.col_end : block.col_end, ci, scratch,
                  beside.from(ci - c));
        break;
      case Method::Dots:
      case Method::Axpys:
        run_vector(plan, block, ai, bi, ci, scratch);
        break;
    }
  }
}

}  // namespace

const Kernels* kernels() {
  // Twelve rows a strip hide the strides of a transposed A well enough, unless they are of pages.
  static const Kernels table = {hwy::TargetName(HWY_TARGET),
                                kRows,
                                kLanes,
                                kDepth,
                                kMasks,
                                kRows < 12,
                                packed_b_floats,
                                pack_b,
                                run_block};
  return &table;
}

}  // namespace tensorgrad::cpu::portable::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tensorgrad::cpu {
namespace portable {

class PortableGemm final : public Gemm {
 public:
  PortableGemm(const GemmShape& shape, const GemmOptions& options)
      : Gemm(shape),
        kernels_(*TENSORGRAD_BEST_VARIANT(options.targets & machine_targets(), kernels)()) {
    plan_.shape = shape;
    GemmShape& s = plan_.shape;
    // Strides along an axis of one element mean nothing: give them the easy value.
    if (s.m == 1) s.a_row = s.a_col == 1 ? s.k : 1;
    if (s.n == 1) s.b_col = s.b_row == 1 ? s.k : 1;
    if (s.k == 1 && s.n != 1) s.b_row = s.b_col == 1 ? s.n : 1;
    if (s.k == 1 && s.m != 1) s.a_col = s.a_row == 1 ? s.m : 1;
    plan_.method = choose_method(s);
    tasks_ = cut_into_tasks(s, options, kernels_.rows, 2 * kernels_.lanes, kernels_.rows);
    for (const auto& blocks : tasks_) {
      GemmBlock all = blocks.front();
      all.batch_end = blocks.back().batch_end;
      all.row_end = blocks.back().row_end;
      all.col_end = blocks.back().col_end;
      task_bounds_.push_back(all);
    }
    if (plan_.method == Method::Dots) scratch_bytes_ = static_cast<size_t>(s.k) * sizeof(float);
    if (plan_.method == Method::Tiles) choose_packing();
    name_ = std::string("portable ") + kernels_.target;
  }

  const char* name() const override { return name_.c_str(); }

  void prepare(size_t task, const float*, const float* b, void* scratch) const override {
    if (plan_.pack_b != PackB::Task) return;
    const GemmBlock& all = task_bounds_[task];
    kernels_.pack_b(plan_, b + all.batch_begin * plan_.shape.b_batch, all.col_begin, all.col_end,
                    static_cast<float*>(scratch) + plan_.pack_a_floats);
  }

  void run(size_t task, const GemmBlock& block, const float* a, const float* b, float* c,
           void* scratch, const GemmBeside& beside) const override {
    kernels_.run(plan_, block, task_bounds_[task], a, b, c, static_cast<float*>(scratch), beside);
  }

 private:
  static Method choose_method(const GemmShape& s) {
    if (s.k == 0) return Method::Zero;
    if (s.n == 1 && s.a_col == 1) return Method::Dots;
    if (s.n == 1 && s.a_row == 1) return Method::Axpys;
    if (s.m == 1 && s.b_col == 1) return Method::Axpys;
    if (s.m == 1 && s.b_row == 1) return Method::Dots;
    return Method::Tiles;
  }

  void choose_packing() {
    const GemmShape& s = plan_.shape;
    int64_t max_rows = 0, max_cols = 0, max_items = 0;
    for (const GemmBlock& all : task_bounds_) {
      max_rows = std::max(max_rows, all.rows());
      max_cols = std::max(max_cols, all.cols());
      max_items = std::max(max_items, all.batch_end - all.batch_begin);
    }
    // B is read in place if its rows are contiguous. Rows a multiple of a page apart fall
    // into the same few sets of the cache: such operands are packed if that pays.
    const bool readable = s.b_col == 1 && (kernels_.masks || s.n % kernels_.lanes == 0);
    const bool b_thrashes = s.b_row != 0 && s.b_row % kPage == 0 && s.k >= 64 && max_rows >= 128;
    const bool a_thrashes = s.a_col == 1 && s.a_row != 0 && s.a_row % kPage == 0 && max_cols >= 128;
    const bool pack_b = !readable || b_thrashes;
    if (pack_b) plan_.pack_b = max_items == 1 || s.b_batch == 0 ? PackB::Task : PackB::Item;
    if (a_thrashes) plan_.pack_a = PackA::Rows;
    const bool columns_thrash = s.a_col != 0 && s.a_col % kPage == 0 && s.k >= 64;
    if (s.a_row == 1 && max_cols >= 128 &&
        (columns_thrash || (kernels_.pack_columns && s.k >= 512))) {
      plan_.pack_a = PackA::Columns;
    }
    if (plan_.pack_a != PackA::None)
      plan_.pack_a_floats = kernels_.rows * packed_row(kernels_.depth);
    const int64_t panels = pack_b ? kernels_.packed_b_floats(plan_, max_cols) : 0;
    scratch_bytes_ = static_cast<size_t>(plan_.pack_a_floats + panels) * sizeof(float);
  }

  Plan plan_;
  const Kernels& kernels_;
  std::vector<GemmBlock> task_bounds_;
  std::string name_;
};

}  // namespace portable

std::unique_ptr<Gemm> make_gemm_portable(const GemmShape& shape, const GemmOptions& options) {
  return std::make_unique<portable::PortableGemm>(shape, options);
}

}  // namespace tensorgrad::cpu
#endif  // HWY_ONCE
