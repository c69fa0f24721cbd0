// A compiled program with its buffers: the stages in order, then steps.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <set>

#include "api/checkpoint.hpp"
#include "api/debug/values.hpp"
#include "api/debug/watch.hpp"
#include "api/staging.hpp"
#include "api/weights.hpp"
#include "runtime/backend.hpp"
#include "tensorgrad/autograd.hpp"
#include "tensorgrad/compile.hpp"
#include "tensorgrad/passes.hpp"
#include "tensorgrad/random.hpp"
#include "tensorgrad/runtime.hpp"
#include "tensorgrad/safetensors.hpp"

namespace tensorgrad {

namespace {

std::uint64_t hash_name(const std::string& name) {  // FNV-1a
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (unsigned char c : name) hash = (hash ^ c) * 0x100000001b3ULL;
  return hash;
}

/// A parameter's first values depend on the seed and its name, not on its neighbours.
std::vector<float> first_values(const MaterializedParam& param, std::uint64_t seed) {
  Rng rng(seed * 0x9e3779b97f4a7c15ULL ^ hash_name(param.name));
  std::vector<float> values = param.spec->init.make(param.spec->shape, rng);
  if (static_cast<std::int64_t>(values.size()) != param.spec->shape.size()) {
    throw ShapeError("The init of parameter " + param.name + " gave " +
                     std::to_string(values.size()) + " values for " +
                     param.spec->shape.to_string() + ".");
  }
  return values;
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

CompiledIR compile_graph(std::shared_ptr<Graph> graph, bool training,
                         const std::optional<Optimizer>& optimizer, const Target& target,
                         const std::map<std::string, SharedParam>& shared) {
  if (training) {
    const GradResult result = append_grad(*graph);
    if (!result.unreached.empty()) {
      warn("the loss does not depend on " + join(result.unreached) +
           ": no gradient, no update. Freeze them with .trainable = false if that is meant.");
    }
    if (optimizer) append_optimizer(*graph, *optimizer);
  }
  CompiledIR ir;
  ir.traced = graph;
  ir.optimized = run_passes(*graph, target.passes);
  ir.plan = std::make_shared<const Plan>(plan(ir.optimized, target, shared));
  return ir;
}

}  // namespace

CompiledIR compile_to_ir(const std::function<Outputs()>& fn, bool training,
                         const std::optional<Optimizer>& optimizer, const Target& target) {
  const auto traced = trace([&] {
    current_graph().training = training;
    return fn();
  });
  return compile_graph(traced, training, optimizer, target, {});
}

Tensor Inputs::operator[](const std::string& name) const {
  std::string known;
  for (const auto& [key, tensor] : tensors_) {
    if (key == name) return tensor;
    known += (known.empty() ? "" : ", ") + key;
  }
  throw Error("There is no input named \"" + name +
              "\"; declared are: " + (known.empty() ? "none" : known) + ". Add it to .inputs.");
}

struct PendingLoss::State {
  std::shared_ptr<Backend> backend;
  std::vector<ReadRequest> requests;
  float loss = 0;
  std::atomic<bool> done{false};
  std::exception_ptr error;
};

bool PendingLoss::ready() {
  if (!state_->done) state_->backend->poll();
  return state_->done;
}

float PendingLoss::get() {
  while (!state_->done) state_->backend->poll();
  if (state_->error) std::rethrow_exception(state_->error);
  return state_->loss;
}

struct Runner::Impl {
  Device device;
  std::shared_ptr<Backend> backend;
  CompiledIR ir;
  std::vector<MaterializedParam> declared;
  std::set<std::string> shared_names;
  std::optional<Optimizer> optimizer;
  std::optional<double> rate;
  std::uint64_t seed = 0;
  std::int64_t steps = 0;
  bool training = false;

  std::unique_ptr<Runtime> runtime;
  mutable std::mutex mutex;
  std::optional<debug::Watch> watch;

  Staging staging;

  // Prepared once, so that a step allocates nothing.
  struct LossRead {
    std::vector<ReadRequest> requests;
    float loss = 0;
    std::atomic<bool> done{false};  // another thread's poll may complete it
    std::exception_ptr error;
  } loss_read;

  // Many steps at once: two parts take turns.
  static constexpr std::int64_t kManySteps = 16, kManyWords = 1 << 22;
  struct Part {
    std::shared_ptr<DeviceBuffer> results;
    std::vector<ReadRequest> requests;
    std::atomic<bool> done{true};
    std::exception_ptr error;
  };
  std::array<Part, 2> parts;
  std::vector<std::uint32_t> many;
  std::mutex many_mutex;

