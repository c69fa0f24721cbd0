#include "conformance_ops.hpp"

#include <map>

namespace tensorgrad::conformance {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<int> to_ints(const std::vector<std::int64_t>& list) {
  return {list.begin(), list.end()};
}

// ---- ops with more to say than one line

Tensor call_swap_axes(const Call& c) {
  if (c.attrs.has({"axes", "dims"})) {
    const std::vector<std::int64_t> axes = c.attrs.integers({"axes", "dims"});
    if (axes.size() != 2) c.fail("needs two axes.");
    return swap_axes(c[0], static_cast<int>(axes[0]), static_cast<int>(axes[1]));
  }
  return swap_axes(c[0], static_cast<int>(c.attrs.integer({"axis1", "axis0", "dim0", "a"})),
                   static_cast<int>(c.attrs.integer({"axis2", "dim1", "b"})));
}

Tensor call_split(const Call& c) {  // one part of several
  const auto part = static_cast<std::size_t>(c.attrs.integer({"index", "part"}, 0));
  const Json sizes = c.attrs.raw({"sizes", "parts", "sections"});
  const std::vector<Tensor> parts =
      sizes.is_array()
          ? split(c[0], c.attrs.integers({"sizes", "parts", "sections"}), c.axis(0))
          : split(c[0], static_cast<int>(c.attrs.integer({"parts", "sections"})), c.axis(0));
  if (part >= parts.size()) c.fail("there is no part " + std::to_string(part) + ".");
  return parts[part];
}

Tensor call_attention(const Call& c) {
  AttentionOptions options;
  options.causal = c.attrs.flag({"causal", "is_causal"}, false);
  if (c.attrs.has({"scale"})) options.scale = c.attrs.number({"scale"});
  return attention(c[0], c[1], c[2], options);
}

Tensor call_rope(const Call& c) {
  RopeOptions options;
  options.base = c.attrs.number({"base", "theta"}, 10000);
  c.attrs.text({"layout"}, "");
  const double offset = c.attrs.number({"offset", "position"}, 0);
  if (offset != 0) options.offset = constant(offset);
  return rope(c[0], options);
}

Tensor call_conv1d_causal(const Call& c) {
  c.attrs.text({"layout"}, "");
  return conv1d_causal(c[0], c[1], c.maybe(2), c.maybe(3));
}

// u, delta, A_log, B, C, D and perhaps an initial state; gives y, or the final state if asked for.
Tensor call_selective_scan(const Call& c) {
  SelectiveScanOptions options;
  const std::string name = c.attrs.text({"discretization"}, "zoh");
  if (name != "zoh" && name != "euler") c.fail("there is no discretization \"" + name + "\".");
  options.discretization = name == "zoh" ? Discretization::Zoh : Discretization::Euler;
  options.delta_softplus = c.attrs.flag({"delta_softplus"}, true);
  options.initial_state = c.maybe(6);
  const ScanResult result = selective_scan(c[0], c[1], c[2], c[3], c[4], c[5], options);
  const std::string asked = c.attrs.text({"returns", "output"}, "y");
  if (asked != "y" && asked != "final_state") c.fail("gives no \"" + asked + "\".");
  return asked == "y" ? result.y : result.final_state;
}

// mean((tanh(x·w)·v + x)²)
Tensor mlp_residual(const Call& c) {
  return mean(square(matmul(tanh(matmul(c[0], c[1])), c[2]) + c[0]));
}

// mean(log(softmax(layer_norm(x)·g)))
Tensor norm_then_softmax(const Call& c) {
  const double eps = c.attrs.number({"eps", "epsilon"}, 1e-5);
  return mean(log(softmax(layer_norm(c[0], {}, {}, eps) * c[1])));
}

// ---- the table

// clang-format off
const std::map<std::string, OpFn>& table() {
  static const std::map<std::string, OpFn> ops = {
      // leaves
      {"constant", [](const Call& c) { return full(c.shape(), c.attrs.number({"value", "fill"}), c.dtype(f32)); }},
      {"full", [](const Call& c) { return full(c.shape(), c.attrs.number({"value", "fill"}), c.dtype(f32)); }},
      {"zeros", [](const Call& c) { return zeros(c.shape(), c.dtype(f32)); }},
      {"ones", [](const Call& c) { return ones(c.shape(), c.dtype(f32)); }},
      {"arange", [](const Call& c) { return arange(c.attrs.integer({"n", "end", "stop"}), c.dtype(i32)); }},
      // arithmetic
      {"add", [](const Call& c) { return add(c.operand(0), c.operand(1)); }},
      {"sub", [](const Call& c) { return sub(c.operand(0), c.operand(1)); }},
      {"mul", [](const Call& c) { return mul(c.operand(0), c.operand(1)); }},
      {"div", [](const Call& c) { return div(c.operand(0), c.operand(1)); }},
      {"minimum", [](const Call& c) { return minimum(c.operand(0), c.operand(1)); }},
      {"maximum", [](const Call& c) { return maximum(c.operand(0), c.operand(1)); }},
      {"pow", [](const Call& c) { return pow(c.operand(0), c.operand(1)); }},
      {"neg", [](const Call& c) { return neg(c[0]); }},
      {"abs", [](const Call& c) { return abs(c[0]); }},
      {"square", [](const Call& c) { return square(c[0]); }},
      {"reciprocal", [](const Call& c) { return reciprocal(c[0]); }},
      // unary
      {"sqrt", [](const Call& c) { return sqrt(c[0]); }},
      {"rsqrt", [](const Call& c) { return rsqrt(c[0]); }},
      {"exp", [](const Call& c) { return exp(c[0]); }},
      {"log", [](const Call& c) { return log(c[0]); }},
      {"log1p", [](const Call& c) { return log1p(c[0]); }},
      {"expm1", [](const Call& c) { return expm1(c[0]); }},
      {"sin", [](const Call& c) { return sin(c[0]); }},
      {"cos", [](const Call& c) { return cos(c[0]); }},
      {"tanh", [](const Call& c) { return tanh(c[0]); }},
      {"erf", [](const Call& c) { return erf(c[0]); }},
      {"floor", [](const Call& c) { return floor(c[0]); }},
      {"sign", [](const Call& c) { return sign(c[0]); }},
      // activations
      {"relu", [](const Call& c) { return relu(c[0]); }},
      {"leaky_relu", [](const Call& c) { return leaky_relu(c[0], c.attrs.number({"alpha", "negative_slope", "slope"}, 0.01)); }},
      {"sigmoid", [](const Call& c) { return sigmoid(c[0]); }},
      {"gelu", [](const Call& c) { return gelu(c[0], c.gelu()); }},
      {"silu", [](const Call& c) { return silu(c[0]); }},
      {"softplus", [](const Call& c) { return softplus(c[0]); }},
      {"elu", [](const Call& c) { return elu(c[0], c.attrs.number({"alpha"}, 1.0)); }},
      {"clamp", [](const Call& c) { return clamp(c[0], c.attrs.number({"lo", "min", "low"}, -kInfinity), c.attrs.number({"hi", "max", "high"}, kInfinity)); }},
      // compare and select
      {"less", [](const Call& c) { return less(c.operand(0), c.operand(1)); }},
      {"greater", [](const Call& c) { return greater(c.operand(0), c.operand(1)); }},
      {"less_equal", [](const Call& c) { return less_equal(c.operand(0), c.operand(1)); }},
      {"greater_equal", [](const Call& c) { return greater_equal(c.operand(0), c.operand(1)); }},
      {"equal", [](const Call& c) { return equal(c.operand(0), c.operand(1)); }},
      {"logical_and", [](const Call& c) { return logical_and(c[0], c[1]); }},
      {"logical_or", [](const Call& c) { return logical_or(c[0], c[1]); }},
      {"logical_not", [](const Call& c) { return logical_not(c[0]); }},
      {"where", [](const Call& c) { return where(c[0], c.operand(1), c.operand(2)); }},
      // reductions
      {"sum", [](const Call& c) { return sum(c[0], c.reduce()); }},
      {"mean", [](const Call& c) { return mean(c[0], c.reduce()); }},
      {"max", [](const Call& c) { return max(c[0], c.reduce()); }},
      {"min", [](const Call& c) { return min(c[0], c.reduce()); }},
      {"prod", [](const Call& c) { return prod(c[0], c.reduce()); }},
      {"var", [](const Call& c) { return var(c[0], c.reduce()); }},
      {"logsumexp", [](const Call& c) { return logsumexp(c[0], c.reduce()); }},
      {"argmax", [](const Call& c) { return argmax(c[0], c.axis(), c.reduce().keepdims); }},
      {"argmin", [](const Call& c) { return argmin(c[0], c.axis(), c.reduce().keepdims); }},
      // scans
      {"cumsum", [](const Call& c) { return cumsum(c[0], c.axis(-1)); }},
      // shape
      {"reshape", [](const Call& c) { return reshape(c[0], c.shape()); }},
      {"permute", [](const Call& c) { return permute(c[0], to_ints(c.attrs.integers({"perm", "axes", "dims"}))); }},
      {"transpose", [](const Call& c) { return permute(c[0], to_ints(c.attrs.integers({"perm", "axes", "dims"}))); }},
      {"swap_axes", call_swap_axes},
      {"expand_dims", [](const Call& c) { return expand_dims(c[0], c.axis(0)); }},
      {"squeeze", [](const Call& c) { return squeeze(c[0], c.axes()); }},
      {"broadcast_to", [](const Call& c) { return broadcast_to(c[0], c.shape()); }},
      {"sum_to_shape", [](const Call& c) { return sum_to_shape(c[0], c.shape()); }},
      {"narrow", [](const Call& c) { return narrow(c[0], c.axis(0), c.attrs.integer({"start"}), c.attrs.integer({"length", "size"})); }},
      {"slice", [](const Call& c) { return slice(c[0], c.axis(0), c.attrs.integer({"start"}, c.attrs.integer({"step"}, 1) < 0 ? -1 : 0), c.attrs.integer({"end", "stop"}, kEnd), c.attrs.integer({"step"}, 1)); }},
      {"concat", [](const Call& c) { return concat(c.inputs(), c.axis(0)); }},
      {"stack", [](const Call& c) { return stack(c.inputs(), c.axis(0)); }},
      {"split", call_split},
      {"pad", [](const Call& c) { return pad(c[0], c.pads(), c.attrs.number({"value", "fill"}, 0)); }},
      {"flip", [](const Call& c) { return flip(c[0], c.axes()); }},
      {"tile", [](const Call& c) { return tile(c[0], c.attrs.integers({"reps", "repeats"})); }},
      // linear algebra
      {"matmul", [](const Call& c) { return matmul(c[0], c[1]); }},
      {"linear", [](const Call& c) { return linear(c[0], c[1], c.maybe(2)); }},
      // indexing
      {"one_hot", [](const Call& c) { return one_hot(c[0], c.attrs.integer({"depth", "num_classes", "classes"}), c.dtype(f32)); }},
      {"embedding", [](const Call& c) { return embedding(c[0], c[1]); }},
      {"take_along_axis", [](const Call& c) { return take_along_axis(c[0], c[1], c.axis(-1)); }},
      {"index_select", [](const Call& c) { return index_select(c[0], c[1], c.axis(0)); }},
      {"scatter_add", [](const Call& c) { return scatter_add(c[0], c[1], c[2], c.axis(0)); }},
      // softmax family
      {"softmax", [](const Call& c) { return softmax(c[0], c.axis(-1)); }},
      {"log_softmax", [](const Call& c) { return log_softmax(c[0], c.axis(-1)); }},
      {"softmax_causal", [](const Call& c) { return softmax_causal(c[0]); }},
      {"where_causal", [](const Call& c) { return where_causal(c[0], c.attrs.number({"fill", "value"})); }},
      {"cross_entropy", [](const Call& c) { return cross_entropy(c[0], c[1], c.cross_entropy()); }},
      {"nll_loss", [](const Call& c) { return nll_loss(c[0], c[1], c.cross_entropy()); }},
      // attention and position
      {"attention", call_attention},
      {"rope", call_rope},
      // state space
      {"selective_scan", call_selective_scan},
      // convolution and pooling
      {"conv1d", [](const Call& c) { return conv1d(c[0], c[1], c.maybe(2), c.conv()); }},
      {"conv2d", [](const Call& c) { return conv2d(c[0], c[1], c.maybe(2), c.conv()); }},
      {"conv1d_causal", call_conv1d_causal},
      {"max_pool2d", [](const Call& c) { return max_pool2d(c[0], c.pool()); }},
      {"avg_pool2d", [](const Call& c) { return avg_pool2d(c[0], c.pool()); }},
      {"nearest_upsample2d", [](const Call& c) { return nearest_upsample2d(c[0], c.attrs.integer({"factor", "scale"}, 2)); }},
      // norms
      {"layer_norm", [](const Call& c) { return layer_norm(c[0], c.maybe(1), c.maybe(2), c.attrs.number({"eps", "epsilon"}, 1e-5)); }},
      {"rms_norm", [](const Call& c) { return rms_norm(c[0], c.maybe(1), c.attrs.number({"eps", "epsilon"}, 1e-6)); }},
      // control
      {"stop_gradient", [](const Call& c) { return stop_gradient(c[0]); }},
      {"cast", [](const Call& c) { return cast(c[0], c.dtype(f32)); }},
      // losses
      {"mse_loss", [](const Call& c) { return mse_loss(c[0], c.operand(1), {c.reduction()}); }},
      {"l1_loss", [](const Call& c) { return l1_loss(c[0], c.operand(1), {c.reduction()}); }},
      {"huber_loss", [](const Call& c) { return huber_loss(c[0], c.operand(1), c.attrs.number({"delta", "beta"}, 1.0), {c.reduction()}); }},
      {"binary_cross_entropy_with_logits", [](const Call& c) { return binary_cross_entropy_with_logits(c[0], c.operand(1), {c.reduction()}); }},
      // several ops in one
      {"composite.mlp_residual", mlp_residual},
      {"composite.norm_then_softmax", norm_then_softmax},
  };
  return ops;
}
// clang-format on

}  // namespace

