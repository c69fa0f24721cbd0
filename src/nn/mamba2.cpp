// Mamba-2: x → (gate, xBC, Δ); xBC → convolution, silu → x, B, C; a scan with one decay a head;
// a norm of y·silu(gate); back to the width of x.
#include <algorithm>
#include <cmath>

#include "nn/state_space.hpp"

namespace tensorgrad::nn {

namespace {

Mamba2Options complete(std::int64_t dim, Mamba2Options options) {
  check_positive("Mamba2", {{"the width", dim}});
  if (options.inner == 0) options.inner = 2 * dim;
  check_positive("Mamba2", {{"inner", options.inner},
                            {"head_dim", options.head_dim},
                            {"groups", options.groups},
                            {"states", options.states},
                            {"taps", options.taps},
                            {"chunk", options.chunk}});
  if (options.inner % options.head_dim != 0 ||
      options.inner / options.head_dim % options.groups != 0) {
    throw ShapeError("Mamba2: inner " + std::to_string(options.inner) +
                     " does not divide into heads of " + std::to_string(options.head_dim) +
                     " channels in " + std::to_string(options.groups) + " groups.");
  }
  return options;
}

/// The log of numbers uniform in [1, 16).
Init head_rates() {
  return {[](const Shape& shape, Rng& rng) {
            std::vector<float> values(static_cast<std::size_t>(shape.size()));
            for (float& value : values) {
              value = static_cast<float>(std::log(1 + 15 * rng.uniform()));
            }
            return values;
          },
          false};
}

/// x, B and C lie side by side in the convolution.
std::int64_t conv_channels(const Mamba2Options& options) {
  return options.inner + 2 * options.groups * options.states;
}

Tensor clamp_time_step(const Tensor& dt, const Mamba2Options& options) {
  Tensor clamped = dt;  // positive, being a softplus
  if (options.dt_low > 0) clamped = maximum(clamped, options.dt_low);
  if (std::isfinite(options.dt_high)) clamped = minimum(clamped, options.dt_high);
  return clamped;
}

}  // namespace

Mamba2::Mamba2(std::int64_t dim, Mamba2Options given)
    : options(complete(dim, given)),
      in_proj(dim, options.inner + conv_channels(options) + heads(), {.bias = options.bias}),
      conv1d(conv_channels(options), options.taps, options.conv_bias),
      dt_bias(param({heads()}, {.init = time_step_bias(options.dt_init)})),
      A_log(param({heads()}, {.init = head_rates()})),
      D(param({heads()}, {.init = init::ones})),
      norm(options.inner, options.eps),
      out_proj(scaled_linear(options.inner, dim, options.bias, options.out_scale)) {}

Tensor Mamba2::operator()(Operand x) const { return mix(x, nullptr); }
Tensor Mamba2::operator()(Operand x, Past& past) const { return mix(x, &past); }

Past Mamba2::no_past(std::int64_t batch) const {
  return zero_past(past_shape(batch, options.taps, conv_channels(options),
                              {batch, heads(), options.head_dim, options.states}));
}

Past Mamba2::state_past(const std::string& name, std::int64_t batch) const {
  return declare_past(name, past_shape(batch, options.taps, conv_channels(options),
                                       {batch, heads(), options.head_dim, options.states}));
}

Tensor Mamba2::mix(const Operand& x, Past* past) const {
  SiteScope scope(x.site());
  const std::int64_t groups = options.groups, states = options.states;
  const std::vector<Tensor> parts =
      split(in_proj(x), {options.inner, conv_channels(options), heads()}, -1);
  const Tensor gate = silu(parts[0]), mixed = silu(conv1d(parts[1], past));
  const Tensor dt = clamp_time_step(softplus(parts[2] + dt_bias), options);  // [B, L, H]
  const std::vector<Tensor> xBC =
      split(mixed, {options.inner, groups * states, groups * states}, -1);
  const std::int64_t batch = mixed.shape(0), length = mixed.shape(1);
  ChunkedScanOptions how{.chunk = options.chunk};
  if (past) how.initial_state = past->state;
  const ScanResult scan = chunked_scan(reshape(xBC[0], {batch, length, heads(), options.head_dim}),
                                       dt, A_log, reshape(xBC[1], {batch, length, groups, states}),
                                       reshape(xBC[2], {batch, length, groups, states}), D, how);
  if (past) past->state = scan.final_state;
  return out_proj(norm(reshape(scan.y, {batch, length, options.inner}) * gate));
}

}  // namespace tensorgrad::nn
