// The update phase of a training graph. Each parameter gets one update node; the scheduler makes
// one kernel of them all, over the flat arenas that parameters, gradients and moments live in.
//
//   scale = min(1, max_norm/(norm + 1e-6))  (1 without clipping),  g = scale·gradient
//   Adam:  m' = β1·m + (1−β1)·g,  v' = β2·v + (1−β2)·g²
//          p' = p·decay − s0·m'/(√v'·s1 + ε)      s0 = lr/(1−β1ᵗ), s1 = 1/√(1−β2ᵗ), decay = 1−lr·λ
//   SGD:   g' = g + λ·p,  b' = μ·b + g',  p' = p − lr·(nesterov ? g' + μ·b' : b')
#include <cmath>

#include "ops/rule.hpp"
#include "tensorgrad/optim.hpp"
#include "tensorgrad/trace.hpp"

namespace tensorgrad {

namespace {

Types update_types(const Rule& r, int states) {
  const int clipped = r.attr<UpdateAttr>().max_norm > 0 ? 1 : 0;
  if (r.count() != 3 + states + clipped) r.fail("has the wrong number of inputs.");
  Types outputs;
  for (int i = 0; i < 2 + states; ++i) {
    if (!(r.type(i) == r.type(0))) r.fail("parameter, gradient and state differ in type.");
    if (i != 1) outputs.push_back(r.type(0));
  }
  if (r.type(2 + states).shape != Shape{kStepScalarCount})
    r.fail("the scalars have the wrong shape.");
  return outputs;
}

}  // namespace

// Inputs: parameter, gradient, m, v, scalars[, norm]. Outputs: parameter, m, v.
Types infer_AdamUpdate(const Rule& r) { return update_types(r, 2); }
void grad_AdamUpdate(GradContext& c) { not_differentiable(c); }

// Inputs: parameter, gradient[, momentum], scalars[, norm]. Outputs: parameter[, momentum].
Types infer_SgdUpdate(const Rule& r) {
  return update_types(r, r.attr<UpdateAttr>().momentum != 0 ? 1 : 0);
}
void grad_SgdUpdate(GradContext& c) { not_differentiable(c); }

// √Σ g² over all inputs.
Types infer_GlobalNorm(const Rule& r) {
  for (int i = 0; i < r.count(); ++i) {
    if (r.type(i).dtype != f32) r.fail("takes f32, not " + r.type(i).to_string() + ".");
  }
  return {{f32, {}}};
}
void grad_GlobalNorm(GradContext& c) { not_differentiable(c); }

namespace {

struct Settings {
  UpdateAttr attrs;
  DecayFilter filter;
  bool decays = false;  // whether any weight decay is asked for
  bool adam = false;
};

Settings settings(const Optimizer& optimizer) {
  Settings s;
  if (const auto* adam = std::get_if<Adam>(&optimizer)) {
    s.adam = true;
    s.attrs.beta1 = adam->beta1, s.attrs.beta2 = adam->beta2, s.attrs.eps = adam->eps;
    s.attrs.max_norm = adam->clip_norm;
  } else if (const auto* adamw = std::get_if<AdamW>(&optimizer)) {
    s.adam = true;
    s.attrs.beta1 = adamw->beta1, s.attrs.beta2 = adamw->beta2, s.attrs.eps = adamw->eps;
    s.attrs.max_norm = adamw->clip_norm;
    s.filter = adamw->decay_filter;
    s.decays = adamw->weight_decay != 0;
  } else {
    const auto& sgd = std::get<SGD>(optimizer);
    s.attrs.momentum = sgd.momentum, s.attrs.nesterov = sgd.nesterov;
    s.attrs.weight_decay = sgd.weight_decay, s.attrs.max_norm = sgd.clip_norm;
    s.filter = sgd.decay_filter;
    s.decays = sgd.weight_decay != 0;
    if (sgd.nesterov && sgd.momentum == 0) throw Error("SGD: nesterov needs a momentum.");
  }
  return s;
}

}  // namespace

void append_optimizer(Graph& graph, const Optimizer& optimizer) {
  const Settings s = settings(optimizer);
  if (graph.gradients.empty()) {
    throw Error("append_optimizer: the graph has no gradients. Call append_grad first.");
  }
  trace_into(graph, [&] {
    graph.phase = Phase::Update;
    const Tensor scalars = tensor_input(kStepScalars, {kStepScalarCount}, f32, {});
    std::optional<Tensor> norm;
    if (s.attrs.max_norm > 0) {
      std::vector<Tensor> grads;
      for (const NamedTensor& grad : graph.gradients) grads.push_back({&graph, grad.tensor});
      norm = emit(OpKind::GlobalNorm, grads, NoAttrs{}, {});
    }
    for (const NamedTensor& grad : graph.gradients) {
      const auto param = std::find_if(graph.params.begin(), graph.params.end(),
                                      [&](const ParamInfo& p) { return p.name == grad.name; });
      const Tensor value{&graph, param->tensor};
      UpdateAttr attrs = s.attrs;
      attrs.decay = s.decays && (s.filter ? s.filter(param->name) : param->decay);
      std::vector<Tensor> states;
      const auto state = [&](const char* what) {
        states.push_back(state_input(std::string("optimizer.") + what + "." + grad.name,
                                     value.shape(), f32, 0, {}));
      };
      if (s.adam) {
        state("m");
        state("v");
      } else if (s.attrs.momentum != 0) {
        state("momentum");
      }
      std::vector<Tensor> inputs{value, {&graph, grad.tensor}};
      inputs.insert(inputs.end(), states.begin(), states.end());
      inputs.push_back(scalars);
      if (norm) inputs.push_back(*norm);
      const Tensor updated =
          emit(s.adam ? OpKind::AdamUpdate : OpKind::SgdUpdate, inputs, attrs, {});
      const Node node = graph.producer(updated.id());
      graph.write_backs.push_back({value.id(), node.outputs[0]});
      for (std::size_t k = 0; k < states.size(); ++k) {
        graph.write_backs.push_back({states[k].id(), node.outputs[k + 1]});
      }
    }
    graph.phase = Phase::Gradient;
  });
}

std::array<float, kStepScalarCount> step_scalars(const Optimizer& optimizer, std::int64_t step,
                                                 std::optional<double> rate) {
  const double lr =
      rate ? *rate : std::visit([&](const auto& o) { return o.lr.at(step); }, optimizer);
  const auto t = static_cast<double>(step);
  const auto adam = [&](const auto& o, double weight_decay) {
    return std::array<float, kStepScalarCount>{
        static_cast<float>(lr / (1 - std::pow(o.beta1, t))),
        static_cast<float>(1 / std::sqrt(1 - std::pow(o.beta2, t))),
        static_cast<float>(1 - lr * weight_decay), 0};
  };
  if (const auto* a = std::get_if<Adam>(&optimizer)) return adam(*a, 0);
  if (const auto* a = std::get_if<AdamW>(&optimizer)) return adam(*a, a->weight_decay);
  return {static_cast<float>(lr), 1, 1, 0};
}

}  // namespace tensorgrad
