#include "runtime/cpu/lanes.hpp"

#include <cstring>
#include <limits>

#include "runtime/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/lanes.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "runtime/cpu/vector_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace tensorgrad::cpu::HWY_NAMESPACE {
namespace {

using F32 = hn::ScalableTag<float>;
using V32 = hn::Vec<F32>;

// The n < Lanes lanes at p, and `otherwise` behind them.
HWY_INLINE V32 load_tail(F32 d, const float* p, size_t n, V32 otherwise) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float lanes[HWY_MAX_BYTES / 4];
  hn::Store(otherwise, d, lanes);
  std::memcpy(lanes, p, n * sizeof(float));
  return hn::Load(d, lanes);
#else
  const auto mask = hn::FirstN(d, n);
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, p), otherwise);
#endif
}

struct Sum {
  static constexpr float kIdentity = 0;
  static HWY_INLINE V32 both(V32 a, V32 b) { return hn::Add(a, b); }
  static HWY_INLINE float fold(F32 d, V32 v) { return hn::GetLane(hn::SumOfLanes(d, v)); }
};

template <bool kMax>
struct Extreme {
  static constexpr float kIdentity =
      kMax ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  static HWY_INLINE V32 both(V32 a, V32 b) {
    return kMax ? maximum(F32(), a, b) : minimum(F32(), a, b);
  }
  static HWY_INLINE float fold(F32 d, V32 v) {
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(v))))
      return std::numeric_limits<float>::quiet_NaN();
    return hn::GetLane(kMax ? hn::MaxOfLanes(d, v) : hn::MinOfLanes(d, v));
  }
};

// The order of additions depends on the number of columns alone.
template <class Op>
void reduce_rows_f32(const float* x, ptrdiff_t stride, size_t rows, size_t cols, float* out) {
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  const auto identity = hn::Set(d, Op::kIdentity);
  for (size_t r = 0; r < rows; ++r, x += stride) {
    auto a0 = identity;
    size_t c = 0;
    if (cols >= 4 * lanes) {
      auto a1 = identity, a2 = identity, a3 = identity;
      for (; c + 4 * lanes <= cols; c += 4 * lanes) {
        a0 = Op::both(a0, hn::LoadU(d, x + c));
        a1 = Op::both(a1, hn::LoadU(d, x + c + lanes));
        a2 = Op::both(a2, hn::LoadU(d, x + c + 2 * lanes));
        a3 = Op::both(a3, hn::LoadU(d, x + c + 3 * lanes));
      }
      a0 = Op::both(Op::both(a0, a1), Op::both(a2, a3));
    }
    for (; c + lanes <= cols; c += lanes) a0 = Op::both(a0, hn::LoadU(d, x + c));
    if (c < cols) a0 = Op::both(a0, load_tail(d, x + c, cols - c, identity));
    out[r] = Op::fold(d, a0);
  }
}

void sum_rows(const float* x, ptrdiff_t stride, size_t rows, size_t cols, float* out) {
  reduce_rows_f32<Sum>(x, stride, rows, cols, out);
}
void max_rows(const float* x, ptrdiff_t stride, size_t rows, size_t cols, float* out) {
  reduce_rows_f32<Extreme<true>>(x, stride, rows, cols, out);
}
void min_rows(const float* x, ptrdiff_t stride, size_t rows, size_t cols, float* out) {
  reduce_rows_f32<Extreme<false>>(x, stride, rows, cols, out);
}

// kVectors vectors of columns at a time stay in registers. Partial sums of 64 rows keep rounding
// errors small.
template <int kVectors>
HWY_INLINE void sum_columns_of(const float* x, ptrdiff_t stride, size_t rows, float* out) {
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  for (size_t done = 0; done < rows;) {
    const size_t end = rows - done > 64 ? done + 64 : rows;
    V32 sums[kVectors];
    for (int k = 0; k < kVectors; ++k) sums[k] = hn::Zero(d);
    for (; done < end; ++done, x += stride) {
      for (int k = 0; k < kVectors; ++k)
        sums[k] = hn::Add(sums[k], hn::LoadU(d, x + static_cast<size_t>(k) * lanes));
    }
    for (int k = 0; k < kVectors; ++k) {
      float* to = out + static_cast<size_t>(k) * lanes;
      hn::StoreU(hn::Add(hn::LoadU(d, to), sums[k]), d, to);
    }
  }
}

