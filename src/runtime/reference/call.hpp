// What the functions of the reference interpreter are given.
#pragma once

#include <functional>
#include <vector>

#include "runtime/reference/interpreter.hpp"

namespace tensorgrad::reference {

using Index = std::vector<std::int64_t>;

/// A node with the values of its inputs.
struct Call {
  const Graph& graph;
  const Node& node;
  const std::vector<Values>& tensors;

  int count() const { return static_cast<int>(node.inputs.size()); }
  TensorId id(int i) const { return node.inputs[static_cast<std::size_t>(i)]; }
  const Values& input(int i) const { return tensors[static_cast<std::size_t>(id(i))]; }
  const Shape& shape(int i) const { return graph.type(id(i)).shape; }
  DType dtype(int i) const { return graph.type(id(i)).dtype; }
  const TensorType& out_type() const { return graph.type(node.output()); }
  const Shape& out_shape() const { return out_type().shape; }
  Values zeros() const { return Values(static_cast<std::size_t>(out_shape().size())); }
  template <class A>
  const A& attr() const {
    return std::get<A>(node.attrs);
  }
};

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Calls fn(index) for every index of a shape, the last axis fastest.
inline void for_each(const Shape& shape, const std::function<void(const Index&)>& fn) {
  Index index(at(shape.rank()), 0);
  for (std::int64_t n = shape.size(); n > 0; --n) {
    fn(index);
    for (int axis = shape.rank() - 1; axis >= 0 && ++index[at(axis)] == shape[axis]; --axis) {
      index[at(axis)] = 0;
    }
  }
}

/// Where the element of an index lies in row-major order.
inline std::size_t position(const Shape& shape, const Index& index) {
  std::int64_t offset = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) offset = offset * shape[axis] + index[at(axis)];
  return at(offset);
}

/// `index` with another value on one axis.
inline Index with(Index index, int axis, std::int64_t value) {
  index[at(axis)] = value;
  return index;
}

// ---- special.cpp
Values linear_scan(const Call& c);
Values scan_state(const Call& c);
Values scan_output(const Call& c);
Values scan_grad_state(const Call& c);
Values scan_grad(const Call& c);
std::vector<Values> attention(const Call& c);
Values attention_grad_q(const Call& c);
std::vector<Values> attention_grad_kv(const Call& c);

}  // namespace tensorgrad::reference
