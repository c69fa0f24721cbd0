// Scans along an axis.
#include "ops/rule.hpp"

namespace tensorgrad {

// out_i = Σ_{j ≤ i} x_j, as one masked reduction;  dx_j = Σ_{i ≥ j} g_i
Tensor cumsum(Operand x, int axis) {
  SiteScope scope(x.site());
  const Tensor tensor = as_tensor("cumsum", x, f32);
  const int at = resolve_axis("cumsum", axis, tensor.rank(), tensor.type(), x.site());
  // [.., i, j, ..]: i runs over the results, j over the terms.
  const auto prefix = [at](const Tensor& t, bool reversed) {
    const Tensor terms = expand_dims(t, at);
    Shape pairs = terms.shape();
    pairs.set(at, t.shape().dim(at));
    const Tensor i = iota(pairs, at), j = iota(pairs, at + 1);
    return sum(where(reversed ? greater_equal(j, i) : less_equal(j, i), terms, 0.0), {at + 1});
  };
  const Tensor y = prefix(tensor, false);
  return with_gradient(y, {tensor},
                       [=](const Tensor& g) -> std::vector<Tensor> { return {prefix(g, true)}; });
}

}  // namespace tensorgrad
