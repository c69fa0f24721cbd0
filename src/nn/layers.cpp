#include <cmath>

#include "tensorgrad/nn.hpp"

namespace tensorgrad::nn {

Linear::Linear(std::int64_t in, std::int64_t out, LinearOptions options) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  W = param({in, out}, {.init = init::uniform(bound), .layout = ParamLayout::InOut});
  if (options.bias) b = param({out}, {.init = init::uniform(bound), .decay = false});
}

Tensor Linear::operator()(Operand x) const { return linear(x, W, b); }

Embedding::Embedding(std::int64_t count, std::int64_t dim) : W(param({count, dim})) {}

Tensor Embedding::operator()(const Tensor& indices, Site site) const {
  return embedding(Operand(W, site.file, site.line), indices);
}

LayerNorm::LayerNorm(std::int64_t dim, double epsilon)
    : g(param({dim}, {.init = init::ones})), b(param({dim}, {.init = init::zeros})), eps(epsilon) {}

Tensor LayerNorm::operator()(Operand x) const { return layer_norm(x, g, b, eps); }

RMSNorm::RMSNorm(std::int64_t dim, double epsilon)
    : g(param({dim}, {.init = init::ones})), eps(epsilon) {}

Tensor RMSNorm::operator()(Operand x) const { return rms_norm(x, g, eps); }

MultiHeadAttention::MultiHeadAttention(std::int64_t dim, int head_count, AttentionOptions opts)
    : q(dim, dim, {opts.bias}),
      k(dim, dim, {opts.bias}),
      v(dim, dim, {opts.bias}),
      o(dim, dim, {opts.bias}),
      heads(head_count),
      options(std::move(opts)) {
  if (head_count < 1 || dim % head_count != 0) {
    throw ShapeError("MultiHeadAttention: the dimension " + std::to_string(dim) +
                     " does not divide into " + std::to_string(head_count) + " heads.");
  }
}

Tensor MultiHeadAttention::operator()(Operand x) const {
  SiteScope scope(x.site());
  const Tensor queries = split_heads(q(x), heads), keys = split_heads(k(x), heads),
               values = split_heads(v(x), heads);
  const double scale = 1.0 / std::sqrt(static_cast<double>(queries.shape(-1)));
  const Tensor scores = matmul(queries, swap_axes(keys, -1, -2)) * scale;
  Tensor weights = options.causal ? softmax_causal(scores) : softmax(scores);
  if (!options.capture.empty()) weights = capture(options.capture, weights);
  return o(merge_heads(matmul(weights, values)));
}

TransformerBlock::TransformerBlock(std::int64_t dim, int heads, TransformerOptions opts)
    : n1(dim),
      attn(dim, heads, {.causal = opts.causal, .capture = opts.capture}),
      n2(dim),
      up(dim, opts.hidden > 0 ? opts.hidden : 4 * dim),
      down(opts.hidden > 0 ? opts.hidden : 4 * dim, dim),
      options(std::move(opts)) {}

Tensor TransformerBlock::operator()(Operand x) const {
  SiteScope scope(x.site());
  const Tensor mixed = x + attn(n1(x));
  const Tensor hidden = up(n2(mixed));
  return mixed + down(options.relu ? relu(hidden) : gelu(hidden));
}

namespace {

/// Declares W [out, in/groups, size...] and b [out] after a look at what can be wrong before any
/// input is known.
template <class Conv>
void declare_conv(Conv& conv, const char* name, std::int64_t in, std::int64_t out,
                  std::int64_t size, int spatial) {
  const ConvOptions& o = conv.options;
  if (in < 1 || out < 1 || size < 1 || o.groups < 1 || in % o.groups != 0 || out % o.groups != 0) {
    throw ShapeError(std::string(name) + ": " + std::to_string(in) + " channels to " +
                     std::to_string(out) + ", windows of " + std::to_string(size) + " and " +
                     std::to_string(o.groups) +
                     " groups do not fit: all are 1 or more, and the groups divide both channels.");
  }
  if (o.stride < 1 || o.dilation < 1 || o.padding < 0) {
    throw ShapeError(std::string(name) + ": stride " + std::to_string(o.stride) + ", dilation " +
                     std::to_string(o.dilation) + " and padding " + std::to_string(o.padding) +
                     " are given; stride and dilation are 1 or more, padding 0 or more.");
  }
  Shape shape{out, in / o.groups};
  for (int i = 0; i < spatial; ++i) shape.push_back(size);
  const double fan = static_cast<double>(shape.size()) / static_cast<double>(out);
  const double bound = 1.0 / std::sqrt(fan);
  conv.W = param(shape, {.init = init::uniform(bound)});
  if (o.bias) conv.b = param({out}, {.init = init::uniform(bound), .decay = false});
}

tensorgrad::ConvOptions op_options(const ConvOptions& o) {
  return {.stride = o.stride, .padding = o.padding, .dilation = o.dilation, .groups = o.groups};
}

}  // namespace

Conv1d::Conv1d(std::int64_t in, std::int64_t out, std::int64_t size, ConvOptions opts)
    : options(opts) {
  declare_conv(*this, "Conv1d", in, out, size, 1);
}

Tensor Conv1d::operator()(Operand x) const { return conv1d(x, W, b, op_options(options)); }

Conv2d::Conv2d(std::int64_t in, std::int64_t out, std::int64_t size, ConvOptions opts)
    : options(opts) {
  declare_conv(*this, "Conv2d", in, out, size, 2);
}

Tensor Conv2d::operator()(Operand x) const { return conv2d(x, W, b, op_options(options)); }

Tensor split_heads(Operand x, int heads) {
  SiteScope scope(x.site());
  const Tensor& tensor = x.tensor();
  const std::int64_t dim = tensor.shape(-1);
  if (tensor.rank() < 2 || heads < 1 || dim % heads != 0) {
    throw ShapeError("split_heads: " + tensor.type().to_string() + " does not divide into " +
                     std::to_string(heads) + " heads.\n  at " + current_site(x.site()).to_string());
  }
  Shape shape = tensor.shape();
  shape.set(shape.rank() - 1, heads);
  shape.push_back(dim / heads);
  return swap_axes(reshape(tensor, shape), -2, -3);
}

Tensor merge_heads(Operand x) {
  SiteScope scope(x.site());
  const Tensor moved = swap_axes(x, -2, -3);  // [..., T, H, d]
  Shape shape;
  for (int axis = 0; axis + 2 < moved.rank(); ++axis) shape.push_back(moved.shape().dim(axis));
  shape.push_back(moved.shape(-1) * moved.shape(-2));
  return reshape(moved, shape);
}

}  // namespace tensorgrad::nn
