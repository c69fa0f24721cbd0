// From a model and a forward function to something that trains or runs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensorgrad/debug.hpp"
#include "tensorgrad/device.hpp"
#include "tensorgrad/feed.hpp"
#include "tensorgrad/module.hpp"
#include "tensorgrad/optim.hpp"
#include "tensorgrad/plan.hpp"
#include "tensorgrad/profile.hpp"
#include "tensorgrad/trace.hpp"
#include "tensorgrad/weights.hpp"

namespace tensorgrad {

class DeviceBuffer;

/// The inputs of a forward function, as tensors: `in["x"]`.
class Inputs {
 public:
  /// An error that lists the declared inputs if there is none of that name.
  Tensor operator[](const std::string& name) const;
  void add(const std::string& name, Tensor tensor) { tensors_.emplace_back(name, tensor); }

 private:
  std::vector<std::pair<std::string, Tensor>> tensors_;
};

/// A parameter's place on a device, to share it with another program.
struct ParamRef {
  std::shared_ptr<DeviceBuffer> buffer;
  std::int64_t offset = 0;  ///< elements
  std::int64_t buffer_bytes = 0;
  Shape shape;
};
using ParamRefs = std::map<std::string, ParamRef>;
using ParamValues = std::map<std::string, std::vector<float>>;
/// States of a program by name, as Forward::download_states gives them.
using StateValues = std::map<std::string, Value>;

struct CompileOptions {
  InputDecls inputs = {};
  std::optional<Optimizer> optimizer = {};  ///< Without one, step gives loss and gradients only.
  std::uint64_t seed = 0;                   ///< Of the parameters' first values.
  std::optional<Device> device = {};        ///< Device::best() unless said.
};

struct ForwardOptions {
  InputDecls inputs = {};
  std::uint64_t seed = 0;
  std::optional<Device> device = {};
  ParamRefs params = {};  ///< Parameters to share instead of making them.
};

struct UploadOptions {
  bool partial = false;  ///< Names may be missing; otherwise every parameter must be given.
};

/// Every stage of a compile, kept to be looked at.
struct CompiledIR {
  std::shared_ptr<const Graph> traced;     ///< as traced, with gradients and update appended
  std::shared_ptr<const Graph> optimized;  ///< after the passes
  std::shared_ptr<const Plan> plan;        ///< kernels and buffers
};

/// What compile is given once the model's type no longer matters.
struct ProgramRequest {
  std::function<Outputs(const Inputs&, std::vector<MaterializedParam>&)> trace;
  InputDecls inputs;
  bool training = false;
  std::optional<Optimizer> optimizer;
  std::uint64_t seed = 0;
  std::optional<Device> device;
  ParamRefs shared;
};

/// A loss that will be known later; see Training::step_async.
class PendingLoss {
 public:
  /// Waits for it.
  float get();
  bool ready();

