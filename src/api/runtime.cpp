#include "tensorgrad/runtime.hpp"

#include <algorithm>
#include <cstring>

#include "codegen/wgsl/print.hpp"
#include "runtime/backend.hpp"

namespace tensorgrad {

namespace {

/// A number as a 32-bit word of its dtype.
std::uint32_t word_of(double value, DType dtype) {
  std::uint32_t word = 0;
  if (dtype == f32) {
    const auto number = static_cast<float>(value);
    std::memcpy(&word, &number, 4);
  } else {
    const auto number = static_cast<std::int32_t>(value);
    std::memcpy(&word, &number, 4);
  }
  return word;
}

}  // namespace

std::vector<EmittedKernel> emit_kernels(const Plan& plan) {
  std::vector<EmittedKernel> emitted;
  WgslLimits limits;  // what each device has, and what the plan was made for
  limits.bindings = std::max(limits.bindings, static_cast<std::uint32_t>(plan.target.max_bindings));
  for (const Kernel& kernel : plan.kernels) {
    WgslKernel wgsl = emit_wgsl(kernel, limits);
    emitted.push_back({kernel.name, std::move(wgsl.source), wgsl.grid});
  }
  return emitted;
}

Runtime::Runtime(std::shared_ptr<const Plan> plan, const Device& device,
                 const std::vector<std::shared_ptr<DeviceBuffer>>& shared)
    : plan_(std::move(plan)), device_(device) {
  buffers_.resize(plan_->buffers.size());
  for (std::size_t s = 0; s < shared.size() && s < plan_->shared_buffers.size(); ++s) {
    const int b = plan_->shared_buffers[s];
    if (b >= 0) buffers_[static_cast<std::size_t>(b)] = shared[s];
  }
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    if (!buffers_[b]) buffers_[b] = device_.backend()->create_buffer(plan_->buffers[b]);
  }
  program_ = device_.backend()->load(plan_, buffers_);
  write_literals();
  reset_states();
}

Runtime::~Runtime() = default;

void Runtime::write_words(const Place& place, const void* words) {
  device_.backend()->write(*buffer(place.buffer), place.offset, place.type.shape.size(),
                           place.type.dtype, words);
}

void Runtime::write_literals() {
  for (const Node& node : plan_->graph->nodes()) {
    const auto* literal = std::get_if<LiteralAttr>(&node.attrs);
    if (!literal) continue;
    std::vector<std::uint32_t> words;
    for (double value : *literal->data) words.push_back(word_of(value, literal->type.dtype));
    write_words(plan_->places.at(node.output()), words.data());
  }
}

void Runtime::fill(const Place& place, double value) {
  const std::vector<std::uint32_t> words(static_cast<std::size_t>(place.type.shape.size()),
                                         word_of(value, place.type.dtype));
  write_words(place, words.data());
}

void Runtime::reset_states() {
  for (const Node& node : plan_->graph->nodes()) {
    const auto* state = std::get_if<StateAttr>(&node.attrs);
    if (state) fill(plan_->states.at(state->name), state->init);
  }
}

void Runtime::write(const std::string& leaf, const FeedValue& values) {
  for (const auto* places : {&plan_->params, &plan_->inputs, &plan_->states}) {
    const auto found = places->find(leaf);
    if (found == places->end()) continue;
    const TensorType& type = found->second.type;
    if (values.count() != type.shape.size() || values.is_float() != (type.dtype == f32)) {
      throw ShapeError("write: \"" + leaf + "\" is " + type.to_string() + ", but " +
                       std::to_string(values.count()) +
                       (values.is_float() ? " floats" : " int32s") + " are given.");
    }
    write_words(found->second, values.words());
    return;
  }
  throw Error("write: there is no parameter, input or state named \"" + leaf + "\".");
}

void Runtime::run() { device_.backend()->run(*program_, Phases::All); }

void Runtime::run(Phase phase) {
  device_.backend()->run(*program_, phase == Phase::Gradient ? Phases::Gradient : Phases::Update);
}

void Runtime::run_steps(std::int64_t count, const std::vector<std::uint32_t>& inputs,
                        const Place& number, DeviceBuffer& results) {
  StepBatch batch;
  batch.count = count;
  if (!plan_->inputs.empty()) {
    batch.inputs = buffer(plan_->inputs.begin()->second.buffer).get();
    batch.words = static_cast<std::int64_t>(inputs.size()) / count;
    batch.data = inputs.data();
  }
  batch.result = buffer(number.buffer).get();
  batch.result_offset = number.offset;
  batch.results = &results;
  device_.backend()->run_steps(*program_, batch);
}

std::vector<KernelTime> Runtime::profile() {
  const std::vector<double> seconds = device_.backend()->profile(*program_);
  std::vector<KernelTime> times;
  for (std::size_t k = 0; k < seconds.size() && k < plan_->kernels.size(); ++k) {
    const Kernel& kernel = plan_->kernels[k];
    KernelTime time{kernel.name, "", "", kernel_cost(kernel), seconds[k]};
    for (NodeId id : kernel.nodes) {
      const Node& node = plan_->graph->node(id);
      time.ops += (time.ops.empty() ? "" : " ") + std::string(to_string(node.op));
      if (time.site.empty()) time.site = node.site.to_string();
    }
    times.push_back(std::move(time));
  }
  return times;
}

Value Runtime::read(const Place& place) { return std::move(read({{"", place}}).begin()->second); }

std::map<std::string, Value> Runtime::read(const std::map<std::string, Place>& places) {
  std::map<std::string, std::vector<std::uint32_t>> words;
  std::vector<ReadRequest> requests;
  for (const auto& [name, place] : places) {
    auto& to = words[name];
    to.resize(static_cast<std::size_t>(place.type.shape.size()));
    requests.push_back({buffer(place.buffer).get(), place.offset, place.type.shape.size(),
                        place.type.dtype, to.data()});
  }
  read_now(*device_.backend(), requests);
  std::map<std::string, Value> values;
  for (const auto& [name, place] : places)
    values.emplace(name, Value(place.type, std::move(words[name])));
  return values;
}

std::unique_ptr<Runtime> create_runtime(std::shared_ptr<const Plan> plan, const Device& device) {
  return std::make_unique<Runtime>(std::move(plan), device);
}

}  // namespace tensorgrad
