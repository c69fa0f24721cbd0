// The last stage by hand: a plan on a device, with its buffers. compile and attach are built on it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensorgrad/device.hpp"
#include "tensorgrad/feed.hpp"
#include "tensorgrad/plan.hpp"
#include "tensorgrad/profile.hpp"

namespace tensorgrad {

class DeviceBuffer;
class Program;

/// A kernel as WGSL and how many workgroups it is dispatched with.
struct EmittedKernel {
  std::string name, wgsl;
  std::array<std::uint32_t, 3> workgroups{1, 1, 1};
};

/// The WGSL of every kernel of a plan, for the limits that each WebGPU device has. Needs no GPU.
std::vector<EmittedKernel> emit_kernels(const Plan& plan);

/// A plan loaded on a device. States and literals have their first values; parameters are zero
/// until they are written.
class Runtime {
 public:
  /// `shared` are the buffers that the plan's SharedParams number.
  Runtime(std::shared_ptr<const Plan> plan, const Device& device,
          const std::vector<std::shared_ptr<DeviceBuffer>>& shared = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Sets a parameter, input or state by its name.
  void write(const std::string& leaf, const FeedValue& values);
  /// Runs all kernels, or those of one phase.
  void run();
  void run(Phase phase);
  /// Runs all kernels once for each part of `inputs`, which are what the buffer of inputs holds,
  /// and gathers one number of each run in `results`. What compile's run_steps is made of.
  void run_steps(std::int64_t count, const std::vector<std::uint32_t>& inputs, const Place& number,
                 DeviceBuffer& results);
  /// Runs all kernels one by one and tells what each took.
  std::vector<KernelTime> profile();
  /// Reads an output, capture, gradient, parameter or state from its place in the plan.
  Value read(const Place& place);
  std::map<std::string, Value> read(const std::map<std::string, Place>& places);

  /// Sets every element of a place.
  void fill(const Place& place, double value);
  /// States back to their first values.
  void reset_states();

  const Plan& plan() const { return *plan_; }
  const Device& device() const { return device_; }
  const std::shared_ptr<DeviceBuffer>& buffer(int index) const {
    return buffers_[static_cast<std::size_t>(index)];
  }
  void write_words(const Place& place, const void* words);

 private:
  void write_literals();
  std::shared_ptr<const Plan> plan_;
  Device device_;
  std::vector<std::shared_ptr<DeviceBuffer>> buffers_;
  std::unique_ptr<Program> program_;
};

std::unique_ptr<Runtime> create_runtime(std::shared_ptr<const Plan> plan, const Device& device);

}  // namespace tensorgrad
