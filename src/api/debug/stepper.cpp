#include "api/debug/stepper.hpp"

#include <algorithm>

#include "runtime/backend.hpp"

namespace tensorgrad::debug {

namespace {

std::shared_ptr<const Plan> make_plan(const std::shared_ptr<const Graph>& graph,
                                      const Device& device, bool separate) {
  Target target = device.target();
  target.separate = separate;
  return std::make_shared<const Plan>(plan(graph, target));
}

/// Calls use(FeedValue) with the values as the words of their dtype.
template <class Use>
void with_words(DType dtype, const Values& values, Use use) {
  if (dtype == f32) {
    use(FeedValue(std::vector<float>(values.begin(), values.end())));
  } else {
    use(FeedValue(std::vector<std::int32_t>(values.begin(), values.end())));
  }
}

}  // namespace

Stepper::Stepper(const std::shared_ptr<const Graph>& graph, const LeafValues& leaves,
                 const Device& device, bool separate)
    : runtime_(std::make_unique<Runtime>(make_plan(graph, device, separate), device)) {
  const Plan& plan = runtime_->plan();
  for (const auto* places : {&plan.params, &plan.inputs, &plan.states}) {
    for (const auto& [name, place] : *places) {
      const auto given = leaves.find(name);
      if (given == leaves.end()) throw Error("There is no value for the leaf \"" + name + "\".");
      with_words(place.type.dtype, given->second,
                 [&, leaf = name](const FeedValue& words) { runtime_->write(leaf, words); });
    }
  }
  homes_ = plan.places;
  for (const Written& result : results())
    copied_.insert({{result.place.buffer, result.place.offset}, result});
  for (const NamedTensor& capture : graph->captures) {
    const Place& place = plan.captures.at(capture.name);
    copied_.insert({{place.buffer, place.offset}, {capture.tensor, place}});
  }
  for (const WriteBack& wb : graph->write_backs) {
    Place place = plan.places.at(wb.destination);
    place.type = graph->type(wb.value);
    copied_.insert({{place.buffer, place.offset}, {wb.value, place}});
    // An update works in place: what it makes has no home but the leaf it replaces.
    if (op_class(graph->producer(wb.value).op) == OpClass::Update) homes_[wb.value] = place;
  }
}

void Stepper::run(std::size_t k) {
  const Plan& whole = runtime_->plan();
  auto one = std::make_shared<Plan>();
  one->graph = whole.graph;
  one->target = whole.target;
  one->buffers = whole.buffers;
  one->kernels = {whole.kernels[k]};
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
  for (std::size_t b = 0; b < whole.buffers.size(); ++b)
    buffers.push_back(runtime_->buffer(static_cast<int>(b)));
  Backend& backend = *runtime_->device().backend();
  // Compiled already, as a part of the whole: devices keep equal kernels.
  const std::unique_ptr<Program> program = backend.load(std::move(one), std::move(buffers));
  backend.run(*program, Phases::All);
}

std::vector<Stepper::Written> Stepper::written(std::size_t k) const {
  const Kernel& kernel = runtime_->plan().kernels[k];
  const Graph& graph = *runtime_->plan().graph;
  std::vector<Written> result;
  const auto writes = [&](const Place& place) {
    return std::any_of(kernel.bindings.begin(), kernel.bindings.end(), [&](const Binding& b) {
      return b.written && b.buffer == place.buffer && b.offset <= place.offset &&
             place.offset + place.type.shape.size() <= b.offset + b.elements;
    });
  };
  if (kernel.name == "copy") {
    const Binding& to = kernel.bindings.back();
    const auto [begin, end] = copied_.equal_range({to.buffer, to.offset});
    if (begin != end) result.push_back(begin->second);
    return result;
  }
  for (NodeId id : kernel.nodes) {
    for (TensorId output : graph.node(id).outputs) {
      const auto home = homes_.find(output);
      if (home != homes_.end() && writes(home->second)) result.push_back({output, home->second});
    }
  }
  return result;
}

std::vector<Stepper::Written> Stepper::results() const {
  const Plan& plan = runtime_->plan();
  std::vector<Written> result;
  for (const NamedTensor& output : plan.graph->outputs)
    result.push_back({output.tensor, plan.outputs.at(output.name)});
  for (const NamedTensor& gradient : plan.graph->gradients)
    result.push_back({gradient.tensor, plan.gradients.at(gradient.name)});
  return result;
}

Values Stepper::read(const Place& place) { return numbers(runtime_->read(place)); }

void Stepper::write(const Place& place, const Values& values) {
  with_words(place.type.dtype, values,
             [&](const FeedValue& words) { runtime_->write_words(place, words.words()); });
}

std::vector<Values> run_op_by_op(const std::shared_ptr<const Graph>& graph,
                                 const LeafValues& leaves, const Device& device) {
  Stepper stepper(graph, leaves, device, true);
  std::vector<Values> tensors(static_cast<std::size_t>(graph->tensor_count()));
  for (std::size_t k = 0; k < stepper.count(); ++k) {
    stepper.run(k);
    for (const Stepper::Written& w : stepper.written(k))
      tensors[static_cast<std::size_t>(w.tensor)] = stepper.read(w.place);
  }
  return tensors;
}

}  // namespace tensorgrad::debug
