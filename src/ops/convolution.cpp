// Convolution and pooling: windows are a view, so a convolution is a matmul over windows and a pool
// is a reduction of them.
#include "ops/rule.hpp"

namespace tensorgrad {

// out[.., i, k, ..] = x[.., i·stride + k·dilation, ..];  dx sums, for each k, g's k-th slice put
// back
Types infer_Window(const Rule& r) {
  const auto& a = r.attr<WindowAttr>();
  const Shape& from = r.type(0).shape;
  if (a.axis < 0 || a.axis >= from.rank() || a.size < 1 || a.stride < 1 || a.dilation < 1 ||
      a.count < 1 || (a.count - 1) * a.stride + (a.size - 1) * a.dilation >= from[a.axis]) {
    r.fail("windows of " + std::to_string(a.size) + " do not fit axis " + std::to_string(a.axis) +
           " of " + r.type(0).to_string() + ".");
  }
  Shape shape;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (axis == a.axis) {
      shape.push_back(a.count);
      shape.push_back(a.size);
    } else {
      shape.push_back(from.dim(axis));
    }
  }
  return {{r.type(0).dtype, shape}};
}
void grad_Window(GradContext& c) {
  const auto& a = c.attr<WindowAttr>();
  const Shape& from = c.input(0).shape();
  Tensor total;
  for (std::int64_t k = 0; k < a.size; ++k) {
    const Tensor part = squeeze(narrow(c.cotangent(), a.axis + 1, k, 1), a.axis + 1);
    PadAttr pad;
    for (int axis = 0; axis < from.rank(); ++axis) {
      const bool here = axis == a.axis;
      const std::int64_t low = here ? k * a.dilation : 0,
                         span = here ? (a.count - 1) * a.stride + 1 : from[axis];
      pad.low.push_back(low);
      pad.high.push_back(from[axis] - low - span);
      pad.interior.push_back(here ? a.stride - 1 : 0);
    }
    const Tensor placed = emit(OpKind::Pad, {part}, pad, {});
    total = total.valid() ? total + placed : placed;
  }
  c.give(0, total);
}

namespace {

/// Windows along an axis, which becomes two: [.., count, size, ..].
Tensor windows(const char* op, const Tensor& x, int axis, std::int64_t size, std::int64_t stride,
               std::int64_t dilation, Site site) {
  const std::int64_t span = (size - 1) * dilation + 1;
  if (size < 1 || stride < 1 || dilation < 1 || span > x.shape(axis)) {
    fail_op(op,
            "a window of " + std::to_string(size) + " (dilation " + std::to_string(dilation) +
                ", stride " + std::to_string(stride) + ") does not fit axis " +
                std::to_string(axis) + " of " + x.type().to_string() + ".",
            site);
  }
  const std::int64_t count = (x.shape(axis) - span) / stride + 1;
  return emit(OpKind::Window, {x}, WindowAttr{axis, size, stride, dilation, count}, site);
}

void check_conv(const char* op, const Tensor& x, const Tensor& w, const std::optional<Tensor>& b,
                int spatial, int groups, Site site) {
  check_operand(op, w, site);
  if (b) check_operand(op, *b, site);
  const int rank = spatial + 2;
  if (x.rank() != rank || w.rank() != rank || groups < 1 || x.shape(1) % groups != 0 ||
      w.shape(0) % groups != 0 || w.shape(1) * groups != x.shape(1) ||
      (b && b->shape() != Shape{w.shape(0)})) {
    fail_op(op,
            "x " + x.type().to_string() + ", weight " + w.type().to_string() +
                (b ? ", bias " + b->type().to_string() : "") + " and groups " +
                std::to_string(groups) +
                " do not fit: x is [batch, channels, ...], the weight [out, channels/groups, ...], "
                "the bias [out].",
            site);
  }
}

}  // namespace

// y[n, o, p] = b[o] + Σ_{c, k} w[o, c, k]·x[n, c, p·stride + k·dilation − padding]
Tensor conv2d(Operand input, const Tensor& weight, const std::optional<Tensor>& bias,
              ConvOptions options) {
  SiteScope scope(input.site());
  const Site site = input.site();
  Tensor x = float_tensor("conv2d", input);
  check_conv("conv2d", x, weight, bias, 2, options.groups, site);
  const std::int64_t p = options.padding, s = options.stride, d = options.dilation,
                     groups = options.groups;
  if (p > 0) x = pad(x, {{0, 0}, {0, 0}, {p, p}, {p, p}});
  const std::int64_t batch = x.shape(0), channels = x.shape(1) / groups,
                     out = weight.shape(0) / groups;
  const std::int64_t kh = weight.shape(2), kw = weight.shape(3);
  // [N, C, OH, kh, OW, kw]
  const Tensor all = windows("conv2d", windows("conv2d", x, 2, kh, s, d, site), 4, kw, s, d, site);
  const std::int64_t oh = all.shape(2), ow = all.shape(4);
  const Tensor split = reshape(all, {batch, groups, channels, oh, kh, ow, kw});
  // [N, G, C·kh·kw, OH·OW]
  const Tensor columns =
      reshape(permute(split, {0, 1, 2, 4, 6, 3, 5}), {batch, groups, channels * kh * kw, oh * ow});
  const Tensor kernel = reshape(weight, {1, groups, out, channels * kh * kw});
  const Tensor y = reshape(matmul(kernel, columns), {batch, groups * out, oh, ow});
  return bias ? y + reshape(*bias, {1, groups * out, 1, 1}) : y;
}

