// The WebGPU backend: plans printed as WGSL and run through a Gpu.
//
// A run is held back until the next call, whichever it is: a read that follows it, as that of a
// loss does, then goes into the same submit, which is what costs most on the host.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "codegen/wgsl/print.hpp"
#include "runtime/backend.hpp"
#include "runtime/webgpu/gpu.hpp"

namespace tensorgrad::webgpu {

class WebGpuBackend final : public Backend {
 public:
  explicit WebGpuBackend(Gpu gpu);
  ~WebGpuBackend() override;

  const Target& target() const override { return target_; }
  std::string description() const override;
  bool is_software() const override { return gpu_.adapter().is_software; }

  std::shared_ptr<DeviceBuffer> create_buffer(const BufferSpec& spec) override;
  void write(DeviceBuffer& buffer, std::int64_t offset, std::int64_t count, DType dtype,
             const void* words) override;
  std::unique_ptr<Program> load(std::shared_ptr<const Plan> plan,
                                std::vector<std::shared_ptr<DeviceBuffer>> buffers) override;
  void run(Program& program, Phases phases) override;
  void run_steps(Program& program, const StepBatch& batch) override;
  std::vector<double> profile(Program& program) override;
  void read(const std::vector<ReadRequest>& requests, Completion done) override;
  void poll() override;
  DeviceCounters counters() const override;

  Gpu& gpu() { return gpu_; }
  const WgslLimits& limits() const { return limits_; }
  /// Whether the device is gone for good.
  bool is_lost();

 private:
  struct Reading;

  void flush();
  void start_read(std::span<const ReadRange> ranges, ReadCallback callback);
  bool deliver();

  Gpu gpu_;
  Target target_;
  WgslLimits limits_;

  mutable std::mutex mutex_;              // orders calls; may be held while the Gpu is called
  std::shared_ptr<const Commands> held_;  // a run that is not submitted yet
  DeviceCounters counters_;
  Buffer upload_;  // the inputs of many steps

  // Taken inside the Gpu's callbacks, so never held while the Gpu is called.
  std::mutex ready_mutex_;
  std::deque<std::unique_ptr<Reading>> ready_;
  std::atomic<int> reading_ = 0;   // reads whose completion is still to be called
  std::exception_ptr late_error_;  // reported while reads were under way
};

}  // namespace tensorgrad::webgpu
