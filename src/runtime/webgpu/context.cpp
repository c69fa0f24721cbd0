#include "runtime/webgpu/context.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <thread>
#include <utility>

#include "tensorgrad/error.hpp"

namespace tensorgrad::webgpu {
namespace {

constexpr std::uint64_t kSmallestSlot = 4096;
constexpr std::uint64_t kLargestKeptSlot = 64u << 20;  // larger staging buffers are not kept

}  // namespace

std::string tidy(std::string_view text) {
  text = text.substr(0, text.find("\n    at "));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '.')) {
    text.remove_suffix(1);
  }
  return std::string(text);
}

// --- Reports -------------------------------------------------------------------------------------

void Reports::log(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (log_.size() > 2000) return;  // the first lines say what is wrong
  if (!log_.empty()) log_ += "; ";
  log_ += tidy(text);
}

void Reports::error(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (error_.empty()) error_ = tidy(text);  // the first is the cause
  anything_.store(true, std::memory_order_release);
}

void Reports::lost(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (loss_.empty()) loss_ = text.empty() ? "no reason given" : tidy(text);
  is_lost_.store(true, std::memory_order_release);
  anything_.store(true, std::memory_order_release);
}

std::string Reports::loss() const {
  const std::lock_guard lock(mutex_);
  return "webgpu: the device was lost: " + loss_ +
         ". What was compiled for it is gone; Device::webgpu() opens another.";
}

std::string Reports::logged() const {
  const std::lock_guard lock(mutex_);
  return log_;
}

void Reports::check() {
  if (!anything_.load(std::memory_order_acquire)) return;
  if (is_lost()) throw DeviceError(loss());
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    text = std::exchange(error_, {});
    anything_.store(is_lost(), std::memory_order_release);
  }
  if (!text.empty()) throw DeviceError("webgpu: " + text + ".");
}

// --- Context -------------------------------------------------------------------------------------

Context::Context(const DawnLibrary& loaded) : library(loaded), api(loaded.functions) {
  dawn::InstanceExtras extras;
  extras.log = [](std::uint32_t, dawn::StringView text, void* user, void*) {
    static_cast<Reports*>(user)->log(text.view());
  };
  extras.log_user1 = &reports;
  dawn::InstanceDescriptor descriptor;
  descriptor.next = reinterpret_cast<dawn::Chain*>(&extras);
  instance = api.create_instance(&descriptor);
  if (instance == nullptr) throw DeviceError("webgpu: Dawn could not be started.");
}

Context::~Context() {
  while (oldest_read != nullptr) {
    StagingSlot& slot = *std::exchange(oldest_read, oldest_read->next);
    const ReadCallback callback = std::move(slot.callback);
    if (callback) callback({{}, "webgpu: the device was closed before the read was done."});
  }
  for (const auto& slot : slots) api.buffer_release(slot->buffer);
  for (const auto& [bindings, layout] : layouts) {
    api.pipeline_layout_release(layout.pipeline);
    api.bind_group_layout_release(layout.bind_group);
  }
  if (queue != nullptr) api.queue_release(queue);
  if (device != nullptr) {
    api.device_destroy(device);
    api.device_release(device);
  }
  if (adapter != nullptr) api.adapter_release(adapter);
  // Calls back whatever is still outstanding; slots and reports live until after it.
  if (instance != nullptr) api.instance_release(instance);
}

void Context::process() {
  api.instance_process_events(instance);
  deliver();
}

