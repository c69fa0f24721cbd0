// The CPU device: buffers are plain memory, a program is a list of bound kernels, a run works
// through it on the calling thread and the pool. Nothing of ours is allocated after `load`.
#include "runtime/cpu/backend.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "runtime/cpu/kernels.hpp"
#include "runtime/host_memory.hpp"

namespace tensorgrad::cpu {

namespace {

constexpr std::size_t kLine = 64, kHugePage = std::size_t{2} << 20;

/// Zeroed memory in whole cache lines, so that no two blocks of different owners share one; large
/// blocks in whole huge pages where the system has them: fewer addresses to look up.
class AlignedMemory {
 public:
  AlignedMemory() = default;
  AlignedMemory(std::size_t bytes, const std::string& what) {
    check_memory("cpu", what, static_cast<std::int64_t>(bytes));
    const std::size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kLine;
    const std::size_t rounded =
        (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    memory_.reset(static_cast<char*>(std::aligned_alloc(alignment, rounded)));
    if (!memory_) {
      throw DeviceError("cpu: out of memory: " + what + " needs " +
                        bytes_text(static_cast<std::int64_t>(bytes)) +
                        ", which the system refuses.");
    }
#ifdef MADV_HUGEPAGE
    if (alignment == kHugePage) madvise(memory_.get(), rounded, MADV_HUGEPAGE);  // or without
#endif
    std::memset(memory_.get(), 0, rounded);
  }
  char* get() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> memory_;
};

class CpuBuffer final : public DeviceBuffer {
 public:
  explicit CpuBuffer(const BufferSpec& spec)
      : name_(spec.name),
        bytes_(spec.bytes),
        memory_(static_cast<std::size_t>(spec.bytes), "the buffer \"" + spec.name + "\"") {}
  const std::string& name() const { return name_; }
  std::int64_t elements() const { return bytes_ / 4; }
  float* words() const { return reinterpret_cast<float*>(memory_.get()); }

 private:
  std::string name_;
  std::int64_t bytes_;
  AlignedMemory memory_;
};

class CpuProgram final : public Program {
 public:
  struct Entry {
    Phase phase;
    std::unique_ptr<CpuKernel> kernel;
    bool unused_hint;
  };
  std::shared_ptr<const Plan> plan;
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
  std::vector<Entry> kernels;
};

CpuBuffer& as_cpu(DeviceBuffer& buffer) {
  auto* cpu = dynamic_cast<CpuBuffer*>(&buffer);
  if (!cpu) throw DeviceError("cpu: the buffer belongs to another device.");
  return *cpu;
}

void check_range(const CpuBuffer& buffer, std::int64_t offset, std::int64_t count) {
  if (offset >= 0 && count >= 0 && offset + count <= buffer.elements()) return;
  throw DeviceError("cpu: elements " + std::to_string(offset) + " to " +
                    std::to_string(offset + count) + " are not inside buffer " + buffer.name() +
                    ", which has " + std::to_string(buffer.elements()) + ".");
}

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options) : options_(options), pool_(options.threads) {
    target_.name = "cpu";
    target_.whole_buffers = false;
    target_.max_bindings = 64;
    target_.alignment = kLine;
    target_.passes.parallelism = options.threads;
    target_.recompute = 8;  // a block's values are in the first cache, not in registers
    // Causal attention is faster as one kernel from about 200 keys on, without a mask from about
    // 600; but then the scores are large, too. Measured by bench/attention.cpp.
    target_.passes.fused_attention = 256;
    workers_.pool = &pool_;
    grow({});
  }

  const Target& target() const override { return target_; }

  std::string description() const override {
    return "CPU, " + std::to_string(pool_.threads()) +
           (pool_.threads() == 1 ? " thread" : " threads") + " (" + math().target + ")";
  }

  std::shared_ptr<DeviceBuffer> create_buffer(const BufferSpec& spec) override {
    auto buffer = std::make_shared<CpuBuffer>(spec);
    const std::lock_guard lock(mutex_);
    ++counters_.buffers;
    counters_.buffer_bytes += spec.bytes;
    return buffer;
  }

  void write(DeviceBuffer& buffer, std::int64_t offset, std::int64_t count, DType,
             const void* words) override {
    CpuBuffer& to = as_cpu(buffer);
    check_range(to, offset, count);
    const std::lock_guard lock(mutex_);
    if (count > 0) std::memcpy(to.words() + offset, words, static_cast<std::size_t>(count) * 4);
  }

  std::unique_ptr<Program> load(std::shared_ptr<const Plan> plan,
                                std::vector<std::shared_ptr<DeviceBuffer>> buffers) override {
    if (buffers.size() != plan->buffers.size()) {
      throw DeviceError("cpu: the plan has " + std::to_string(plan->buffers.size()) + " buffers, " +
                        std::to_string(buffers.size()) + " were given.");
    }
    KernelContext context;
    context.threads = pool_.threads();
    context.lanes = options_.lanes;
    if (options_.share_all) context.least_work = 1;
    for (std::size_t k = 0; k < buffers.size(); ++k) {
      context.buffers.push_back(buffers[k] ? as_cpu(*buffers[k]).words() : nullptr);
    }
    auto program = std::make_unique<CpuProgram>();
    Needs needs;
    for (const Kernel& kernel : plan->kernels) {
      for (const Binding& b : kernel.bindings) {
        if (b.buffer < 0 || static_cast<std::size_t>(b.buffer) >= buffers.size() ||
            !buffers[static_cast<std::size_t>(b.buffer)]) {
          throw DeviceError("cpu: kernel " + kernel.name + " binds buffer " +
                            std::to_string(b.buffer) + ", which is not there.");
        }
        check_range(as_cpu(*buffers[static_cast<std::size_t>(b.buffer)]), b.offset, b.elements);
      }
      KernelNotes notes;
      auto ready = make_kernel(kernel, context, &notes);
      needs.cover(ready->needs());
      program->kernels.push_back({kernel.phase, std::move(ready), notes.unused_hint});
    }
    program->plan = std::move(plan);
    program->buffers = std::move(buffers);
    const std::lock_guard lock(mutex_);
    grow(needs);
    return program;
  }

