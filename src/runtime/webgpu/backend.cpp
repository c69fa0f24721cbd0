#include "runtime/webgpu/backend.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/webgpu/context.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::webgpu {

namespace {

class WebGpuBuffer final : public DeviceBuffer {
 public:
  explicit WebGpuBuffer(Buffer storage) : buffer(std::move(storage)) {}
  Buffer buffer;
};

class WebGpuProgram final : public Program {
 public:
  std::shared_ptr<const Plan> plan;
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
  std::shared_ptr<const Commands> gradient, update, all;

  const std::shared_ptr<const Commands>& commands(Phases phases) const {
    switch (phases) {
      case Phases::Gradient:
        return gradient;
      case Phases::Update:
        return update;
      case Phases::All:
        break;
    }
    return all;
  }
};

Buffer& storage_of(DeviceBuffer& buffer) {
  auto* own = dynamic_cast<WebGpuBuffer*>(&buffer);
  if (own == nullptr) throw InternalError("webgpu: a buffer of another backend");
  return own->buffer;
}

// ---- what went wrong, in the user's terms

/// `matmul at mlp.cpp:12`
std::string node_text(const Plan& plan, NodeId id) {
  if (plan.graph == nullptr || id < 0 || id >= static_cast<NodeId>(plan.graph->nodes().size())) {
    return "";
  }
  const Node& node = plan.graph->node(id);
  const std::string site = node.site.to_string();
  return to_string(node.op) + (site.empty() ? "" : " at " + site);
}

/// `\n  computing matmul at mlp.cpp:12, add at mlp.cpp:13`
std::string nodes_text(const Plan& plan, const Kernel& kernel) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> parts;
  for (NodeId id : kernel.nodes) {
    const std::string text = node_text(plan, id);
    if (!text.empty() && std::find(parts.begin(), parts.end(), text) == parts.end()) {
      parts.push_back(text);
    }
  }
  std::string result;
  for (std::size_t i = 0; i < std::min(parts.size(), kMost); ++i) {
    result += (i == 0 ? "\n  computing " : ", ") + parts[i];
  }
  if (parts.size() > kMost) result += ", …";
  return result;
}

/// Kernels may have equal names; labels tell them apart.
std::string label_of(const Kernel& kernel, std::size_t number) {
  return kernel.name + " (kernel " + std::to_string(number) + ")";
}

/// The Gpu's message about a shader with the op and the call site of the line it points at.
std::string explain(const std::string& message, const Plan& plan,
                    const std::vector<WgslKernel>& printed) {
  for (std::size_t i = 0; i < printed.size(); ++i) {
    const std::string label = "\"" + label_of(plan.kernels[i], i) + "\"";
    if (message.find(label) == std::string::npos) continue;
    std::string text = message;
    constexpr std::string_view kLine = "\n  at line ";
    if (const std::size_t at = message.find(kLine); at != std::string::npos) {
      const auto line =
          static_cast<std::size_t>(std::strtoull(message.c_str() + at + kLine.size(), nullptr, 10));
      const std::string node = node_text(plan, printed[i].node_at(line));
      if (!node.empty()) text += "\n  in " + node;
    }
    return text + nodes_text(plan, plan.kernels[i]);
  }
  return message;
}

}  // namespace

// ---- opening

WebGpuBackend::WebGpuBackend(Gpu gpu) : gpu_(std::move(gpu)) {
  const GpuLimits& limits = gpu_.limits();
  limits_.invocations = std::min(limits.invocations_per_workgroup, limits.workgroup_size[0]);
  limits_.workgroup_bytes = limits.workgroup_storage_bytes;
  limits_.workgroups = limits.workgroups_per_dimension;
  limits_.bindings = std::min(limits.storage_buffers_per_stage, limits.bindings_per_bind_group);

  target_.name = "webgpu";
  target_.whole_buffers = true;
  target_.alignment = std::max<std::int64_t>(256, limits.storage_offset_alignment);
  target_.max_bindings = static_cast<int>(limits_.bindings);
  target_.max_binding_bytes = static_cast<std::int64_t>(
      std::min({limits.storage_binding_bytes, limits.buffer_bytes, std::uint64_t{1} << 33}));
  target_.passes = gpu_passes();
  target_.straight_product = std::int64_t{1} << 32;  // 8 us of an H200 against 30
}

