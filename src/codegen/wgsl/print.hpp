// Kernels as WGSL. The last stage before the device: shapes become constants, an iteration space
// becomes a grid of workgroups, and what is left open by the kernel IR (how a row is folded, how a
// product is tiled) is decided here.
//
// Printed kernels never index outside a buffer: they are right without the checks that a browser
// adds and that a native program switches off.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tensorgrad/kernel.hpp"

namespace tensorgrad {

/// What a device allows. The defaults are what every WebGPU device has.
struct WgslLimits {
  std::uint32_t invocations = 256;        ///< threads in a workgroup
  std::uint32_t workgroup_bytes = 16384;  ///< memory that a workgroup shares
  std::uint32_t workgroups = 65535;       ///< in a dimension of the grid
  std::uint32_t bindings = 8;             ///< storage buffers
};

/// How a matrix product is cut: a workgroup computes m x n elements in steps of k, a thread
/// rows x columns of them; `slices` teams of a workgroup share out the steps.
struct MatMulTile {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t rows = 0, columns = 0;  ///< multiples of 4
  std::int64_t slices = 1;
  std::int64_t unroll = 4;  ///< steps of k that are written out

  std::int64_t slice_threads() const { return (m / rows) * (n / columns); }
  std::int64_t threads() const { return slices * slice_threads(); }
  /// Workgroup memory, with the padding that a tile may have.
  std::int64_t bytes() const { return slices * (m + n + 8) * k * 4; }
};

/// A storage buffer of a printed kernel, `@group(0) @binding(i)`: part of a plan's buffer.
struct WgslBinding {
  int buffer = -1;
  std::int64_t offset = 0;  ///< elements
  std::int64_t elements = 0;
  DType dtype = DType::F32;
  bool writable = false;

  friend bool operator==(const WgslBinding&, const WgslBinding&) = default;
};

struct WgslKernel {
  std::string name;
  std::string source;
  std::string entry = "main";
  std::uint32_t workgroup_size = 1;            ///< threads, in one dimension
  std::array<std::uint32_t, 3> grid{1, 1, 1};  ///< workgroups
  std::uint32_t workgroup_bytes = 0;
  std::vector<WgslBinding> bindings;
  std::vector<NodeId> line_nodes;  ///< by line of the source: the graph node it computes, or -1

  /// The node of a line as compilers count them, from 1; or -1.
  NodeId node_at(std::size_t line) const;
};

/// Prints a kernel, always in the same way. DeviceError, with the kernel's name, if it does not fit
/// the limits. `tile`, if given, is used for a product instead of the one that the shape suggests.
WgslKernel emit_wgsl(const Kernel& kernel, const WgslLimits& limits,
                     const MatMulTile* tile = nullptr);

}  // namespace tensorgrad
