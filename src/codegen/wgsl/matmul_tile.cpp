#include "codegen/wgsl/matmul_tile.hpp"

namespace tensorgrad::wgsl {

std::optional<MatMulTile> choose_tile(std::int64_t batch, std::int64_t m, std::int64_t n,
                                      std::int64_t k, const WgslLimits& limits) {
  if (m < 8 || n < 8 || k < 8 || m * n * k < (1 << 15)) return std::nullopt;
  const auto workgroups = [&](const MatMulTile& t) {
    return batch * ((m + t.m - 1) / t.m) * ((n + t.n - 1) / t.n);
  };
  const auto allowed = [&](const MatMulTile& t) {
    return t.threads() <= limits.invocations &&
           t.bytes() <= static_cast<std::int64_t>(limits.workgroup_bytes);
  };
  // Large tiles have the most arithmetic for each element they fetch; smaller ones, of threads with
  // as much work each, spread over the device where there are few.
  constexpr MatMulTile kLarge{128, 128, 32, 8, 8, 1, 8}, kLess{64, 128, 16, 8, 8, 1, 8},
      kHalf{64, 64, 16, 8, 8, 1, 8};
  if (m > 64 && n > 64 && workgroups(kLarge) >= 256 && allowed(kLarge)) return kLarge;
  if (m > 32 && n > 64 && workgroups(kLess) >= 256 && allowed(kLess)) return kLess;
  if (m > 32 && n > 32 && workgroups(kHalf) >= 256 && allowed(kHalf)) return kHalf;
  constexpr MatMulTile kMiddle{64, 64, 16, 4, 4};
  if (m > 32 && n > 32 && workgroups(kMiddle) >= 128 && allowed(kMiddle)) return kMiddle;
  MatMulTile small{32, 32, 16, 4, 4};
  if (m <= 16) small = {16, 64, 16, 4, 4};
  if (n <= 16) small = {64, 16, 16, 4, 4};
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
