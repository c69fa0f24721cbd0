// The selective scan: h_t = Ā_t·h_{t−1} + B̄_t·u_t, y_t = Σ_n C_t·h_t, with Ā = e^{Δa} and
// B̄ = φ·B, where φ = (e^{Δa} − 1)/a (zoh) or Δ (euler). One state for each channel d and each n.
//
// Time is cut into chunks, so that it can be worked on in parallel and so that backward keeps one
// state a chunk and computes the others again:
//   S_k = the state at the end of chunk k if it started from 0           ScanState
//   H_{k+1} = P_k·H_k + S_k, where P_k = Π Ā = e^{a·ΣΔ}                  LinearScan
//   y in chunk k from H_k                                                ScanOutput
// Backward, with g = dL/dy and r_t = dL/dh_t = C_t·g_t + Ā_{t+1}·r_{t+1}:
//   E_k = what chunk k adds to dL/dH_k if nothing came from behind it    ScanGradState
//   R_k = P_k·R_{k+1} + E_k, from the end                                LinearScan
//   in chunk k from H_k and R_{k+1}:                                     ScanGrad
//     du = Σ_n r·φ·B                 dB = Σ_d r·φ·u        dC = Σ_d g·h
//     dΔ = Σ_n r·(a·Ā·h_{t−1} + φ_Δ·B·u)                   φ_Δ = Ā (zoh) or 1
//     da = Σ_t r·(Δ·Ā·h_{t−1} + φ_a·B·u)                   φ_a = (x·eˣ − expm1 x)/a², x = Δa, or 0
// B and C lie side by side in one tensor [B, L, 2N], because kernels may bind few.
#include "ir/scan_shape.hpp"
#include "ops/rule.hpp"

namespace tensorgrad {

namespace {

/// The longest chunk. Backward keeps about five numbers a chunk for each state: few enough that
/// they are a small part of all states, and chunks enough to keep a GPU busy.
constexpr std::int64_t kChunk = 128;

void check_scan(const Rule& r, const std::vector<Shape>& wanted) {
  for (int i = 0; i < r.count(); ++i) {
    if (r.type(i).dtype != f32 || r.type(i).shape != wanted[static_cast<std::size_t>(i)]) {
      r.fail("operand " + std::to_string(i) + " must be f32" +
             wanted[static_cast<std::size_t>(i)].to_string() + ", not " + r.type(i).to_string() +
             ".");
    }
  }
}

/// From the operands that are [B, L, D] and [D, N].
ScanShape scan_shape(const Rule& r, int sequence, int a) {
  if (r.type(sequence).shape.rank() != 3 || r.type(a).shape.rank() != 2)
    r.fail("takes [B, L, D] and [D, N].");
  return {r.type(sequence).shape, r.type(a).shape, r.attr<ScanAttr>()};
}

Shape sequence(const ScanShape& s) { return {s.batch, s.length, s.channels}; }
Shape rates(const ScanShape& s) { return {s.channels, s.states}; }
Shape inputs(const ScanShape& s) { return {s.batch, s.length, 2 * s.states}; }

}  // namespace

// (u, Δ, a, BC) → S
Types infer_ScanState(const Rule& r) {
  const ScanShape s = scan_shape(r, 0, 2);
  check_scan(r, {sequence(s), sequence(s), rates(s), inputs(s)});
  return {{f32, s.chunk_states()}};
}
void grad_ScanState(GradContext& c) { not_differentiable(c); }

// (u, Δ, a, BC, H) → y
Types infer_ScanOutput(const Rule& r) {
  const ScanShape s = scan_shape(r, 0, 2);
  check_scan(r, {sequence(s), sequence(s), rates(s), inputs(s), s.chunk_states()});
  return {{f32, sequence(s)}};
}
void grad_ScanOutput(GradContext& c) { not_differentiable(c); }

// (Δ, a, BC, g) → E
Types infer_ScanGradState(const Rule& r) {
  const ScanShape s = scan_shape(r, 0, 1);
  check_scan(r, {sequence(s), rates(s), inputs(s), sequence(s)});
  return {{f32, s.chunk_states()}};
}
void grad_ScanGradState(GradContext& c) { not_differentiable(c); }

// (u, Δ, a, BC, H, R, g) → du, dΔ, da, dBC in one tensor; R is dL/dH at the end of each chunk
Types infer_ScanGrad(const Rule& r) {
  const ScanShape s = scan_shape(r, 0, 2);
  check_scan(r, {sequence(s), sequence(s), rates(s), inputs(s), s.chunk_states(), s.chunk_states(),
                 sequence(s)});
  return {{f32, {s.grad_size()}}};
}
void grad_ScanGrad(GradContext& c) { not_differentiable(c); }

namespace {

/// A scan being traced: its operands and what forward and backward have in common.
struct Scan {
  Tensor u, delta, a, bc, initial;
  ScanAttr attr;
  Site site;

  ScanShape shape() const { return {u.shape(), a.shape(), attr}; }

  Tensor node(OpKind op, const std::vector<Tensor>& operands) const {
    return emit(op, operands, attr, site);
  }