OpFn find_op(const std::string& name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : found->second;
}

const Tensor& Call::operator[](std::size_t i) const {
  if (i >= inputs_.size()) {
    fail("needs " + std::to_string(i + 1) + " inputs, but the case has " +
         std::to_string(inputs_.size()) + ".");
  }
  return inputs_[i];
}

std::optional<Tensor> Call::maybe(std::size_t i) const {
  return i < inputs_.size() ? std::optional(inputs_[i]) : std::nullopt;
}

Operand Call::operand(std::size_t i) const {
  static constexpr Attrs::Names kNumber = {"value", "scalar", "other", "exponent"};
  if (i >= inputs_.size() && attrs.has(kNumber)) return attrs.number(kNumber);
  return (*this)[i];
}

Axes Call::axes() const {
  static constexpr Attrs::Names kAxes = {"axes", "axis", "dim", "dims"};
  if (!attrs.has(kAxes)) return {};
  const std::vector<std::int64_t> list = attrs.integers(kAxes);
  if (list.empty()) return {};
  return to_ints(list);
}

std::optional<int> Call::axis() const {
  const Axes all = axes();
  if (!all.list) return {};
  if (all.list->size() != 1) fail("takes one axis, but the case gives several.");
  return all.list->front();
}

ReduceOptions Call::reduce() const {
  return {axes(), attrs.flag({"keepdims", "keepdim", "keep_dims"}, false)};
}

