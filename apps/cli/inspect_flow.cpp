#include "inspect_flow.hpp"

#include <algorithm>
#include <map>

namespace tensorgrad::cli {

namespace {

bool overlap(const StoredValue& value, const Binding& binding) {
  return value.buffer == binding.buffer && value.offset < binding.offset + binding.elements &&
         binding.offset < value.offset + value.elements;
}

class Flow {
 public:
  explicit Flow(const Plan& plan) : plan_(plan) {
    add_leaves(plan.params);
    add_leaves(plan.inputs);
    add_leaves(plan.states);
    for (const Node& node : plan.graph->nodes()) {
      const auto place =
          node.op == OpKind::Literal ? plan.places.find(node.output()) : plan.places.end();
      if (place != plan.places.end()) add_leaf("literal", place->second);
    }
    name_places("output", plan.outputs);
    name_places("capture", plan.captures);
    name_places("gradient", plan.gradients);
  }

  std::vector<StoredValue> run() {
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k) visit(static_cast<int>(k));
    values_.erase(std::remove_if(values_.begin(), values_.end(),
                                 [](const StoredValue& value) {
                                   return value.writer < 0 && value.readers.empty();
                                 }),
                  values_.end());
    return std::move(values_);
  }

 private:
  using PlaceKey = std::pair<int, std::int64_t>;

  void add_leaves(const std::map<std::string, Place>& places) {
    for (const auto& [name, place] : places) add_leaf(name, place);
  }

  void add_leaf(const std::string& name, const Place& place) {
    live_.push_back(values_.size());
    values_.push_back({.buffer = place.buffer,
                       .offset = place.offset,
                       .elements = place.type.shape.size(),
                       .name = name,
                       .type = place.type.to_string()});
  }

  void name_places(const char* what, const std::map<std::string, Place>& places) {
    for (const auto& [name, place] : places) {
      names_.emplace(PlaceKey{place.buffer, place.offset}, std::string(what) + " " + name);
    }
  }

  /// A kernel reads what was there before it writes; what it writes over, be it in part, is gone.
  void visit(int k) {
    const Kernel& kernel = plan_.kernels[static_cast<std::size_t>(k)];
    for (const Binding& binding : kernel.bindings) {
      if (!binding.read) continue;
      for (const std::size_t v : live_) {
        std::vector<int>& readers = values_[v].readers;
        if (overlap(values_[v], binding) && (readers.empty() || readers.back() != k)) {
          readers.push_back(k);
        }
      }
    }
    for (const Binding& binding : kernel.bindings) {
      if (!binding.written) continue;
      live_.erase(std::remove_if(live_.begin(), live_.end(),
                                 [&](std::size_t v) { return overlap(values_[v], binding); }),
                  live_.end());
      live_.push_back(values_.size());
      values_.push_back(written_by(k, kernel, binding));
    }
  }

  StoredValue written_by(int k, const Kernel& kernel, const Binding& binding) const {
    StoredValue value{.buffer = binding.buffer,
                      .offset = binding.offset,
                      .elements = binding.elements,
                      .writer = k};
    const auto name = names_.find({binding.buffer, binding.offset});
    if (name != names_.end()) value.name = name->second;
    for (const NodeId id : kernel.nodes) {
      for (const TensorId tensor : plan_.graph->node(id).outputs) {
        const auto place = plan_.places.find(tensor);
        if (place != plan_.places.end() && place->second.buffer == binding.buffer &&
            place->second.offset == binding.offset) {
          value.type = place->second.type.to_string();
        }
      }
    }
    return value;
  }

  const Plan& plan_;
  std::vector<StoredValue> values_;
  std::vector<std::size_t> live_;  // what has not been written over yet
  std::map<PlaceKey, std::string> names_;
};

}  // namespace

std::vector<StoredValue> stored_values(const Plan& plan) { return Flow(plan).run(); }

}  // namespace tensorgrad::cli