  struct State;
  explicit PendingLoss(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

/// A compiled program: what Training and Forward share. Calls from several threads are serialised.
class Runner {
 public:
  explicit Runner(ProgramRequest request);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  StepResult step(const Feed& feed, const RunOptions& options);
  PendingLoss step_async(const Feed& feed);
  std::vector<float> run_steps(std::int64_t n, const std::function<Batch(std::int64_t)>& batch);
  RunResult run(const Feed& feed, const RunOptions& options);
  std::vector<KernelTime> profile(const Feed& feed);
  ParamValues download_params();
  void upload_params(const ParamValues& values, const UploadOptions& options);
  UploadReport upload_params(const std::string& path, const FileUploadOptions& options);
  void save_params(const std::string& path, const SaveParamsOptions& options);
  ParamValues download_param_grads();
  StateValues download_states();
  void upload_states(const StateValues& values);
  void reset_states();
  void reset();
  void reset_optimizer_state();
  void set_lr(double rate);
  void save(const std::string& path, const std::map<std::string, std::string>& metadata);
  std::map<std::string, std::string> load(const std::string& path);
  void watch_nonfinite(std::int64_t every);
  NonFinite find_nonfinite();
  NonFinite find_nonfinite(const Feed& feed);
  DeviceComparison compare_devices(const Feed& feed, const Device& first, const Device& second,
                                   const CompareOptions& options);
  const CompiledIR& ir() const;
  ParamRefs params() const;
  const Shape& output_shape(const std::string& name) const;
  std::uint64_t seed() const;
  std::int64_t step_count() const;
  const Device& device() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

namespace detail {

template <class Model, class Fn>
ProgramRequest make_request(const Model& model, Fn fn, const InputDecls& inputs) {
  static_assert(
      std::is_invocable_v<Fn, const Model&, const Inputs&>,
      "tensorgrad: the forward function must take (const Model&, const tensorgrad::Inputs&)");
  static_assert(
      std::is_convertible_v<std::invoke_result_t<Fn, const Model&, const Inputs&>, Outputs>,
      "tensorgrad: the forward function must return a Tensor, or named ones as "
      "tensorgrad::Outputs");
  ProgramRequest request;
  request.inputs = inputs;
  request.trace = [model, fn](const Inputs& in, std::vector<MaterializedParam>& params) -> Outputs {
    Model traced = model;  // its declared parameters become leaves of this graph
    params = materialize_params(traced);
    return fn(static_cast<const Model&>(traced), in);
  };
  return request;
}

}  // namespace detail

/// A model compiled to run forward.
template <class Model>
class Forward {
 public:
  Forward(Model model, ProgramRequest request)
      : model_(std::move(model)), runner_(std::make_shared<Runner>(std::move(request))) {}

  /// Runs once with these inputs.
  RunResult run(const Feed& feed = {}, RunOptions options = {}) {
    return runner_->run(feed, options);
  }
  /// A run whose kernels go one by one: what each took. On WebGPU it needs timestamps.
  std::vector<KernelTime> profile(const Feed& feed = {}) { return runner_->profile(feed); }
  ParamValues download_params() { return runner_->download_params(); }
  void upload_params(const ParamValues& values, UploadOptions options = {}) {
    runner_->upload_params(values, options);
  }
  /// From a safetensors file: a model's, sharded or not (a file, an index or a folder), or a
  /// checkpoint of `save`. All that does not fit is told in one error, and then nothing changes.
  template <class Path>
  requires std::is_convertible_v<const Path&, std::string> UploadReport
  upload_params(const Path& path, const FileUploadOptions& options = {}) {
    return runner_->upload_params(std::string(path), options);
  }
  /// Writes the parameters alone to a safetensors file.
  void save_params(const std::string& path, const SaveParamsOptions& options = {}) {
    runner_->save_params(path, options);
  }
  /// Runs these inputs op by op on the reference interpreter, with the parameters and states as
  /// they are now, and names the op that makes a NaN or an infinity. Changes nothing.
  NonFinite find_nonfinite(const Feed& feed = {}) { return runner_->find_nonfinite(feed); }
  /// Runs these inputs op by op on two devices and names the first op that differs. Changes
  /// nothing.
  DeviceComparison compare_devices(const Feed& feed, const Device& first, const Device& second,
                                   const CompareOptions& options = {}) {
    return runner_->compare_devices(feed, first, second, options);
  }

  /// What the states hold now: to keep it, or to hand it to another program.
  StateValues download_states() { return runner_->download_states(); }
  /// Sets all states of the program, whose names and types must be the same.
  void upload_states(const StateValues& values) { runner_->upload_states(values); }
  /// States back to their first values.
  void reset_states() { runner_->reset_states(); }
  /// The shape of the single output, or of one by name.
  const Shape& output_shape(const std::string& name = "") const {
    return runner_->output_shape(name);
  }
  const CompiledIR& ir() const { return runner_->ir(); }
  int kernel_count() const { return ir().plan->kernel_count(); }
  MemoryReport memory() const { return ir().plan->memory(); }
  /// Names to device buffers, to share with another compile.
  ParamRefs params() const { return runner_->params(); }
  const Device& device() const { return runner_->device(); }
  const Model& model() const { return model_; }

 private:
  Model model_;
  std::shared_ptr<Runner> runner_;
};

/// A model compiled to train.
template <class Model>
class Training {
 public:
  Training(Model model, ProgramRequest request)
      : model_(std::move(model)), runner_(std::make_shared<Runner>(std::move(request))) {}

  /// One step: forward, backward and, with an optimizer, update.
  StepResult step(const Feed& feed, RunOptions options = {}) {
    return runner_->step(feed, options);
  }
  /// A step that gives its outputs instead of the loss alone.
  RunResult run(const Feed& feed, RunOptions options = {}) { return runner_->run(feed, options); }
  /// A step whose kernels run one by one: what each took. On WebGPU it needs timestamps.
  std::vector<KernelTime> profile(const Feed& feed) { return runner_->profile(feed); }
  /// A step whose loss is fetched later; several may be in flight.
  PendingLoss step_async(const Feed& feed) { return runner_->step_async(feed); }
  /// `n` steps; batch(i) gives the inputs of the i-th, counted from 0. Gives all losses.
  std::vector<float> run_steps(std::int64_t n, const std::function<Batch(std::int64_t)>& batch) {
    return runner_->run_steps(n, batch);
  }

  /// A forward program of the same model that shares the parameters, without copies.
  template <class Fn>
  Forward<Model> attach(Fn fn, const ForwardOptions& options = {}) {
    ProgramRequest request = detail::make_request(model_, fn, options.inputs);
    request.device = runner_->device();
    request.shared = runner_->params();
    request.seed = runner_->seed();
    return Forward<Model>(model_, std::move(request));
  }

  ParamValues download_params() { return runner_->download_params(); }
  void upload_params(const ParamValues& values, UploadOptions options = {}) {
    runner_->upload_params(values, options);
  }
  /// From a safetensors file: a model's, sharded or not (a file, an index or a folder), or a
  /// checkpoint of `save`. All that does not fit is told in one error, and then nothing changes.
  template <class Path>
  requires std::is_convertible_v<const Path&, std::string> UploadReport
  upload_params(const Path& path, const FileUploadOptions& options = {}) {
    return runner_->upload_params(std::string(path), options);
  }
  /// Writes the parameters alone to a safetensors file.
  void save_params(const std::string& path, const SaveParamsOptions& options = {}) {
    runner_->save_params(path, options);
  }
  /// The gradients of the last step, before clipping.
  ParamValues download_param_grads() { return runner_->download_param_grads(); }
  /// Back to the first values and an empty optimizer: the same losses again.
  void reset() { runner_->reset(); }
  /// Moments to zero and the step count to 0; parameters stay.
  void reset_optimizer_state() { runner_->reset_optimizer_state(); }
  /// From now on this rate, whatever the schedule says.
  void set_lr(double rate) { runner_->set_lr(rate); }

  /// Writes parameters, states (moments among them), step count and seed to one safetensors file,
  /// with `metadata` of the caller's beside them. The old file stays whole until the new one is.
  void save(const std::string& path, const std::map<std::string, std::string>& metadata = {}) {
    runner_->save(path, metadata);
  }
  /// Takes up where `save` left off: the next losses are the same as if it had never stopped. Gives
  /// the caller's metadata. A file of another model is refused and nothing changes.
  std::map<std::string, std::string> load(const std::string& path) { return runner_->load(path); }

  /// From now on keeps what `find_nonfinite()` needs: a copy of parameters and states in the host's
  /// memory every so many steps, and the inputs of the steps since. A copy waits for the device.
  void watch_nonfinite(std::int64_t every = 16) { runner_->watch_nonfinite(every); }
  /// After a loss that is not finite, of a training that was watched: goes back to the last copy,
  /// takes the steps since again until the first that gives a NaN or an infinity, and names the op
  /// that made it. The training stays as it is.
  NonFinite find_nonfinite() { return runner_->find_nonfinite(); }
  /// The same for the step that would be next, with these inputs and the parameters and states as
  /// they are now: op by op on the reference interpreter. Nothing changes.
  NonFinite find_nonfinite(const Feed& feed) { return runner_->find_nonfinite(feed); }
  /// Takes the next step op by op on two devices and names the first op that differs. Changes
  /// nothing.
  DeviceComparison compare_devices(const Feed& feed, const Device& first, const Device& second,
                                   const CompareOptions& options = {}) {
    return runner_->compare_devices(feed, first, second, options);
  }

  const CompiledIR& ir() const { return runner_->ir(); }
  /// Dispatches of a step.
  int kernel_count() const { return ir().plan->kernel_count(); }
  /// Bytes and dispatches of a step, known before the first.
  MemoryReport memory() const { return ir().plan->memory(); }
  const Shape& output_shape(const std::string& name = "") const {
    return runner_->output_shape(name);
  }
  ParamRefs params() const { return runner_->params(); }
  std::uint64_t seed() const { return runner_->seed(); }
  std::int64_t step_count() const { return runner_->step_count(); }
  const Device& device() const { return runner_->device(); }
  const Model& model() const { return model_; }

 private:
  Model model_;
  std::shared_ptr<Runner> runner_;
};

/// Compiles `loss(model, inputs)` for training.
template <class Model, class Fn>
Training<Model> compile(Model model, Fn loss, const CompileOptions& options = {}) {
  ProgramRequest request = detail::make_request(model, loss, options.inputs);
  request.training = true;
  request.optimizer = options.optimizer;
  request.seed = options.seed;
  request.device = options.device;
  return Training<Model>(std::move(model), std::move(request));
}

/// Compiles `forward(model, inputs)` to run without gradients.
template <class Model, class Fn>
Forward<Model> compile_forward(Model model, Fn forward, const ForwardOptions& options = {}) {
  ProgramRequest request = detail::make_request(model, forward, options.inputs);
  request.seed = options.seed;
  request.device = options.device;
  request.shared = options.params;
  return Forward<Model>(std::move(model), std::move(request));
}

/// Traces, differentiates, optimises and plans, without touching a device's runtime.
CompiledIR compile_to_ir(const std::function<Outputs()>& fn, bool training,
                         const std::optional<Optimizer>& optimizer, const Target& target);

}  // namespace tensorgrad
