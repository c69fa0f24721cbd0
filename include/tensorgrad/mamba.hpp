// State-space layers: Mamba (Gu and Dao, 2023), Mamba-2 (Dao and Gu, 2024), and language models of
// them. They read a sequence in parallel, or piece by piece with what a Past keeps of the pieces
// before. The mathematics is in docs/state-space.md. Members are called as in published files.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tensorgrad/nn.hpp"

namespace tensorgrad::nn {

/// All that a layer has to know of what it has read, to go on behind it. It does not grow.
struct Past {
  std::optional<Tensor> window;  ///< the convolution's last inputs [B, taps − 1, channels]
  Tensor state;                  ///< of the scan
};

/// How the time steps Δ of a new layer are drawn: log-uniform between, and never below the floor.
struct TimeStepInit {
  double min = 0.001, max = 0.1, floor = 1e-4;
};

/// Depthwise convolution over time that sees the past only, [B, L, channels] to the same. W is
/// [channels, 1, taps], as Conv1d's with a group for each channel.
struct CausalConv1d {
  Tensor W;
  std::optional<Tensor> b;

  CausalConv1d(std::int64_t channels, std::int64_t taps, bool bias = true);
  /// `past`, if there is one, lies before x; its window is moved on to the end of x.
  Tensor operator()(Operand x, Past* past = nullptr) const;
  TENSORGRAD_MEMBERS(W, b)
};

struct MambaOptions {
  std::int64_t inner = 0;    ///< channels of the scan; 2·dim unless said
  std::int64_t states = 16;  ///< N, for each channel
  std::int64_t taps = 4;     ///< of the convolution
  std::int64_t dt_rank = 0;  ///< ⌈dim/16⌉ unless said
  bool bias = false;         ///< of in_proj and out_proj
  bool conv_bias = true;
  Discretization discretization = Discretization::Euler;  ///< as published weights want it
  TimeStepInit dt_init = {};
  double out_scale = 1;  ///< of out_proj's first values
};

/// Mamba's mixer, [B, L, dim] to the same: a gate beside a convolution and a selective scan.
struct Mamba {
  using Options = MambaOptions;

  MambaOptions options;  // with nothing left open
  Linear in_proj;
  CausalConv1d conv1d;
  Linear x_proj, dt_proj;
  Tensor A_log, D;  // [inner, states], [inner]
  Linear out_proj;

  explicit Mamba(std::int64_t dim, MambaOptions options = {});
  /// Reads a whole sequence.
  Tensor operator()(Operand x) const;
  /// Reads x behind `past`, which becomes what comes next's.
  Tensor operator()(Operand x, Past& past) const;
  /// The past of the beginning: all zero.
  Past no_past(std::int64_t batch) const;
  /// A past that the device keeps from run to run, under this name: see keep_past.
  Past state_past(const std::string& name, std::int64_t batch) const;
  TENSORGRAD_MEMBERS(in_proj, conv1d, x_proj, dt_proj, A_log, D, out_proj)

 private:
  Tensor mix(const Operand& x, Past* past) const;
};

struct Mamba2Options {
  std::int64_t inner = 0;      ///< channels of the scan; 2·dim unless said
  std::int64_t head_dim = 64;  ///< channels that share a decay; divides `inner`
  std::int64_t groups = 1;     ///< heads of a group share B and C; divides the number of heads
  std::int64_t states = 128;   ///< N, for each channel
  std::int64_t taps = 4;       ///< of the convolution
  std::int64_t chunk = 64;     ///< time steps that are worked on as matrices
  bool bias = false;           ///< of in_proj and out_proj
  bool conv_bias = true;
  double eps = 1e-5;                                                     ///< of the gated norm
  double dt_low = 0, dt_high = std::numeric_limits<double>::infinity();  ///< what Δ is clamped to
  TimeStepInit dt_init = {};
  double out_scale = 1;  ///< of out_proj's first values
};

/// Mamba-2's mixer, [B, L, dim] to the same: one decay a head, so that a chunk is a few matmuls.
struct Mamba2 {
  using Options = Mamba2Options;

