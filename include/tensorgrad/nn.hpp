// Layers: plain structs of parameters with a call operator. Read one and you can write your own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensorgrad/module.hpp"
#include "tensorgrad/ops.hpp"

namespace tensorgrad::nn {

struct LinearOptions {
  bool bias = true;
};

/// x·W + b. W is [in, out]; both start uniform in ±1/√in.
struct Linear {
  Tensor W;
  std::optional<Tensor> b;

  Linear(std::int64_t in, std::int64_t out, LinearOptions options = {});
  Tensor operator()(Operand x) const;
  TENSORGRAD_MEMBERS(W, b)
};

/// Rows of a table [count, dim] by index.
struct Embedding {
  Tensor W;

  Embedding(std::int64_t count, std::int64_t dim);
  Tensor operator()(const Tensor& indices, Site site = Site::here()) const;
  TENSORGRAD_MEMBERS(W)
};

/// Normalises the last axis to mean 0 and variance 1, then gain and bias.
struct LayerNorm {
  Tensor g, b;
  double eps;

  explicit LayerNorm(std::int64_t dim, double eps = 1e-5);
  Tensor operator()(Operand x) const;
  TENSORGRAD_MEMBERS(g, b)
};

/// Normalises the last axis by its root mean square, then gain.
struct RMSNorm {
  Tensor g;
  double eps;

  explicit RMSNorm(std::int64_t dim, double eps = 1e-6);
  Tensor operator()(Operand x) const;
  TENSORGRAD_MEMBERS(g)
};

struct AttentionOptions {
  bool causal = true;
  bool bias = true;
  std::string capture = {};  ///< If not empty, the attention weights are captured under this name.
};

/// Self-attention over [..., T, D] with `heads` heads.
struct MultiHeadAttention {
  Linear q, k, v, o;
  int heads;
  AttentionOptions options;

  MultiHeadAttention(std::int64_t dim, int heads, AttentionOptions options = {});
  Tensor operator()(Operand x) const;
  TENSORGRAD_MEMBERS(q, k, v, o)
};

struct TransformerOptions {
  bool causal = true;
  std::int64_t hidden = 0;   ///< 4·dim unless said.
  bool relu = false;         ///< gelu unless said.
  std::string capture = {};  ///< As in AttentionOptions.
};

/// Pre-norm block: x + attn(norm(x)), then x + mlp(norm(x)).
struct TransformerBlock {
  LayerNorm n1;
  MultiHeadAttention attn;
  LayerNorm n2;
  Linear up, down;
  TransformerOptions options;

  TransformerBlock(std::int64_t dim, int heads, TransformerOptions options = {});
  Tensor operator()(Operand x) const;
  TENSORGRAD_MEMBERS(n1, attn, n2, up, down)
};

struct ConvOptions {
  std::int64_t stride = 1, padding = 0, dilation = 1;
  int groups = 1;
  bool bias = true;
};

/// Convolution of [N, in, T] with W [out, in/groups, size]; W and b start uniform in ±1/√fan, with
/// fan = in/groups·size, as PyTorch's do.
struct Conv1d {
  Tensor W;
  std::optional<Tensor> b;
  ConvOptions options;

  Conv1d(std::int64_t in, std::int64_t out, std::int64_t size, ConvOptions options = {});
  Tensor operator()(Operand x) const;
  TENSORGRAD_MEMBERS(W, b)
};

/// The same for images [N, in, H, W] with square windows: W is [out, in/groups, size, size].
struct Conv2d {
  Tensor W;
  std::optional<Tensor> b;
  ConvOptions options;

  Conv2d(std::int64_t in, std::int64_t out, std::int64_t size, ConvOptions options = {});
  Tensor operator()(Operand x) const;
  TENSORGRAD_MEMBERS(W, b)
};

/// [..., T, D] → [..., H, T, D/H].
Tensor split_heads(Operand x, int heads);
/// [..., H, T, d] → [..., T, H·d].
Tensor merge_heads(Operand x);

}  // namespace tensorgrad::nn