Shape Call::shape() const { return Shape(attrs.integers({"shape", "size", "sizes"})); }

DType Call::dtype(DType fallback) const {
  const std::string name = attrs.text({"dtype", "to", "type"}, "");
  if (name.empty()) return fallback;
  if (name == "f32" || name == "float32" || name == "float") return f32;
  if (name == "i32" || name == "int32" || name == "int") return i32;
  if (name == "bool" || name == "boolean") return boolean;
  fail("there is no dtype \"" + name + "\".");
}

Reduction Call::reduction() const {
  const std::string name = attrs.text({"reduction", "reduce"}, "mean");
  if (name == "mean") return Reduction::Mean;
  if (name == "sum") return Reduction::Sum;
  if (name == "none") return Reduction::None;
  fail("there is no reduction \"" + name + "\".");
}

CrossEntropyOptions Call::cross_entropy() const {
  CrossEntropyOptions options;
  options.reduction = reduction();
  if (attrs.has({"ignore_index"})) {
    options.ignore_index = static_cast<int>(attrs.integer({"ignore_index"}));
  }
  options.label_smoothing = attrs.number({"label_smoothing", "smoothing"}, 0);
  return options;
}

GeluOptions Call::gelu() const {
  const Json form = attrs.raw({"approximate", "form"});
  if (form.is_boolean()) return {form.get<bool>() ? GeluForm::Tanh : GeluForm::Erf};
  const std::string name = attrs.text({"approximate", "form"}, "none");
  if (name == "tanh") return {GeluForm::Tanh};
  if (name == "none" || name == "erf" || name == "exact") return {GeluForm::Erf};
  fail("there is no form \"" + name + "\".");
}