  void start_read(Part& part, std::int64_t count, float* losses) {
    part.requests = {{part.results.get(), 0, count, f32, losses}};
    part.error = nullptr;
    part.done = false;
    try {
      backend->read(part.requests, {[](void* context, std::exception_ptr error) {
                                      auto* p = static_cast<Part*>(context);
                                      p->error = std::move(error);
                                      p->done = true;
                                    },
                                    &part});
    } catch (...) {
      part.done = true;  // it was not accepted
      throw;
    }
  }
  void wait(Part& part) {
    while (!part.done) backend->poll();
    if (part.error) std::rethrow_exception(std::exchange(part.error, nullptr));
  }
  /// Until nothing refers to the part any more.
  void finish_quietly(Part& part) {
    while (!part.done) {
      try {
        backend->poll();
      } catch (const Error&) {
        return;  // the device is gone, and its reads with it
      }
    }
  }

  explicit Impl(const Device& d) : device(d), backend(d.backend()) {}

  const Plan& plan() const { return *ir.plan; }
  DeviceBuffer& buffer(int index) const { return *runtime->buffer(index); }

  void compile(ProgramRequest& request) {
    seed = request.seed;
    optimizer = request.optimizer;
    training = request.training;
    auto graph = tensorgrad::trace([&] {
      current_graph().training = training;
      Inputs inputs;
      for (const auto& [name, decl] : request.inputs)
        inputs.add(name, tensor_input(name, decl.shape, decl.dtype, {}));
      return request.trace(inputs, declared);
    });
    if (training && graph->params.empty()) {
      throw Error(
          "compile: the model has no parameters to train. Declare them as members with "
          "tensorgrad::param, or use "
          "compile_forward.");
    }
    // Buffers of shared parameters are numbered in the order they are met.
    std::map<std::string, SharedParam> shared;
    std::vector<std::shared_ptr<DeviceBuffer>> shared_buffers;
    for (const ParamInfo& param : graph->params) {
      const auto found = request.shared.find(param.name);
      if (found == request.shared.end()) continue;
      const Shape& shape = graph->type(param.tensor).shape;
      if (shape != found->second.shape) {
        throw ShapeError("The shared parameter " + param.name + " is " +
                         found->second.shape.to_string() + ", but this model declares it as " +
                         shape.to_string() + ".");
      }
      const auto at = std::find(shared_buffers.begin(), shared_buffers.end(), found->second.buffer);
      const auto index = static_cast<int>(at - shared_buffers.begin());
      if (at == shared_buffers.end()) shared_buffers.push_back(found->second.buffer);
      shared[param.name] = {index, found->second.offset, found->second.buffer_bytes};
      shared_names.insert(param.name);
    }
    ir = compile_graph(std::move(graph), training, optimizer, backend->target(), shared);
    runtime = std::make_unique<Runtime>(ir.plan, device, shared_buffers);
    staging = Staging(plan());
    prepare_loss();
    reset();
  }

  void prepare_loss() {
    if (!training) return;
    const Place& place = plan().outputs.at(ir.optimized->outputs.front().name);
    loss_read.requests = {{&buffer(place.buffer), place.offset, 1, f32, &loss_read.loss}};
  }

  void reset() {
    forget_steps();
    for (const MaterializedParam& param : declared) {
      if (shared_names.count(param.name)) continue;
      const std::vector<float> values = first_values(param, seed);
      runtime->write_words(plan().params.at(param.name), values.data());
    }
    runtime->reset_states();
    steps = 0;
    rate.reset();
  }

  /// Parameters or states are about to change by other means than a step.
  void forget_steps() {
    if (watch) watch->forget();
  }
  bool is_watched() const {
    const std::lock_guard lock(mutex);
    return watch.has_value();
  }

  // ---- a step

  void fill(const Feed& feed) { staging.fill(feed, optimizer, rate, seed, steps); }
  void write_inputs() {
    if (staging.buffer() >= 0)
      staging.write_to(*backend, buffer(staging.buffer()), plan().target.element_bytes);
  }

  void launch(const Feed& feed) {
    fill(feed);
    if (watch) watch->before_step(*runtime, persistent(), steps + 1);
    write_inputs();
    runtime->run();
    if (watch) watch->after_step(staging.words());
    ++steps;
  }