void Context::deliver() {
  while (oldest_read != nullptr) {
    StagingSlot& slot = *oldest_read;
    const bool lost = reports.is_lost();
    if (slot.state == StagingSlot::State::Mapping && !lost) return;

    ReadResult result;
    if (slot.state == StagingSlot::State::Mapped) {
      if (const void* data = api.buffer_get_const_mapped_range(slot.buffer, 0, slot.bytes)) {
        result.bytes = {static_cast<const std::byte*>(data), slot.bytes};
      }
    }
    if (result.bytes.empty()) {
      result.failure = lost ? reports.loss() : "webgpu: a read failed: " + slot.failure + ".";
      if (!lost) reports.error("a read failed: " + slot.failure);
    }

    // Off the queue first: the callback may call back into this Gpu.
    oldest_read = slot.next;
    if (oldest_read == nullptr) newest_read = nullptr;
    slot.next = nullptr;
    --reads_under_way;
    last_delivered = slot.ticket;
    const ReadCallback callback = std::move(slot.callback);
    slot.callback = nullptr;
    if (callback) callback(result);

    if (slot.state != StagingSlot::State::Mapped) continue;  // lost or broken: never used again
    api.buffer_unmap(slot.buffer);
    slot.state = StagingSlot::State::Free;
    if (slot.capacity > kLargestKeptSlot) {
      api.buffer_release(slot.buffer);
      counters.staging_bytes -= slot.capacity;
      std::erase_if(slots, [&](const auto& kept) { return kept.get() == &slot; });
    }
  }
}

dawn::Buffer Context::create_buffer(std::uint64_t bytes, std::uint64_t usage,
                                    const std::string& label) {
  const std::string what =
      "a buffer of " + std::to_string(bytes) + " bytes" + (label.empty() ? "" : " for " + label);
  if (bytes > limits.buffer_bytes) {
    throw DeviceError("webgpu: out of memory: " + what + " is larger than the " +
                      std::to_string(limits.buffer_bytes) + " bytes that \"" + info.name +
                      "\" allows in one buffer.");
  }
  struct Outcome {
    dawn::ErrorType type = dawn::ErrorType::None;
    std::string message;
  };
  constexpr dawn::ErrorFilter kFilters[] = {
      dawn::ErrorFilter::Validation, dawn::ErrorFilter::Internal, dawn::ErrorFilter::OutOfMemory};
  for (const dawn::ErrorFilter filter : kFilters) api.device_push_error_scope(device, filter);
  dawn::BufferDescriptor descriptor;
  descriptor.label = std::string_view(label);
  descriptor.usage = usage;
  descriptor.size = bytes;
  const dawn::Buffer buffer = api.device_create_buffer(device, &descriptor);

  Outcome outcome;
  for (std::size_t scope = 0; scope < std::size(kFilters); ++scope) {
    const auto pending = std::make_shared<Pending<Outcome>>();
    dawn::CallbackInfo<dawn::ErrorScopeCallback> callback;
    callback.callback = [](dawn::RequestStatus, dawn::ErrorType type, dawn::StringView message,
                           void* user, void*) {
      Pending<Outcome>::finish(user, {type, tidy(message.view())});
    };
    callback.user1 = Pending<Outcome>::share(pending);
    api.device_pop_error_scope(device, callback);
    wait_until([&] { return pending->done; });
    if (pending->done && pending->value.type != dawn::ErrorType::None &&
        outcome.type == dawn::ErrorType::None) {
      outcome = pending->value;
    }
  }
  if (buffer != nullptr && outcome.type == dawn::ErrorType::None && !reports.is_lost()) {
    return buffer;
  }
  if (buffer != nullptr) api.buffer_release(buffer);
  if (reports.is_lost()) throw DeviceError(reports.loss());
  if (outcome.type == dawn::ErrorType::OutOfMemory) {
    throw DeviceError("webgpu: out of memory: " + what + " cannot be had on \"" + info.name +
                      "\", which holds " + std::to_string(counters.buffer_bytes_alive) +
                      " bytes of ours already.");
  }
  throw DeviceError("webgpu: " + what + " cannot be made: " + outcome.message + ".");
}

StagingSlot& Context::acquire_slot(std::uint64_t bytes) {
  StagingSlot* best = nullptr;
  for (const auto& slot : slots) {
    if (slot->state != StagingSlot::State::Free || slot->capacity < bytes) continue;
    if (best == nullptr || slot->capacity < best->capacity) best = slot.get();
  }
  if (best != nullptr) return *best;

  auto slot = std::make_unique<StagingSlot>();
  slot->capacity = bytes > kLargestKeptSlot ? bytes : std::bit_ceil(std::max(bytes, kSmallestSlot));
  slot->buffer = create_buffer(slot->capacity, dawn::usage::kMapRead | dawn::usage::kCopyTarget,
                               "reading back");
  counters.staging_bytes += slot->capacity;
  return *slots.emplace_back(std::move(slot));
}

