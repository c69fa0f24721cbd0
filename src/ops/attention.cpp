// Scaled dot-product attention over [B, H, T, D], as one op whose backward makes the weights again
// from the rows' log-sum-exp, so that no [T, S] tensor need live in memory.
#include <cmath>

#include "ops/rule.hpp"

namespace tensorgrad {

namespace {

void check_heads(const Rule& r) {
  const Shape &q = r.type(0).shape, &k = r.type(1).shape, &v = r.type(2).shape;
  const bool ranks = q.rank() == 4 && k.rank() == 4 && v.rank() == 4;
  if (r.type(0).dtype != f32 || r.type(1).dtype != f32 || r.type(2).dtype != f32 || !ranks ||
      q[0] != k[0] || k[0] != v[0] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3] || k[1] == 0 ||
      q[1] % k[1] != 0) {
    r.fail("q, k and v are " + r.type(0).to_string() + ", " + r.type(1).to_string() + " and " +
           r.type(2).to_string() +
           "; they must be [batch, heads, time, dim] with equal batch, equal dim of q and k, equal "
           "heads and time of k and v, and a multiple of the key heads as query heads.");
  }
}

/// [B, H, T, D] → [B, T, H, D]
TensorType time_major(const TensorType& type) {
  return {type.dtype, {type.shape[0], type.shape[2], type.shape[1], type.shape[3]}};
}

}  // namespace

// o = P·v with P_ij = e^{s_ij − L_i}, s = scale·q·kᵀ (−∞ where j > i if causal), and L, the
// log-sum-exp of each row. With grouped heads, H/G query heads share each of the G key heads.
// Results are [B, T, H, E], as the projection behind wants them: its rows are then made in place.
Types infer_Attention(const Rule& r) {
  check_heads(r);
  const Shape &q = r.type(0).shape, &v = r.type(2).shape;
  return {{f32, {q[0], q[2], q[1], v[3]}}, {f32, {q[0], q[1], q[2]}}};
}
// With dP = do·vᵀ and δ_i = Σ o·do, dS = P·(dP − δ):
// dq = scale·dS·k, dk = scale·dSᵀ·q, dv = Pᵀ·do. Nothing flows back from L.
void grad_Attention(GradContext& c) {
  const Tensor g = c.cotangent(), delta = sum(c.output(0) * g, {.axes = -1});
  const std::vector<Tensor> operands{
      c.input(0), c.input(1), c.input(2), c.output(1), swap_axes(delta, 1, 2), swap_axes(g, 1, 2)};
  const auto attr = c.attr<AttentionAttr>();
  if (c.needs(0)) c.give(0, swap_axes(emit(OpKind::AttentionGradQ, operands, attr, {}), 1, 2));
  if (!c.needs(1) && !c.needs(2)) return;
  const std::vector<Tensor> kv = emit_all(OpKind::AttentionGradKV, operands, attr, {});
  c.give(1, swap_axes(kv[0], 1, 2));
  c.give(2, swap_axes(kv[1], 1, 2));
}

// (q, k, v, L, δ, do) → dq
Types infer_AttentionGradQ(const Rule& r) {
  check_heads(r);
  return {time_major(r.type(0))};
}
void grad_AttentionGradQ(GradContext& c) { not_differentiable(c); }

// (q, k, v, L, δ, do) → dk, dv
Types infer_AttentionGradKV(const Rule& r) {
  check_heads(r);
  return {time_major(r.type(1)), time_major(r.type(2))};
}
void grad_AttentionGradKV(GradContext& c) { not_differentiable(c); }

Tensor attention(Operand query, const Tensor& key, const Tensor& value, AttentionOptions options) {
  SiteScope scope(query.site());
  const Tensor q = float_tensor("attention", query);
  const double dim = q.rank() == 4 ? static_cast<double>(q.shape(3)) : 1;
  const double scale = options.scale ? *options.scale : 1.0 / std::sqrt(dim);
  return swap_axes(
      emit(OpKind::Attention, {q, key, value}, AttentionAttr{scale, options.causal}, query.site()),
      1, 2);
}

}  // namespace tensorgrad