  float read_loss() {
    loss_read.done = false;
    loss_read.error = nullptr;
    backend->read(loss_read.requests, {[](void* context, std::exception_ptr error) {
                                         auto* r = static_cast<LossRead*>(context);
                                         r->error = std::move(error);
                                         r->done = true;
                                       },
                                       &loss_read});
    while (!loss_read.done) backend->poll();
    if (loss_read.error) std::rethrow_exception(loss_read.error);
    return loss_read.loss;
  }

  /// Many steps in one go: the inputs of a part are uploaded together, and the device is given the
  /// next part before the losses of the last are awaited.
  std::vector<float> run_steps(std::int64_t n, const std::function<Batch(std::int64_t)>& batch) {
    const std::lock_guard one_at_a_time(many_mutex);
    std::vector<float> losses(static_cast<std::size_t>(n));
    // The reference converts each input by its dtype; a watch wants to see each step.
    if (plan().target.element_bytes != 4 || is_watched()) {
      for (std::int64_t i = 0; i < n; ++i) {
        const Batch inputs = batch(i);
        const std::lock_guard lock(mutex);
        launch(inputs.view());
        losses[static_cast<std::size_t>(i)] = read_loss();
      }
      return losses;
    }
    const auto words = static_cast<std::int64_t>(staging.words().size());
    const std::int64_t part =
        std::clamp<std::int64_t>(kManyWords / std::max<std::int64_t>(words, 1), 1, kManySteps);
    for (Part& p : parts) {
      if (!p.results)
        p.results = backend->create_buffer({"losses", BufferRole::Output, 4 * kManySteps, false});
    }
    std::size_t turn = 0;
    try {
      for (std::int64_t first = 0; first < n; first += part, turn ^= 1) {
        const std::int64_t count = std::min(part, n - first);
        std::vector<Batch> batches;  // the caller may use the training while it makes them
        for (std::int64_t i = first; i < first + count; ++i) batches.push_back(batch(i));
        wait(parts[turn]);  // the part before last, whose place this one takes
        const std::lock_guard lock(mutex);
        forget_steps();  // of a watch that was set meanwhile
        const std::int64_t before = steps;
        many.clear();
        try {
          for (const Batch& inputs : batches) {
            fill(inputs.view());
            ++steps;
            many.insert(many.end(), staging.words().begin(), staging.words().end());
          }
        } catch (...) {
          steps = before;  // none of this part was run
          throw;
        }
        runtime->run_steps(count, many, plan().outputs.at(ir.optimized->outputs.front().name),
                           *parts[turn].results);
        start_read(parts[turn], count, losses.data() + first);
      }
    } catch (...) {
      for (Part& p : parts) finish_quietly(p);
      throw;
    }
    for (std::size_t k = 0; k < 2; ++k) wait(parts[(turn + k) % 2]);
    return losses;
  }

  Captures read_captures() {
    if (plan().captures.empty()) {
      throw Error(
          "Captures were asked for, but none is registered. Call capture(\"name\", tensor) in the "
          "forward function.");
    }
    Captures captures;
    captures.values = runtime->read(plan().captures);
    return captures;
  }

  /// Everything that a step changes, by the name it has in a checkpoint.
  std::map<std::string, Place> persistent() const {
    std::map<std::string, Place> places;
    for (const auto& [name, place] : plan().params) places[kParamPrefix + name] = place;
    for (const auto& [name, place] : plan().states) places[kStatePrefix + name] = place;
    return places;
  }

  // ---- finding faults

  /// The values that a step works on, given those that persist and the words of its inputs.
  LeafValues leaf_values(const std::map<std::string, Value>& kept,
                         const std::vector<std::uint32_t>& words) const {
    LeafValues leaves;
    for (const auto& [name, value] : kept)
      leaves[name.substr(name.find('.') + 1)] = debug::numbers(value);
    for (const auto& [name, place] : plan().inputs) {
      const auto begin = words.begin() + place.offset;
      leaves[name] = debug::numbers(Value(place.type, {begin, begin + place.type.shape.size()}));
    }
    return leaves;
  }