  Mamba2Options options;  // with nothing left open
  Linear in_proj;
  CausalConv1d conv1d;
  Tensor dt_bias, A_log, D;  // [heads]
  RMSNorm norm;
  Linear out_proj;

  explicit Mamba2(std::int64_t dim, Mamba2Options options = {});
  Tensor operator()(Operand x) const;
  Tensor operator()(Operand x, Past& past) const;
  Past no_past(std::int64_t batch) const;
  Past state_past(const std::string& name, std::int64_t batch) const;
  TENSORGRAD_MEMBERS(in_proj, conv1d, dt_bias, A_log, D, norm, out_proj)

  std::int64_t heads() const { return options.inner / options.head_dim; }

 private:
  Tensor mix(const Operand& x, Past* past) const;
};

struct ChunkedScanOptions {
  std::int64_t chunk = 64;
  std::optional<Tensor> initial_state = {};  ///< zero unless given
};
/// Mamba-2's scan: x [B, L, H, P], Δ `dt` [B, L, H], A_log and D [H], B and C [B, L, G, N], where
/// G divides H. With a = −exp(A_log): h_t = e^{Δa}·h_{t−1} + Δ·x_t·B_tᵀ and y_t = h_t·C_t + D·x_t.
/// The state is [B, H, P, N].
ScanResult chunked_scan(Operand x, const Tensor& dt, const Tensor& A_log, const Tensor& B,
                        const Tensor& C, const Tensor& D, ChunkedScanOptions options = {});

/// At the end of the run, `after` takes the place of `before`, which state_past gave.
void keep_past(const Past& before, const Past& after, Site site = Site::here());

/// x + mixer(norm(x)).
template <class Mixer>
struct StateSpaceBlock {
  RMSNorm norm;
  Mixer mixer;

  explicit StateSpaceBlock(std::int64_t dim, typename Mixer::Options options = {},
                           double eps = 1e-5);
  Tensor operator()(Operand x) const;
  Tensor operator()(Operand x, Past& past) const;
  TENSORGRAD_MEMBERS(norm, mixer)
};
using MambaBlock = StateSpaceBlock<Mamba>;
using Mamba2Block = StateSpaceBlock<Mamba2>;

template <class Mixer>
struct StateSpaceLMOptions {
  typename Mixer::Options mixer = {};
  bool tied = true;  ///< The head is the table of embeddings.
  double eps = 1e-5;
};

/// A language model: tokens to logits of what follows them.
template <class Mixer>
struct StateSpaceLM {
  using Options = StateSpaceLMOptions<Mixer>;

  Embedding embeddings;
  std::vector<StateSpaceBlock<Mixer>> layers;
  RMSNorm norm_f;
  std::optional<Linear> lm_head;

  StateSpaceLM(std::int64_t vocabulary, std::int64_t dim, std::int64_t layers,
               Options options = {});
  /// i32[B, L] → f32[B, L, vocabulary], from the beginning of a sequence.
  Tensor operator()(const Tensor& ids, Site site = Site::here()) const;
  /// i32[B, L] → f32[B, vocabulary]: what follows the last of `ids`, which follow those of the runs
  /// before. Each layer's past is state of the program, `layers.0.mixer.state`.
  Tensor decode(const Tensor& ids, Site site = Site::here()) const;
  TENSORGRAD_MEMBERS(embeddings, layers, norm_f, lm_head)

 private:
  Tensor logits(const Tensor& x) const;
};
using MambaLM = StateSpaceLM<Mamba>;
using Mamba2LM = StateSpaceLM<Mamba2>;

extern template struct StateSpaceBlock<Mamba>;
extern template struct StateSpaceBlock<Mamba2>;
extern template struct StateSpaceLM<Mamba>;
extern template struct StateSpaceLM<Mamba2>;

}  // namespace tensorgrad::nn
