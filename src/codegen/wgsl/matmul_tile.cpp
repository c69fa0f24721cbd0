#include "codegen/wgsl/matmul_tile.hpp"

namespace tensorgrad::wgsl {

std::optional<MatMulTile> choose_tile(const TileRequest& request, const WgslLimits& limits) {
  const std::int64_t batch = request.batch, m = request.m, n = request.n, k = request.k;
  if (m < 8 || n < 8 || k < 8 || m * n * k < (1 << 15)) return std::nullopt;
  const auto workgroups = [&](const MatMulTile& t) {
    return batch * ((m + t.m - 1) / t.m) * ((n + t.n - 1) / t.n);
  };
  const auto allowed = [&](const MatMulTile& t) {
    return t.threads() <= limits.invocations &&
           t.bytes() <= static_cast<std::int64_t>(limits.workgroup_bytes);
  };
  const auto try_tile = [&](MatMulTile t, std::int64_t least) {
    return m > t.m / 2 && n > t.n / 2 && workgroups(t) >= least && allowed(t);
  };
  // Large tiles have the most arithmetic for each element they fetch; smaller ones spread over the
  // device where there are few. An epilogue with exponentials wants threads with few elements,
  // because all of it is written out for each. Figures of an H200, bench/matmul_sweep.cpp.
  constexpr MatMulTile kHuge{128, 128, 16, 8, 16, 1, 16}, kTurned{128, 128, 32, 8, 8, 1, 16},
      kLarge{128, 64, 16, 8, 8, 1, 16}, kMiddle{64, 64, 16, 8, 8, 1, 16},
      kLight{64, 64, 16, 8, 4, 1, 8};
  if (request.heavy_epilogue) {
    if (try_tile(kLarge, 700)) return kLarge;
    if (try_tile(kLight, 64)) return kLight;
  } else {
    if (request.turned && workgroups(kTurned) < 2048 && try_tile(kTurned, 128)) return kTurned;
    // Many, or just as many as run at a time there, two on each of 132 processors.
    const std::int64_t huge = workgroups(kHuge);
    const bool one_wave = huge >= 224 && huge <= 264 && k >= 1024;
    if ((k >= 512 && try_tile(kHuge, 700)) || (one_wave && try_tile(kHuge, 1))) return kHuge;
    if (try_tile(kLarge, 256)) return kLarge;
    if (try_tile(kMiddle, 192)) return kMiddle;
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