  /// Names the op on the reference interpreter; if all is finite there, on the device itself.
  NonFinite explain(const LeafValues& leaves, std::int64_t step) const {
    NonFinite found = tensorgrad::find_nonfinite(ir.traced, leaves);
    if (!found.found && device.name() != "reference") {
      NonFinite own = tensorgrad::find_nonfinite(ir.traced, leaves, device);
      own.text = found.text + "\n" + own.text;
      found = std::move(own);
    }
    found.step = step;
    if (training) found.text = "step " + std::to_string(step) + ": " + found.text;
    return found;
  }

  ParamValues read_floats(const std::map<std::string, Place>& places) {
    ParamValues values;
    for (const auto& [name, value] : runtime->read(places)) values[name] = value.as<float>();
    return values;
  }
};

Runner::Runner(ProgramRequest request)
    : impl_(std::make_unique<Impl>(request.device ? *request.device : Device::best())) {
  try {
    impl_->compile(request);
  } catch (const std::bad_alloc&) {
    throw DeviceError("There is not enough memory to compile this program for " +
                      impl_->device.name() + ".");
  }
}

Runner::~Runner() = default;

StepResult Runner::step(const Feed& feed, const RunOptions& options) {
  std::lock_guard lock(impl_->mutex);
  if (options.captures && impl_->plan().captures.empty())
    impl_->read_captures();  // throws, before anything runs
  impl_->launch(feed);
  StepResult result;
  result.loss = impl_->read_loss();
  if (options.captures) result.captures = impl_->read_captures();
  return result;
}

PendingLoss Runner::step_async(const Feed& feed) {
  std::lock_guard lock(impl_->mutex);
  impl_->launch(feed);
  auto state = std::make_shared<PendingLoss::State>();
  state->backend = impl_->backend;
  state->requests = impl_->loss_read.requests;
  state->requests.front().words = &state->loss;
  // The pending read keeps its state alive until it completes, whatever the caller does.
  auto* owner = new std::shared_ptr<PendingLoss::State>(state);
  impl_->backend->read(state->requests,
                       {[](void* context, std::exception_ptr error) {
                          auto* held = static_cast<std::shared_ptr<PendingLoss::State>*>(context);
                          (*held)->error = std::move(error);
                          (*held)->done = true;
                          delete held;
                        },
                        owner});
  return PendingLoss(state);
}

std::vector<float> Runner::run_steps(std::int64_t n,
                                     const std::function<Batch(std::int64_t)>& batch) {
  return impl_->run_steps(std::max<std::int64_t>(n, 0), batch);
}

RunResult Runner::run(const Feed& feed, const RunOptions& options) {
  std::lock_guard lock(impl_->mutex);
  if (options.captures && impl_->plan().captures.empty()) impl_->read_captures();
  impl_->launch(feed);
  RunResult result;
  result.outputs = impl_->runtime->read(impl_->plan().outputs);
  if (result.outputs.size() == 1 && result.outputs.begin()->second.dtype() == f32) {
    result.output = result.outputs.begin()->second.as<float>();
  }
  if (options.captures) result.captures = impl_->read_captures();
  return result;
}

std::vector<KernelTime> Runner::profile(const Feed& feed) {
  std::lock_guard lock(impl_->mutex);
  impl_->fill(feed);
  impl_->write_inputs();
  std::vector<KernelTime> times = impl_->runtime->profile();
  ++impl_->steps;
  return times;
}

ParamValues Runner::download_params() {
  std::lock_guard lock(impl_->mutex);
  return impl_->read_floats(impl_->plan().params);
}

void Runner::upload_params(const ParamValues& values, const UploadOptions& options) {
  std::lock_guard lock(impl_->mutex);
  const auto& places = impl_->plan().params;
  // Everything is checked before anything is written.
  std::vector<std::string> unknown, missing;
  for (const auto& [name, data] : values) {
    const auto place = places.find(name);
    if (place == places.end()) {
      unknown.push_back(name);
    } else if (static_cast<std::int64_t>(data.size()) != place->second.type.shape.size()) {
      throw ShapeError("upload_params: " + name + " is " + place->second.type.to_string() +
                       " and needs " + std::to_string(place->second.type.shape.size()) +
                       " values, but " + std::to_string(data.size()) + " are given.");
    }
  }
  for (const auto& [name, place] : places) {
    if (!values.count(name)) missing.push_back(name);
  }
  if (!unknown.empty())
    throw Error("upload_params: the model has no parameter named " + join(unknown) + ".");
  if (!missing.empty() && !options.partial) {
    throw Error("upload_params: " + join(missing) +
                " missing. Give every parameter, or pass {.partial = true}.");
  }
  impl_->forget_steps();
  for (const auto& [name, data] : values) impl_->runtime->write_words(places.at(name), data.data());
}

UploadReport Runner::upload_params(const std::string& path, const FileUploadOptions& options) {
  std::lock_guard lock(impl_->mutex);
  const SafetensorsFile file = SafetensorsFile::open_model(path);
  const auto places = place_weights(impl_->declared, options.names, "upload_params");
  UploadReport report;
  for (const WeightPlace& place : find_weights(file, places, options, report)) {
    impl_->runtime->write_words(impl_->plan().params.at(place.param),
                                read_weight(file, place).data());
  }
  return report;
}

void Runner::save_params(const std::string& path, const SaveParamsOptions& options) {
  std::lock_guard lock(impl_->mutex);
  const auto places = place_weights(impl_->declared, options.names, "save_params");
  const ParamValues values = impl_->read_floats(impl_->plan().params);
  std::vector<FileTensor> tensors;
  std::vector<std::vector<float>> turned;
  turned.reserve(places.size());  // the tensors below borrow their elements
  std::map<std::string, std::string> owner;
  for (const WeightPlace& place : places) {
    const auto [other, is_new] = owner.emplace(place.name, place.param);
    if (!is_new) {
      throw Error("save_params: " + other->second + " and " + place.param +
                  " would both be called \"" + place.name + "\" in the file.");
    }
    std::span<const float> data = values.at(place.param);
    if (place.transposed) {
      turned.push_back(transposed(data, place.shape[0], place.shape[1]));
      data = turned.back();
    }
    tensors.push_back(FileTensor::f32(place.name, file_shape(place), data));
  }
  if (options.shard_bytes > 0) {
    write_safetensors_model(path, tensors, options.shard_bytes, options.metadata);
  } else {
    write_safetensors(path, tensors, options.metadata);
  }
}

ParamValues Runner::download_param_grads() {
  std::lock_guard lock(impl_->mutex);
  return impl_->read_floats(impl_->plan().gradients);
}

void Runner::watch_nonfinite(std::int64_t every) {
  std::lock_guard lock(impl_->mutex);
  if (every < 1) throw Error("watch_nonfinite: the number of steps must be 1 or more.");
  impl_->watch.emplace(every);
}

NonFinite Runner::find_nonfinite() {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->watch) {
    throw Error(
        "find_nonfinite: nothing was kept of the steps so far. Call watch_nonfinite() before them, "
        "or give the inputs of the next step.");
  }
  const debug::Watch::BadStep bad = impl_->watch->replay(
      *impl_->runtime, impl_->persistent(), [&](const std::vector<std::uint32_t>& words) {
        impl_->staging.words() = words;
        impl_->write_inputs();
        impl_->runtime->run();
      });
  NonFinite found;
  if (bad.step == 0) {
    found.text = impl_->watch->nothing_found();
    return found;
  }
  found = impl_->explain(impl_->leaf_values(bad.before, bad.inputs), bad.step);
  if (!found.found) {
    found.text +=
        "\nThe step itself leaves some that is not: the device's fused kernels make it, and "
        "compare_devices names the first that differs.";
  }
  return found;
}

NonFinite Runner::find_nonfinite(const Feed& feed) {
  std::lock_guard lock(impl_->mutex);
  impl_->fill(feed);
  return impl_->explain(
      impl_->leaf_values(impl_->runtime->read(impl_->persistent()), impl_->staging.words()),
      impl_->steps + 1);
}

DeviceComparison Runner::compare_devices(const Feed& feed, const Device& first,
                                         const Device& second, const CompareOptions& options) {
  std::lock_guard lock(impl_->mutex);
  impl_->fill(feed);
  const LeafValues leaves =
      impl_->leaf_values(impl_->runtime->read(impl_->persistent()), impl_->staging.words());
  return tensorgrad::compare_devices(impl_->ir.traced, leaves, first, second, options);
}

StateValues Runner::download_states() {
  std::lock_guard lock(impl_->mutex);
  return impl_->runtime->read(impl_->plan().states);
}

void Runner::upload_states(const StateValues& values) {
  std::lock_guard lock(impl_->mutex);
  const auto& places = impl_->plan().states;
  // Everything is checked before anything is written.
  std::vector<std::string> unknown, missing;
  for (const auto& [name, value] : values) {
    const auto place = places.find(name);
    if (place == places.end()) {
      unknown.push_back(name);
    } else if (value.type() != place->second.type) {
      throw ShapeError("upload_states: " + name + " is " + place->second.type.to_string() +
                       ", but " + value.type().to_string() + " is given.");
    }
  }
  for (const auto& [name, place] : places) {
    if (!values.count(name)) missing.push_back(name);
  }
  if (!unknown.empty())
    throw Error("upload_states: the program has no state named " + join(unknown) + ".");
  if (!missing.empty()) throw Error("upload_states: " + join(missing) + " missing.");
  for (const auto& [name, value] : values)
    impl_->runtime->write_words(places.at(name), value.words().data());
}

void Runner::reset_states() {
  std::lock_guard lock(impl_->mutex);
  impl_->runtime->reset_states();
}

void Runner::reset() {
  std::lock_guard lock(impl_->mutex);
  impl_->reset();
}

void Runner::reset_optimizer_state() {
  std::lock_guard lock(impl_->mutex);
  impl_->forget_steps();
  for (const auto& [name, place] : impl_->plan().states) {
    if (name.rfind("optimizer.", 0) == 0) impl_->runtime->fill(place, 0);
  }
  impl_->steps = 0;
}

void Runner::set_lr(double rate) {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->optimizer) throw Error("set_lr: this program was compiled without an optimizer.");
  impl_->rate = rate;
}

