// The reference interpreter as a device: every node a kernel, every value a double.
#include "runtime/backend.hpp"

#include <mutex>

#include "runtime/host_memory.hpp"
#include "runtime/reference/interpreter.hpp"

namespace tensorgrad {

namespace {

using reference::Values;

struct ReferenceBuffer : DeviceBuffer {
  Values values;
};

struct ReferenceProgram : Program {
  std::shared_ptr<const Plan> plan;
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
  std::vector<Values> tensors;  // by tensor id: what the interpreter works on
};

Values& values_of(DeviceBuffer& buffer) { return static_cast<ReferenceBuffer&>(buffer).values; }

class ReferenceBackend : public Backend {
 public:
  ReferenceBackend() {
    target_.name = "reference";
    target_.fuse = false;
    target_.element_bytes = 8;
    target_.passes.fused_attention = 0;
  }

  const Target& target() const override { return target_; }
  std::string description() const override { return "reference interpreter (f64, op by op)"; }

  std::shared_ptr<DeviceBuffer> create_buffer(const BufferSpec& spec) override {
    check_memory("reference", "the buffer \"" + spec.name + "\"", spec.bytes);
    auto buffer = std::make_shared<ReferenceBuffer>();
    buffer->values.assign(static_cast<std::size_t>(spec.bytes / target_.element_bytes), 0.0);
    std::lock_guard lock(mutex_);
    ++counters_.buffers;
    counters_.buffer_bytes += spec.bytes;
    return buffer;
  }

  void write(DeviceBuffer& buffer, std::int64_t offset, std::int64_t count, DType dtype,
             const void* words) override {
    std::lock_guard lock(mutex_);
    double* to = values_of(buffer).data() + offset;
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = dtype == f32 ? static_cast<double>(static_cast<const float*>(words)[i])
                           : static_cast<double>(static_cast<const std::int32_t*>(words)[i]);
    }
  }

  std::unique_ptr<Program> load(std::shared_ptr<const Plan> plan,
                                std::vector<std::shared_ptr<DeviceBuffer>> buffers) override {
    auto program = std::make_unique<ReferenceProgram>();
    program->tensors.resize(static_cast<std::size_t>(plan->graph->tensor_count()));
    program->plan = std::move(plan);
    program->buffers = std::move(buffers);
    return program;
  }

  void run(Program& base, Phases phases) override {
    std::lock_guard lock(mutex_);
    auto& program = static_cast<ReferenceProgram&>(base);
    ++counters_.submits;
    for (const Kernel& kernel : program.plan->kernels) {
      if (includes(phases, kernel.phase)) run(program, kernel);
    }
  }

  std::vector<double> profile(Program& base) override {
    std::lock_guard lock(mutex_);
    auto& program = static_cast<ReferenceProgram&>(base);
    return timed(program.plan->kernels, [&](const Kernel& kernel) { run(program, kernel); });
  }

  void read(const std::vector<ReadRequest>& requests, Completion done) override {
    {
      std::lock_guard lock(mutex_);
      for (const ReadRequest& request : requests) {
        const double* from = values_of(*request.buffer).data() + request.offset;
        for (std::int64_t i = 0; i < request.count; ++i) {
          if (request.dtype == f32) {
            static_cast<float*>(request.words)[i] = static_cast<float>(from[i]);
          } else {
            static_cast<std::int32_t*>(request.words)[i] = static_cast<std::int32_t>(from[i]);
          }
        }
      }
    }
    done(nullptr);
  }

  void poll() override {}

  DeviceCounters counters() const override {
    std::lock_guard lock(mutex_);
    return counters_;
  }

 private:
  void run(ReferenceProgram& program, const Kernel& kernel) {
    ++counters_.dispatches;
    if (kernel.name == "copy") {
      store(program, kernel.bindings.back(), load(program, kernel.bindings.front()));
      return;
    }
    const Graph& graph = *program.plan->graph;
    const Node& node = graph.node(kernel.nodes.front());
    std::size_t b = 0;
    for (TensorId input : node.inputs)
      program.tensors[static_cast<std::size_t>(input)] = load(program, kernel.bindings[b++]);
    reference::compute(graph, node, program.tensors);
    for (TensorId output : node.outputs)
      store(program, kernel.bindings[b++], program.tensors[static_cast<std::size_t>(output)]);
  }

  static Values load(ReferenceProgram& program, const Binding& binding) {
    const Values& from = values_of(*program.buffers[static_cast<std::size_t>(binding.buffer)]);
    return Values(from.begin() + binding.offset, from.begin() + binding.offset + binding.elements);
  }

  static void store(ReferenceProgram& program, const Binding& binding, const Values& values) {
    Values& to = values_of(*program.buffers[static_cast<std::size_t>(binding.buffer)]);
    std::copy(values.begin(), values.end(), to.begin() + binding.offset);
  }

  Target target_;
  mutable std::mutex mutex_;
  DeviceCounters counters_;
};

}  // namespace

std::shared_ptr<Backend> open_reference() {
  static const auto backend = std::make_shared<ReferenceBackend>();
  return backend;
}

}  // namespace tensorgrad
