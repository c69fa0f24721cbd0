// From user code to a graph: while a trace is active, every op call appends a node to its graph.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorgrad/graph.hpp"

namespace tensorgrad {

/// What a forward function gives: one tensor or several named ones.
struct Outputs {
  std::vector<std::pair<std::string, Tensor>> items;

  Outputs() = default;
  Outputs(const Tensor& single) : items{{"output", single}} {}  // NOLINT: implicit on purpose
  Outputs(std::initializer_list<std::pair<std::string, Tensor>> named) : items(named) {}
};

/// Traces `fn` into a new graph, with what it returns as the graph's outputs.
std::shared_ptr<Graph> trace(const std::function<Outputs()>& fn);

/// Runs `fn` with `graph` as the graph that ops append to: how later stages add nodes.
void trace_into(Graph& graph, const std::function<void()>& fn);

/// The graph that ops append to on this thread; an error outside of a trace.
Graph& current_graph();
bool is_tracing();

/// Declares a parameter leaf of the current graph. Names are unique in a graph.
Tensor param_input(const std::string& name, Shape shape, bool trainable = true, bool decay = true,
                   Site site = Site::here());
/// Declares an input that the caller feeds at every step.
Tensor tensor_input(const std::string& name, Shape shape, DType dtype = f32,
                    Site site = Site::here());
/// Declares state that lives on the device from one run to the next and starts as `init`.
Tensor state_input(const std::string& name, Shape shape, DType dtype = f32, double init = 0,
                   Site site = Site::here());
/// At the end of the step, `value` becomes the value of `state` (a state or parameter leaf).
void write_back(const Tensor& state, const Tensor& value, Site site = Site::here());
/// Marks an activation to be read back on demand; gives `x` itself.
Tensor capture(const std::string& name, const Tensor& x, Site site = Site::here());

/// While it lives, nodes are attributed to `site`: what a composed op or a layer was called from.
/// The outermost scope wins, so that an error points into the user's code.
class SiteScope {
 public:
  explicit SiteScope(Site site);
  ~SiteScope();
  SiteScope(const SiteScope&) = delete;
  SiteScope& operator=(const SiteScope&) = delete;

 private:
  bool entered_ = false;
};

/// Where a node made now belongs: the outermost SiteScope, or `site` if there is none.
Site current_site(Site site);

}  // namespace tensorgrad
