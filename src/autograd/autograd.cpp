// The reverse pass: nodes are walked backwards, each op's rule turns the cotangents of its outputs
// into cotangents of its inputs, and the cotangents of several uses are summed.
#include "tensorgrad/autograd.hpp"

#include <algorithm>

#include "ops/rule.hpp"
#include "tensorgrad/trace.hpp"

namespace tensorgrad {

namespace {

class Reverse {
 public:
  Reverse(Graph& graph, const std::vector<Tensor>& wrt) : graph_(graph) {
    const auto count = static_cast<std::size_t>(graph.tensor_count());
    needed_.assign(count, false);
    cotangents_.resize(count);
    for (const Tensor& tensor : wrt) needed_[index(tensor.id())] = true;
    // A value is worth differentiating if it depends on one of `wrt`: through its node's inputs or,
    // where it has a gradient of its own, through the inputs of that.
    for (const Node& node : graph.nodes()) {
      const auto custom = graph.custom_gradients.find(node.output());
      const bool own = custom != graph.custom_gradients.end();
      if (node.op == OpKind::StopGradient && !own) continue;
      const bool any = any_needed(own ? custom->second.inputs : node.inputs);
      for (TensorId id : node.outputs) {
        if (any && graph.type(id).dtype == f32) needed_[index(id)] = true;
      }
    }
  }

  void seed(TensorId id, const Tensor& cotangent) { accumulate(id, cotangent); }

  void run() {
    // Nodes appended by the rules lie behind `last` and are never visited.
    for (auto i = static_cast<NodeId>(graph_.nodes().size()) - 1; i >= 0; --i) visit(i);
  }

  Tensor cotangent(TensorId id) const { return cotangents_[index(id)]; }

 private:
  static std::size_t index(TensorId id) { return static_cast<std::size_t>(id); }

  bool any_needed(const std::vector<TensorId>& ids) const {
    return std::any_of(ids.begin(), ids.end(), [&](TensorId id) { return needed_[index(id)]; });
  }

  void visit(NodeId id) {
    // By value: rules append to the graph, which may move its nodes.
    const Node node = graph_.node(id);
    std::vector<Tensor> outgoing;
    bool any = false;
    for (TensorId out : node.outputs) {
      outgoing.push_back(cotangents_[index(out)]);
      any = any || outgoing.back().valid();
    }
    if (!any) return;
    SiteScope scope(node.site);  // a backward node belongs to the user's line that caused it
    const auto custom = graph_.custom_gradients.find(node.output());
    if (custom != graph_.custom_gradients.end()) {
      const CustomGradient gradient = custom->second;
      if (!any_needed(gradient.inputs)) return;
      const std::vector<Tensor> given = gradient.rule(outgoing.front());
      check_custom(gradient, given, node.site);
      for (std::size_t k = 0; k < given.size(); ++k) accumulate(gradient.inputs[k], given[k]);
      return;
    }
    if (!any_needed(node.inputs)) return;
    std::vector<bool> needed;
    for (TensorId in : node.inputs) needed.push_back(needed_[index(in)]);
    for (std::size_t k = 0; k < outgoing.size(); ++k) {
      if (!outgoing[k].valid()) outgoing[k] = zeros(graph_.type(node.outputs[k]).shape);
    }
    GradContext context(graph_, node, needed, outgoing);
    grad_rule(node.op)(context);
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (context.given()[k].valid()) accumulate(node.inputs[k], context.given()[k]);
    }
  }

  /// The rule of with_gradient is the user's: its mistakes are too.
  void check_custom(const CustomGradient& gradient, const std::vector<Tensor>& given, Site site) {
    if (given.size() != gradient.inputs.size()) {
      fail_op("with_gradient",
              "the rule gave " + std::to_string(given.size()) + " gradients for " +
                  std::to_string(gradient.inputs.size()) + " inputs.",
              site);
    }
    for (std::size_t k = 0; k < given.size(); ++k) {
      const TensorType& type = graph_.type(gradient.inputs[k]);
      if (given[k].valid() && given[k].shape() != type.shape) {
        fail_op("with_gradient",
                "the rule gave " + given[k].type().to_string() + " as the gradient of input " +
                    std::to_string(k) + ", which is " + type.to_string() + ".",
                site);
      }
    }
  }

  void accumulate(TensorId id, const Tensor& cotangent) {
    if (!needed_[index(id)] || !cotangent.valid()) return;
    if (cotangent.shape() != graph_.type(id).shape) {
      throw InternalError("append_grad: the gradient rule of " +
                          std::string(to_string(graph_.producer(id).op)) + "'s consumer gave " +
                          cotangent.type().to_string() + " for " + graph_.type(id).to_string());
    }
    Tensor& sum = cotangents_[index(id)];
    sum = sum.valid() ? sum + cotangent : cotangent;
  }

  Graph& graph_;
  std::vector<bool> needed_;
  std::vector<Tensor> cotangents_;
};

}  // namespace

std::vector<Tensor> append_vjp(Graph& graph, const std::vector<Tensor>& outputs,
                               const std::vector<Tensor>& cotangents,
                               const std::vector<Tensor>& wrt) {
  if (outputs.size() != cotangents.size()) {
    throw ShapeError("append_vjp: " + std::to_string(outputs.size()) +
                     " outputs need as many cotangents, not " + std::to_string(cotangents.size()) +
                     ".");
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].type() == cotangents[i].type()) continue;
    throw ShapeError("append_vjp: the cotangent of output " + std::to_string(i) + " is " +
                     cotangents[i].type().to_string() + ", but the output is " +
                     outputs[i].type().to_string() + ".");
  }
  std::vector<Tensor> result;
  trace_into(graph, [&] {
    Reverse reverse(graph, wrt);
    for (std::size_t i = 0; i < outputs.size(); ++i) reverse.seed(outputs[i].id(), cotangents[i]);
    reverse.run();
    for (const Tensor& tensor : wrt) result.push_back(reverse.cotangent(tensor.id()));
  });
  return result;
}

GradResult append_grad(Graph& graph) {
  if (graph.outputs.empty()) throw Error("append_grad: the graph has no output to differentiate.");
  if (!graph.gradients.empty()) throw Error("append_grad: the graph has its gradients already.");
  const Tensor loss{&graph, graph.outputs.front().tensor};
  const Site site = graph.producer(loss.id()).site;
  if (loss.shape().size() != 1 || loss.dtype() != f32) {
    throw ShapeError(
        "append_grad: the loss must be a single f32, but the forward function returned " +
        loss.type().to_string() + ". Reduce it first, for instance with mean.\n  at " +
        site.to_string());
  }
  std::vector<Tensor> wrt;
  for (const ParamInfo& param : graph.params) {
    if (param.trainable) wrt.push_back({&graph, param.tensor});
  }
  GradResult result{loss, {}};
  std::vector<Tensor> grads;
  trace_into(graph, [&] {
    SiteScope scope(site);
    grads = append_vjp(graph, {loss}, {ones(loss.shape())}, wrt);
  });
  std::size_t k = 0;
  for (const ParamInfo& param : graph.params) {
    if (!param.trainable) continue;
    const Tensor& grad = grads[k++];
    if (grad.valid()) {
      graph.gradients.push_back({param.name, grad.id()});
    } else {
      result.unreached.push_back(param.name);
    }
  }
  return result;
}

}  // namespace tensorgrad
