// What stands behind a `Gpu` and its handles: Dawn's objects of one device, what Dawn has reported,
// and the staging buffers of reads. Internal to this folder.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/webgpu/dawn_library.hpp"
#include "runtime/webgpu/disk_cache.hpp"
#include "runtime/webgpu/gpu.hpp"

namespace tensorgrad::webgpu {

/// A message of Dawn's without its last full stop and without the lines that name Dawn's own
/// source.
std::string tidy(std::string_view text);

/// What Dawn says outside of any call's result, possibly from its own threads.
class Reports {
 public:
  void log(std::string_view text);
  void error(std::string_view text);
  void lost(std::string_view text);

  bool is_lost() const { return is_lost_.load(std::memory_order_acquire); }
  std::string loss() const;
  std::string logged() const;
  /// Throws what was reported: an error once, a loss every time.
  void check();

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> anything_{false};
  std::atomic<bool> is_lost_{false};
  std::string log_;
  std::string error_;
  std::string loss_;
};

/// One staging buffer. Free ones are reused; those with a read under way form a queue, because each
/// belongs to exactly one read and reads complete in order.
struct StagingSlot {
  enum class State { Free, Mapping, Mapped, Failed };

  dawn::Buffer buffer = nullptr;
  std::uint64_t capacity = 0;
  State state = State::Free;
  std::uint64_t bytes = 0;  // of the read under way
  Ticket ticket = 0;
  std::string failure;
  ReadCallback callback;
  StagingSlot* next = nullptr;
};

/// Polling that is quick to notice and soon polite: it spins, then yields, then sleeps. A patient
/// one sleeps from the start: it waits for work that needs the cores.
class Backoff {
 public:
  enum class Manner { Quick, Patient };
  explicit Backoff(Manner manner) : rounds_(manner == Manner::Quick ? 0 : kSleepFrom) {}
  void pause();

 private:
  static constexpr unsigned kYieldFrom = 20;
  static constexpr unsigned kSleepFrom = 400;
  unsigned rounds_;
};

struct Layout {
  dawn::BindGroupLayout bind_group = nullptr;
  dawn::PipelineLayout pipeline = nullptr;
};

struct Context {
  explicit Context(const DawnLibrary& loaded);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // All of these hold the mutex, or are called with it held.
  void process();
  void deliver();
  /// A buffer of Dawn's, or a DeviceError that names the bytes.
  dawn::Buffer create_buffer(std::uint64_t bytes, std::uint64_t usage, const std::string& label);
  StagingSlot& acquire_slot(std::uint64_t bytes);
  Ticket start_read(StagingSlot& slot, std::uint64_t bytes, ReadCallback callback);
  const Layout& layout_for(const std::vector<Access>& bindings);

  /// Handles events until `done()`, which runs with the mutex held. The mutex is free between polls
  /// (unless the caller holds it). After a loss `done` must become true by what `deliver` and
  /// Dawn's callbacks do; a few rounds later the wait ends anyway.
  template <class Done>
  void wait_until(Done done, Backoff::Manner manner = Backoff::Manner::Quick);

  const DawnLibrary& library;
  const DawnFunctions& api;
  Reports reports;
  std::unique_ptr<DiskCache> cache;

  dawn::Instance instance = nullptr;
  dawn::Adapter adapter = nullptr;
  dawn::Device device = nullptr;
  dawn::Queue queue = nullptr;

  AdapterInfo info;
  GpuLimits limits;
  GpuFeatures features;
  bool checked = false;

  std::recursive_mutex mutex;  // recursive: read callbacks may call the Gpu and drop handles
  GpuCounters counters;
  std::unordered_map<std::string, std::weak_ptr<PipelineState>> pipelines;  // by source
  std::map<std::vector<Access>, Layout> layouts;

  std::vector<std::unique_ptr<StagingSlot>> slots;
  StagingSlot* oldest_read = nullptr;
  StagingSlot* newest_read = nullptr;
  std::size_t reads_under_way = 0;
  Ticket last_ticket = 0;
  Ticket last_delivered = 0;
  std::uint64_t idle_asked = 0;  // wait_idle: questions asked and answered, in order
  std::uint64_t idle_answered = 0;
};

struct BufferState {
  BufferState(std::shared_ptr<Context> owner, dawn::Buffer buffer, std::uint64_t size);
  ~BufferState();
  BufferState(const BufferState&) = delete;
  BufferState& operator=(const BufferState&) = delete;

  std::shared_ptr<Context> context;
  dawn::Buffer handle;
  std::uint64_t bytes;
};

struct PipelineState {
  PipelineState(std::shared_ptr<Context> owner, dawn::ComputePipeline pipeline,
                const ShaderSource& source, dawn::BindGroupLayout bind_group_layout);
  ~PipelineState();
  PipelineState(const PipelineState&) = delete;
  PipelineState& operator=(const PipelineState&) = delete;

  std::shared_ptr<Context> context;
  dawn::ComputePipeline handle;
  std::string label;
  std::vector<Access> bindings;
  dawn::BindGroupLayout layout;  // the context's
};

struct BindGroupState {
  BindGroupState(std::shared_ptr<Context> owner, dawn::BindGroup group,
                 dawn::BindGroupLayout bind_group_layout);
  ~BindGroupState();
  BindGroupState(const BindGroupState&) = delete;
  BindGroupState& operator=(const BindGroupState&) = delete;

  std::shared_ptr<Context> context;
  dawn::BindGroup handle;
  dawn::BindGroupLayout layout;  // the context's
  std::vector<std::shared_ptr<BufferState>> buffers;
};

/// Compiles sources on a context; the whole of compile.cpp.
std::vector<std::shared_ptr<PipelineState>> compile_pipelines(
    const std::shared_ptr<Context>& context, std::span<const ShaderSource> sources);

template <class Done>
void Context::wait_until(Done done, Backoff::Manner manner) {
  Backoff backoff(manner);
  for (unsigned rounds_after_loss = 0; rounds_after_loss < 100;) {
    {
      const std::lock_guard lock(mutex);
      process();
      if (done()) return;
    }
    if (reports.is_lost()) ++rounds_after_loss;
    backoff.pause();
  }
}

/// The result of one asynchronous call. Dawn's callback owns a reference of its own, so a caller
/// that gives up (a lost device) leaves nothing dangling.
template <class Value>
struct Pending {
  bool done = false;
  Value value{};

  static void* share(const std::shared_ptr<Pending>& pending) {
    return new std::shared_ptr<Pending>(pending);
  }
  static void finish(void* shared, Value value) {
    const std::unique_ptr<std::shared_ptr<Pending>> pending(
        static_cast<std::shared_ptr<Pending>*>(shared));
    (*pending)->value = std::move(value);
    (*pending)->done = true;
  }
};

}  // namespace tensorgrad::webgpu