  void run(Program& program, Phases phases) override {
    auto* cpu = dynamic_cast<CpuProgram*>(&program);
    if (!cpu) throw DeviceError("cpu: the program belongs to another device.");
    const std::lock_guard lock(mutex_);
    ++counters_.submits;
    for (const CpuProgram::Entry& entry : cpu->kernels) {
      if (!includes(phases, entry.phase)) continue;
      entry.kernel->run(workers_);
      ++counters_.dispatches;
      // What comes after would work on wrong values, an update of parameters among it.
      if (failure_.failed) report(*cpu->plan);
    }
  }

  std::vector<double> profile(Program& program) override {
    auto* cpu = dynamic_cast<CpuProgram*>(&program);
    if (!cpu) throw DeviceError("cpu: the program belongs to another device.");
    const std::lock_guard lock(mutex_);
    return timed(cpu->kernels, [&](const CpuProgram::Entry& entry) {
      entry.kernel->run(workers_);
      ++counters_.dispatches;
      if (failure_.failed) report(*cpu->plan);
    });
  }

  void read(const std::vector<ReadRequest>& requests, Completion done) override {
    std::exception_ptr error;
    try {
      const std::lock_guard lock(mutex_);
      for (const ReadRequest& r : requests) {
        const CpuBuffer& from = as_cpu(*r.buffer);
        check_range(from, r.offset, r.count);
        if (r.count > 0)
          std::memcpy(r.words, from.words() + r.offset, static_cast<std::size_t>(r.count) * 4);
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
  [[noreturn]] void report(const Plan& plan) {
    const RangeTest test = failure_.test;
    const std::int64_t value = failure_.value;
    failure_.failed = false;
    std::string text = "index " + std::to_string(value) + " is out of range: it must be from " +
                       std::to_string(test.low) + " to " + std::to_string(test.high - 1) + ".";
    if (plan.graph && test.node >= 0) {
      const Node& node = plan.graph->node(test.node);
      text = std::string(to_string(node.op)) + ": " + text;
      const std::string site = node.site.to_string();
      if (!site.empty()) text += "\n  at " + site;
    }
    throw Error(text);
  }

  /// Makes the workers' memory large enough.
  void grow(const Needs& more) {
    Needs needs = needs_;
    needs.cover(more);
    const auto threads = static_cast<std::size_t>(pool_.threads());
    const auto lines = [](std::size_t bytes) { return (bytes + 2 * kLine - 1) / kLine * kLine; };
    const std::size_t registers = lines(needs.registers),
                      slots = lines(needs.slots * sizeof(void*)),
                      bases = lines(needs.bases * sizeof(float*)), scratch = lines(needs.scratch);
    const std::size_t each = registers + slots + bases + scratch;
    if (each == each_ && needs.shared == shared_bytes_) return;
    // May throw, and then nothing has changed.
    memory_ = AlignedMemory(each * threads + needs.shared, "the workers' scratch memory");
    needs_ = needs;
    each_ = each;
    shared_bytes_ = needs.shared;
    workers_.memory.clear();
    workers_.scratch.clear();
    for (std::size_t w = 0; w < threads; ++w) {
      char* at = memory_.get() + w * each;
      WorkerMemory m;
      m.registers = at;
      m.slots = reinterpret_cast<void**>(at + registers);
      m.bases = reinterpret_cast<float**>(at + registers + slots);
      m.failure = &failure_;
      workers_.memory.push_back(m);
      workers_.scratch.push_back(at + registers + slots + bases);
    }
    workers_.shared = memory_.get() + each * threads;
  }

  mutable std::mutex mutex_;
  CpuOptions options_;
  Target target_;
  Pool pool_;
  Failure failure_;
  Needs needs_;  // the most that any program so far needs
  std::size_t each_ = 0, shared_bytes_ = 0;
  AlignedMemory memory_;
  Workers workers_;
  DeviceCounters counters_;
};

}  // namespace

std::shared_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  return std::make_shared<CpuBackend>(options);
}

std::vector<std::string> kernel_descriptions(const Program& program) {
  const auto* cpu = dynamic_cast<const CpuProgram*>(&program);
  if (!cpu) throw DeviceError("cpu: the program belongs to another device.");
  std::vector<std::string> result;
  for (const CpuProgram::Entry& entry : cpu->kernels) {
    result.push_back(entry.kernel->description() + (entry.unused_hint ? " (hint unused)" : ""));
  }
  return result;
}

}  // namespace tensorgrad::cpu

namespace tensorgrad {

std::shared_ptr<Backend> open_cpu() {
  static std::mutex mutex;
  static std::weak_ptr<Backend> shared;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Backend> backend = shared.lock();
  if (!backend) {
    backend = cpu::make_cpu_backend({.threads = cpu::default_threads()});
    shared = backend;
  }
  return backend;
}

}  // namespace tensorgrad
