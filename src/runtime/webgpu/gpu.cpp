#include "runtime/webgpu/gpu.hpp"

#include <algorithm>
#include <utility>

#include "runtime/webgpu/context.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::webgpu {
namespace {

constexpr std::size_t kMostReadsUnderWay = 64;
constexpr std::uint64_t kWritePiece = 64u << 20;

[[noreturn]] void misuse(const std::string& what) { throw InternalError("webgpu: " + what + "."); }

/// Every range of a buffer that a caller names goes through here.
void check_range(const char* what, const Context& context, const BufferState* buffer,
                 std::uint64_t offset, std::uint64_t bytes) {
  if (buffer == nullptr) misuse(std::string(what) + ": no buffer");
  if (buffer->context.get() != &context) misuse(std::string(what) + ": a buffer of another device");
  if (offset % 4 != 0 || bytes % 4 != 0 || offset > buffer->bytes ||
      bytes > buffer->bytes - offset) {
    misuse(std::string(what) + ": " + std::to_string(bytes) + " bytes at offset " +
           std::to_string(offset) + " of a buffer of " + std::to_string(buffer->bytes) +
           " bytes; both must be multiples of 4 and inside");
  }
}

void check_dispatch(const Context& context, const PipelineState* pipeline,
                    const BindGroupState* group, const Dispatch& dispatch) {
  if (pipeline == nullptr || group == nullptr) misuse("a dispatch without pipeline or bind group");
  if (pipeline->context.get() != &context || group->context.get() != &context) {
    misuse("the dispatch of \"" + pipeline->label + "\" belongs to another device");
  }
  if (pipeline->layout != group->layout) {
    misuse("the bind group of \"" + pipeline->label + "\" was made for other bindings");
  }
  const std::uint32_t most = context.limits.workgroups_per_dimension;
  if (dispatch.x > most || dispatch.y > most || dispatch.z > most) {
    throw DeviceError("webgpu: the kernel \"" + pipeline->label + "\" asks for " +
                      std::to_string(dispatch.x) + " x " + std::to_string(dispatch.y) + " x " +
                      std::to_string(dispatch.z) + " workgroups; the device allows " +
                      std::to_string(most) + " in a dimension.");
  }
}

}  // namespace

// --- Handles -------------------------------------------------------------------------------------

std::uint64_t Buffer::bytes() const { return state_ == nullptr ? 0 : state_->bytes; }

const std::string& Pipeline::label() const {
  static const std::string none;
  return state_ == nullptr ? none : state_->label;
}

const AdapterInfo& Gpu::adapter() const { return context_->info; }
const GpuLimits& Gpu::limits() const { return context_->limits; }
const GpuFeatures& Gpu::features() const { return context_->features; }
bool Gpu::checked() const { return context_->checked; }

GpuCounters Gpu::counters() const {
  const std::lock_guard lock(context_->mutex);
  GpuCounters counters = context_->counters;
  if (context_->cache != nullptr) counters.disk_cache_hits = context_->cache->hits();
  return counters;
}

// --- Buffers -------------------------------------------------------------------------------------

Buffer Gpu::create_buffer(std::uint64_t bytes, BufferKind kind, const std::string& label) {
  if (bytes == 0 || bytes % 4 != 0) {
    misuse("a buffer of " + std::to_string(bytes) + " bytes; a positive multiple of 4 is needed");
  }
  const std::lock_guard lock(context_->mutex);
  context_->reports.check();
  std::uint64_t usage = dawn::usage::kStorage | dawn::usage::kCopySource | dawn::usage::kCopyTarget;
  if (kind == BufferKind::Uniform) usage |= dawn::usage::kUniform;
  const dawn::Buffer handle = context_->create_buffer(bytes, usage, label);
  ++context_->counters.buffers_created;
  ++context_->counters.buffers_alive;
  context_->counters.buffer_bytes_created += bytes;
  context_->counters.buffer_bytes_alive += bytes;
  Buffer buffer;
  buffer.state_ = std::make_shared<BufferState>(context_, handle, bytes);
  return buffer;
}

void Gpu::write(const Buffer& target, std::uint64_t offset, std::span<const std::byte> data) {
  check_range("write", *context_, target.state_.get(), offset, data.size());
  const std::lock_guard lock(context_->mutex);
  context_->reports.check();
  for (std::size_t at = 0; at < data.size();) {  // in pieces, for the sake of Dawn's staging memory
    const std::size_t piece = std::min<std::size_t>(data.size() - at, kWritePiece);
    context_->api.queue_write_buffer(context_->queue, target.state_->handle, offset + at,
                                     data.data() + at, piece);
    at += piece;
  }
}

