// Which dimensions of a kernel make up a tile, and how large it is.
#pragma once

#include <array>
#include <vector>

#include "codegen/cpu/tape.hpp"

namespace tensorgrad::cpu {

struct LayoutOptions {
  std::int64_t lanes = 1024;      ///< of a tile, at most
  std::int64_t row_lanes = 4096;  ///< of a tile that holds a whole row
  int threads = 1;
  std::vector<VarUse> uses;    ///< by variable
  std::vector<bool> sequence;  ///< by variable: points to be taken in order, in one task (AddRows)
  bool no_registers = false;   ///< nothing of a tile's size is kept: reductions of plain loads
};

struct Layout {
  std::vector<TapeDim> dims;                  ///< by variable
  std::array<std::vector<int>, 2> groups;     ///< G0, G1, slow to fast
  std::vector<int> outer_loops, inner_loops;  ///< slow to fast
  bool columns = false;
  bool has_inner = false;
  bool single_step = true;
  std::int64_t n0 = 1, n1 = 1;  ///< lanes of the groups of a full tile

  Mask all() const { return static_cast<Mask>((n0 > 1 ? kG0 : 0) | (n1 > 1 ? kG1 : 0)); }
  std::int64_t lanes(Mask mask) const { return (mask & kG0 ? n0 : 1) * (mask & kG1 ? n1 : 1); }
};

Layout choose_layout(const Kernel& kernel, const LayoutOptions& options);

}  // namespace tensorgrad::cpu