WebGpuBackend::~WebGpuBackend() {
  // Reads that are under way refer to this object.
  while (reading_ > 0) {
    try {
      poll();
    } catch (const DeviceError&) {  // nobody is left to tell
    }
  }
}

std::string WebGpuBackend::description() const {
  return gpu_.adapter().name + " (" + gpu_.adapter().backend + ")";
}

bool WebGpuBackend::is_lost() {
  // An error is thrown once, a loss every time.
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      gpu_.poll();
      return false;
    } catch (const DeviceError&) {
    }
  }
  return true;
}

// ---- buffers

std::shared_ptr<DeviceBuffer> WebGpuBackend::create_buffer(const BufferSpec& spec) {
  const auto bytes =
      static_cast<std::uint64_t>(std::max<std::int64_t>(4, (spec.bytes + 3) / 4 * 4));
  if (bytes > gpu_.limits().buffer_bytes) {
    throw DeviceError("webgpu: the buffer \"" + spec.name + "\" needs " + std::to_string(bytes) +
                      " bytes; \"" + gpu_.adapter().name + "\" allows " +
                      std::to_string(gpu_.limits().buffer_bytes) + ".");
  }
  auto buffer =
      std::make_shared<WebGpuBuffer>(gpu_.create_buffer(bytes, BufferKind::Storage, spec.name));
  const std::lock_guard lock(mutex_);
  ++counters_.buffers;
  counters_.buffer_bytes += spec.bytes;
  return buffer;
}

void WebGpuBackend::write(DeviceBuffer& buffer, std::int64_t offset, std::int64_t count, DType,
                          const void* words) {
  if (count == 0) return;
  const std::lock_guard lock(mutex_);
  flush();
  gpu_.write(storage_of(buffer), static_cast<std::uint64_t>(offset) * 4,
             {static_cast<const std::byte*>(words), static_cast<std::size_t>(count) * 4});
}

// ---- programs

std::unique_ptr<Program> WebGpuBackend::load(std::shared_ptr<const Plan> plan,
                                             std::vector<std::shared_ptr<DeviceBuffer>> buffers) {
  std::vector<WgslKernel> printed;
  std::vector<ShaderSource> sources;
  for (std::size_t i = 0; i < plan->kernels.size(); ++i) {
    const Kernel& kernel = plan->kernels[i];
    try {
      printed.push_back(emit_wgsl(kernel, limits_));
    } catch (const DeviceError& error) {
      throw DeviceError(error.what() + nodes_text(*plan, kernel));
    }
    ShaderSource source{label_of(kernel, i), printed.back().source, printed.back().entry, {}};
    for (const WgslBinding& b : printed.back().bindings) {
      source.bindings.push_back(b.writable ? Access::ReadWrite : Access::Read);
    }
    sources.push_back(std::move(source));
  }
  std::vector<Pipeline> pipelines;
  try {
    pipelines = gpu_.compile(sources);
  } catch (const DeviceError& error) {
    throw DeviceError(explain(error.what(), *plan, printed));
  }

  Commands gradient, update, all;
  for (std::size_t i = 0; i < printed.size(); ++i) {
    std::vector<Binding> bindings;
    for (const WgslBinding& b : printed[i].bindings) {
      bindings.push_back({storage_of(*buffers.at(static_cast<std::size_t>(b.buffer))),
                          static_cast<std::uint64_t>(b.offset) * 4,
                          static_cast<std::uint64_t>(b.elements) * 4});
    }
    const auto [x, y, z] = printed[i].grid;
    if (x == 0) continue;
    try {
      const Dispatch dispatch{pipelines[i], gpu_.bind(pipelines[i], bindings), x, y, z};
      all.push_back(dispatch);
      (plan->kernels[i].phase == Phase::Gradient ? gradient : update).push_back(dispatch);
    } catch (const DeviceError& error) {
      throw DeviceError(error.what() + nodes_text(*plan, plan->kernels[i]));
    }
  }
  auto program = std::make_unique<WebGpuProgram>();
  program->plan = std::move(plan);
  program->buffers = std::move(buffers);
  program->gradient = std::make_shared<Commands>(std::move(gradient));
  program->update = std::make_shared<Commands>(std::move(update));
  program->all = std::make_shared<Commands>(std::move(all));
  return program;
}

