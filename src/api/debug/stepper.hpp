// A plan run kernel by kernel, with a look at what each kernel wrote and the chance to change it.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "api/debug/values.hpp"
#include "tensorgrad/runtime.hpp"

namespace tensorgrad::debug {

class Stepper {
 public:
  /// Plans the graph for the device, every op by itself (`separate`) or fused as usual, and writes
  /// the leaves.
  Stepper(const std::shared_ptr<const Graph>& graph, const LeafValues& leaves, const Device& device,
          bool separate);

  std::size_t count() const { return runtime_->plan().kernels.size(); }
  const Kernel& kernel(std::size_t k) const { return runtime_->plan().kernels[k]; }
  void run(std::size_t k);
  /// All kernels at once, as in a real step.
  void run_all() { runtime_->run(); }

  /// The tensors that a kernel leaves in memory, and where.
  struct Written {
    TensorId tensor = -1;
    Place place;
  };
  std::vector<Written> written(std::size_t k) const;
  /// The results of the step: outputs and gradients.
  std::vector<Written> results() const;

  Values read(const Place& place);
  void write(const Place& place, const Values& values);

 private:
  using Key = std::pair<int, std::int64_t>;  // buffer and offset

  std::unique_ptr<Runtime> runtime_;
  std::map<TensorId, Place> homes_;     // where each computed tensor is stored
  std::multimap<Key, Written> copied_;  // what copies put where
};

/// The values of the tensors that the device stores when it runs every op by itself, by id; empty
/// for all others.
std::vector<Values> run_op_by_op(const std::shared_ptr<const Graph>& graph,
                                 const LeafValues& leaves, const Device& device);

}  // namespace tensorgrad::debug
