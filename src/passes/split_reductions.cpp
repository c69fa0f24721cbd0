// Reductions with few results and many terms, such as a loss or a bias gradient, leave a GPU idle.
// They become two: partial results first, then their combination.
#include <algorithm>

#include "passes/rewrite.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad {

namespace {

constexpr std::int64_t kLongReduction = 1024;  // terms below which one workgroup is quick enough

/// A divisor of n near `wanted`, or 1 if there is none between 2 and n/2.
std::int64_t divisor_near(std::int64_t n, std::int64_t wanted) {
  std::int64_t best = 1;
  for (std::int64_t d = 2; d <= n / 2 && d <= 4 * wanted; ++d) {
    if (n % d == 0 && (best == 1 || std::abs(d - wanted) < std::abs(best - wanted))) best = d;
  }
  return best;
}

bool splits(OpKind op) {
  return op == OpKind::ReduceSum || op == OpKind::ReduceMax || op == OpKind::ReduceMin ||
         op == OpKind::ReduceProd;
}

}  // namespace

std::shared_ptr<Graph> split_reductions(const Graph& graph, int parallelism) {
  return rewrite(graph, [&](Graph& out, const Node& node, const std::vector<TensorId>& inputs) {
    if (!splits(node.op)) return keep(out, node, inputs);
    const Shape& shape = graph.type(node.inputs[0]).shape;
    const std::int64_t results = graph.type(node.output()).shape.size(),
                       terms = shape.size() / results;
    if (terms < kLongReduction || results >= 64 * parallelism) return keep(out, node, inputs);
    // The outermost reduced axis, with those that follow it at once, is cut into `parts`:
    // [.., n, ..] → [.., parts, n/parts, ..].
    const std::vector<int>& axes = std::get<AxesAttr>(node.attrs).axes;
    const int axis = axes.front();
    int end = axis;
    std::int64_t length = 1;
    for (; std::binary_search(axes.begin(), axes.end(), end); ++end) length *= shape[end];
    const std::int64_t wanted = std::clamp<std::int64_t>(terms / 64, 2, 64);
    const std::int64_t parts = length <= wanted ? length : divisor_near(length, wanted);
    if (parts <= 1) return keep(out, node, inputs);
    Shape cut;
    std::vector<int> first_axes, second_axes;
    int kept_before = 0;
    for (int a = 0; a < shape.rank(); ++a) {
      const bool reduced = std::binary_search(axes.begin(), axes.end(), a);
      if (a == axis) {
        second_axes.push_back(kept_before);
        cut.push_back(parts);
        cut.push_back(length / parts);
        first_axes.push_back(cut.rank() - 1);
        a = end - 1;
      } else {
        if (reduced) first_axes.push_back(cut.rank());
        if (!reduced && a < axis) ++kept_before;
        cut.push_back(shape.dim(a));
      }
    }
    const auto add = [&](OpKind op, TensorId input, Attrs attrs) {
      return out.node(out.add(op, {input}, std::move(attrs), node.site)).output();
    };
    const TensorId pieces = add(OpKind::Reshape, inputs[0], ShapeAttr{cut});
    const TensorId partial = add(node.op, pieces, AxesAttr{first_axes});
    return std::vector<TensorId>{add(node.op, partial, AxesAttr{second_axes})};
  });
}

}  // namespace tensorgrad