void WebGpuBackend::run(Program& program, Phases phases) {
  auto* own = dynamic_cast<WebGpuProgram*>(&program);
  if (own == nullptr) throw InternalError("webgpu: a program of another backend");
  const std::lock_guard lock(mutex_);
  flush();
  held_ = own->commands(phases);
  if (held_->empty()) held_ = nullptr;
}

void WebGpuBackend::run_steps(Program& program, const StepBatch& batch) {
  auto* own = dynamic_cast<WebGpuProgram*>(&program);
  if (own == nullptr) throw InternalError("webgpu: a program of another backend");
  const std::lock_guard lock(mutex_);
  flush();
  Gpu::Repeat repeat;
  repeat.count = static_cast<std::uint32_t>(batch.count);
  if (batch.inputs != nullptr) {
    const auto bytes = static_cast<std::uint64_t>(batch.count * batch.words) * 4;
    if (!upload_ || upload_.bytes() < bytes)
      upload_ = gpu_.create_buffer(bytes, BufferKind::Storage, "inputs of many steps");
    gpu_.write(upload_, 0, {reinterpret_cast<const std::byte*>(batch.data), bytes});
    repeat.inputs = upload_;
    repeat.target = storage_of(*batch.inputs);
  }
  repeat.result = {storage_of(*batch.result), static_cast<std::uint64_t>(batch.result_offset) * 4,
                   4};
  repeat.results = storage_of(*batch.results);
  gpu_.submit(*own->all, repeat);
  counters_.dispatches += static_cast<std::int64_t>(own->all->size()) * batch.count;
  ++counters_.submits;
}

std::vector<double> WebGpuBackend::profile(Program& program) {
  auto* own = dynamic_cast<WebGpuProgram*>(&program);
  if (own == nullptr) throw InternalError("webgpu: a program of another backend");
  const std::lock_guard lock(mutex_);
  flush();
  std::vector<double> seconds = gpu_.profile(*own->all);
  for (double& s : seconds) s *= 1e-9;
  counters_.dispatches += static_cast<std::int64_t>(seconds.size());
  return seconds;
}

/// Submits the run that is held back.
void WebGpuBackend::flush() {
  if (held_ == nullptr) return;
  const std::shared_ptr<const Commands> commands = std::exchange(held_, nullptr);
  gpu_.submit(*commands);
  counters_.dispatches += static_cast<std::int64_t>(commands->size());
  ++counters_.submits;
}

// ---- reading

/// A read under way: several pieces, one completion.
struct WebGpuBackend::Reading {
  Completion done;
  int pieces = 0;  // that are not there yet
  std::string failure;
};

void WebGpuBackend::start_read(std::span<const ReadRange> ranges, ReadCallback callback) {
  const std::shared_ptr<const Commands> commands = std::exchange(held_, nullptr);
  const std::span<const Dispatch> run =
      commands ? std::span(*commands) : std::span<const Dispatch>();
  gpu_.submit(run, ranges, std::move(callback));
  counters_.dispatches += static_cast<std::int64_t>(run.size());
  ++counters_.submits;
}

