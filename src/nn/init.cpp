// Declaring parameters and drawing their first values.
#include <cmath>

#include "tensorgrad/module.hpp"

namespace tensorgrad {

namespace init {

namespace {
template <class Draw>
std::vector<float> fill(const Shape& shape, Draw draw) {
  std::vector<float> values(static_cast<std::size_t>(shape.size()));
  for (float& value : values) value = static_cast<float>(draw());
  return values;
}
}  // namespace

Init Randn::operator()(double scale) const {
  return {[scale](const Shape& shape, Rng& rng) {
            return fill(shape, [&] { return scale * rng.normal(); });
          },
          true};
}

Init Fill::operator()() const {
  return {[v = value](const Shape& shape, Rng&) {
            return std::vector<float>(static_cast<std::size_t>(shape.size()), v);
          },
          false};
}

Init Fan::operator()() const {
  return {
      [k = kaiming](const Shape& shape, Rng& rng) {
        const auto outputs = static_cast<double>(shape.rank() > 0 ? shape[shape.rank() - 1] : 1);
        const double inputs = shape.rank() > 1 ? static_cast<double>(shape.size()) / outputs : 1;
        const double scale = std::sqrt(2.0 / (k ? inputs : inputs + outputs));
        return fill(shape, [&] { return scale * rng.normal(); });
      },
      true};
}

Init uniform(double bound) {
  return {[bound](const Shape& shape, Rng& rng) {
            return fill(shape, [&] { return bound * (2 * rng.uniform() - 1); });
          },
          true};
}

Init literal(std::vector<float> values) {
  return {[values = std::move(values)](const Shape& shape, Rng&) {
            if (static_cast<std::int64_t>(values.size()) != shape.size()) {
              throw ShapeError("init::literal: " + std::to_string(values.size()) +
                               " values are given for a parameter of shape " + shape.to_string() +
                               ".");
            }
            return values;
          },
          true};
}

}  // namespace init

Tensor param(Shape shape, ParamOptions options) {
  for (const Dim& dim : shape) {
    if (dim.size <= 0)
      throw ShapeError("param: the shape " + shape.to_string() +
                       " has a dimension that is not positive.");
  }
  ParamSpec spec;
  spec.shape = std::move(shape);
  spec.init = options.init ? *options.init : init::randn();
  spec.decay = options.decay ? *options.decay : spec.init.decay;
  spec.trainable = options.trainable;
  spec.layout = options.layout;
  return Tensor(std::make_shared<const ParamSpec>(std::move(spec)));
}

Tensor frozen_param(const Tensor& declared) {
  ParamSpec spec = *declared.spec();
  spec.trainable = false;
  return Tensor(std::make_shared<const ParamSpec>(std::move(spec)));
}

Tensor materialize_param(const std::string& name, const Tensor& declared) {
  const ParamSpec& spec = *declared.spec();
  return param_input(name, spec.shape, spec.trainable, spec.decay, {});
}

}  // namespace tensorgrad
