#include "schedule/buffers.hpp"

#include <algorithm>
#include <numeric>

namespace tensorgrad {

ArenaLayout lay_out_params(const Graph& graph, const Target& target) {
  std::map<TensorId, int> rank;  // by parameter tensor: 0 decayed, 1 updated; others 2
  for (const Node& node : graph.nodes()) {
    if (node.op != OpKind::AdamUpdate && node.op != OpKind::SgdUpdate) continue;
    rank[node.inputs[0]] = std::get<UpdateAttr>(node.attrs).decay ? 0 : 1;
  }
  // Parameters with a gradient but no optimizer still get a place in the gradient arena.
  for (const NamedTensor& grad : graph.gradients) {
    for (const ParamInfo& param : graph.params) {
      if (param.name == grad.name) rank.emplace(param.tensor, 1);
    }
  }
  std::vector<const ParamInfo*> order;
  for (const ParamInfo& param : graph.params) order.push_back(&param);
  const auto rank_of = [&](const ParamInfo* p) {
    return rank.count(p->tensor) ? rank[p->tensor] : 2;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const ParamInfo* a, const ParamInfo* b) { return rank_of(a) < rank_of(b); });
  ArenaLayout layout;
  const std::int64_t most = target.max_binding_bytes / target.element_bytes;
  for (const ParamInfo* param : order) {
    const std::int64_t elements = arena_round(graph.type(param->tensor).shape.size());
    if (layout.segments.empty() || layout.segments.back().elements + elements > most)
      layout.segments.emplace_back();
    ArenaLayout::Segment& segment = layout.segments.back();
    layout.slots[param->name] = {static_cast<int>(layout.segments.size()) - 1, segment.elements};
    segment.elements += elements;
    if (rank_of(param) <= 1) segment.updated = segment.elements;
    if (rank_of(param) == 0) segment.decayed = segment.elements;
  }
  return layout;
}

namespace {

/// What two temporaries may have in common.
enum class Sharing : std::uint8_t {
  Nothing,
  Place,   ///< one ends where the other begins, in a kernel that works in place: element by element
  Memory,  ///< they are never there at the same time
};

Sharing sharing(const Lifetime& a, const Lifetime& b) {
  if (a.last < b.first || b.last < a.first) return Sharing::Memory;
  const auto follows = [](const Lifetime& before, const Lifetime& after) {
    return before.last == after.first && before.first < after.first &&
           after.replaces == before.tensor;
  };
  return follows(a, b) || follows(b, a) ? Sharing::Place : Sharing::Nothing;
}

/// The largest first: smaller ones then fill what is left.
std::vector<std::size_t> by_size(const std::vector<Lifetime>& lifetimes) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return lifetimes[a].elements > lifetimes[b].elements;
  });
  return order;
}

}  // namespace

TempPlan assign_whole_buffers(const std::vector<Lifetime>& lifetimes) {
  TempPlan plan;
  plan.places.resize(lifetimes.size());
  std::vector<std::vector<std::size_t>> members;  // by buffer
  for (std::size_t i : by_size(lifetimes)) {
    const Lifetime& t = lifetimes[i];
    // Buffers are as large as their first member, so this fits; the smallest wastes the least.
    int best = -1;
    for (std::size_t b = 0; b < members.size(); ++b) {
      const bool free = std::none_of(members[b].begin(), members[b].end(), [&](std::size_t o) {
        return sharing(lifetimes[o], t) == Sharing::Nothing;
      });
      if (free && (best < 0 || plan.buffers[b] < plan.buffers[static_cast<std::size_t>(best)]))
        best = static_cast<int>(b);
    }
    if (best < 0) {
      best = static_cast<int>(members.size());
      plan.buffers.push_back(t.elements);
      members.emplace_back();
    }
    members[static_cast<std::size_t>(best)].push_back(i);
    plan.places[i] = {best, 0};
  }
  return plan;
}

TempPlan assign_offsets(const std::vector<Lifetime>& lifetimes) {
  TempPlan plan;
  plan.places.assign(lifetimes.size(), {0, 0});
  if (lifetimes.empty()) return plan;
  std::vector<std::size_t> placed;
  std::int64_t total = 0;
  for (std::size_t i : by_size(lifetimes)) {
    const Lifetime& t = lifetimes[i];
    const std::int64_t size = arena_round(t.elements);
    // The lowest gap between tensors that are alive at the same time, or the place of one that this
    // one may replace, if that is lower: exactly its place, as both are there for a moment.
    struct Range {
      std::int64_t begin, end;
      bool replaceable;
    };
    std::vector<Range> taken;
    for (std::size_t p : placed) {
      const Sharing with = sharing(lifetimes[p], t);
      if (with == Sharing::Memory) continue;
      const std::int64_t begin = plan.places[p].second;
      taken.push_back({begin, begin + arena_round(lifetimes[p].elements), with == Sharing::Place});
    }
    std::sort(taken.begin(), taken.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
    std::int64_t offset = 0;
    for (const Range& range : taken) {
      if (offset + size <= range.begin) break;
      offset = std::max(offset, range.end);
    }
    for (const Range& place : taken) {
      if (!place.replaceable) continue;
      const bool free = std::all_of(taken.begin(), taken.end(), [&](const Range& range) {
        const bool apart = range.end <= place.begin || place.begin + size <= range.begin;
        return apart || (range.replaceable && range.begin == place.begin);
      });
      if (free) offset = std::min(offset, place.begin);
    }
    plan.places[i].second = offset;
    total = std::max(total, offset + size);
    placed.push_back(i);
  }
  plan.buffers = {total};
  return plan;
}

}  // namespace tensorgrad