void Gpu::copy(const Buffer& source, std::uint64_t source_offset, const Buffer& target,
               std::uint64_t target_offset, std::uint64_t bytes) {
  check_range("copy from", *context_, source.state_.get(), source_offset, bytes);
  check_range("copy to", *context_, target.state_.get(), target_offset, bytes);
  if (source.state_ == target.state_) misuse("copy: source and target are one buffer");
  encode([&](dawn::CommandEncoder encoder) {
    context_->api.command_encoder_copy_buffer(encoder, source.state_->handle, source_offset,
                                              target.state_->handle, target_offset, bytes);
  });
}

void Gpu::clear(const Buffer& target, std::uint64_t offset, std::uint64_t bytes) {
  check_range("clear", *context_, target.state_.get(), offset, bytes);
  if (bytes == 0) bytes = target.bytes() - offset;
  encode([&](dawn::CommandEncoder encoder) {
    context_->api.command_encoder_clear_buffer(encoder, target.state_->handle, offset, bytes);
  });
}

// --- Shaders -------------------------------------------------------------------------------------

std::vector<Pipeline> Gpu::compile(std::span<const ShaderSource> sources) {
  auto states = compile_pipelines(context_, sources);
  std::vector<Pipeline> pipelines(states.size());
  for (std::size_t i = 0; i < states.size(); ++i) pipelines[i].state_ = std::move(states[i]);
  return pipelines;
}

Pipeline Gpu::compile(const ShaderSource& source) {
  return std::move(compile(std::span(&source, 1)).front());
}

BindGroup Gpu::bind(const Pipeline& pipeline, std::span<const Binding> bindings) {
  const PipelineState* state = pipeline.state_.get();
  if (state == nullptr) misuse("bind: no pipeline");
  const std::string& label = state->label;
  if (bindings.size() != state->bindings.size()) {
    misuse("the kernel \"" + label + "\" has " + std::to_string(state->bindings.size()) +
           " bindings, given are " + std::to_string(bindings.size()));
  }
  const GpuLimits& limits = context_->limits;
  std::vector<dawn::BindGroupEntry> entries(bindings.size());
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    const Binding& binding = bindings[i];
    const BufferState* buffer = binding.buffer.state_.get();
    check_range("bind", *context_, buffer, binding.offset, binding.bytes);
    const std::uint64_t bytes = binding.bytes == 0 ? buffer->bytes - binding.offset : binding.bytes;
    const bool uniform = state->bindings[i] == Access::Uniform;
    const std::uint64_t alignment =
        uniform ? limits.uniform_offset_alignment : limits.storage_offset_alignment;
    const std::uint64_t most =
        uniform ? limits.uniform_binding_bytes : limits.storage_binding_bytes;
    if (bytes == 0 || binding.offset % alignment != 0) {
      misuse("binding " + std::to_string(i) + " of \"" + label + "\": " + std::to_string(bytes) +
             " bytes at offset " + std::to_string(binding.offset) +
             ", which must be a multiple of " + std::to_string(alignment));
    }
    if (bytes > most) {
      throw DeviceError("webgpu: binding " + std::to_string(i) + " of \"" + label + "\" has " +
                        std::to_string(bytes) + " bytes; the device allows " +
                        std::to_string(most) + ".");
    }
    for (std::size_t j = 0; j < i; ++j) {
      const bool same_buffer = bindings[j].buffer.state_ == binding.buffer.state_;
      if (same_buffer &&
          (state->bindings[j] == Access::ReadWrite) != (state->bindings[i] == Access::ReadWrite)) {
        misuse("bindings " + std::to_string(j) + " and " + std::to_string(i) + " of \"" + label +
               "\" are one buffer, read-only and writable");
      }
    }
    entries[i].binding = static_cast<std::uint32_t>(i);
    entries[i].buffer = buffer->handle;
    entries[i].offset = binding.offset;
    entries[i].bytes = bytes;
  }

  const std::lock_guard lock(context_->mutex);
  context_->reports.check();
  dawn::BindGroupDescriptor descriptor;
  descriptor.label = std::string_view(label);
  descriptor.layout = state->layout;
  descriptor.entry_count = entries.size();
  descriptor.entries = entries.data();
  BindGroup group;
  group.state_ = std::make_shared<BindGroupState>(
      context_, context_->api.device_create_bind_group(context_->device, &descriptor),
      state->layout);
  for (const Binding& binding : bindings) group.state_->buffers.push_back(binding.buffer.state_);
  context_->reports.check();
  return group;
}

// --- Running -------------------------------------------------------------------------------------

template <class Body>
void Gpu::encode(Body body) {
  Context& context = *context_;
  const std::lock_guard lock(context.mutex);
  context.reports.check();
  const dawn::CommandEncoder encoder =
      context.api.device_create_command_encoder(context.device, nullptr);
  body(encoder);
  const dawn::CommandBuffer commands = context.api.command_encoder_finish(encoder, nullptr);
  context.api.queue_submit(context.queue, 1, &commands);
  context.api.command_buffer_release(commands);
  context.api.command_encoder_release(encoder);
  ++context.counters.submits;
  context.reports.check();  // what validation refuses, it refuses here
}

