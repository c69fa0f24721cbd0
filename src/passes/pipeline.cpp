// The table of contents of the graph stage: every pass, in order.
#include "tensorgrad/passes.hpp"

namespace tensorgrad {

std::shared_ptr<Graph> run_passes(const Graph& graph, int parallelism) {
  std::shared_ptr<Graph> g = simplify(graph);
  g = eliminate_common(*g);
  g = simplify(*g);  // views that became neighbours
  g = eliminate_common(*g);
  g = eliminate_dead(*g);
  if (parallelism > 1) g = eliminate_dead(*split_reductions(*g, parallelism));
  return g;
}

}  // namespace tensorgrad
