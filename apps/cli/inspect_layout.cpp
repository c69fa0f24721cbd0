#include "inspect_layout.hpp"

#include <algorithm>
#include <numeric>
#include <queue>

namespace tensorgrad::cli {

namespace {

constexpr double kGapX = 18, kGapY = 44, kPassWidth = 6;
constexpr int kOrderSweeps = 16, kPlaceSweeps = 12;

/// A box, or a place where a long arrow passes a layer.
struct Vertex {
  int layer = 0;
  double width = kPassWidth, height = 0;
  std::vector<int> above = {}, below = {};  // neighbours
  double rank = 0;                          // its order within the layer, while that is sought
  double x = 0;
};

class Layering {
 public:
  Layering(const Diagram& diagram, const std::vector<BoxSize>& sizes)
      : diagram_(diagram), boxes_(diagram.boxes.size()) {
    for (const BoxSize& size : sizes)
      vertices_.push_back({.width = size.width, .height = size.height});
    assign_layers();
    connect();
    order();
    place();
  }

  Layout result() {
    Layout layout;
    double left = 0, right = 0;
    for (const Vertex& v : vertices_) {
      left = std::min(left, v.x - v.width / 2);
      right = std::max(right, v.x + v.width / 2);
    }
    std::vector<double> tops(layers_.size() + 1, 0);
    std::vector<double> heights(layers_.size(), 0);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      for (const int v : layers_[l]) heights[l] = std::max(heights[l], at(v).height);
      tops[l + 1] = tops[l] + heights[l] + kGapY;
    }
    const auto middle = [&](int v) {
      const auto l = static_cast<std::size_t>(at(v).layer);
      return Spot{at(v).x - left, tops[l] + heights[l] / 2};
    };
    layout.width = right - left;
    layout.height = tops.back() - (layers_.empty() ? 0 : kGapY);
    for (std::size_t b = 0; b < boxes_; ++b) layout.centres.push_back(middle(static_cast<int>(b)));
    for (const std::vector<int>& path : paths_) {
      std::vector<Spot> route;
      for (const int v : path) {
        const Spot p = middle(v);
        const auto l = static_cast<std::size_t>(at(v).layer);
        const double half = is_box(v) ? at(v).height / 2 : heights[l] / 2;
        if (v != path.front()) route.push_back({p.x, p.y - half});
        if (v != path.back()) route.push_back({p.x, p.y + half});
      }
      layout.routes.push_back(std::move(route));
    }
    return layout;
  }

 private:
  Vertex& at(int v) { return vertices_[static_cast<std::size_t>(v)]; }
  bool is_box(int v) const { return static_cast<std::size_t>(v) < boxes_; }

  /// As far up as the arrows allow; what nothing leads to, directly above its first user.
  void assign_layers() {
    std::vector<int> incoming(boxes_, 0);
    std::vector<std::vector<int>> after(boxes_);
    for (const Arrow& arrow : diagram_.arrows) {
      after[static_cast<std::size_t>(arrow.from)].push_back(arrow.to);
      ++incoming[static_cast<std::size_t>(arrow.to)];
    }
    const std::vector<int> arrows_in = incoming;
    std::queue<int> ready;
    for (std::size_t b = 0; b < boxes_; ++b) {
      if (incoming[b] == 0) ready.push(static_cast<int>(b));
    }
    for (; !ready.empty(); ready.pop()) {
      const int b = ready.front();
      for (const int next : after[static_cast<std::size_t>(b)]) {
        at(next).layer = std::max(at(next).layer, at(b).layer + 1);
        if (--incoming[static_cast<std::size_t>(next)] == 0) ready.push(next);
      }
    }
    int deepest = 0;
    for (std::size_t b = 0; b < boxes_; ++b) {
      if (arrows_in[b] == 0 && !after[b].empty()) {
        int first = at(after[b].front()).layer;
        for (const int next : after[b]) first = std::min(first, at(next).layer);
        vertices_[b].layer = first - 1;
      }
      deepest = std::max(deepest, vertices_[b].layer);
    }
    layers_.resize(boxes_ == 0 ? 0 : static_cast<std::size_t>(deepest) + 1);
    for (std::size_t b = 0; b < boxes_; ++b) {
      layers_[static_cast<std::size_t>(vertices_[b].layer)].push_back(static_cast<int>(b));
    }
  }