void Gpu::encode_pass(dawn::CommandEncoder encoder, std::span<const Dispatch> commands,
                      const dawn::ComputePassDescriptor* descriptor) {
  const DawnFunctions& api = context_->api;
  const dawn::ComputePass pass = api.command_encoder_begin_compute_pass(encoder, descriptor);
  const PipelineState* current = nullptr;
  for (const Dispatch& dispatch : commands) {
    if (dispatch.pipeline.state_.get() != current) {
      current = dispatch.pipeline.state_.get();
      api.compute_pass_set_pipeline(pass, current->handle);
    }
    api.compute_pass_set_bind_group(pass, 0, dispatch.bind_group.state_->handle, 0, nullptr);
    api.compute_pass_dispatch(pass, dispatch.x, dispatch.y, dispatch.z);
  }
  api.compute_pass_end(pass);
  api.compute_pass_release(pass);
  context_->counters.dispatches += commands.size();
}

void Gpu::submit(std::span<const Dispatch> commands) {
  for (const Dispatch& dispatch : commands) {
    check_dispatch(*context_, dispatch.pipeline.state_.get(), dispatch.bind_group.state_.get(),
                   dispatch);
  }
  if (commands.empty()) return;
  encode([&](dawn::CommandEncoder encoder) { encode_pass(encoder, commands); });
}

Ticket Gpu::submit(std::span<const Dispatch> commands, std::span<const ReadRange> ranges,
                   ReadCallback callback) {
  for (const Dispatch& dispatch : commands) {
    check_dispatch(*context_, dispatch.pipeline.state_.get(), dispatch.bind_group.state_.get(),
                   dispatch);
  }
  std::uint64_t bytes = 0;
  for (const ReadRange& range : ranges) {
    check_range("read", *context_, range.buffer.state_.get(), range.offset, range.bytes);
    bytes += range.bytes;
  }
  if (bytes == 0) misuse("a read of nothing");

  Context& context = *context_;
  if (reads_under_way() >= kMostReadsUnderWay) {
    context.wait_until([&] { return context.reads_under_way < kMostReadsUnderWay; });
  }
  const std::lock_guard lock(context.mutex);
  context.reports.check();
  StagingSlot& slot = context.acquire_slot(bytes);
  encode([&](dawn::CommandEncoder encoder) {
    if (!commands.empty()) encode_pass(encoder, commands);
    std::uint64_t at = 0;
    for (const ReadRange& range : ranges) {
      context.api.command_encoder_copy_buffer(encoder, range.buffer.state_->handle, range.offset,
                                              slot.buffer, at, range.bytes);
      at += range.bytes;
    }
  });
  return context.start_read(slot, bytes, std::move(callback));
}

void Gpu::submit(std::span<const Dispatch> commands, const Repeat& repeat) {
  for (const Dispatch& dispatch : commands) {
    check_dispatch(*context_, dispatch.pipeline.state_.get(), dispatch.bind_group.state_.get(),
                   dispatch);
  }
  const ReadRange& from = repeat.result;
  const std::uint64_t part = repeat.target ? repeat.target.bytes() : 0;
  if (part > 0)
    check_range("copy from", *context_, repeat.inputs.state_.get(), 0, part * repeat.count);
  check_range("copy from", *context_, from.buffer.state_.get(), from.offset, from.bytes);
  check_range("copy to", *context_, repeat.results.state_.get(), 0, from.bytes * repeat.count);
  encode([&](dawn::CommandEncoder encoder) {
    for (std::uint64_t i = 0; i < repeat.count; ++i) {
      if (part > 0) {
        context_->api.command_encoder_copy_buffer(encoder, repeat.inputs.state_->handle, i * part,
                                                  repeat.target.state_->handle, 0, part);
      }
      encode_pass(encoder, commands);
      context_->api.command_encoder_copy_buffer(encoder, from.buffer.state_->handle, from.offset,
                                                repeat.results.state_->handle, i * from.bytes,
                                                from.bytes);
    }
  });
}

void Gpu::read(const Buffer& source, std::uint64_t offset, std::span<std::byte> into) {
  check_range("read", *context_, source.state_.get(), offset, into.size());
  Ticket before_last = 0;
  Ticket last = 0;
  // The callbacks point into `into`, so this function ends only after the last of them.
  try {
    for (std::uint64_t at = 0; at < into.size(); at += kReadPiece) {
      const std::span<std::byte> piece =
          into.subspan(at, std::min<std::uint64_t>(kReadPiece, into.size() - at));
      const ReadRange range{source, offset + at, piece.size()};
      const Ticket next = submit({}, {&range, 1}, [piece](const ReadResult& result) {
        std::copy(result.bytes.begin(), result.bytes.end(), piece.begin());
      });
      before_last = std::exchange(last, next);
      if (before_last != 0) wait(before_last);
    }
  } catch (...) {
    context_->wait_until([&] { return context_->last_delivered >= last; });
    throw;
  }
  if (last != 0) wait(last);
}