// Eight whole rows at a time: memory that is read from end to end is fetched ahead by the machine.
void sum_eight_rows(const float* x, ptrdiff_t stride, size_t cols, float* out) {
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  for (size_t c = 0; c < cols; c += lanes, x += lanes) {
    const auto row = [&](ptrdiff_t r) HWY_ATTR { return hn::LoadU(d, x + r * stride); };
    const auto low = hn::Add(hn::Add(row(0), row(1)), hn::Add(row(2), row(3)));
    const auto high = hn::Add(hn::Add(row(4), row(5)), hn::Add(row(6), row(7)));
    hn::StoreU(hn::Add(hn::LoadU(d, out + c), hn::Add(low, high)), d, out + c);
  }
}

void sum_columns(const float* x, ptrdiff_t stride, size_t rows, size_t cols, float* out) {
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  const size_t eights = cols > 8 * lanes ? rows / 8 * 8 : 0;
  const float* rest = x;
  for (size_t r = 0; r < eights; r += 8, rest += 8 * stride)
    sum_eight_rows(rest, stride, cols / lanes * lanes, out);
  const size_t left = rows - eights;
  size_t c = 0;
  for (; c + 8 * lanes <= cols; c += 8 * lanes) sum_columns_of<8>(rest + c, stride, left, out + c);
  for (; c + lanes <= cols; c += lanes) sum_columns_of<1>(rest + c, stride, left, out + c);
  for (size_t done = 0; c < cols && done < rows;) {
    const size_t end = rows - done > 64 ? done + 64 : rows;
    auto sum = hn::Zero(d);
    for (; done < end; ++done) {
      sum = hn::Add(
          sum, load_tail(d, x + c + static_cast<ptrdiff_t>(done) * stride, cols - c, hn::Zero(d)));
    }
    HWY_ALIGN float last[HWY_MAX_BYTES / 4] = {};
    hn::Store(sum, d, last);
    for (size_t k = c; k < cols; ++k) out[k] += last[k - c];
  }
}

void spread(const float* x, float* out, size_t rows, size_t cols) {
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  for (size_t r = 0; r < rows; ++r, out += cols) {
    const auto v = hn::Set(d, x[r]);
    for (size_t c = 0; c < cols; c += lanes) hn::StoreU(v, d, out + c);
  }
}

}  // namespace

const TileFunctions* tile_functions() {
  static const TileFunctions table{sum_rows, max_rows, min_rows, sum_columns, spread};
  return &table;
}

}  // namespace tensorgrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tensorgrad::cpu {

namespace {

const TileFunctions& table() {
  static const TileFunctions& chosen =
      *TENSORGRAD_BEST_VARIANT(machine_targets(), tile_functions)();
  return chosen;
}

const Forms2& combination(const Math& math, ReduceKind kind, bool is_float) {
  switch (kind) {
    case ReduceKind::Sum:
      return is_float ? math.add : math.add_i32;
    case ReduceKind::Prod:
      return is_float ? math.mul : math.mul_i32;
    case ReduceKind::Max:
      return is_float ? math.maximum : math.maximum_i32;
    case ReduceKind::Min:
      return is_float ? math.minimum : math.minimum_i32;
    case ReduceKind::ArgMax:
    case ReduceKind::ArgMin:
      break;
  }
  throw InternalError("cpu: positions are not combined lane by lane");
}

template <class T>
void reduce_rows_of(const Reductions<T>& f, ReduceKind kind, const TileRows& tile, T* out) {
  const auto* x = static_cast<const T*>(tile.lanes);
  T(*reduce)
  (const T*, size_t) = kind == ReduceKind::Sum    ? f.sum
                       : kind == ReduceKind::Prod ? f.prod
                       : kind == ReduceKind::Max  ? f.max
                                                  : f.min;
  for (size_t r = 0; r < tile.rows; ++r, x += tile.stride) out[r] = reduce(x, tile.cols);
}

template <class T>
void arg_rows_of(const Reductions<T>& f, bool max, const TileRows& tile, int32_t position,
                 bool first, T* best, int32_t* index) {
  const auto* x = static_cast<const T*>(tile.lanes);
  for (size_t r = 0; r < tile.rows; ++r, x += tile.stride) {
    const size_t at = max ? f.argmax(x, tile.cols) : f.argmin(x, tile.cols);
    const int32_t here = position + static_cast<int32_t>(at);
    if (first) {
      best[r] = x[at];
      index[r] = here;
    } else {
      (max ? f.argmax_step : f.argmin_step)(best + r, index + r, x + at, here, 1);
    }
  }
}

template <class T>
void arg_columns_of(const Reductions<T>& f, bool max, const TileRows& tile, int32_t position,
                    bool first, T* best, int32_t* index) {
  const auto* x = static_cast<const T*>(tile.lanes);
  for (size_t r = 0; r < tile.rows; ++r, x += tile.stride) {
    const int32_t here = position + static_cast<int32_t>(r);
    if (first && r == 0) {
      copy_lanes(x, best, tile.cols);
      fill_lanes(static_cast<uint32_t>(here), index, tile.cols);
    } else {
      (max ? f.argmax_step : f.argmin_step)(best, index, x, here, tile.cols);
    }
  }
}

}  // namespace

