#include "nn/state_space.hpp"

#include <cmath>

#include "ops/rule.hpp"

namespace tensorgrad::nn {

PastShape past_shape(std::int64_t batch, std::int64_t taps, std::int64_t channels, Shape state) {
  PastShape shape{.window = {}, .state = std::move(state)};
  if (taps > 1) shape.window = Shape{batch, taps - 1, channels};
  return shape;
}

Past zero_past(const PastShape& shape) {
  Past past{.window = {}, .state = zeros(shape.state)};
  if (shape.window) past.window = zeros(*shape.window);
  return past;
}

Past declare_past(const std::string& name, const PastShape& shape) {
  Past past{.window = {}, .state = state_input(name + ".state", shape.state)};
  if (shape.window) past.window = state_input(name + ".window", *shape.window);
  return past;
}

void keep_past(const Past& before, const Past& after, Site site) {
  write_back(before.state, after.state, site);
  if (before.window && after.window) write_back(*before.window, *after.window, site);
}

// softplus(b) = Δ for b = Δ + log(1 − e^{−Δ}).
Init time_step_bias(const TimeStepInit& options) {
  if (!(options.min > 0 && options.min <= options.max && options.floor > 0)) {
    throw Error("TimeStepInit: min " + std::to_string(options.min) + ", max " +
                std::to_string(options.max) + " and floor " + std::to_string(options.floor) +
                " are given; all must be positive, and min not above max.");
  }
  return {[options](const Shape& shape, Rng& rng) {
            std::vector<float> values(static_cast<std::size_t>(shape.size()));
            const double low = std::log(options.min), high = std::log(options.max);
            for (float& value : values) {
              const double drawn = std::exp(low + rng.uniform() * (high - low));
              const double step = std::max(drawn, options.floor);
              value = static_cast<float>(step + std::log(-std::expm1(-step)));
            }
            return values;
          },
          false};
}

Linear scaled_linear(std::int64_t in, std::int64_t out, bool bias, double scale) {
  Linear linear(in, out, {.bias = bias});
  ParamSpec spec = *linear.W.spec();
  spec.init = init::uniform(scale / std::sqrt(static_cast<double>(in)));
  linear.W = Tensor(std::make_shared<const ParamSpec>(std::move(spec)));
  return linear;
}

void check_positive(const char* layer,
                    std::initializer_list<std::pair<const char*, std::int64_t>> sizes) {
  for (const auto& [name, size] : sizes) {
    if (size < 1) {
      throw ShapeError(std::string(layer) + ": " + name + " must be 1 or more, not " +
                       std::to_string(size) + ".");
    }
  }
}

// ---- the convolution

CausalConv1d::CausalConv1d(std::int64_t channels, std::int64_t taps, bool bias) {
  check_positive("CausalConv1d", {{"the number of channels", channels}, {"taps", taps}});
  const double bound = 1.0 / std::sqrt(static_cast<double>(taps));
  W = param({channels, 1, taps}, {.init = init::uniform(bound)});
  if (bias) b = param({channels}, {.init = init::uniform(bound), .decay = false});
}

Tensor CausalConv1d::operator()(Operand x, Past* past) const {
  SiteScope scope(x.site());
  const std::optional<Tensor> window = past ? past->window : std::nullopt;
  if (window) past->window = last_window(x, W.shape(2), window);
  return conv1d_causal(x, squeeze(W, 1), b, window);
}

// ---- the block

template <class Mixer>
StateSpaceBlock<Mixer>::StateSpaceBlock(std::int64_t dim, typename Mixer::Options options,
                                        double eps)
    : norm(dim, eps), mixer(dim, std::move(options)) {}

template <class Mixer>
Tensor StateSpaceBlock<Mixer>::operator()(Operand x) const {
  SiteScope scope(x.site());
  return x + mixer(norm(x));
}

template <class Mixer>
Tensor StateSpaceBlock<Mixer>::operator()(Operand x, Past& past) const {
  SiteScope scope(x.site());
  return x + mixer(norm(x), past);
}

// ---- the language model

namespace {

template <class Mixer>
std::vector<StateSpaceBlock<Mixer>> make_blocks(std::int64_t dim, std::int64_t count,
                                                StateSpaceLMOptions<Mixer> options) {
  check_positive("StateSpaceLM", {{"the number of layers", count}});
  // Every layer adds to the same sum: smaller first values keep it from growing with their number.
  options.mixer.out_scale /= std::sqrt(static_cast<double>(count));
  std::vector<StateSpaceBlock<Mixer>> blocks;
  for (std::int64_t i = 0; i < count; ++i) blocks.emplace_back(dim, options.mixer, options.eps);
  return blocks;
}

/// [B, L] ids to [B, L, dim].
Tensor embed(const Embedding& embeddings, const Tensor& ids, Site site) {
  check_operand("StateSpaceLM", ids, site);
  if (ids.rank() != 2 || ids.dtype() != i32)
    fail_op("StateSpaceLM", "ids must be i32[batch, length], not " + ids.type().to_string() + ".",
            site);
  return embeddings(ids, site);
}

}  // namespace

template <class Mixer>
StateSpaceLM<Mixer>::StateSpaceLM(std::int64_t vocabulary, std::int64_t dim, std::int64_t count,
                                  Options options)
    : embeddings(vocabulary, dim),
      layers(make_blocks<Mixer>(dim, count, options)),
      norm_f(dim, options.eps) {
  if (!options.tied) lm_head.emplace(dim, vocabulary, LinearOptions{.bias = false});
}

template <class Mixer>
Tensor StateSpaceLM<Mixer>::operator()(const Tensor& ids, Site site) const {
  SiteScope scope(site);
  Tensor x = embed(embeddings, ids, site);
  for (const StateSpaceBlock<Mixer>& layer : layers) x = layer(x);
  return logits(x);
}

template <class Mixer>
Tensor StateSpaceLM<Mixer>::decode(const Tensor& ids, Site site) const {
  SiteScope scope(site);
  Tensor x = embed(embeddings, ids, site);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Past before =
        layers[i].mixer.state_past("layers." + std::to_string(i) + ".mixer", x.shape(0));
    Past past = before;
    x = layers[i](x, past);
    keep_past(before, past, site);
  }
  return logits(squeeze(narrow(x, 1, x.shape(1) - 1, 1), 1));
}

template <class Mixer>
Tensor StateSpaceLM<Mixer>::logits(const Tensor& x) const {
  const Tensor normed = norm_f(x);
  return lm_head ? (*lm_head)(normed) : matmul(normed, swap_axes(embeddings.W, 0, 1));
}

template struct StateSpaceBlock<Mamba>;
template struct StateSpaceBlock<Mamba2>;
template struct StateSpaceLM<Mamba>;
template struct StateSpaceLM<Mamba2>;

}  // namespace tensorgrad::nn
