// Which nodes share a kernel, and which tensors live in memory.
//
// Transparent nodes (views, joins, gathers, generated values) never need a kernel of their own:
// whoever reads them reads through an index map. Compute nodes are gathered into groups. A group
// works point by point over an outer space of `rows` points and, at each, an inner space of `cols`
// points that its reductions fold; each member has a value an outer point or a value at every inner
// point too ("full"). Members see each other's values of the same point only.
#pragma once

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "tensorgrad/plan.hpp"

namespace tensorgrad {

enum class GroupKind : std::uint8_t {
  Elementwise,  ///< no reduction: cols = 1
  Row,          ///< reductions over trailing axes; full members may be stored too
  Column,       ///< reductions over other axes, one after another; outer members only
  MatMul,       ///< one product with its epilogue; outer members only
  Scatter,      ///< one scatter-add with its epilogue; outer members only
  Special,      ///< one node and nothing else
};

struct Group {
  GroupKind kind = GroupKind::Elementwise;
  Phase phase = Phase::Gradient;
  std::int64_t rows = 1, cols = 1;
  std::vector<NodeId> nodes;     ///< members in graph order
  std::vector<TensorId> stores;  ///< members' tensors that live in memory
};

struct Fusion {
  std::vector<Group> groups;   ///< in order of execution, without those that store nothing
  std::vector<int> group_of;   ///< by node: its group's index, or -1
  std::vector<bool> full;      ///< by node: whether a member has a value at every inner point
  std::vector<bool> realised;  ///< by tensor: lives in memory (leaves with storage included)
};

/// What fusion must respect beside the graph.
struct FusionRequest {
  std::set<TensorId> stored;  ///< tensors somebody outside needs in memory
  std::set<TensorId>
      separate;        ///< members that must start a group (to keep to a kernel's bindings)
  int recompute = 32;  ///< Target::recompute
  std::int64_t straight_product =
      std::numeric_limits<std::int64_t>::max();  ///< Target::straight_product
};

Fusion fuse(const Graph& graph, const FusionRequest& request);

/// The index of each axis of `shape` at a linear position.
std::vector<Index> unravel(const Index& linear, const Shape& shape);
Index ravel(const std::vector<Index>& index, const Shape& shape);

/// One step through a view that is a pure change of index (reshape, permute, broadcast_to, slice):
/// the input's index at an index of the output.
std::vector<Index> through_view(const Graph& graph, const Node& view,
                                const std::vector<Index>& index);

bool is_transparent(OpKind op);

}  // namespace tensorgrad
