// The values of a tape before they have places: a kernel's expressions, its index maps spelled out
// as i32 arithmetic where they are not affine, and what the layout adds (spreading along a group).
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "codegen/cpu/layout.hpp"

namespace tensorgrad::cpu {

/// The affine part of an index map, by dimension.
struct AffinePart {
  std::int64_t base = 0;
  std::array<std::int64_t, kMaxDims> strides{};
};

struct GuardPart {
  AffinePart index;
  std::int64_t low = 0, high = 0;
};

struct ValueNode {
  enum class Kind : std::uint8_t {
    Constant,
    Load,
    LoadRows,
    LoadLanes,
    Iota,
    Op,
    Pair,
    FloorDiv,
    FloorMod,
    ClipTest,
    InRange,
    Spread,
    Reduce
  };
  Kind kind = Kind::Constant;
  DType dtype = DType::F32, from = DType::F32;
  OpKind op = OpKind::Constant;
  Pair pair = Pair::None;
  std::array<int, 3> args{-1, -1, -1};
  Mask mask = 0;
  std::uint32_t deps = 0;        ///< dimensions whose position in the space it depends on
  int rank = 0;                  ///< reductions on the way to it
  std::uint32_t bits = 0;        ///< Constant
  std::int64_t value = 0;        ///< FloorDiv, FloorMod
  int binding = -1;              ///< Load*
  AffinePart map;                ///< Load*, Iota
  bool relative = false;         ///< Iota: counts from the tile's first point
  std::vector<GuardPart> clips;  ///< Load, ClipTest
  RangeTest range;               ///< InRange
  ReduceKind reduce = ReduceKind::Sum;
};

/// What a kernel leaves in memory.
struct Sink {
  int value = -1;
  int binding = -1;
  AffinePart map;
  int index = -1;  ///< the rest of the map, if it is not affine
  bool inner = false;
  bool add_rows = false;  ///< adds at map + index·stride (TapeOptions::AddRows)
  Mask mask = 0;
};

struct ValueGraph {
  std::vector<ValueNode> nodes;  ///< in topological order
  std::vector<Sink> sinks;
};

ValueGraph build_values(const Kernel& kernel, const Layout& layout, const TapeOptions& options);

}  // namespace tensorgrad::cpu