Ticket Context::start_read(StagingSlot& slot, std::uint64_t bytes, ReadCallback callback) {
  slot.state = StagingSlot::State::Mapping;
  slot.bytes = bytes;
  slot.ticket = ++last_ticket;
  slot.callback = std::move(callback);
  (newest_read == nullptr ? oldest_read : newest_read->next) = &slot;
  newest_read = &slot;
  ++reads_under_way;

  dawn::CallbackInfo<dawn::MapCallback> mapped;
  mapped.callback = [](dawn::MapStatus status, dawn::StringView message, void* user, void*) {
    StagingSlot& mapped_slot = *static_cast<StagingSlot*>(user);
    if (status == dawn::MapStatus::Success) {
      mapped_slot.state = StagingSlot::State::Mapped;
    } else {
      mapped_slot.state = StagingSlot::State::Failed;
      mapped_slot.failure = tidy(message.view());
    }
  };
  mapped.user1 = &slot;
  api.buffer_map_async(slot.buffer, dawn::kMapModeRead, 0, bytes, mapped);
  return slot.ticket;
}

const Layout& Context::layout_for(const std::vector<Access>& bindings) {
  if (const auto found = layouts.find(bindings); found != layouts.end()) return found->second;

  std::vector<dawn::BindGroupLayoutEntry> entries(bindings.size());
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    entries[i].binding = static_cast<std::uint32_t>(i);
    switch (bindings[i]) {
      case Access::Read:
        entries[i].buffer_type = dawn::BindingType::ReadOnlyStorage;
        break;
      case Access::ReadWrite:
        entries[i].buffer_type = dawn::BindingType::Storage;
        break;
      case Access::Uniform:
        entries[i].buffer_type = dawn::BindingType::Uniform;
        break;
    }
  }
  Layout layout;
  dawn::BindGroupLayoutDescriptor group;
  group.entry_count = entries.size();
  group.entries = entries.data();
  layout.bind_group = api.device_create_bind_group_layout(device, &group);
  dawn::PipelineLayoutDescriptor pipeline;
  pipeline.bind_group_layout_count = 1;
  pipeline.bind_group_layouts = &layout.bind_group;
  layout.pipeline = api.device_create_pipeline_layout(device, &pipeline);
  return layouts.emplace(bindings, layout).first->second;
}

// --- What the handles hold -----------------------------------------------------------------------

BufferState::BufferState(std::shared_ptr<Context> owner, dawn::Buffer buffer, std::uint64_t size)
    : context(std::move(owner)), handle(buffer), bytes(size) {}

BufferState::~BufferState() {
  // Released, not destroyed: work that was submitted may still use it.
  const std::lock_guard lock(context->mutex);
  context->api.buffer_release(handle);
  --context->counters.buffers_alive;
  context->counters.buffer_bytes_alive -= bytes;
}

PipelineState::PipelineState(std::shared_ptr<Context> owner, dawn::ComputePipeline pipeline,
                             const ShaderSource& source, dawn::BindGroupLayout bind_group_layout)
    : context(std::move(owner)),
      handle(pipeline),
      label(source.label),
      bindings(source.bindings),
      layout(bind_group_layout) {}

PipelineState::~PipelineState() {
  const std::lock_guard lock(context->mutex);
  context->api.compute_pipeline_release(handle);
}

BindGroupState::BindGroupState(std::shared_ptr<Context> owner, dawn::BindGroup group,
                               dawn::BindGroupLayout bind_group_layout)
    : context(std::move(owner)), handle(group), layout(bind_group_layout) {}

BindGroupState::~BindGroupState() {
  const std::lock_guard lock(context->mutex);
  context->api.bind_group_release(handle);
}

// --- Backoff -------------------------------------------------------------------------------------

void Backoff::pause() {
  ++rounds_;
  if (rounds_ < kYieldFrom) return;
  if (rounds_ < kSleepFrom) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(rounds_ < 5 * kSleepFrom ? 50 : 200));
}

}  // namespace tensorgrad::webgpu
