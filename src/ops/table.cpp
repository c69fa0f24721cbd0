// The table of shape rules and gradients, one row for every line of ops.def.
#include "ops/rule.hpp"

namespace tensorgrad {

#define OP(Kind, name, arity, Class) \
  Types infer_##Kind(const Rule&);   \
  void grad_##Kind(GradContext&);
#include "tensorgrad/ops.def"
#undef OP

namespace {

constexpr InferFn kInfer[] = {
#define OP(Kind, name, arity, Class) infer_##Kind,
#include "tensorgrad/ops.def"
#undef OP
};

constexpr GradFn kGrad[] = {
#define OP(Kind, name, arity, Class) grad_##Kind,
#include "tensorgrad/ops.def"
#undef OP
};

}  // namespace

void not_differentiable(GradContext&) {}

GradFn grad_rule(OpKind op) { return kGrad[static_cast<std::size_t>(op)]; }

std::vector<TensorType> infer(const Graph& graph, OpKind op, const std::vector<TensorId>& inputs,
                              const Attrs& attrs, const Site& site) {
  return kInfer[static_cast<std::size_t>(op)](Rule{graph, op, inputs, attrs, site});
}

}  // namespace tensorgrad
