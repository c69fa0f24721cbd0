// What the CPU runs: a kernel compiled to a fixed list of instructions ("tape") that work on whole
// blocks of elements.
//
// The iteration space is cut into *tiles*. A tile has two groups of dimensions, G1 (slow) and G0
// (fast), so a block is n1 × n0 lanes, G0 contiguous; dimensions outside the tile are loops. In a
// kernel with reductions the inner dimensions are one group and the outer ones the other:
//
//   rows       G1 = outer points, G0 = inner points: a reduction folds runs of n0 lanes (softmax)
//   columns    G1 = inner points, G0 = outer points: a reduction adds up n1 vectors (column sums)
//   elementwise: both groups are outer dimensions
//
// A value varies along none, one or both of the groups (its *mask*) and has 1, n0, n1 or n1·n0
// lanes. It is computed at the outermost *level* where it is known: once a task (prologue), once a
// block of outer points, or at each inner step. If the inner space fits in the tile ("single
// step"), there are no inner steps: a row's values are computed once and used by all its
// reductions. Otherwise each reduction is a pass over the inner steps.
//
// A tape names bindings, slots and ops; the runtime binds them to memory and functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "codegen/normalise.hpp"
#include "tensorgrad/kernel.hpp"

namespace tensorgrad::cpu {

using Mask = std::uint8_t;
inline constexpr Mask kG0 = 1, kG1 = 2;

struct TapeDim {
  std::int64_t extent = 1;
  std::int64_t tile = 1;  ///< points of it in a full tile
  int group = -1;         ///< 0 or 1; -1: a loop
  bool inner = false;
  bool moving = false;  ///< its first point in the tile changes from block to block

  /// Whether every tile has `tile` points of it.
  bool fixed_size = true;
};

/// base + Σ stride·(first point of dim in the tile), over moving dimensions.
struct Affine {
  std::int64_t base = 0;
  std::vector<std::pair<int, std::int64_t>> moving;
};

/// One axis of a tile as a map sees it: factor·(points of `dim` in this tile) steps of `stride`.
struct TileAxis {
  std::int64_t factor = 1;
  int dim = -1;  ///< -1: the size is `factor`
  std::int64_t stride = 0;
};

/// A map has at most so many clips.
inline constexpr std::size_t kMaxClips = 15;

/// low ≤ at + Σ strides·(axis positions) < high
struct Clip {
  Affine at;
  std::vector<std::int64_t> strides;  ///< by axis of the map it belongs to
  std::int64_t low = 0, high = 0;
};

/// An affine map over the tile: of memory (binding ≥ 0) or of numbers.
struct TileMap {
  int binding = -1;
  Affine at;
  std::vector<TileAxis> axes;  ///< slow to fast; they cover the lanes of the value's mask
  std::vector<Clip> clips;     ///< lanes where one fails are 0
  bool contiguous = false;     ///< lanes follow one another in memory
};

/// low ≤ x < high and (x − low) % modulus = 0; a failure of an indirect one is an error of `node`.
struct RangeTest {
  std::int64_t low = 0, high = 0, modulus = 1;
  bool indirect = false;
  NodeId node = -1;
};

struct Reduction {
  ReduceKind kind = ReduceKind::Sum;
  DType dtype = DType::F32;  ///< of the lanes it folds
  bool columns = false;
  Mask lanes = 0;                ///< of its result
  std::int64_t row_stride = -1;  ///< elements between the runs of n0 lanes; -1: they are packed
  Affine position;               ///< Arg*: number of the tile's first inner point
  bool step = false;             ///< adds to accumulators, step by step
  int accumulator = -1, total = -1, extreme = -1;  ///< slots, where `step` (and `extreme` for Arg*)
};

enum class Code : std::uint8_t {
  Unary,         ///< out = op(a)
  Binary,        ///< out = op(a, b)
  Ternary,       ///< out = op(a, b, c): where, or a pair of operations
  FloorDiv,      ///< out = floor(a / value)
  FloorMod,      ///< out = a − value·floor(a / value)
  Iota,          ///< out = map `aux`, as i32
  ClipTest,      ///< out = all clips of map `aux` hold
  InRange,       ///< out = range `aux` holds of a; errors count only where b (if any) holds
  Spread,        ///< out = a, repeated along the groups it lacks
  Gather,        ///< out = memory read by map `aux`
  GatherRows,    ///< out = rows read by map `aux` (over G0), row r from a[r] on, 0 unless b[r]
  GatherLanes,   ///< out = memory at map `aux` + a, 0 unless b
  Reduce,        ///< out = reduction `aux` of a
  Copy,          ///< out = a
  Scatter,       ///< memory of map `aux` = a
  ScatterLanes,  ///< memory at map `aux` + b = a
  AddRows,  ///< rows of memory at map `aux` + b[r] += rows of a: b is checked against range `range`
};

/// Two operations on f32 as one instruction: a pass over the lanes less.
enum class Pair : std::uint8_t {
  None,
  MulAdd,     ///< a·b + c, rounded once; so are the next two
  MulSub,     ///< a·b − c
  NegMulAdd,  ///< c − a·b
  MulMul,     ///< (a·b)·c
  AddMul,     ///< (a + b)·c
  SubMul,     ///< (a − b)·c
  AddAdd,     ///< (a + b) + c
  SubSub,     ///< (a − b) − c
};

/// Which operands of a Binary or Ternary instruction are single lanes: numbers, or numbers of the
/// rows along G1, where there is one of them for each.
enum class Form : std::uint8_t { VV, VS, SV, VVV, VVS, VSV, VSS };

struct Instruction {
  Code code = Code::Copy;
  Form form = Form::VV;
  OpKind op = OpKind::Constant;  ///< Unary, Binary, Ternary
  Pair pair = Pair::None;        ///< Ternary, instead of `op`
  DType from = DType::F32, to = DType::F32;
  Mask mask = 0;    ///< lanes of the result (of the operand, if it stores)
  Mask mask_a = 0;  ///< Spread: lanes of a. GatherRows, AddRows: whether a (b) varies along G1
  int out = -1, a = -1, b = -1, c = -1;  ///< slots
  int aux = -1, range = -1;
  std::int64_t value = 0;  ///< FloorDiv, FloorMod
};

/// Where an operand lies.
struct Slot {
  enum class Kind : std::uint8_t { Register, Constant, Memory } kind = Kind::Register;
  std::int64_t offset = 0;  ///< Register: bytes into the worker's memory
  std::uint32_t bits = 0;   ///< Constant
  Mask mask = 0;
};

/// A Memory slot's address, to be set when the loops have moved.
struct Address {
  int slot = -1;
  int binding = -1;
  Affine at;
};

struct Section {
  enum class Kind : std::uint8_t { Prologue, Block, Inner } kind = Kind::Block;
  std::vector<Address> addresses;
  std::vector<Instruction> instructions;
};

struct Tape {
  std::string name;
  std::vector<TapeDim> dims;
  std::array<std::vector<int>, 2> groups;     ///< dimensions of G0 and G1, slow to fast
  std::vector<int> outer_loops, inner_loops;  ///< moving dimensions, slow to fast
  bool columns = false;
  bool has_inner = false;
  bool single_step = true;
  bool splits_inner = false;  ///< inner steps may be shared out and their accumulators combined

