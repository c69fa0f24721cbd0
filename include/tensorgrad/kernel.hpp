// The kernel IR: what one dispatch computes, in a form that both the WGSL printer and the CPU
// executor take. It says what is computed at each point of an iteration space, not how.
//
// A kernel runs over outer variables (in parallel) and, for each outer point ("row"), over inner
// variables (which reductions fold). Expressions form a DAG in topological order. An expression is
// *inner* if its value differs along the row, else *outer*; a Reduce takes an inner expression to
// an outer one, and later expressions of the row may use it: softmax or layer norm is one kernel
// with two reductions and an inner store. A kernel without inner variables is plain elementwise.
//
// Specialised kernels (matmul, scatter) have the same meaning, spelled out by the same expressions;
// a hint beside them says which pattern a backend may replace by its best implementation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensorgrad/graph.hpp"
#include "tensorgrad/index.hpp"

namespace tensorgrad {

using ExprId = int;

enum class ReduceKind : std::uint8_t { Sum, Prod, Max, Min, ArgMax, ArgMin };

/// low ≤ index < high, and, if modulus > 1, index − low is a multiple of it.
struct Guard {
  Index index;
  std::int64_t low = 0, high = 0, modulus = 1;
  /// A guard on an index that is data: the CPU reports a failure as an error (with `node`).
  bool indirect = false;
  NodeId node = -1;
};

struct Expr {
  enum class Kind : std::uint8_t {
    Const,     ///< value
    Position,  ///< the value of `index`
    Load,    ///< element `index` of binding `binding`; never evaluated where a guard fails (then 0)
    Test,    ///< bool: all of `guards` hold
    Op,      ///< elementwise `op` of args
    Reduce,  ///< `reduce` over the inner variables of args[0]; Arg*: i32 position in row-major
             ///< order
  };
  Kind kind;
  DType dtype = DType::F32;
  bool inner = false;
  double value = 0;
  Index index = 0;
  int binding = -1;
  std::vector<Guard> guards = {};
  OpKind op = OpKind::Constant;
  ReduceKind reduce = ReduceKind::Sum;
  std::vector<ExprId> args = {};
  NodeId node = -1;  ///< the graph node it comes from, for errors and names
};

/// Element `index` of `binding` becomes the value of `value`: once a row if that is outer and the
/// index uses no inner variable, else at every point.
struct Store {
  int binding = -1;
  Index index = 0;
  ExprId value = -1;
  bool inner = false;
};

/// A part of a buffer that a kernel reads or writes. Indices count elements from its start.
struct Binding {
  int buffer = -1;
  std::int64_t offset = 0;  ///< elements
  std::int64_t elements = 0;
  DType dtype = DType::F32;
  bool written = false;
  bool read = false;
};

struct KernelVar {
  std::int64_t extent = 1;
};

/// acc = Σ_k lhs·rhs, where lhs and rhs are unguarded, affine loads. Outer variables are the batch
/// axes, then m, then n; the one inner variable is k. All other expressions are the epilogue.
struct MatMulHint {
  ExprId lhs = -1, rhs = -1, acc = -1;
};

/// sum = Σ_i [indices(i) = row]·source(i, rest): the one inner variable is i; `row_var` is the
/// outer variable compared with the index. `source` and `indices` are any inner expressions.
struct ScatterHint {
  ExprId sum = -1, indices = -1, source = -1;
  int row_var = -1;
};

/// A tensor as a special kernel sees it: element (i0, i1, …) is element offset + Σ strides[k]·i_k
/// of the binding. Strides are 0 along broadcast axes and negative along flipped ones.
struct StridedOperand {
  int binding = -1;  ///< -1: an output that nobody reads, not to be written
  TensorType type;
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides;

  /// The same elements with two axes exchanged.
  StridedOperand swapped(int axis1, int axis2) const;
};

/// A node that is a kernel of its own (a scan, attention): how it is computed is known to the
/// backends by its op. Such a kernel has bindings, but no variables, expressions or stores.
struct SpecialHint {
  OpKind op;
  Attrs attrs;
  std::vector<StridedOperand> inputs, outputs;
};

struct Kernel {
  std::string name;  ///< `matmul_add_relu`: what it does, for people
  Phase phase = Phase::Gradient;
  std::vector<KernelVar> vars;  ///< outer ones first
  int outer_count = 0;
  std::vector<Binding> bindings;
  std::vector<Expr> exprs;
  std::vector<Store> stores;
  std::optional<MatMulHint> matmul;
  std::optional<ScatterHint> scatter;
  std::optional<SpecialHint> special;
  std::vector<NodeId> nodes;  ///< the graph nodes it computes

  std::int64_t outer_size() const;
  std::int64_t inner_size() const;
  bool is_inner(int var) const { return var >= outer_count; }
  /// A listing for people and tests.
  std::string to_string() const;
};

}  // namespace tensorgrad
