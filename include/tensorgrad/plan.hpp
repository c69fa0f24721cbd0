// The plan of a program: its kernels in order and its buffers, made from a graph for a target.
// Everything about memory and dispatches is known here, before anything runs.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensorgrad/kernel.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad {

/// What a device can do, as far as planning needs to know.
struct Target {
  std::string name = "null";
  bool fuse = true;            ///< false: one kernel a node (the reference interpreter)
  bool separate = false;       ///< every op a kernel of its own, its value kept: to compare devices
  bool whole_buffers = false;  ///< temporaries are whole buffers (WebGPU), not parts of one arena
  int max_bindings = 8;        ///< buffers a kernel may bind
  std::int64_t max_binding_bytes = std::int64_t{1} << 62;  ///< also the size of an arena's segment
  std::int64_t alignment = 256;                            ///< bytes; of what shares a buffer
  int element_bytes = 4;                                   ///< 8 on the reference interpreter
  PassOptions passes = {};                                 ///< what it wants of the graph
  /// Operations that each of several kernels may repeat rather than read a value from memory; twice
  /// as many where one kernel alone uses it. Memory traffic of one f32 costs about as much.
  int recompute = 32;
  /// Multiply-adds of a matrix product from which its right operand, if it lies along the sum, is
  /// first copied to lie along the columns: a tile takes that in faster.
  std::int64_t straight_product = std::numeric_limits<std::int64_t>::max();
  /// Kernels write into a joined tensor, or one in another order, where that leaves runs of so many
  /// elements; shorter ones are gathered by a copy.
  std::int64_t shortest_run = 16;
};

enum class BufferRole : std::uint8_t {
  Param,
  Gradient,
  Moment,
  Input,
  State,
  Literal,
  Output,
  Temp
};
const char* to_string(BufferRole role);

struct BufferSpec {
  std::string name;
  BufferRole role = BufferRole::Temp;
  std::int64_t bytes = 0;
  bool external = false;  ///< belongs to another program that shares it
};

/// Where a tensor lives.
struct Place {
  int buffer = -1;
  std::int64_t offset = 0;  ///< elements
  TensorType type;
};

/// Parameters that already live in another program's buffers: how a forward program shares them.
struct SharedParam {
  int buffer = -1;          ///< an index the caller chose, resolved when the program is loaded
  std::int64_t offset = 0;  ///< elements
  std::int64_t buffer_bytes = 0;
};

struct MemoryReport {
  std::int64_t params = 0, gradients = 0, moments = 0, inputs = 0, states = 0, literals = 0,
               outputs = 0, temps = 0;
  std::int64_t total = 0;  ///< bytes this program creates; shared parameters are not counted
  int buffers = 0;         ///< buffers this program creates
  int kernels = 0;         ///< dispatches of a whole step
  std::string to_string() const;
};

struct Plan {
  std::shared_ptr<const Graph> graph;
  Target target;
  std::vector<BufferSpec> buffers;
  std::vector<Kernel> kernels;       ///< in order of execution
  std::map<TensorId, Place> places;  ///< every tensor that lives in memory
  std::map<std::string, Place> params, inputs, states, outputs, captures, gradients;
  std::vector<int> shared_buffers;  ///< plan buffer of each SharedParam buffer, or -1

  MemoryReport memory() const;
  int kernel_count() const { return static_cast<int>(kernels.size()); }
  /// Kernels and buffers as text.
  std::string to_string() const;
};

/// Fuses, orders and places a graph for a target. The graph should have been through `run_passes`.
Plan plan(std::shared_ptr<const Graph> graph, const Target& target,
          const std::map<std::string, SharedParam>& shared = {});

}  // namespace tensorgrad
