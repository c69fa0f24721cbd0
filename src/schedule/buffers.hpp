// Where tensors live: arenas for parameters and what belongs to them, and temporaries by liveness.
#pragma once

#include <map>
#include <vector>

#include "tensorgrad/plan.hpp"

namespace tensorgrad {

/// Elements between which tensors that share a buffer start: 256 bytes, WebGPU's strictest binding
/// alignment, on every device, so that programs on one device can share an arena.
inline constexpr std::int64_t kArenaStep = 64;

inline std::int64_t arena_round(std::int64_t elements) {
  return (elements + kArenaStep - 1) / kArenaStep * kArenaStep;
}

/// The layout of the parameter arena, which gradients and moments repeat: updated parameters with
/// weight decay first, then those without, then the ones that no update touches. A segment is as
/// much as a device can bind at once.
struct ArenaLayout {
  struct Slot {
    int segment;
    std::int64_t offset;
  };
  struct Segment {
    std::int64_t elements = 0;  ///< all parameters
    std::int64_t updated = 0;   ///< the leading part that an optimizer updates
    std::int64_t decayed = 0;   ///< the leading part of that with weight decay
  };
  std::map<std::string, Slot> slots;
  std::vector<Segment> segments;
};
ArenaLayout lay_out_params(const Graph& graph, const Target& target);

/// A temporary: its size in elements and the kernels between which it is alive.
struct Lifetime {
  TensorId tensor = -1;
  std::int64_t elements = 0;
  int first = 0, last = 0;
  /// A tensor that the kernel `first` reads for the last time, point by point where it writes this
  /// one: the two may share memory. -1: none.
  TensorId replaces = -1;
};

/// A buffer (by index) and offset for each temporary, and the buffers' sizes in elements.
struct TempPlan {
  std::vector<std::pair<int, std::int64_t>> places;
  std::vector<std::int64_t> buffers;
};
/// Reusable whole buffers, as WebGPU wants them: one buffer is never read and written at once.
TempPlan assign_whole_buffers(const std::vector<Lifetime>& lifetimes);
/// Offsets in one arena.
TempPlan assign_offsets(const std::vector<Lifetime>& lifetimes);

}  // namespace tensorgrad