  /// P [B, chunks, D, N].
  Tensor decay() const {
    const ScanShape s = shape();
    const std::int64_t rest = s.chunks() * s.chunk - s.length;
    const Tensor whole = rest > 0 ? pad(delta, {{0, 0}, {0, rest}, {0, 0}}) : delta;
    const Tensor total =
        sum(reshape(whole, {s.batch, s.chunks(), s.chunk, s.channels}), {.axes = 2});
    return exp(expand_dims(total, -1) * a);
  }

  /// H from the first chunk's start to the last one's end: [B, chunks + 1, D, N].
  Tensor states() const {
    return linear_scan(decay(), node(OpKind::ScanState, {u, delta, a, bc}), initial, 1);
  }
  Tensor starts(const Tensor& states) const { return narrow(states, 1, 0, shape().chunks()); }

  /// The gradients of u, delta, a, bc and initial, from those of y and of the final state.
  std::vector<Tensor> backward(const Tensor& states, const Tensor& g, const Tensor& last) const {
    const ScanShape s = shape();
    const Tensor added = node(OpKind::ScanGradState, {delta, a, bc, g});
    // From the end: dL/dH of the last chunk's end first, of the first one's start last.
    const Tensor back = linear_scan(flip(decay(), 1), flip(added, 1), last, 1);
    const Tensor ends = flip(narrow(back, 1, 0, s.chunks()), 1);
    const Tensor all = node(OpKind::ScanGrad, {u, delta, a, bc, starts(states), ends, g});
    const auto part = [&](std::int64_t offset, const Shape& shape) {
      return reshape(narrow(all, 0, offset, shape.size()), shape);
    };
    return {part(s.du(), sequence(s)), part(s.ddelta(), sequence(s)),
            sum(part(s.da(), s.chunk_states()), {.axes = {0, 1}}),
            sum(part(s.dbc(), {s.batch, s.length, 2 * s.states, s.blocks()}), {.axes = -1}),
            squeeze(narrow(back, 1, s.chunks(), 1), 1)};
  }
};

void check_shapes(const Tensor& u, const Tensor& delta, const Tensor& A_log, const Tensor& B,
                  const Tensor& C, const Tensor& D, const SelectiveScanOptions& options,
                  Site site) {
  for (const Tensor& t : {delta, A_log, B, C, D}) check_operand("selective_scan", t, site);
  if (options.initial_state) check_operand("selective_scan", *options.initial_state, site);
  const auto want = [&](const char* name, const Tensor& t, const Shape& shape) {
    if (t.dtype() == f32 && t.shape() == shape) return;
    fail_op("selective_scan",
            std::string(name) + " must be f32" + shape.to_string() + " beside u " +
                u.type().to_string() + " and A_log " + A_log.type().to_string() + ", not " +
                t.type().to_string() + ".",
            site);
  };
  if (u.rank() != 3 || A_log.rank() != 2) {
    fail_op("selective_scan",
            "u must be [batch, length, channels] and A_log [channels, states], not " +
                u.type().to_string() + " and " + A_log.type().to_string() + ".",
            site);
  }
  const std::int64_t batch = u.shape(0), length = u.shape(1), states = A_log.shape(1);
  want("delta", delta, u.shape());
  want("A_log", A_log, {u.shape(2), states});
  want("B", B, {batch, length, states});
  want("C", C, {batch, length, states});
  want("D", D, {u.shape(2)});
  if (options.initial_state)
    want("initial_state", *options.initial_state, {batch, u.shape(2), states});
}

}  // namespace

ScanResult selective_scan(Operand input, const Tensor& delta, const Tensor& A_log, const Tensor& B,
                          const Tensor& C, const Tensor& D, SelectiveScanOptions options) {
  SiteScope scope(input.site());
  const Tensor u = float_tensor("selective_scan", input);
  check_shapes(u, delta, A_log, B, C, D, options, input.site());
  Scan scan;
  scan.u = u;
  scan.delta = options.delta_softplus ? softplus(delta) : delta;
  scan.a = -exp(A_log);
  scan.bc = concat({B, C}, -1);
  scan.initial = options.initial_state ? *options.initial_state
                                       : repeated(0, {u.shape(0), u.shape(2), A_log.shape(1)});
  scan.attr = {options.discretization == Discretization::Zoh,
               std::min<std::int64_t>(kChunk, u.shape(1))};
  scan.site = input.site();

  const Tensor states = scan.states();
  const std::vector<Tensor> from{scan.u, scan.delta, scan.a, scan.bc, scan.initial};
  const Tensor last = squeeze(narrow(states, 1, scan.shape().chunks(), 1), 1);
  const Tensor y =
      scan.node(OpKind::ScanOutput, {u, scan.delta, scan.a, scan.bc, scan.starts(states)});
  // The gradients are linear in the cotangents of the two results: each has a rule of its own.
  ScanResult result;
  result.final_state = with_gradient(last, from, [=](const Tensor& g) {
    return scan.backward(states, repeated(0, u.shape()), g);
  });
  result.y = with_gradient(y, from, [=](const Tensor& g) {
    return scan.backward(states, g, repeated(0, scan.initial.shape()));
  });
  result.y = result.y + D * u;
  return result;
}

}  // namespace tensorgrad
