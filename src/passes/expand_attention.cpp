// Attention spelled out: two products around a softmax, with the scores in memory. Short sequences
// are faster so. Forward and backward make the weights by the same nodes, which become one.
#include "ir/attention_shape.hpp"
#include "passes/rewrite.hpp"
#include "tensorgrad/ops.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad {

namespace {

/// The operands of an attention node, with the query heads of a group as rows of one product:
/// [B, G, share·T, D]·[B, G, D, S].
struct Heads {
  Tensor q, k, v;
  AttentionAttr attr;

  std::int64_t batch() const { return q.shape(0); }
  std::int64_t groups() const { return k.shape(1); }
  std::int64_t rows() const { return q.shape(1) / groups() * q.shape(2); }
  std::int64_t keys() const { return k.shape(2); }
  Tensor grouped(const Tensor& x) const {
    return reshape(x, {batch(), groups(), rows(), x.shape(-1)});
  }
  Tensor by_head(const Tensor& x) const {
    return reshape(x, {batch(), q.shape(1), q.shape(2), x.shape(-1)});
  }
  Tensor scores() const { return by_head(matmul(grouped(q), swap_axes(k, -1, -2)) * attr.scale); }
  Tensor weights() const { return attr.causal ? softmax_causal(scores()) : softmax(scores()); }
  Tensor mixed() const { return by_head(matmul(grouped(weights()), v)); }
  /// Masked places count nothing: e^−∞.
  Tensor log_sums() const {
    const Tensor s = scores();
    return logsumexp(attr.causal ? where_causal(s, -std::numeric_limits<double>::infinity()) : s,
                     {.axes = -1});
  }
  /// scale·P·(dP − δ), [B, G, share·T, S].
  Tensor score_gradients(const Tensor& delta, const Tensor& g) const {
    const Tensor dp = by_head(matmul(grouped(g), swap_axes(v, -1, -2)));
    return grouped(weights() * (dp - expand_dims(delta, -1)) * attr.scale);
  }
};

bool is_attention(OpKind op) {
  return op == OpKind::Attention || op == OpKind::AttentionGradQ || op == OpKind::AttentionGradKV;
}

/// Forward and backward nodes have the same q, k and v, so that all of them stay or none. Kernels
/// need not know tensors without elements.
bool stays_fused(const Graph& graph, const std::vector<TensorId>& in, const PassOptions& options) {
  const AttentionShape s(graph.type(in[0]).shape, graph.type(in[1]).shape, graph.type(in[2]).shape,
                         {});
  const std::int64_t least = std::min({s.batch, s.heads, s.queries, s.keys, s.dim, s.width});
  return least > 0 && std::min(s.queries, s.keys) >= options.fused_attention &&
         std::max(s.dim, s.width) <= options.fused_head;
}

/// The nodes' results are [B, T, H, D].
Tensor time_major(const Tensor& x) { return swap_axes(x, 1, 2); }

std::vector<Tensor> expand(OpKind op, const Heads& heads, const std::vector<Tensor>& in) {
  if (op == OpKind::Attention) return {time_major(heads.mixed()), heads.log_sums()};
  const Tensor &delta = in[4], &g = in[5], ds = heads.score_gradients(delta, g);
  if (op == OpKind::AttentionGradQ) return {time_major(heads.by_head(matmul(ds, heads.k)))};
  return {time_major(matmul(swap_axes(ds, -1, -2), heads.grouped(heads.q))),
          time_major(matmul(swap_axes(heads.grouped(heads.weights()), -1, -2), heads.grouped(g)))};
}

}  // namespace

std::shared_ptr<Graph> expand_attention(const Graph& graph, const PassOptions& options) {
  return rewrite(graph, [&](Graph& out, const Node& node, const std::vector<TensorId>& inputs) {
    if (!is_attention(node.op) || stays_fused(out, inputs, options)) return keep(out, node, inputs);
    std::vector<TensorId> results;
    trace_into(out, [&] {
      SiteScope scope(node.site);
      std::vector<Tensor> in;
      for (TensorId id : inputs) in.emplace_back(&out, id);
      const Heads heads{in[0], in[1], in[2], std::get<AttentionAttr>(node.attrs)};
      for (const Tensor& tensor : expand(node.op, heads, in)) results.push_back(tensor.id());
    });
    return results;
  });
}

}  // namespace tensorgrad
