// The null device: buffers have a size and nothing else, a program is a plan that passed the
// checks, a run only counts, and reads give zeros.
#include <cstring>
#include <mutex>

#include "runtime/null/null.hpp"

namespace tensorgrad {

namespace {

class NullBuffer final : public DeviceBuffer {
 public:
  NullBuffer(const BufferSpec& spec, int element_bytes)
      : name_(spec.name), bytes_(spec.bytes), elements_(spec.bytes / element_bytes) {}
  const std::string& name() const { return name_; }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t elements() const { return elements_; }

 private:
  std::string name_;
  std::int64_t bytes_, elements_;
};

class NullProgram final : public Program {
 public:
  std::shared_ptr<const Plan> plan;
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
};

const NullBuffer& as_null(const DeviceBuffer& buffer) {
  const auto* null = dynamic_cast<const NullBuffer*>(&buffer);
  if (!null) throw DeviceError("null: the buffer belongs to another device.");
  return *null;
}

void check_range(const DeviceBuffer& buffer, std::int64_t offset, std::int64_t count) {
  const NullBuffer& null = as_null(buffer);
  if (offset >= 0 && count >= 0 && offset + count <= null.elements()) return;
  throw DeviceError("null: elements " + std::to_string(offset) + " to " +
                    std::to_string(offset + count) + " are not inside buffer " + null.name() +
                    ", which has " + std::to_string(null.elements()) + ".");
}

class NullBackend final : public Backend {
 public:
  explicit NullBackend(Target target) : target_(std::move(target)) {}

  const Target& target() const override { return target_; }
  std::string description() const override { return "nothing (checks what it is given)"; }

  std::shared_ptr<DeviceBuffer> create_buffer(const BufferSpec& spec) override {
    if (spec.bytes < 0) throw DeviceError("null: buffer " + spec.name + " has a negative size.");
    const std::lock_guard lock(mutex_);
    ++counters_.buffers;
    counters_.buffer_bytes += spec.bytes;
    return std::make_shared<NullBuffer>(spec, target_.element_bytes);
  }

  void write(DeviceBuffer& buffer, std::int64_t offset, std::int64_t count, DType,
             const void*) override {
    check_range(buffer, offset, count);
  }

  std::unique_ptr<Program> load(std::shared_ptr<const Plan> plan,
                                std::vector<std::shared_ptr<DeviceBuffer>> buffers) override {
    if (buffers.size() != plan->buffers.size()) {
      throw DeviceError("null: the plan has " + std::to_string(plan->buffers.size()) +
                        " buffers, " + std::to_string(buffers.size()) + " were given.");
    }
    for (std::size_t k = 0; k < buffers.size(); ++k) {
      if (buffers[k] && as_null(*buffers[k]).bytes() >= plan->buffers[k].bytes) continue;
      throw DeviceError("null: buffer " + plan->buffers[k].name + " is missing or too small.");
    }
    check_kernels(*plan);
    auto program = std::make_unique<NullProgram>();
    program->plan = std::move(plan);
    program->buffers = std::move(buffers);
    return program;
  }

  std::vector<double> profile(Program& program) override {
    const auto* null = dynamic_cast<const NullProgram*>(&program);
    if (!null) throw DeviceError("null: the program belongs to another device.");
    return std::vector<double>(null->plan->kernels.size(), 0.0);
  }

  void run(Program& program, Phases phases) override {
    const auto* null = dynamic_cast<const NullProgram*>(&program);
    if (!null) throw DeviceError("null: the program belongs to another device.");
    const std::lock_guard lock(mutex_);
    ++counters_.submits;
    for (const Kernel& kernel : null->plan->kernels)
      counters_.dispatches += includes(phases, kernel.phase) ? 1 : 0;
  }

  void read(const std::vector<ReadRequest>& requests, Completion done) override {
    std::exception_ptr error;
    try {
      for (const ReadRequest& r : requests) {
        check_range(*r.buffer, r.offset, r.count);
        if (r.count > 0) std::memset(r.words, 0, static_cast<std::size_t>(r.count) * 4);
      }
    } catch (...) {
      error = std::current_exception();
    }
    done(std::move(error));
  }

  void poll() override {}

  DeviceCounters counters() const override {
    const std::lock_guard lock(mutex_);
    return counters_;
  }

 private:
  const Target target_;
  mutable std::mutex mutex_;
  DeviceCounters counters_;
};

}  // namespace

std::shared_ptr<Backend> open_null(const Target& target) {
  return std::make_shared<NullBackend>(target);
}

std::shared_ptr<Backend> open_null() { return open_null(Target{}); }

}  // namespace tensorgrad
