// The softmax family, stable for any logits, with gradients that keep only what they need.
#include "ops/rule.hpp"

namespace tensorgrad {

namespace {

// Finite stand-ins for −∞ and 0: a row that is wholly −∞ then gives exp(−∞ + finite) = 0 and
// log(tiny), not NaN.
constexpr double kLowest = -3.4028234663852886e38;
constexpr double kSmallest = 1.1754943508222875e-38;

/// y·(g − Σ g·y): the gradient of any softmax, from its output alone.
std::vector<Tensor> softmax_gradient(const Tensor& y, const Tensor& g, int axis) {
  return {y * (g - sum(g * y, {axis, true}))};
}

Tensor causal_mask(const Shape& shape) {  // true where the column does not lie after the row
  return less_equal(iota(shape, -1), iota(shape, -2));
}

/// The logits less their maximum, and the log of the sum of their exponentials: log p = x −
/// log_sum.
struct Normalised {
  Tensor x, log_sum;
};
Normalised normalise(const Tensor& x, int axis) {
  const Tensor m = stop_gradient(maximum(max(x, {axis, true}), kLowest));
  const Tensor shifted = x - m;
  return {shifted, log(maximum(sum(exp(shifted), {axis, true}), kSmallest))};
}

}  // namespace

Tensor softmax(Operand x, int axis) {
  SiteScope scope(x.site());
  const Tensor tensor = float_tensor("softmax", x);
  const int at = resolve_axis("softmax", axis, tensor.rank(), tensor.type(), x.site());
  const Tensor m = stop_gradient(maximum(max(tensor, {at, true}), kLowest));
  const Tensor e = exp(tensor - m);
  const Tensor y = e / maximum(sum(e, {at, true}), kSmallest);
  return with_gradient(y, {tensor}, [=](const Tensor& g) { return softmax_gradient(y, g, at); });
}

// log p;  g − p·Σg
Tensor log_softmax(Operand x, int axis) {
  SiteScope scope(x.site());
  const Tensor tensor = float_tensor("log_softmax", x);
  const int at = resolve_axis("log_softmax", axis, tensor.rank(), tensor.type(), x.site());
  const Normalised n = normalise(tensor, at);
  const Tensor y = n.x - n.log_sum;
  return with_gradient(y, {tensor}, [=](const Tensor& g) -> std::vector<Tensor> {
    return {g - exp(y) * sum(g, {at, true})};
  });
}

Tensor where_causal(Operand x, double fill) {
  SiteScope scope(x.site());
  const Tensor tensor = as_tensor("where_causal", x, f32);
  if (tensor.rank() < 2) {
    fail_op("where_causal", "needs rows and columns, not " + tensor.type().to_string() + ".",
            x.site());
  }
  return where(causal_mask(tensor.shape()), tensor, fill);
}

Tensor softmax_causal(Operand x) {
  SiteScope scope(x.site());
  const Tensor tensor = float_tensor("softmax_causal", x);
  if (tensor.rank() < 2) {
    fail_op("softmax_causal", "needs rows and columns, not " + tensor.type().to_string() + ".",
            x.site());
  }
  const Tensor mask = causal_mask(tensor.shape());
  const Tensor m = stop_gradient(maximum(max(where(mask, tensor, kLowest), {-1, true}), kLowest));
  const Tensor e = where(mask, exp(tensor - m), 0.0);
  const Tensor y = e / maximum(sum(e, {-1, true}), kSmallest);
  return with_gradient(y, {tensor}, [=](const Tensor& g) { return softmax_gradient(y, g, -1); });
}

namespace {

void check_targets(const char* op, const Tensor& scores, const Tensor& targets, Site site) {
  check_operand(op, targets, site);
  if (scores.rank() < 1)
    fail_op(op, "needs a last axis of classes, not " + scores.type().to_string() + ".", site);
  if (targets.dtype() != i32) {
    fail_op(
        op,
        "targets must be i32, not " + targets.type().to_string() + ". Declare the input as i32.",
        site);
  }
  Shape want;
  for (int axis = 0; axis + 1 < scores.rank(); ++axis) want.push_back(scores.shape().dim(axis));
  if (targets.shape() != want) {
    fail_op(op,
            "targets " + targets.type().to_string() + " do not fit logits " +
                scores.type().to_string() + ": they must be i32" + want.to_string() + ".",
            site);
  }
}

/// The loss of each position, with ignored ones zeroed, put together as the options say.
Tensor reduce_loss(const Tensor& loss, const std::optional<Tensor>& keep, Reduction reduction) {
  const Tensor kept = keep ? where(*keep, loss, 0.0) : loss;
  if (reduction == Reduction::None) return kept;
  const Tensor total = sum(kept);
  if (reduction == Reduction::Sum) return total;
  if (!keep) return total * (1.0 / static_cast<double>(loss.shape().size()));
  return total / sum(cast(*keep, f32));
}

}  // namespace

// −log p_t = log Σe^(x−m) − (x_t − m); with smoothing ε, (1−ε) of that and ε of the mean over
// classes. dx = g·(p − (1−ε)·onehot(t) − ε/V)
Tensor cross_entropy(Operand logits, const Tensor& targets, CrossEntropyOptions options) {
  SiteScope scope(logits.site());
  const Tensor x = float_tensor("cross_entropy", logits);
  check_targets("cross_entropy", x, targets, logits.site());
  if (options.label_smoothing < 0 || options.label_smoothing >= 1) {
    fail_op("cross_entropy", "label_smoothing must lie in [0, 1).", logits.site());
  }
  std::optional<Tensor> keep;
  Tensor safe = targets;  // an ignored target may be no class at all, such as −100
  if (options.ignore_index) {
    keep = logical_not(equal(targets, *options.ignore_index));
    safe = where(*keep, targets, 0);
  }
  const double smooth = options.label_smoothing, classes = static_cast<double>(x.shape(-1));
  const Normalised n = normalise(x, -1);
  const Tensor at = expand_dims(safe, -1);
  Tensor loss = n.log_sum - (1.0 - smooth) * take_along_axis(n.x, at, -1);
  if (smooth > 0) loss = loss - smooth * mean(n.x, {-1, true});
  const Tensor each = with_gradient(
      reshape(loss, targets.shape()), {x}, [=](const Tensor& g) -> std::vector<Tensor> {
        const Tensor hit = equal(iota(x.shape(), -1), at);
        const Tensor wanted = where(hit, 1.0 - smooth + smooth / classes, smooth / classes);
        return {expand_dims(g, -1) * (exp(n.x - n.log_sum) - wanted)};
      });
  return reduce_loss(each, keep, options.reduction);
}

Tensor nll_loss(Operand log_probs, const Tensor& targets, CrossEntropyOptions options) {
  SiteScope scope(log_probs.site());
  const Tensor x = float_tensor("nll_loss", log_probs);
  check_targets("nll_loss", x, targets, log_probs.site());
  if (options.label_smoothing != 0)
    fail_op("nll_loss", "takes no label_smoothing; cross_entropy does.", log_probs.site());
  std::optional<Tensor> keep;
  Tensor safe = targets;
  if (options.ignore_index) {
    keep = logical_not(equal(targets, *options.ignore_index));
    safe = where(*keep, targets, 0);
  }
  const Tensor loss = -squeeze(take_along_axis(x, expand_dims(safe, -1), -1), -1);
  return reduce_loss(loss, keep, options.reduction);
}

}  // namespace tensorgrad
