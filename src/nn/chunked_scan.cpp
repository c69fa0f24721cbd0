// The scan of Mamba-2 as matmuls (state-space duality). A head's decay is one number a time step,
// so what step j gives to step i of the same chunk is (C_i·B_j)·e^{s_i − s_j}, where s are the sums
// of Δa from the chunk's start: a masked matrix, as in attention. Chunks hand on their states:
//   in a chunk    y_i = Σ_{j ≤ i} (C_i·B_j)·e^{s_i − s_j}·Δ_j·x_j
//   its end       S = Σ_j e^{s_Q − s_j}·Δ_j·x_j·B_jᵀ
//   between       H_{k+1} = e^{s_Q}·H_k + S_k                          linear_scan
//   from before   y_i += e^{s_i}·H_k·C_i
// A last chunk that is not full is padded with Δ = 0, which changes no state.
#include <algorithm>

#include "ops/rule.hpp"
#include "tensorgrad/mamba.hpp"

namespace tensorgrad::nn {

namespace {

/// Smaller than any log of a decay that matters; unlike −∞ it keeps gradients free of NaN.
constexpr double kNothing = -1e30;

struct Sizes {
  std::int64_t batch, length, heads, dim, groups, states;
  std::int64_t heads_each() const { return heads / groups; }
};

Sizes check(const Tensor& x, const Tensor& dt, const Tensor& A_log, const Tensor& B,
            const Tensor& C, const Tensor& D, const ChunkedScanOptions& options, Site site) {
  const auto fail = [&](const std::string& what) { fail_op("chunked_scan", what, site); };
  for (const Tensor& t : {dt, A_log, B, C, D}) check_operand("chunked_scan", t, site);
  if (options.initial_state) check_operand("chunked_scan", *options.initial_state, site);
  if (x.rank() != 4 || B.rank() != 4 || x.shape(2) % B.shape(2) != 0) {
    fail("x must be [batch, length, heads, dim] and B [batch, length, groups, states], where the " +
         std::string("groups divide the heads, not ") + x.type().to_string() + " and " +
         B.type().to_string() + ".");
  }
  if (options.chunk < 1)
    fail("the chunk must be 1 or more, not " + std::to_string(options.chunk) + ".");
  const Sizes s{x.shape(0), x.shape(1), x.shape(2), x.shape(3), B.shape(2), B.shape(3)};
  const auto want = [&](const char* name, const Tensor& t, const Shape& shape) {
    if (t.dtype() == f32 && t.shape() == shape) return;
    fail(std::string(name) + " must be f32" + shape.to_string() + " beside x " +
         x.type().to_string() + " and B " + B.type().to_string() + ", not " + t.type().to_string() +
         ".");
  };
  want("dt", dt, {s.batch, s.length, s.heads});
  want("A_log", A_log, {s.heads});
  want("B", B, {s.batch, s.length, s.groups, s.states});
  want("C", C, B.shape());
  want("D", D, {s.heads});
  if (options.initial_state)
    want("initial_state", *options.initial_state, {s.batch, s.heads, s.dim, s.states});
  return s;
}

/// A single time step needs no matrices: h' = e^{Δa}·h + Δ·x·Bᵀ, y = h'·C.
ScanResult single_step(const Sizes& s, const Tensor& dx, const Tensor& log_decay, const Tensor& B,
                       const Tensor& C, const Tensor& state) {
  const std::int64_t each = s.heads_each();
  const Tensor decay = exp(reshape(log_decay, {s.batch, s.groups, each, 1, 1}));
  const Tensor input = reshape(dx, {s.batch, s.groups, each, s.dim, 1});
  const Shape row{s.batch, s.groups, 1, 1, s.states};
  const Tensor next =
      decay * reshape(state, {s.batch, s.groups, each, s.dim, s.states}) + input * reshape(B, row);
  const Tensor y = sum(next * reshape(C, row), {.axes = -1});
  return {reshape(y, {s.batch, 1, s.heads, s.dim}),
          reshape(next, {s.batch, s.heads, s.dim, s.states})};
}

ScanResult by_chunks(const Sizes& s, const Tensor& dx, const Tensor& log_decay, const Tensor& B,
                     const Tensor& C, const ChunkedScanOptions& options) {
  const std::optional<Tensor>& initial = options.initial_state;
  const std::int64_t chunk = std::min(options.chunk, s.length),
                     chunks = (s.length + chunk - 1) / chunk, each = s.heads_each();
  // [B, L, rest] → [B, chunks, chunk, rest]
  const auto cut = [&](const Tensor& t, const std::vector<std::int64_t>& rest) {
    const Tensor flat = reshape(t, {s.batch, s.length, -1});
    const Tensor whole = pad(flat, {{0, 0}, {0, chunks * chunk - s.length}, {0, 0}});
    Shape shape{s.batch, chunks, chunk};
    for (std::int64_t size : rest) shape.push_back(size);
    return reshape(whole, shape);
  };
  // K chunks, Q steps, G groups, R heads of each, P channels, N states.
  const Tensor x = cut(dx, {s.groups, each, s.dim});               // [B, K, Q, G, R, P]
  const Tensor b = swap_axes(cut(B, {s.groups, s.states}), 2, 3);  // [B, K, G, Q, N]
  const Tensor c = swap_axes(cut(C, {s.groups, s.states}), 2, 3);  // [B, K, G, Q, N]
  const Tensor logs =
      permute(cut(log_decay, {s.groups, each}), {0, 1, 3, 4, 2});  // [B, K, G, R, Q]
  const Tensor sums = cumsum(logs, -1);
  const Tensor total = narrow(sums, -1, chunk - 1, 1);  // [B, K, G, R, 1]

  const Tensor scores = expand_dims(matmul(c, swap_axes(b, -1, -2)), 3);  // [B, K, G, 1, Q, Q]
  const Tensor decays = exp(where_causal(expand_dims(sums, -1) - expand_dims(sums, -2), kNothing));
  const Tensor inside = matmul(scores * decays, permute(x, {0, 1, 3, 4, 2, 5}));  // [.., R, Q, P]

  const Tensor left = permute(x, {0, 1, 3, 4, 5, 2}) * expand_dims(exp(total - sums), -2);
  const Shape states_shape{s.batch, chunks, s.heads, s.dim, s.states};
  const Tensor added = reshape(
      matmul(reshape(left, {s.batch, chunks, s.groups, each * s.dim, chunk}), b), states_shape);
  // [B, K, G, R, Q, P] → [B, L, H, P]
  const auto in_order = [&](const Tensor& t) {
    const Tensor y = permute(t, {0, 1, 4, 2, 3, 5});
    return narrow(reshape(y, {s.batch, chunks * chunk, s.heads, s.dim}), 1, 0, s.length);
  };
  if (chunks == 1 && !initial) return {in_order(inside), squeeze(added, 1)};

  const Tensor factors =
      broadcast_to(reshape(exp(total), {s.batch, chunks, s.heads, 1, 1}), states_shape);
  const Tensor states = linear_scan(
      factors, added, initial ? *initial : zeros({s.batch, s.heads, s.dim, s.states}), 1);
  const Tensor starts =
      reshape(narrow(states, 1, 0, chunks), {s.batch, chunks, s.groups, each * s.dim, s.states});
  const Tensor seen = reshape(matmul(c, swap_axes(starts, -1, -2)),
                              {s.batch, chunks, s.groups, chunk, each, s.dim});
  const Tensor before = swap_axes(seen, 3, 4) * expand_dims(exp(sums), -1);  // [.., R, Q, P]
  return {in_order(inside + before), squeeze(narrow(states, 1, chunks, 1), 1)};
}

}  // namespace

ScanResult chunked_scan(Operand input, const Tensor& dt, const Tensor& A_log, const Tensor& B,
                        const Tensor& C, const Tensor& D, ChunkedScanOptions options) {
  SiteScope scope(input.site());
  const Tensor x = float_tensor("chunked_scan", input);
  const Sizes s = check(x, dt, A_log, B, C, D, options, input.site());
  const Tensor dx = x * expand_dims(dt, -1), log_decay = dt * -exp(A_log);
  ScanResult scan = s.length == 1 && options.initial_state
                        ? single_step(s, dx, log_decay, B, C, *options.initial_state)
                        : by_chunks(s, dx, log_decay, B, C, options);
  scan.y = scan.y + expand_dims(D, -1) * x;
  return scan;
}

}  // namespace tensorgrad::nn
