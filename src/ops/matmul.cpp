// Matrix products. The primitive takes [batch..., M, K]·[batch..., K, N] with equal batch axes;
// broadcasting, vectors and shared right-hand sides are views around it.
#include "ops/rule.hpp"

namespace tensorgrad {

Types infer_MatMul(const Rule& r) {
  const TensorType &a = r.type(0), &b = r.type(1);
  if (a.dtype != f32 || b.dtype != f32) {
    r.fail("takes f32, not " + a.to_string() + " and " + b.to_string() +
           ". Use cast(x, f32) first.");
  }
  const int rank = a.shape.rank();
  if (rank < 2 || b.shape.rank() != rank) r.fail("operands need one rank of at least 2.");
  Shape shape = a.shape;
  for (int i = 0; i < rank - 2; ++i) {
    if (a.shape[i] != b.shape[i])
      r.fail("batch axes differ: " + a.to_string() + " and " + b.to_string() + ".");
  }
  if (a.shape[rank - 1] != b.shape[rank - 2]) {
    r.fail("inner dimensions differ: lhs " + a.to_string() + " has " +
           std::to_string(a.shape[rank - 1]) + ", rhs " + b.to_string() + " has " +
           std::to_string(b.shape[rank - 2]) + ".");
  }
  shape.set(rank - 1, b.shape.dim(rank - 1));
  return {{f32, shape}};
}

// y = a·b;  da = g·bᵀ,  db = aᵀ·g. The transposes are read as such by the kernel.
void grad_MatMul(GradContext& c) {
  const auto product = [](const Tensor& a, const Tensor& b) {
    return emit(OpKind::MatMul, {a, b}, NoAttrs{}, {});
  };
  if (c.needs(0)) c.give(0, product(c.cotangent(), swap_axes(c.input(1), -1, -2)));
  if (c.needs(1)) c.give(1, product(swap_axes(c.input(0), -1, -2), c.cotangent()));
}

Tensor matmul(Operand lhs, Operand rhs) {
  SiteScope scope(lhs.site());
  const Site site = lhs.site();
  Tensor a = as_tensor("matmul", lhs, f32), b = as_tensor("matmul", rhs, f32);
  const TensorType ta = a.type(), tb = b.type();
  if (a.rank() == 0 || b.rank() == 0) {
    fail_op("matmul",
            "a scalar is no matrix: lhs " + ta.to_string() + ", rhs " + tb.to_string() + ". Use *.",
            site);
  }
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a = expand_dims(a, 0);
  if (column) b = expand_dims(b, 1);
  const std::int64_t inner = a.shape(-1);
  if (a.dtype() == f32 && b.dtype() == f32 && inner != b.shape(-2)) {
    // Said here, in the user's own shapes; the primitive would show those of the views.
    const std::vector<TensorId> operands{a.id(), b.id()};
    Rule{current_graph(), OpKind::MatMul, operands, NoAttrs{}, current_site(site)}.fail(
        "inner dimensions differ: lhs " + ta.to_string() + " has " + std::to_string(inner) +
        ", rhs " + tb.to_string() + " has " + std::to_string(b.shape(-2)) + ".");
  }
  Tensor y;
  if (b.rank() == 2) {  // one right-hand side for all rows: batch axes become rows
    Shape shape = a.shape();
    shape.set(shape.rank() - 1, b.shape(-1));
    y = reshape(emit(OpKind::MatMul, {reshape(a, {-1, inner}), b}, NoAttrs{}, site), shape);
  } else {
    const int rank = std::max(a.rank(), b.rank());
    Shape batch;
    for (int i = 0; i < rank - 2; ++i) {
      const std::int64_t m = i < rank - a.rank() ? 1 : a.shape()[i - (rank - a.rank())];
      const std::int64_t n = i < rank - b.rank() ? 1 : b.shape()[i - (rank - b.rank())];
      if (m != n && m != 1 && n != 1) {
        fail_op(
            "matmul",
            "batch axes do not broadcast: lhs " + ta.to_string() + ", rhs " + tb.to_string() + ".",
            site);
      }
      batch.push_back(m == 1 ? n : m);
    }
    const auto widen = [&](const Tensor& x) {
      Shape shape = batch;
      shape.push_back(x.shape(-2));
      shape.push_back(x.shape(-1));
      return broadcast(x, shape, site);
    };
    y = emit(OpKind::MatMul, {widen(a), widen(b)}, NoAttrs{}, site);
  }
  if (column) y = squeeze(y, -1);
  if (row) y = squeeze(y, column ? -1 : -2);
  return y;
}

Tensor linear(Operand x, const Tensor& weight, const std::optional<Tensor>& bias) {
  SiteScope scope(x.site());
  const Tensor y = matmul(x, weight);
  return bias ? y + *bias : y;
}

}  // namespace tensorgrad
