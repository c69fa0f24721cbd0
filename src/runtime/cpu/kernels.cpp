#include "runtime/cpu/kernels.hpp"

#include <algorithm>

namespace tensorgrad::cpu {

void Needs::cover(const Needs& other) {
  registers = std::max(registers, other.registers);
  slots = std::max(slots, other.slots);
  bases = std::max(bases, other.bases);
  scratch = std::max(scratch, other.scratch);
  shared = std::max(shared, other.shared);
}

void Needs::cover(const Tape& tape, std::size_t bindings) {
  Needs n;
  n.registers = static_cast<std::size_t>(tape.register_bytes);
  n.slots = tape.slots.size();
  n.bases = bindings;
  cover(n);
}

std::vector<float*> binding_bases(const Kernel& kernel, const KernelContext& context) {
  std::vector<float*> bases;
  for (const Binding& b : kernel.bindings) {
    bases.push_back(context.buffers[static_cast<std::size_t>(b.buffer)] + b.offset);
  }
  return bases;
}

namespace {

/// One tape: the outer blocks are shared out to the workers, or, where there are too few of them, the
/// steps of its reductions.
class TapeKernel final : public CpuKernel {
 public:
  TapeKernel(const Kernel& kernel, const KernelContext& context)
      : tape_(make(kernel, context), binding_bases(kernel, context)) {
    const Tape& tape = tape_.tape();
    if (kernel.outer_size() == 0) return;
    const auto wanted = std::clamp<std::int64_t>(static_cast<std::int64_t>(tape.work / kLeastWork), 1, context.threads);
    const bool few_blocks = tape.outer_blocks < wanted;
    if (few_blocks && tape.splits_inner && tape.inner_steps >= 2 * wanted) {
      parts_ = static_cast<int>(wanted);
      return;
    }
    const std::int64_t tasks = std::min(wanted, tape.outer_blocks);
    for (std::int64_t t = 0; t < tasks; ++t) {
      tasks_.push_back(
          boxes_of_blocks(tape, tape.outer_blocks * t / tasks, tape.outer_blocks * (t + 1) / tasks));
    }
  }

  void run(const Workers& workers) const override {
    if (parts_ > 0) return run_parts(workers);
    if (tasks_.empty()) return;
    if (tasks_.size() == 1) {
      tape_.run(workers.memory[0], tasks_[0].data(), tasks_[0].size());
      return;
    }
    workers.pool->run(static_cast<std::int64_t>(tasks_.size()), [&](std::int64_t task, int worker) {
      const std::vector<Box>& boxes = tasks_[static_cast<std::size_t>(task)];
      tape_.run(workers.memory[static_cast<std::size_t>(worker)], boxes.data(), boxes.size());
    });
  }

  Needs needs() const override {
    Needs n;
    n.cover(tape_.tape(), tape_.bases().size());
    n.shared = static_cast<std::size_t>(parts_ * tape_.partial_lanes()) * sizeof(float);
    return n;
  }

  std::string description() const override {
    const Tape& t = tape_.tape();
    std::string text = t.has_inner ? t.columns ? "tape columns" : "tape rows" : "tape";
    if (t.has_inner && !t.single_step) text += " in steps";
    return text;
  }

 private:
  static Tape make(const Kernel& kernel, const KernelContext& context) {
    TapeOptions options;
    options.threads = context.threads;
    return compile_tape(normalise(kernel).kernel, options);
  }

  void run_parts(const Workers& workers) const {
    auto* partials = reinterpret_cast<float*>(workers.shared);
    const std::int64_t steps = tape_.tape().inner_steps, lanes = tape_.partial_lanes();
    workers.pool->run(parts_, [&](std::int64_t part, int worker) {
      tape_.run_part(workers.memory[static_cast<std::size_t>(worker)], steps * part / parts_,
                     steps * (part + 1) / parts_, partials + part * lanes);
    });
    tape_.finish(workers.memory[0], partials, parts_);
  }

  BoundTape tape_;
  std::vector<std::vector<Box>> tasks_;
  int parts_ = 0;
};

}  // namespace

std::unique_ptr<CpuKernel> make_tape_kernel(const Kernel& kernel, const KernelContext& context) {
  return std::make_unique<TapeKernel>(kernel, context);
}

std::unique_ptr<CpuKernel> make_kernel(const Kernel& kernel, const KernelContext& context, KernelNotes* notes) {
  std::unique_ptr<CpuKernel> special;
  if (kernel.matmul) special = make_matmul_kernel(kernel, context);
  if (kernel.scatter) special = make_scatter_kernel(kernel, context);
  if (special) return special;
  if (notes) notes->unused_hint = kernel.matmul || kernel.scatter;
  return make_tape_kernel(kernel, context);
}

}  // namespace tensorgrad::cpu