void reduce_rows(const Math& math, ReduceKind kind, bool is_float, const TileRows& tile,
                 void* out) {
  if (!is_float) return reduce_rows_of(math.i32, kind, tile, static_cast<int32_t*>(out));
  const auto* x = static_cast<const float*>(tile.lanes);
  auto* to = static_cast<float*>(out);
  constexpr size_t kPairwiseAbove = 4096;
  switch (kind) {
    case ReduceKind::Sum:
      if (tile.cols > kPairwiseAbove) break;
      return table().sum_rows(x, tile.stride, tile.rows, tile.cols, to);
    case ReduceKind::Max:
      return table().max_rows(x, tile.stride, tile.rows, tile.cols, to);
    case ReduceKind::Min:
      return table().min_rows(x, tile.stride, tile.rows, tile.cols, to);
    default:
      break;
  }
  reduce_rows_of(math.f32, kind, tile, to);
}

void reduce_columns(const Math& math, ReduceKind kind, bool is_float, const TileRows& tile,
                    void* out) {
  const auto* x = static_cast<const float*>(tile.lanes);
  if (is_float && kind == ReduceKind::Sum) {
    return table().sum_columns(x, tile.stride, tile.rows, tile.cols, static_cast<float*>(out));
  }
  const Fn2 both = combination(math, kind, is_float).vv;
  for (size_t r = 0; r < tile.rows; ++r, x += tile.stride) both(out, x, out, tile.cols);
}

void arg_rows(const Math& math, ReduceKind kind, bool is_float, const TileRows& tile,
              int32_t position, bool first, void* best, int32_t* index) {
  const bool max = kind == ReduceKind::ArgMax;
  if (is_float) {
    arg_rows_of(math.f32, max, tile, position, first, static_cast<float*>(best), index);
  } else {
    arg_rows_of(math.i32, max, tile, position, first, static_cast<int32_t*>(best), index);
  }
}

void arg_columns(const Math& math, ReduceKind kind, bool is_float, const TileRows& tile,
                 int32_t position, bool first, void* best, int32_t* index) {
  const bool max = kind == ReduceKind::ArgMax;
  if (is_float) {
    arg_columns_of(math.f32, max, tile, position, first, static_cast<float*>(best), index);
  } else {
    arg_columns_of(math.i32, max, tile, position, first, static_cast<int32_t*>(best), index);
  }
}

uint32_t reduce_identity(ReduceKind kind, bool is_float) {
  const auto bits = [](float x) {
    uint32_t b;
    std::memcpy(&b, &x, sizeof b);
    return b;
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  switch (kind) {
    case ReduceKind::Prod:
      return is_float ? bits(1) : 1;
    case ReduceKind::Max:
      return is_float ? bits(-kInfinity) : 0x80000000u;
    case ReduceKind::Min:
      return is_float ? bits(kInfinity) : 0x7fffffffu;
    case ReduceKind::Sum:
    case ReduceKind::ArgMax:
    case ReduceKind::ArgMin:
      break;
  }
  return 0;
}

void combine_lanes(const Math& math, ReduceKind kind, bool is_float, void* a, const void* b,
                   size_t n) {
  combination(math, kind, is_float).vv(a, b, a, n);
}

void spread_rows(const void* x, void* out, size_t rows, size_t cols) {
  table().spread(static_cast<const float*>(x), static_cast<float*>(out), rows, cols);
}

void repeat_row(const void* x, void* out, size_t rows, size_t cols) {
  auto* to = static_cast<char*>(out);
  for (size_t r = 0; r < rows; ++r, to += cols * 4) copy_lanes(x, to, cols);
}

}  // namespace tensorgrad::cpu
#endif  // HWY_ONCE