// --- Waiting -------------------------------------------------------------------------------------

std::size_t Gpu::reads_under_way() const {
  const std::lock_guard lock(context_->mutex);
  return context_->reads_under_way;
}

void Gpu::poll() {
  const std::lock_guard lock(context_->mutex);
  context_->process();
  context_->reports.check();
}

bool Gpu::done(Ticket ticket) {
  const std::lock_guard lock(context_->mutex);
  if (context_->last_delivered < ticket) context_->process();
  context_->reports.check();
  return context_->last_delivered >= ticket;
}

void Gpu::wait(Ticket ticket) {
  {
    const std::lock_guard lock(context_->mutex);
    if (ticket > context_->last_ticket) misuse("wait: there is no such read");
  }
  context_->wait_until([&] { return context_->last_delivered >= ticket; });
  context_->reports.check();
}

void Gpu::wait_idle() {
  Context& context = *context_;
  std::uint64_t question = 0;
  {
    const std::lock_guard lock(context.mutex);
    context.reports.check();
    question = ++context.idle_asked;
    dawn::CallbackInfo<dawn::WorkDoneCallback> callback;
    callback.callback = [](dawn::RequestStatus, dawn::StringView, void* user, void*) {
      ++static_cast<Context*>(user)->idle_answered;
    };
    callback.user1 = &context;
    context.api.queue_on_submitted_work_done(context.queue, callback);
  }
  context.wait_until([&] { return context.idle_answered >= question; });
  context.reports.check();
}

// --- Measuring and testing -----------------------------------------------------------------------

std::vector<double> Gpu::profile(std::span<const Dispatch> commands) {
  Context& context = *context_;
  const DawnFunctions& api = context.api;
  if (!context.features.timestamp_query) {
    throw DeviceError("webgpu: \"" + context.info.name + "\" has no timestamps to measure with.");
  }
  constexpr std::size_t kMostAtOnce = 2048;  // a query set holds 4096 timestamps
  std::vector<double> nanoseconds;
  while (!commands.empty()) {
    const std::span<const Dispatch> part = commands.first(std::min(commands.size(), kMostAtOnce));
    commands = commands.subspan(part.size());
    for (const Dispatch& dispatch : part) {
      check_dispatch(context, dispatch.pipeline.state_.get(), dispatch.bind_group.state_.get(),
                     dispatch);
    }
    const auto count = static_cast<std::uint32_t>(2 * part.size());
    const std::lock_guard lock(context.mutex);
    context.reports.check();
    dawn::QuerySetDescriptor descriptor;
    descriptor.type = dawn::QueryType::Timestamp;
    descriptor.count = count;
    const dawn::QuerySet queries = api.device_create_query_set(context.device, &descriptor);
    const dawn::Buffer resolved = context.create_buffer(
        count * 8u, dawn::usage::kQueryResolve | dawn::usage::kCopySource, "timestamps");
    StagingSlot& slot = context.acquire_slot(count * 8u);
    encode([&](dawn::CommandEncoder encoder) {
      for (std::uint32_t i = 0; i < part.size(); ++i) {
        dawn::TimestampWrites writes;
        writes.query_set = queries;
        writes.begin_index = 2 * i;
        writes.end_index = 2 * i + 1;
        dawn::ComputePassDescriptor pass_descriptor;
        pass_descriptor.timestamps = &writes;
        encode_pass(encoder, part.subspan(i, 1), &pass_descriptor);
      }
      api.command_encoder_resolve_query_set(encoder, queries, 0, count, resolved, 0);
      api.command_encoder_copy_buffer(encoder, resolved, 0, slot.buffer, 0, count * 8u);
    });
    api.query_set_release(queries);
    api.buffer_release(resolved);
    wait(context.start_read(slot, count * 8u, [&nanoseconds](const ReadResult& result) {
      for (std::size_t at = 0; at + 16 <= result.bytes.size(); at += 16) {
        std::uint64_t times[2];
        std::copy_n(result.bytes.begin() + static_cast<std::ptrdiff_t>(at), 16,
                    reinterpret_cast<std::byte*>(times));
        nanoseconds.push_back(times[1] > times[0] ? static_cast<double>(times[1] - times[0]) : 0.0);
      }
    }));
  }
  return nanoseconds;
}

void Gpu::simulate_loss() {
  const std::lock_guard lock(context_->mutex);
  context_->api.device_destroy(context_->device);
  context_->process();
}

}  // namespace tensorgrad::webgpu