void WebGpuBackend::read(const std::vector<ReadRequest>& requests, Completion done) {
  // Pieces of moderate size, so that a download of everything does not take as much again.
  struct Piece {
    std::vector<ReadRange> ranges;
    std::vector<std::byte*> targets;
    std::uint64_t bytes = 0;
  };
  std::vector<Piece> pieces;
  for (const ReadRequest& request : requests) {
    const Buffer& source = storage_of(*request.buffer);
    const std::uint64_t end = static_cast<std::uint64_t>(request.count) * 4;
    for (std::uint64_t at = 0; at < end;) {
      if (pieces.empty() || pieces.back().bytes >= kReadPiece) pieces.emplace_back();
      Piece& piece = pieces.back();
      const std::uint64_t bytes = std::min(end - at, kReadPiece - piece.bytes);
      piece.ranges.push_back({source, static_cast<std::uint64_t>(request.offset) * 4 + at, bytes});
      piece.targets.push_back(static_cast<std::byte*>(request.words) + at);
      piece.bytes += bytes;
      at += bytes;
    }
  }
  if (pieces.empty()) return done(nullptr);

  auto owned = std::make_unique<Reading>();
  Reading* const reading = owned.get();
  reading->done = done;
  reading->pieces = static_cast<int>(pieces.size());
  // The read belongs to whoever finds it complete, which may be a callback before this call ends.
  const auto finish = [this, reading] {
    if (reading->pieces == 0) ready_.push_back(std::unique_ptr<Reading>(reading));
  };
  owned.release();
  ++reading_;
  {
    const std::lock_guard lock(mutex_);
    std::size_t accepted = 0;
    try {
      for (Piece& piece : pieces) {
        std::vector<std::uint64_t> sizes;
        for (const ReadRange& range : piece.ranges) sizes.push_back(range.bytes);
        start_read(piece.ranges, [this, reading, finish, sizes,
                                  targets = piece.targets](const ReadResult& result) {
          const std::lock_guard ready_lock(ready_mutex_);
          std::size_t at = 0;
          for (std::size_t i = 0; i < sizes.size() && result.ok(); ++i) {
            std::memcpy(targets[i], result.bytes.data() + at, sizes[i]);
            at += sizes[i];
          }
          if (!result.ok()) reading->failure = result.failure;
          --reading->pieces;
          finish();
        });
        ++accepted;
      }
    } catch (const std::exception& error) {
      const std::lock_guard ready_lock(ready_mutex_);
      if (accepted == 0) {  // nothing refers to the read yet
        delete reading;
        --reading_;
        throw;
      }
      reading->failure = error.what();
      reading->pieces -= static_cast<int>(pieces.size() - accepted);
      finish();
    }
  }
  deliver();
}

/// Calls the completions that are due, outside of all locks. Whether there were any.
bool WebGpuBackend::deliver() {
  bool any = false;
  for (;;) {
    std::unique_ptr<Reading> reading;
    std::exception_ptr error;
    {
      const std::lock_guard lock(ready_mutex_);
      if (ready_.empty()) return any;
      reading = std::move(ready_.front());
      ready_.pop_front();
      error = std::exchange(late_error_, nullptr);
    }
    if (!reading->failure.empty()) error = std::make_exception_ptr(DeviceError(reading->failure));
    any = true;
    --reading_;
    reading->done(error);
  }
}

void WebGpuBackend::poll() {
  try {
    {
      const std::lock_guard lock(mutex_);
      flush();
    }
    gpu_.poll();
  } catch (const Error&) {
    if (reading_ == 0) throw;
    // Whoever waits for a read learns of it there; throwing here would leave the read behind.
    const std::lock_guard lock(ready_mutex_);
    late_error_ = std::current_exception();
  }
  // Who polls while a read is under way waits for it: soon politely, so that the work itself, which
  // may be running on this very processor, gets on.
  thread_local Backoff backoff(Backoff::Manner::Quick);
  if (deliver() || reading_ == 0) {
    backoff = Backoff(Backoff::Manner::Quick);
  } else {
    backoff.pause();
  }
}

DeviceCounters WebGpuBackend::counters() const {
  const std::lock_guard lock(mutex_);
  const_cast<WebGpuBackend*>(this)->flush();
  return counters_;
}

}  // namespace tensorgrad::webgpu

namespace tensorgrad {

std::shared_ptr<Backend> open_webgpu() {
  static std::mutex mutex;
  static std::weak_ptr<webgpu::WebGpuBackend> shared;
  const std::lock_guard lock(mutex);
  if (auto backend = shared.lock(); backend != nullptr && !backend->is_lost()) return backend;
  webgpu::GpuOptions options;
  options.cache_folder = webgpu::default_cache_folder();
  auto backend = std::make_shared<webgpu::WebGpuBackend>(webgpu::Gpu::open(options));
  shared = backend;
  return backend;
}

}  // namespace tensorgrad
