// Models are plain structs. `param` declares a parameter as a member; compile walks the struct,
// names each parameter by its path (`layers.0.attn.q.W`) and makes it real in the graph.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensorgrad/reflect.hpp"
#include "tensorgrad/tensor.hpp"
#include "tensorgrad/trace.hpp"

namespace tensorgrad {

/// First values of parameters, drawn on the host.
namespace init {

/// Normal with standard deviation `scale`: `init::randn` or `init::randn(0.1)`.
struct Randn {
  Init operator()(double scale = 0.02) const;
  operator Init() const { return (*this)(); }  // NOLINT: implicit on purpose
};
/// One value everywhere; such parameters take no weight decay unless asked.
struct Fill {
  float value;
  Init operator()() const;
  operator Init() const { return (*this)(); }  // NOLINT: implicit on purpose
};
/// Scaled by the number of inputs (the product of all axes but the last) and, for xavier, outputs.
struct Fan {
  bool kaiming;
  Init operator()() const;
  operator Init() const { return (*this)(); }  // NOLINT: implicit on purpose
};

inline constexpr Randn randn{};
inline constexpr Fill zeros{0.0f};
inline constexpr Fill ones{1.0f};
inline constexpr Fan kaiming{true};  ///< N(0, 2/fan_in): for layers before a relu
inline constexpr Fan xavier{false};  ///< N(0, 2/(fan_in + fan_out))
/// Uniform in [−bound, bound).
Init uniform(double bound);
/// Given values.
Init literal(std::vector<float> values);

}  // namespace init

/// What a parameter may say beside its shape.
struct ParamOptions {
  std::optional<Init> init = {};   ///< init::randn(0.02) unless said.
  std::optional<bool> decay = {};  ///< Weight decay: yes, except for zeros and ones, unless said.
  bool trainable = true;           ///< false freezes: no gradient, no moments, no update.
  ParamLayout layout = ParamLayout::Plain;  ///< For files; see pytorch_names.
};

/// Declares a parameter, as a member of a model.
Tensor param(Shape shape, ParamOptions options = {});

/// The same declaration, frozen: as if it had said `.trainable = false`.
Tensor frozen_param(const Tensor& declared);

/// A module with all its parameters frozen: `Backbone body = tg::frozen(Backbone{})`.
template <class Module>
Module frozen(Module module) {
  reflect::for_each_leaf<Tensor>(module, [](const std::string&, Tensor& tensor) {
    if (tensor.spec()) tensor = frozen_param(tensor);
  });
  return module;
}

/// A parameter that compile made real.
struct MaterializedParam {
  std::string name;
  std::shared_ptr<const ParamSpec> spec;
};

/// Makes one declared parameter a leaf of the current graph.
Tensor materialize_param(const std::string& name, const Tensor& declared);

/// Replaces every declared parameter of a model by a leaf of the current graph, named by its path.
template <class Model>
std::vector<MaterializedParam> materialize_params(Model& model) {
  std::vector<MaterializedParam> params;
  reflect::for_each_leaf<Tensor>(model, [&](const std::string& path, Tensor& tensor) {
    if (!tensor.spec()) return;
    params.push_back({path, tensor.spec()});
    tensor = materialize_param(path, tensor);
  });
  return params;
}

}  // namespace tensorgrad
