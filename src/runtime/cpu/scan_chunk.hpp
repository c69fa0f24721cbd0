// The arithmetic of the selective scan on the CPU: one chunk of time of some channels, a vector of
// channels at a time. selective_scan.cpp shares the chunks out.
#pragma once

#include <cstddef>

#include "ir/scan_shape.hpp"
#include "runtime/cpu/special.hpp"

namespace tensorgrad::cpu {

/// The operands of a scan kernel; those that its op does not have are empty.
struct ScanOperands {
  ScanShape shape;
  bool zoh;
  Strided u, delta, a, bc, start, end, g, out;
};

/// Where to work: `channels` channels from `channel` on.
struct ScanPart {
  std::int64_t batch, chunk, channel, channels;
};

/// Compiled once for each vector unit. `scratch` is for `scan_scratch` floats, aligned to vectors.
struct ScanFunctions {
  using Function = void (*)(const ScanOperands&, const ScanPart&, float* scratch);
  std::int64_t lanes;
  Function state, output, grad_state, grad;
};

const ScanFunctions& scan_functions();

/// Columns of a chunk that a kernel keeps beside each other, for one vector of channels. They lie a
/// little apart: steps a multiple of 4 KiB away from each other are in each other's way.
inline constexpr std::int64_t kScanColumns = 7;
inline std::int64_t scan_column(const ScanShape& shape) {
  return (shape.chunk + 3) * scan_functions().lanes;
}
inline std::int64_t scan_scratch(const ScanShape& shape) {
  return kScanColumns * scan_column(shape);
}

}  // namespace tensorgrad::cpu
