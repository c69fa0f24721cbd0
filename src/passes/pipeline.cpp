// The table of contents of the graph stage: every pass, in order.
#include "tensorgrad/passes.hpp"

namespace tensorgrad {

PassOptions gpu_passes() {
  PassOptions options;
  options.parallelism = 64;
  options.product_tiles = 512;
  options.fused_attention = 64;
  options.fused_head = 128;
  return options;
}

std::shared_ptr<Graph> run_passes(const Graph& graph, const PassOptions& options) {
  std::shared_ptr<Graph> g = expand_attention(graph, options);
  g = simplify(*g);
  g = eliminate_common(*g);
  g = simplify(*g);  // views that became neighbours
  g = eliminate_common(*g);
  g = eliminate_dead(*g);
  if (options.product_tiles > 0) g = split_products(*g, options.product_tiles);
  if (options.parallelism > 1) g = eliminate_dead(*split_reductions(*g, options.parallelism));
  return g;
}

}  // namespace tensorgrad