ConvOptions Call::conv() const {
  ConvOptions options;
  options.stride = same_on_all_axes({"stride"}, 1);
  options.padding = same_on_all_axes({"padding", "pad"}, 0);
  options.dilation = same_on_all_axes({"dilation"}, 1);
  options.groups = static_cast<int>(attrs.integer({"groups"}, 1));
  return options;
}

PoolOptions Call::pool() const {
  PoolOptions options;
  options.size = same_on_all_axes({"k", "size", "kernel", "kernel_size"}, 2);
  options.stride = same_on_all_axes({"stride"}, options.size);
  return options;
}

/// One number, or a list of equal ones.
std::int64_t Call::same_on_all_axes(Attrs::Names names, std::int64_t fallback) const {
  if (!attrs.has(names)) return fallback;
  const std::vector<std::int64_t> values = attrs.integers(names);
  for (std::int64_t value : values) {
    if (value != values.front())
      fail(std::string("different values of ") + *names.begin() +
           " on different axes are not supported.");
  }
  return values.empty() ? fallback : values.front();
}

/// A pair [before, after] for each axis; for a single axis also the bare pair.
std::vector<PadWidth> Call::pads() const {
  static constexpr Attrs::Names kPads = {"pads", "widths", "padding", "pad"};
  Json pairs = attrs.raw(kPads);
  const bool flat = pairs.is_array() && pairs.size() == 2 && pairs[0].is_number();
  if (flat && (*this)[0].rank() == 1) pairs = Json::array({pairs});
  std::vector<PadWidth> widths;
  for (const Json& pair : pairs) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer() ||
        !pair[1].is_number_integer()) {
      fail("\"pads\" should hold a pair [before, after] for each axis, but is " + pairs.dump() +
           ".");
    }
    widths.push_back({pair[0].get<std::int64_t>(), pair[1].get<std::int64_t>()});
  }
  return widths;
}

}  // namespace tensorgrad::conformance