  /// Arrows that pass layers get a vertex in each.
  void connect() {
    for (const Arrow& arrow : diagram_.arrows) {
      std::vector<int> path{arrow.from};
      for (int l = at(arrow.from).layer + 1; l < at(arrow.to).layer; ++l) {
        layers_[static_cast<std::size_t>(l)].push_back(static_cast<int>(vertices_.size()));
        path.push_back(static_cast<int>(vertices_.size()));
        vertices_.push_back({.layer = l});
      }
      path.push_back(arrow.to);
      for (std::size_t i = 0; i + 1 < path.size(); ++i) {
        at(path[i]).below.push_back(path[i + 1]);
        at(path[i + 1]).above.push_back(path[i]);
      }
      paths_.push_back(std::move(path));
    }
  }

  /// Down and up through the layers, each sorted by where its neighbours stand: fewer crossings.
  void order() {
    const auto number = [&](std::vector<int>& layer) {
      for (std::size_t i = 0; i < layer.size(); ++i) at(layer[i]).rank = static_cast<double>(i);
    };
    for (std::vector<int>& layer : layers_) number(layer);
    for (int sweep = 0; sweep < kOrderSweeps; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (std::size_t i = 1; i < layers_.size(); ++i) {
        std::vector<int>& layer = layers_[down ? i : layers_.size() - 1 - i];
        std::vector<std::pair<double, int>> keyed;
        for (const int v : layer) {
          const std::vector<int>& near = down ? at(v).above : at(v).below;
          double sum = 0;
          for (const int other : near) sum += at(other).rank;
          keyed.emplace_back(near.empty() ? at(v).rank : sum / static_cast<double>(near.size()), v);
        }
        std::stable_sort(keyed.begin(), keyed.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
        for (std::size_t k = 0; k < layer.size(); ++k) layer[k] = keyed[k].second;
        number(layer);
      }
    }
  }

  /// Each vertex as near to its neighbours' middle as the others of its layer let it.
  void place() {
    for (std::vector<int>& layer : layers_) {
      double x = 0;
      for (const int v : layer) {
        at(v).x = x + at(v).width / 2;
        x += at(v).width + kGapX;
      }
    }
    for (int sweep = 0; sweep < kPlaceSweeps; ++sweep) {
      for (std::size_t i = 0; i < layers_.size(); ++i) {
        place_layer(layers_[sweep % 2 == 0 ? i : layers_.size() - 1 - i]);
      }
    }
  }

  void place_layer(const std::vector<int>& layer) {
    std::vector<double> wanted, offsets;
    double offset = 0;
    for (const int v : layer) {
      double sum = 0, count = 0;
      for (const auto* near : {&at(v).above, &at(v).below}) {
        for (const int other : *near) sum += at(other).x, ++count;
      }
      offset += at(v).width / 2;
      wanted.push_back((count > 0 ? sum / count : at(v).x) - offset);
      offsets.push_back(offset);
      offset += at(v).width / 2 + kGapX;
    }
    const std::vector<double> given = ascending(wanted);
    for (std::size_t i = 0; i < layer.size(); ++i) at(layer[i]).x = given[i] + offsets[i];
  }

  /// The sequence nearest to `wanted` (least squares) that never goes down: neighbours that would
  /// are pooled at their mean.
  static std::vector<double> ascending(const std::vector<double>& wanted) {
    struct Pool {
      double sum = 0;
      std::size_t count = 0;
      double mean() const { return sum / static_cast<double>(count); }
    };
    std::vector<Pool> pools;
    for (const double value : wanted) {
      pools.push_back({value, 1});
      while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
        const Pool last = pools.back();
        pools.pop_back();
        pools.back().sum += last.sum;
        pools.back().count += last.count;
      }
    }
    std::vector<double> out;
    for (const Pool& pool : pools) out.insert(out.end(), pool.count, pool.mean());
    return out;
  }

  const Diagram& diagram_;
  std::size_t boxes_;
  std::vector<Vertex> vertices_;  // the boxes first
  std::vector<std::vector<int>> layers_;
  std::vector<std::vector<int>> paths_;  // of the arrows
};

}  // namespace

Layout lay_out(const Diagram& diagram, const std::vector<BoxSize>& sizes) {
  return Layering(diagram, sizes).result();
}

}  // namespace tensorgrad::cli
