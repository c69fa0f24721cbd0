#include "codegen/wgsl/matmul_tile.hpp"

#include "ir/ceil_div.hpp"

namespace tensorgrad::wgsl {

namespace {

// Large tiles have the most arithmetic for each element they fetch, but few of them run at a time;
// what is left over for a last, partly filled round costs as much as a full one. All figures are of
// an H200 with its 132 processors, by bench/matmul_sweep.cpp.
constexpr MatMulTile kLarge{128, 64, 16, 8, 8, 1, 16}, kMiddle{64, 64, 16, 8, 8, 1, 16};

struct Choice {
  MatMulTile tile;
  double straight, turned;  ///< TFLOP/s with full rounds, by how the right operand lies
  std::int64_t round;       ///< workgroups that run at a time
  std::int64_t least;       ///< workgroups
  std::int64_t k;           ///< below it the tile is slower
};

constexpr Choice kChoices[] = {
    {{128, 128, 16, 8, 16, 1, 16}, 46.5, 42, 264, 224, 512},
    {{128, 192, 32, 8, 12, 1, 16}, 45, 38, 132, 113, 768},
    {{128, 128, 32, 8, 8, 1, 16}, 0, 40.5, 396, 128, 8},
    {kLarge, 42, 36, 396, 256, 8},
    {kMiddle, 39.5, 36, 264, 192, 8},
};

/// The one that promises most, or null if all want more workgroups.
template <class Workgroups, class Fits>
const MatMulTile* fastest(const TileRequest& request, const Workgroups& workgroups,
                          const Fits& fits) {
  const MatMulTile* best = nullptr;
  double most = 0;
  for (const Choice& c : kChoices) {
    const double peak = request.turned ? c.turned : c.straight;
    if (peak == 0 || request.k < c.k || !fits(c.tile, c.least)) continue;
    const std::int64_t rounds = ceil_div(workgroups(c.tile), c.round);
    const std::int64_t room = rounds * c.round * c.tile.m * c.tile.n;
    const double rate = peak * static_cast<double>(request.batch * request.m * request.n) /
                        static_cast<double>(room);
    if (rate > most) most = rate, best = &c.tile;
  }
  return best;
}

}  // namespace

std::optional<MatMulTile> choose_tile(const TileRequest& request, const WgslLimits& limits) {
  const std::int64_t batch = request.batch, m = request.m, n = request.n, k = request.k;
  if (m < 8 || n < 8 || k < 8 || m * n * k < (1 << 15)) return std::nullopt;
  const auto workgroups = [&](const MatMulTile& t) {
    return batch * ceil_div(m, t.m) * ceil_div(n, t.n);
  };
  const auto allowed = [&](const MatMulTile& t) {
    return t.threads() <= limits.invocations &&
           t.bytes() <= static_cast<std::int64_t>(limits.workgroup_bytes);
  };
  const auto try_tile = [&](MatMulTile t, std::int64_t least) {
    return m > t.m / 2 && n > t.n / 2 && workgroups(t) >= least && allowed(t);
  };
  if (request.heavy_epilogue) {
    // An epilogue with exponentials wants threads with few elements, because all of it is written
    // out for each.
    constexpr MatMulTile kLight{64, 64, 16, 8, 4, 1, 8};
    if (try_tile(kLarge, 700)) return kLarge;
    if (try_tile(kLight, 64)) return kLight;
  } else {
    if (const MatMulTile* best = fastest(request, workgroups, try_tile)) return *best;
    // Few tiles: teams share out the steps.
    for (const std::int64_t slices : {4, 2}) {
      MatMulTile sliced = kMiddle;
      sliced.slices = slices;
      const bool long_enough = k >= 4 * slices * sliced.k;
      const bool room = workgroups(sliced) * slices < 512;
      if (long_enough && room && try_tile(sliced, 96)) return sliced;
    }
  }
  MatMulTile small{32, 32, 16, 4, 4, 1, 8};
  if (m <= 16) small = {16, 64, 16, 4, 4, 1, 8};
  if (n <= 16) small = {64, 16, 16, 4, 4, 1, 8};
  if (!allowed(small)) return std::nullopt;

  // More threads as long as the device has room for them and each has a few steps left.
  constexpr std::int64_t kManyThreads = 1 << 16, kMostThreads = 512, kFewSteps = 4;
  for (MatMulTile sliced = small;; small = sliced) {
    sliced.slices *= 2;
    const bool busy = workgroups(small) * small.threads() >= kManyThreads;
    const bool short_k = k < kFewSteps * sliced.slices * sliced.k;
    if (busy || short_k || sliced.threads() > kMostThreads || !allowed(sliced)) return small;
  }
}

}  // namespace tensorgrad::wgsl
