// The trace context of a thread, leaves, captures and write-backs.
#include "tensorgrad/trace.hpp"

#include <algorithm>

namespace tensorgrad {

namespace {

struct Context {
  Graph* graph = nullptr;
  Site scope;  // the outermost SiteScope's site; file is null without one
};

thread_local Context context;

class GraphScope {
 public:
  explicit GraphScope(Graph& graph) : previous_(context) { context = {&graph, {}}; }
  ~GraphScope() { context = previous_; }

 private:
  Context previous_;
};

void check_unused(const Graph& graph, const std::string& name, const char* what, Site site) {
  if (name.empty())
    throw Error(std::string(what) + ": the name is empty.\n  at " + site.to_string());
  if (graph.find_leaf(name) >= 0) {
    throw Error(
        std::string(what) + ": the name \"" + name +
        "\" is used twice. Parameters, inputs and states of a graph need different names.\n" +
        "  at " + site.to_string());
  }
}

}  // namespace

bool is_tracing() { return context.graph != nullptr; }

Graph& current_graph() {
  if (context.graph == nullptr) {
    throw Error(
        "An op was called outside of a trace. Call it inside the forward function that "
        "compile, attach or trace runs.");
  }
  return *context.graph;
}

std::shared_ptr<Graph> trace(const std::function<Outputs()>& fn) {
  auto graph = std::make_shared<Graph>();
  trace_into(*graph, [&] {
    const Outputs outputs = fn();
    for (const auto& [name, tensor] : outputs.items) {
      if (tensor.graph() != graph.get()) {
        throw Error("trace: output \"" + name +
                    "\" is no tensor of this trace: return what the ops called inside gave.");
      }
      for (const NamedTensor& other : graph->outputs) {
        if (other.name == name) throw Error("trace: two outputs are named \"" + name + "\".");
      }
      graph->outputs.push_back({name, tensor.id()});
    }
    if (outputs.items.empty()) throw Error("trace: the forward function returned no tensor.");
  });
  return graph;
}

void trace_into(Graph& graph, const std::function<void()>& fn) {
  GraphScope scope(graph);
  fn();
}

SiteScope::SiteScope(Site site) {
  if (context.scope.file == nullptr && site.file != nullptr) {
    context.scope = site;
    entered_ = true;
  }
}

SiteScope::~SiteScope() {
  if (entered_) context.scope = {};
}

Site current_site(Site site) { return context.scope.file != nullptr ? context.scope : site; }

namespace {

Tensor leaf(OpKind op, Attrs attrs, Site site) {
  Graph& graph = current_graph();
  const NodeId node = graph.add(op, {}, std::move(attrs), current_site(site));
  return {&graph, graph.node(node).output()};
}

}  // namespace

Tensor param_input(const std::string& name, Shape shape, bool trainable, bool decay, Site site) {
  check_unused(current_graph(), name, "param_input", current_site(site));
  Tensor tensor = leaf(OpKind::ParamInput, InputAttr{name, {f32, std::move(shape)}}, site);
  current_graph().params.push_back({name, tensor.id(), trainable, decay});
  return tensor;
}

Tensor tensor_input(const std::string& name, Shape shape, DType dtype, Site site) {
  check_unused(current_graph(), name, "tensor_input", current_site(site));
  return leaf(OpKind::TensorInput, InputAttr{name, {dtype, std::move(shape)}}, site);
}

Tensor state_input(const std::string& name, Shape shape, DType dtype, double init, Site site) {
  check_unused(current_graph(), name, "state_input", current_site(site));
  return leaf(OpKind::StateInput, StateAttr{name, {dtype, std::move(shape)}, init}, site);
}

void write_back(const Tensor& state, const Tensor& value, Site site) {
  Graph& graph = current_graph();
  site = current_site(site);
  const auto fail = [&](const std::string& what) {
    throw ShapeError("write_back: " + what + "\n  at " + site.to_string());
  };
  if (state.graph() != &graph || value.graph() != &graph) fail("a tensor is not of this trace.");
  const OpKind op = graph.producer(state.id()).op;
  if (op != OpKind::StateInput && op != OpKind::ParamInput) {
    fail("the destination is neither a state_input nor a parameter.");
  }
  if (!(state.type() == value.type())) {
    fail("the state is " + state.type().to_string() + " but the value is " +
         value.type().to_string() + ".");
  }
  for (const WriteBack& other : graph.write_backs) {
    if (other.destination == state.id()) fail("this state is written twice in one step.");
  }
  graph.write_backs.push_back({state.id(), value.id()});
}

Tensor capture(const std::string& name, const Tensor& x, Site site) {
  Graph& graph = current_graph();
  site = current_site(site);
  if (x.graph() != &graph)
    throw Error("capture: the tensor is not of this trace.\n  at " + site.to_string());
  for (const NamedTensor& other : graph.captures) {
    if (other.name == name) {
      throw Error("capture: the name \"" + name + "\" is used twice.\n  at " + site.to_string());
    }
  }
  graph.captures.push_back({name, x.id()});
  return x;
}

}  // namespace tensorgrad
