// Everything a user can call inside a forward function. Most are compositions of the few primitives
// in ops.def; the scheduler fuses them, so composing costs nothing.
//
// Binary ops take tensors and numbers on either side and broadcast as NumPy does. Axes may be
// negative. Every op takes the caller's position as its last, defaulted argument.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tensorgrad/tensor.hpp"
#include "tensorgrad/trace.hpp"

namespace tensorgrad {

/// The axes an op works on: one, several, or (default) all.
struct Axes {
  std::optional<std::vector<int>> list;
  Axes() = default;
  Axes(int axis) : list(std::vector<int>{axis}) {}  // NOLINT: implicit on purpose
  Axes(std::initializer_list<int> axes) : list(std::vector<int>(axes)) {}
  Axes(std::vector<int> axes) : list(std::move(axes)) {}  // NOLINT: implicit on purpose
};

struct ReduceOptions {
  Axes axes = {};         ///< All axes unless said.
  bool keepdims = false;  ///< Keep reduced axes with size 1.
};

enum class GeluForm { Erf, Tanh };
struct GeluOptions {
  GeluForm approximate = GeluForm::Erf;
};

enum class Reduction { Mean, Sum, None };
struct CrossEntropyOptions {
  Reduction reduction = Reduction::Mean;
  std::optional<int> ignore_index = {};  ///< Positions with this target count nothing.
  double label_smoothing = 0;
};
struct AttentionOptions {
  bool causal = true;
  std::optional<double> scale = {};  ///< 1/√D unless said.
};
enum class Discretization { Zoh, Euler };
struct SelectiveScanOptions {
  Discretization discretization = Discretization::Zoh;
  bool delta_softplus = true;                ///< Δ = softplus(delta), else delta itself.
  std::optional<Tensor> initial_state = {};  ///< [B, D, N]; zero unless given.
};
struct ScanResult {
  Tensor y;            ///< [B, L, D]
  Tensor final_state;  ///< [B, D, N]
};
struct ConvOptions {
  std::int64_t stride = 1, padding = 0, dilation = 1;
  int groups = 1;
};
struct PoolOptions {
  std::int64_t size = 2, stride = 0;
};  ///< The stride is the size unless said.
struct RopeOptions {
  double base = 10000;
  std::optional<Tensor> offset = {};  ///< A scalar added to every position.
};
struct LossOptions {
  Reduction reduction = Reduction::Mean;
};

// ---- leaves
Tensor constant(double value, DType dtype = f32, Site site = Site::here());
Tensor constant(const std::vector<float>& values, Shape shape, Site site = Site::here());
Tensor constant(const std::vector<std::int32_t>& values, Shape shape, Site site = Site::here());
Tensor full(Shape shape, double value, DType dtype = f32, Site site = Site::here());
Tensor zeros(Shape shape, DType dtype = f32, Site site = Site::here());
Tensor ones(Shape shape, DType dtype = f32, Site site = Site::here());
/// 0, 1, … n−1.
Tensor arange(std::int64_t n, DType dtype = i32, Site site = Site::here());
/// The index along `axis`, as a tensor of the given shape.
Tensor iota(Shape shape, int axis, DType dtype = i32, Site site = Site::here());

// ---- arithmetic
Tensor add(Operand a, Operand b);
Tensor sub(Operand a, Operand b);
Tensor mul(Operand a, Operand b);
Tensor div(Operand a, Operand b);      ///< i32 division truncates towards zero.
Tensor minimum(Operand a, Operand b);  ///< At ties the gradient goes half to each side.
Tensor maximum(Operand a, Operand b);
Tensor pow(Operand a, Operand b);  ///< A negative base with an integer exponent works.
Tensor neg(Operand x);
Tensor abs(Operand x);  ///< abs'(0) = 0.
Tensor square(Operand x);
Tensor reciprocal(Operand x);

inline Tensor operator+(Operand a, Operand b) { return add(a, b); }
inline Tensor operator-(Operand a, Operand b) { return sub(a, b); }
inline Tensor operator*(Operand a, Operand b) { return mul(a, b); }
inline Tensor operator/(Operand a, Operand b) { return div(a, b); }
inline Tensor operator-(Operand x) { return neg(x); }

// ---- unary
Tensor sqrt(Operand x);
Tensor rsqrt(Operand x);
Tensor exp(Operand x);
Tensor log(Operand x);
Tensor log1p(Operand x);
Tensor expm1(Operand x);
Tensor sin(Operand x);
Tensor cos(Operand x);
Tensor tanh(Operand x);
Tensor erf(Operand x);
Tensor floor(Operand x);  ///< Gradient zero.
Tensor sign(Operand x);   ///< −1, 0 or 1; gradient zero.

// ---- activations
Tensor relu(Operand x);  ///< relu'(0) = 0.
Tensor leaky_relu(Operand x, double alpha = 0.01);
Tensor sigmoid(Operand x);
Tensor gelu(Operand x, GeluOptions options = {});  ///< x·Φ(x) by erf, or the tanh approximation.
Tensor silu(Operand x);
Tensor softplus(Operand x);
Tensor elu(Operand x, double alpha = 1.0);
Tensor clamp(Operand x, double lo, double hi);

// ---- compare and select: results are bool and not differentiable
Tensor less(Operand a, Operand b);
Tensor greater(Operand a, Operand b);
Tensor less_equal(Operand a, Operand b);
Tensor greater_equal(Operand a, Operand b);
Tensor equal(Operand a, Operand b);
Tensor logical_and(Operand a, Operand b);
Tensor logical_or(Operand a, Operand b);
Tensor logical_not(Operand x);
/// a where `condition` holds, b elsewhere.
Tensor where(Operand condition, Operand a, Operand b);

// ---- reductions
Tensor sum(Operand x, ReduceOptions options = {});
Tensor mean(Operand x, ReduceOptions options = {});
Tensor max(Operand x, ReduceOptions options = {});  ///< The gradient goes to the first maximum.
Tensor min(Operand x, ReduceOptions options = {});
Tensor prod(Operand x, ReduceOptions options = {});
Tensor var(Operand x, ReduceOptions options = {});  ///< Biased: divides by n.
Tensor logsumexp(Operand x, ReduceOptions options = {});
/// Index of the first maximum along `axis` (of the flattened tensor without one): i32.
Tensor argmax(Operand x, std::optional<int> axis = {}, bool keepdims = false);
Tensor argmin(Operand x, std::optional<int> axis = {}, bool keepdims = false);

// ---- scans
/// h_{t+1} = a_t·h_t + b_t along `axis`, from h_0 = initial (without the axis): h_0 to h_T, one
/// more than a and b have.
Tensor linear_scan(Operand a, const Tensor& b, const Tensor& initial, int axis);
/// Sums of all elements up to and including each, along `axis`.
Tensor cumsum(Operand x, int axis = -1);

// ---- shape
/// One dimension may be −1.
Tensor reshape(Operand x, Shape shape);
/// Output axis i is input axis perm[i].
Tensor permute(Operand x, std::vector<int> perm);
Tensor swap_axes(Operand x, int axis1, int axis2);
Tensor expand_dims(Operand x, int axis);
Tensor squeeze(Operand x, Axes axes = {});
Tensor broadcast_to(Operand x, Shape shape);
/// Undoes a broadcast by summing.
Tensor sum_to_shape(Operand x, Shape shape);
Tensor narrow(Operand x, int axis, std::int64_t start, std::int64_t length);
inline constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
/// As Python's x[start:end:step] on one axis; negative positions count from the end.
Tensor slice(Operand x, int axis, std::int64_t start, std::int64_t end = kEnd,
             std::int64_t step = 1);
Tensor concat(const std::vector<Tensor>& parts, int axis = 0, Site site = Site::here());
Tensor stack(const std::vector<Tensor>& parts, int axis = 0, Site site = Site::here());
/// Parts of the given sizes along an axis.
std::vector<Tensor> split(Operand x, std::vector<std::int64_t> sizes, int axis = 0);
/// `parts` equal parts along an axis.
std::vector<Tensor> split(Operand x, int parts, int axis = 0);
struct PadWidth {
  std::int64_t before = 0, after = 0;
};
/// One width an axis, outermost first.
Tensor pad(Operand x, const std::vector<PadWidth>& widths, double value = 0);
Tensor flip(Operand x, Axes axes);
/// Repeats the whole tensor, NumPy's tile.
Tensor tile(Operand x, std::vector<std::int64_t> repeats);

// ---- linear algebra
/// [..., M, K]·[K, N], [..., M, K]·[..., K, N] with broadcast batch axes, vectors on either side.
Tensor matmul(Operand a, Operand b);
/// x·W + b with W [in, out].
Tensor linear(Operand x, const Tensor& weight, const std::optional<Tensor>& bias = {});

// ---- indexing
Tensor one_hot(Operand indices, std::int64_t depth, DType dtype = f32);
/// Rows of `table` [V, D...] at `indices` (any shape): [indices..., D...].
Tensor embedding(Operand table, const Tensor& indices);
/// out[.., i, ..] = x[.., indices[.., i, ..], ..] along `axis`; other axes of indices match x.
Tensor take_along_axis(Operand x, const Tensor& indices, int axis);
/// Slices of x along `axis` at 1-D indices.
Tensor index_select(Operand x, const Tensor& indices, int axis);
/// x with row i of `src` added to row indices[i], along `axis`; indices 1-D.
Tensor scatter_add(Operand x, const Tensor& indices, const Tensor& src, int axis = 0);

// ---- softmax family
Tensor softmax(Operand x, int axis = -1);
Tensor log_softmax(Operand x, int axis = -1);
/// `fill` where the column (last axis) lies after the row (second to last).
Tensor where_causal(Operand x, double fill);
/// Softmax over the last axis of the causal part; masked places give 0.
Tensor softmax_causal(Operand x);
/// −log p(target) over the last axis of logits; targets i32 of logits' shape without that axis.
Tensor cross_entropy(Operand logits, const Tensor& targets, CrossEntropyOptions options = {});
/// −log_probs[target] over the last axis.
Tensor nll_loss(Operand log_probs, const Tensor& targets, CrossEntropyOptions options = {});

// ---- attention and position
/// softmax(q·kᵀ·scale)·v on [B, H, T, D]. Key and value may have fewer heads, which query heads
/// share.
Tensor attention(Operand q, const Tensor& k, const Tensor& v, AttentionOptions options = {});
/// Rotary embedding of [..., T, D]: pairs (i, i + D/2) turn with the position.
Tensor rope(Operand x, RopeOptions options = {});

// ---- state space
/// The selective scan of Mamba: u, delta [B, L, D], A_log [D, N], B, C [B, L, N], D [D]. With
/// Δ = softplus(delta), a = −exp(A_log): h_t = e^{Δa}·h_{t−1} + B̄_t·u_t, y_t = Σ_n C_t·h_t + D·u_t,
/// where B̄ = (e^{Δa} − 1)/a·B (zoh) or Δ·B (euler).
ScanResult selective_scan(Operand u, const Tensor& delta, const Tensor& A_log, const Tensor& B,
                          const Tensor& C, const Tensor& D, SelectiveScanOptions options = {});

// ---- convolution and pooling
/// x [N, C, T], weight [O, C/groups, k], bias [O].
Tensor conv1d(Operand x, const Tensor& weight, const std::optional<Tensor>& bias = {},
              ConvOptions options = {});
/// x [N, C, H, W], weight [O, C/groups, kh, kw], bias [O].
Tensor conv2d(Operand x, const Tensor& weight, const std::optional<Tensor>& bias = {},
              ConvOptions options = {});
/// Depthwise over time, seeing the past only: x [B, L, D], weight [D, K], bias [D]. `window`
/// [B, K−1, D] is what came before x; zero unless given.
Tensor conv1d_causal(Operand x, const Tensor& weight, const std::optional<Tensor>& bias = {},
                     const std::optional<Tensor>& window = {});
/// What conv1d_causal needs to go on behind x: the last K−1 inputs, [B, K−1, D].
Tensor last_window(Operand x, std::int64_t taps, const std::optional<Tensor>& window = {});
Tensor max_pool2d(Operand x, PoolOptions options = {});
Tensor avg_pool2d(Operand x, PoolOptions options = {});
Tensor nearest_upsample2d(Operand x, std::int64_t factor);

// ---- norms, over the last axis
Tensor layer_norm(Operand x, const std::optional<Tensor>& gain = {},
                  const std::optional<Tensor>& bias = {}, double eps = 1e-5);
Tensor rms_norm(Operand x, const std::optional<Tensor>& gain = {}, double eps = 1e-6);

// ---- random, keyed by seed, node, step and element; see random.hpp
/// Uniform in [low, high).
Tensor uniform(Shape shape, double low = 0, double high = 1, Site site = Site::here());
/// Normal with mean 0 and variance 1.
Tensor randn(Shape shape, Site site = Site::here());
/// Draws an index along `axis` with probability softmax(logits): i32, without that axis.
Tensor categorical(Operand logits, int axis = -1);
/// Zeroes elements with probability p and scales the others by 1/(1 − p); the identity in a
/// forward compile.
Tensor dropout(Operand x, double p);

// ---- control
/// `value`, a function of `inputs`, with a gradient of the caller's own: `rule` maps its cotangent
/// to those of the inputs. Only the path through `inputs` is differentiated.
Tensor with_gradient(const Tensor& value, const std::vector<Tensor>& inputs,
                     std::function<std::vector<Tensor>(const Tensor&)> rule);
Tensor stop_gradient(Operand x);
Tensor cast(Operand x, DType dtype);

// ---- losses: the mean over all elements unless said
Tensor mse_loss(Operand prediction, Operand target, LossOptions options = {});
Tensor l1_loss(Operand prediction, Operand target, LossOptions options = {});
Tensor huber_loss(Operand prediction, Operand target, double delta = 1.0, LossOptions options = {});
Tensor binary_cross_entropy_with_logits(Operand logits, Operand target, LossOptions options = {});

}  // namespace tensorgrad
