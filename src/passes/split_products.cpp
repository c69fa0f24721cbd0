// Matrix products with a small result and a long sum, such as the gradient of a weight, have too
// few tiles to keep a GPU busy. They become several products over parts of the sum, side by side as
// a batch, whose results are added: [M, K]·[K, N] → Σ_s [S, M, K/S]·[S, K/S, N]. All of it is views
// and one more reduction; nothing is added in an order that could change.
#include <algorithm>
#include <numeric>

#include "passes/rewrite.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad {

namespace {

constexpr std::int64_t kTile = 128;
constexpr std::int64_t kManyTiles = 64;
constexpr std::int64_t kShortSum = 256, kLongSum = 768;  // terms of a part; of one of many tiles
constexpr std::int64_t kMostParts = 32;

/// Into how many parts the sum of k terms is cut, so that there are about as many tiles as wanted;
/// 1: it stays whole.
std::int64_t parts_of(std::int64_t k, std::int64_t tiles, std::int64_t wanted) {
  if (8 * tiles >= 3 * wanted) return 1;  // a wider tile makes up for the missing ones
  std::int64_t best = 1;
  const auto off = [&](std::int64_t parts) {
    const double ratio = static_cast<double>(tiles * parts) / static_cast<double>(wanted);
    return std::max(ratio, 1 / ratio);
  };
  const std::int64_t most = std::min(kMostParts, k / (tiles < kManyTiles ? kShortSum : kLongSum));
  for (std::int64_t parts = 2; parts <= most; ++parts) {
    // Parts whose length is a multiple of 16 keep the steps of a tile whole.
    if (k % (16 * parts) == 0 && off(parts) < off(best)) best = parts;
  }
  return best;
}

}  // namespace

std::shared_ptr<Graph> split_products(const Graph& graph, int tiles) {
  return rewrite(graph, [&](Graph& out, const Node& node, const std::vector<TensorId>& inputs) {
    if (node.op != OpKind::MatMul) return keep(out, node, inputs);
    const Shape &lhs = graph.type(node.inputs[0]).shape, &rhs = graph.type(node.inputs[1]).shape,
                &product = graph.type(node.output()).shape;
    const int rank = product.rank();
    const std::int64_t m = product[rank - 2], n = product[rank - 1], k = lhs[rank - 1];
    const std::int64_t batch = product.size() / (m * n);
    const std::int64_t parts =
        parts_of(k, batch * ((m + kTile - 1) / kTile) * ((n + kTile - 1) / kTile), tiles);
    if (parts == 1) return keep(out, node, inputs);

    const auto add = [&](OpKind op, std::vector<TensorId> from, Attrs attrs) {
      return out.node(out.add(op, std::move(from), std::move(attrs), node.site)).output();
    };
    // [.., M, K] → [.., M, S, K/S] → [.., S, M, K/S] and [.., K, N] → [.., S, K/S, N]
    Shape left = lhs, right = rhs;
    left.set(rank - 1, parts);
    left.push_back(k / parts);
    right.set(rank - 2, parts);
    right.set(rank - 1, k / parts);
    right.push_back(n);
    std::vector<int> perm(static_cast<std::size_t>(rank + 1));
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[static_cast<std::size_t>(rank - 2)], perm[static_cast<std::size_t>(rank - 1)]);
    const TensorId a =
        add(OpKind::Permute, {add(OpKind::Reshape, {inputs[0]}, ShapeAttr{left})}, PermAttr{perm});
    const TensorId b = add(OpKind::Reshape, {inputs[1]}, ShapeAttr{right});
    const TensorId pieces = add(OpKind::MatMul, {a, b}, NoAttrs{});
    return std::vector<TensorId>{add(OpKind::ReduceSum, {pieces}, AxesAttr{{rank - 2}})};
  });
}

}  // namespace tensorgrad
