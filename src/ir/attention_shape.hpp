// The sizes of an attention node, as src/ops/attention.cpp defines it.
#pragma once

#include <algorithm>

#include "tensorgrad/graph.hpp"

namespace tensorgrad {

struct AttentionShape {
  std::int64_t batch, heads, groups;  ///< query heads, key heads
  std::int64_t queries, keys;
  std::int64_t dim, width;  ///< of a query and a key, of a value
  bool causal;
  double scale;

  AttentionShape(const Shape& q, const Shape& k, const Shape& v, const AttentionAttr& attr)
      : batch(q[0]),
        heads(q[1]),
        groups(k[1]),
        queries(q[2]),
        keys(k[2]),
        dim(q[3]),
        width(v[3]),
        causal(attr.causal),
        scale(attr.scale) {}

  /// Query heads that share a key head; they are neighbours.
  std::int64_t share() const { return heads / groups; }
  /// How many keys the queries before `end` see.
  std::int64_t seen(std::int64_t end) const { return causal ? std::min(keys, end) : keys; }
};

}  // namespace tensorgrad