void Runner::save(const std::string& path, const std::map<std::string, std::string>& metadata) {
  std::lock_guard lock(impl_->mutex);
  const auto header = with_header(metadata, {impl_->steps, impl_->seed, impl_->rate});
  const std::map<std::string, Value> values = impl_->runtime->read(impl_->persistent());
  std::vector<FileTensor> tensors;
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<std::int32_t>> ints;
  floats.reserve(values.size());  // the tensors below borrow their elements
  ints.reserve(values.size());
  for (const auto& [name, value] : values) {
    std::vector<std::int64_t> shape;
    for (const Dim& dim : value.shape()) shape.push_back(dim.size);
    if (value.dtype() == f32) {
      floats.push_back(value.as<float>());
      tensors.push_back(FileTensor::f32(name, std::move(shape), floats.back()));
    } else {
      ints.push_back(value.as<std::int32_t>());
      tensors.push_back(FileTensor::i32(name, std::move(shape), ints.back()));
    }
  }
  write_safetensors(path, tensors, header);
}

std::map<std::string, std::string> Runner::load(const std::string& path) {
  std::lock_guard lock(impl_->mutex);
  const SafetensorsFile file = SafetensorsFile::open(path);
  // Everything is checked before anything changes.
  std::map<std::string, std::string> metadata = file.metadata();
  const CheckpointHeader header = take_header(metadata, path);
  const std::map<std::string, Place> places = impl_->persistent();
  check_checkpoint_tensors(file, places);
  impl_->forget_steps();
  for (const auto& [name, place] : places) {
    if (place.type.dtype == f32) {
      const std::vector<float> values = file.read_f32(name);
      impl_->runtime->write_words(place, values.data());
    } else {
      const std::vector<std::int32_t> values = file.read_i32(name);
      impl_->runtime->write_words(place, values.data());
    }
  }
  impl_->steps = header.step;
  impl_->seed = header.seed;
  impl_->rate = header.rate;
  return metadata;
}

const CompiledIR& Runner::ir() const { return impl_->ir; }

ParamRefs Runner::params() const {
  ParamRefs refs;
  for (const auto& [name, place] : impl_->plan().params) {
    const auto b = static_cast<std::size_t>(place.buffer);
    refs[name] = {impl_->runtime->buffer(place.buffer), place.offset,
                  impl_->plan().buffers[b].bytes, place.type.shape};
  }
  return refs;
}

const Shape& Runner::output_shape(const std::string& name) const {
  const auto& outputs = impl_->plan().outputs;
  if (name.empty()) {
    if (outputs.size() != 1)
      throw Error("output_shape: there are several outputs; give the name of one.");
    return outputs.begin()->second.type.shape;
  }
  const auto found = outputs.find(name);
  if (found == outputs.end())
    throw Error("output_shape: there is no output named \"" + name + "\".");
  return found->second.type.shape;
}

std::uint64_t Runner::seed() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->seed;
}
std::int64_t Runner::step_count() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->steps;
}
const Device& Runner::device() const { return impl_->device; }

}  // namespace tensorgrad