Tensor conv1d(Operand input, const Tensor& weight, const std::optional<Tensor>& bias,
              ConvOptions options) {
  SiteScope scope(input.site());
  const Site site = input.site();
  Tensor x = float_tensor("conv1d", input);
  check_conv("conv1d", x, weight, bias, 1, options.groups, site);
  if (options.padding > 0) x = pad(x, {{0, 0}, {0, 0}, {options.padding, options.padding}});
  const std::int64_t batch = x.shape(0), groups = options.groups, channels = x.shape(1) / groups;
  const std::int64_t out = weight.shape(0) / groups, size = weight.shape(2);
  const Tensor all =
      windows("conv1d", x, 2, size, options.stride, options.dilation, site);  // [N, C, T, k]
  const std::int64_t time = all.shape(2);
  const Tensor split = reshape(all, {batch, groups, channels, time, size});
  const Tensor columns =
      reshape(permute(split, {0, 1, 2, 4, 3}), {batch, groups, channels * size, time});
  const Tensor y = reshape(matmul(reshape(weight, {1, groups, out, channels * size}), columns),
                           {batch, groups * out, time});
  return bias ? y + reshape(*bias, {1, groups * out, 1}) : y;
}

namespace {
/// x [B, L, D] behind the taps − 1 inputs that came before it.
Tensor with_past(const char* op, const Tensor& x, std::int64_t taps,
                 const std::optional<Tensor>& window, Site site) {
  if (taps == 1) return x;
  if (!window) return pad(x, {{0, 0}, {taps - 1, 0}, {0, 0}});
  check_operand(op, *window, site);
  if (window->shape() != Shape{x.shape(0), taps - 1, x.shape(2)}) {
    fail_op(op,
            "the window must be f32" + Shape{x.shape(0), taps - 1, x.shape(2)}.to_string() +
                " beside x " + x.type().to_string() + ", not " + window->type().to_string() + ".",
            site);
  }
  return concat({*window, x}, 1);
}
}  // namespace

// y[b, l, d] = bias[d] + Σ_k w[d, k]·x[b, l − (K−1) + k, d]: the last tap sees the present
Tensor conv1d_causal(Operand input, const Tensor& weight, const std::optional<Tensor>& bias,
                     const std::optional<Tensor>& window) {
  SiteScope scope(input.site());
  const Tensor x = float_tensor("conv1d_causal", input);
  check_operand("conv1d_causal", weight, input.site());
  if (bias) check_operand("conv1d_causal", *bias, input.site());
  if (x.rank() != 3 || weight.rank() != 2 || weight.shape(0) != x.shape(2) ||
      (bias && bias->shape() != Shape{x.shape(2)})) {
    fail_op("conv1d_causal",
            "x " + x.type().to_string() + " and weight " + weight.type().to_string() +
                " do not fit: x is [batch, length, channels], the weight [channels, taps], the "
                "bias [channels].",
            input.site());
  }
  const std::int64_t taps = weight.shape(1), length = x.shape(1);
  const Tensor padded = with_past("conv1d_causal", x, taps, window, input.site());
  Tensor y;
  for (std::int64_t k = 0; k < taps; ++k) {
    const Tensor tap = narrow(padded, 1, k, length) * squeeze(narrow(weight, 1, k, 1), 1);
    y = y.valid() ? y + tap : tap;
  }
  return bias ? y + *bias : y;
}

Tensor last_window(Operand input, std::int64_t taps, const std::optional<Tensor>& window) {
  SiteScope scope(input.site());
  const Tensor x = float_tensor("last_window", input);
  if (x.rank() != 3 || taps < 2) {
    fail_op("last_window",
            "needs [batch, length, channels] and two taps or more, not " + x.type().to_string() +
                " and " + std::to_string(taps) + ".",
            input.site());
  }
  return narrow(with_past("last_window", x, taps, window, input.site()), 1, x.shape(1), taps - 1);
}

namespace {
/// [N, C, OH, kh, OW, kw] of [N, C, H, W].
Tensor pool_windows(const char* op, const Operand& input, const PoolOptions& options) {
  const Tensor x = as_tensor(op, input, f32);
  if (x.rank() != 4)
    fail_op(op, "needs [batch, channels, height, width], not " + x.type().to_string() + ".",
            input.site());
  const std::int64_t stride = options.stride > 0 ? options.stride : options.size;
  return windows(op, windows(op, x, 2, options.size, stride, 1, input.site()), 4, options.size,
                 stride, 1, input.site());
}
}  // namespace

Tensor max_pool2d(Operand x, PoolOptions options) {
  SiteScope scope(x.site());
  return max(pool_windows("max_pool2d", x, options), {{3, 5}});
}

Tensor avg_pool2d(Operand x, PoolOptions options) {
  SiteScope scope(x.site());
  return mean(pool_windows("avg_pool2d", x, options), {{3, 5}});
}

Tensor nearest_upsample2d(Operand input, std::int64_t factor) {
  SiteScope scope(input.site());
  const Tensor x = as_tensor("nearest_upsample2d", input, f32);
  if (x.rank() != 4 || factor < 1) {
    fail_op("nearest_upsample2d",
            "needs [batch, channels, height, width] and a positive factor, not " +
                x.type().to_string() + ".",
            input.site());
  }
  const std::int64_t n = x.shape(0), c = x.shape(1), h = x.shape(2), w = x.shape(3);
  const Tensor wide = broadcast_to(reshape(x, {n, c, h, 1, w, 1}), {n, c, h, factor, w, factor});
  return reshape(wide, {n, c, h * factor, w * factor});
}

}  // namespace tensorgrad
