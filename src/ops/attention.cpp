// Scaled dot-product attention over [B, H, T, D].
#include <cmath>

#include "ops/rule.hpp"

namespace tensorgrad {

// softmax(q·kᵀ·scale)·v. With grouped heads, H/G query heads share each of the G key and value
// heads.
Tensor attention(Operand query, const Tensor& key, const Tensor& value, AttentionOptions options) {
  SiteScope scope(query.site());
  const Tensor q = float_tensor("attention", query);
  check_operand("attention", key, query.site());
  check_operand("attention", value, query.site());
  const auto types =
      q.type().to_string() + ", " + key.type().to_string() + " and " + value.type().to_string();
  const bool ranks = q.rank() == 4 && key.rank() == 4 && value.rank() == 4;
  if (!ranks || q.shape(0) != key.shape(0) || key.shape(0) != value.shape(0) ||
      key.shape(1) != value.shape(1) || key.shape(2) != value.shape(2) ||
      q.shape(3) != key.shape(3) || q.shape(1) % key.shape(1) != 0) {
    fail_op("attention",
            "q, k and v are " + types +
                "; they must be [batch, heads, time, dim] with equal batch, equal dim of q and k, "
                "equal heads and time "
                "of k and v, and a multiple of the key heads as query heads.",
            query.site());
  }
  const std::int64_t batch = q.shape(0), heads = q.shape(1), rows = q.shape(2), dim = q.shape(3);
  const std::int64_t groups = key.shape(1), columns = key.shape(2), share = heads / groups;
  const double scale = options.scale ? *options.scale : 1.0 / std::sqrt(static_cast<double>(dim));
  // The query heads of a group are rows of one product: [B, G, share·T, D]·[B, G, D, S].
  const Tensor grouped = reshape(q, {batch, groups, share * rows, dim});
  Tensor scores = matmul(grouped, swap_axes(key, -1, -2)) * scale;
  scores = reshape(scores, {batch, heads, rows, columns});
  const Tensor weights = options.causal ? softmax_causal(scores) : softmax(scores);
  const Tensor mixed = matmul(reshape(weights, {batch, groups, share * rows, columns}), value);
  return reshape(mixed, {batch, heads, rows, value.shape(3)});
}

}  // namespace tensorgrad
