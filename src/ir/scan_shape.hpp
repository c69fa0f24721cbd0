// The sizes of a selective scan, and how the results of its backward lie in one tensor.
#pragma once

#include "tensorgrad/graph.hpp"

namespace tensorgrad {

/// Channels whose shares of dB and dC are summed where they are made; the rest is left to a
/// reduction.
inline constexpr std::int64_t kScanChannels = 128;

struct ScanShape {
  std::int64_t batch, length, channels, states, chunk;

  /// From u [B, L, D] and a [D, N].
  ScanShape(const Shape& u, const Shape& a, const ScanAttr& attr)
      : batch(u[0]), length(u[1]), channels(u[2]), states(a[1]), chunk(attr.chunk) {}

  std::int64_t chunks() const { return (length + chunk - 1) / chunk; }
  std::int64_t blocks() const { return (channels + kScanChannels - 1) / kScanChannels; }
  Shape chunk_states() const { return {batch, chunks(), channels, states}; }

  // ScanGrad gives one flat tensor, because kernels may bind few: du and dΔ [B, L, D], then
  // da [B, chunks, D, N], then dB beside dC [B, L, 2N, blocks], whose blocks are to be summed.
  std::int64_t du() const { return 0; }
  std::int64_t ddelta() const { return batch * length * channels; }
  std::int64_t da() const { return 2 * batch * length * channels; }
  std::int64_t dbc() const { return da() + batch * chunks() * channels * states; }
  std::int64_t grad_size() const { return dbc() + batch * length * 2 * states * blocks(); }
};

}  // namespace tensorgrad