  std::vector<TileMap> maps;
  std::vector<RangeTest> ranges;
  std::vector<Reduction> reductions;
  std::vector<Slot> slots;
  std::vector<Section> sections;  ///< the prologue first
  std::int64_t register_bytes = 0;

  std::int64_t lanes = 1;  ///< of a full tile
  std::int64_t outer_blocks = 1, inner_steps = 1;
  double work = 0;  ///< of the whole kernel, in units of one simple operation on one element

  std::string to_string() const;
};

/// How a variable's points will be asked for.
enum class VarUse : std::uint8_t {
  All,      ///< all of them
  Ranges,   ///< ranges of them
  Singles,  ///< one at a time
};

struct TapeOptions {
  int threads = 1;  ///< blocks should be enough for so many
  std::int64_t lanes =
      0;  ///< of a tile, at most; 0: as many as fit in the cache (tests ask for few)
  std::vector<VarUse> uses;  ///< by variable; empty: all points of all
  /// ScatterHint: store `index` of the kernel adds rows chosen by an i32 expression.
  struct AddRows {
    ExprId indices = -1, source = -1;
    int binding = -1;
    Index target;  ///< of a row's elements, without the chosen row
    std::int64_t row_stride = 0, rows = 0;
    std::vector<int> sequence;  ///< the variables whose points must be taken in order
    NodeId node = -1;
  };
  const AddRows* add_rows = nullptr;
};

/// Compiles a normalised kernel. Hints are not looked at.
Tape compile_tape(const Kernel& kernel, const TapeOptions& options = {});

/// A box of outer points, by dimension of the tape.
struct Box {
  std::array<std::int64_t, kMaxDims> low{}, high{};
};

/// All outer points.
Box whole_box(const Tape& tape);

/// The boxes that cover the outer blocks [first, last) in their order.
std::vector<Box> boxes_of_blocks(const Tape& tape, std::int64_t first, std::int64_t last);

/// The boxes of positions [first, last) of some dimensions taken as one, inside `whole`.
std::vector<Box> boxes_of_range(const Tape& tape, const Box& whole, const std::vector<int>& dims,
                                std::int64_t first, std::int64_t last);

}  // namespace tensorgrad::cpu
