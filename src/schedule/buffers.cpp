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

TempPlan assign_whole_buffers(const std::vector<Lifetime>& lifetimes) {
  TempPlan plan;
  plan.places.resize(lifetimes.size());
  std::vector<int> free_after;  // by buffer: the last kernel that uses it
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return lifetimes[a].first < lifetimes[b].first;
  });
  for (std::size_t i : order) {
    const Lifetime& t = lifetimes[i];
    // The smallest free buffer that is large enough; else the largest free one, made larger.
    int best = -1;
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
      if (free_after[b] >= t.first) continue;
      if (best < 0) {
        best = static_cast<int>(b);
        continue;
      }
      const std::int64_t have = plan.buffers[static_cast<std::size_t>(best)],
                         here = plan.buffers[b];
      const bool fits = here >= t.elements, fitted = have >= t.elements;
      if (fits != fitted ? fits : (fits ? here < have : here > have)) best = static_cast<int>(b);
    }
    if (best < 0) {
      best = static_cast<int>(plan.buffers.size());
      plan.buffers.push_back(0);
      free_after.push_back(0);
    }
    auto& size = plan.buffers[static_cast<std::size_t>(best)];
    size = std::max(size, t.elements);
    free_after[static_cast<std::size_t>(best)] = t.last;
    plan.places[i] = {best, 0};
  }
  return plan;
}

TempPlan assign_offsets(const std::vector<Lifetime>& lifetimes) {
  TempPlan plan;
  plan.places.assign(lifetimes.size(), {0, 0});
  if (lifetimes.empty()) return plan;
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return lifetimes[a].elements > lifetimes[b].elements;
  });
  std::vector<std::size_t> placed;
  std::int64_t total = 0;
  for (std::size_t i : order) {
    const Lifetime& t = lifetimes[i];
    // The lowest gap between tensors that are alive at the same time.
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (std::size_t p : placed) {
      const Lifetime& o = lifetimes[p];
      if (o.first <= t.last && t.first <= o.last) {
        taken.push_back({plan.places[p].second, plan.places[p].second + arena_round(o.elements)});
      }
    }
    std::sort(taken.begin(), taken.end());
    std::int64_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + arena_round(t.elements) <= begin) break;
      offset = std::max(offset, end);
    }
    plan.places[i].second = offset;
    total = std::max(total, offset + arena_round(t.elements));
    placed.push_back(i);
  }
  plan.buffers = {total};
  return plan;
}

}  // namespace tensorgrad
