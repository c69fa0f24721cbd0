// The seam between the compiler and a device: create buffers, write, load a plan's kernels, run
// them, read. Completion-based, with blocking calls on top, because a browser cannot block.
//
// Work is a queue: writes, runs and reads take effect in the order they were called. Host data are
// 32-bit words (float, int32 or 0/1 bool), whatever a device keeps inside. Calls on one backend may
// come from several threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "tensorgrad/plan.hpp"

namespace tensorgrad {

/// Storage on a device. Released when the last owner lets go.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
};

/// A plan made ready to run on a device, with its buffers bound.
class Program {
 public:
  virtual ~Program() = default;
};

/// Called once when work is done, with the error if it failed. A plain function pointer, so that a
/// step allocates nothing.
struct Completion {
  void (*fn)(void* context, std::exception_ptr error) = nullptr;
  void* context = nullptr;
  void operator()(std::exception_ptr error) const {
    if (fn) fn(context, std::move(error));
  }
};

/// A part of a buffer to be read, and where it goes.
struct ReadRequest {
  DeviceBuffer* buffer = nullptr;
  std::int64_t offset = 0;  ///< elements
  std::int64_t count = 0;   ///< elements
  DType dtype = DType::F32;
  void* words = nullptr;  ///< must live until the completion
};

/// What a device has done since it was opened; tests compare it with what the plan promised.
struct DeviceCounters {
  std::int64_t buffers = 0, buffer_bytes = 0, dispatches = 0, submits = 0;
};

/// Which phases of a program to run.
enum class Phases : std::uint8_t { Gradient, Update, All };
inline bool includes(Phases phases, Phase phase) {
  return phases == Phases::All || (phases == Phases::Gradient) == (phase == Phase::Gradient);
}

/// Several runs of a program, each with inputs of its own.
struct StepBatch {
  std::int64_t count = 0;
  DeviceBuffer* inputs = nullptr;       ///< null: there are none
  std::int64_t words = 0;               ///< of the inputs of one run
  const std::uint32_t* data = nullptr;  ///< count·words, may be reused when the call returns
  DeviceBuffer* result = nullptr;       ///< where a run leaves a number
  std::int64_t result_offset = 0;       ///< elements
  DeviceBuffer* results = nullptr;      ///< where they are gathered, one after another
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const Target& target() const = 0;
  virtual std::string description() const = 0;  ///< `NVIDIA H200 (Vulkan)`, for people
  virtual bool is_software() const { return false; }

  /// A buffer filled with zeros. Its name is for errors and tools.
  virtual std::shared_ptr<DeviceBuffer> create_buffer(const BufferSpec& spec) = 0;

  /// Copies `count` words; the memory may be reused when the call returns.
  virtual void write(DeviceBuffer& buffer, std::int64_t offset, std::int64_t count, DType dtype,
                     const void* words) = 0;

  /// Compiles the plan's kernels. `buffers` has one entry for each of plan.buffers; the program
  /// keeps them alive.
  virtual std::unique_ptr<Program> load(std::shared_ptr<const Plan> plan,
                                        std::vector<std::shared_ptr<DeviceBuffer>> buffers) = 0;

  /// Queues one run of the program's kernels of these phases, in order.
  virtual void run(Program& program, Phases phases) = 0;

  /// Queues runs one after another, in one submit where the device gains by it.
  virtual void run_steps(Program& program, const StepBatch& batch);

  /// Runs the program's kernels one by one and gives the seconds that each took.
  virtual std::vector<double> profile(Program& program) = 0;

  /// Queues reads; `done` is called once for all of them, from `poll` or from this call.
  virtual void read(const std::vector<ReadRequest>& requests, Completion done) = 0;

  /// Moves pending work on and calls completions that are due.
  virtual void poll() = 0;

  virtual DeviceCounters counters() const = 0;
};

/// The seconds that fn(item) takes for each item.
template <class Items, class Fn>
std::vector<double> timed(const Items& items, Fn fn) {
  std::vector<double> seconds;
  for (const auto& item : items) {
    const auto start = std::chrono::steady_clock::now();
    fn(item);
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return seconds;
}

/// Reads and waits, throwing what went wrong.
void read_now(Backend& backend, const std::vector<ReadRequest>& requests);

/// The backends. Each throws DeviceError with the reason if it cannot be had here.
std::shared_ptr<Backend> open_reference();
std::shared_ptr<Backend> open_cpu();
std::shared_ptr<Backend> open_webgpu();
std::shared_ptr<Backend> open_null();

}  // namespace tensorgrad
