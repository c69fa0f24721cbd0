#include "runtime/cpu/kernels.hpp"

#include <algorithm>
#include <deque>

#include "codegen/parts.hpp"

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

// ---- tapes

TapeTasks::TapeTasks(Tape tape, std::vector<float*> bases, const KernelContext& context,
                     std::int64_t unit)
    : tape_(std::move(tape), std::move(bases)) {
  const Tape& t = tape_.tape();
  for (const TapeDim& d : t.dims) {
    if (!d.inner && d.extent == 0) return;
  }
  const std::int64_t units = t.outer_blocks / unit;
  const auto wanted = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(t.work / context.least_work), 1, context.threads);
  if (units < wanted && t.splits_inner && t.inner_steps >= 2 * wanted) {
    parts_ = static_cast<int>(wanted);
    return;
  }
  const std::int64_t tasks = std::min(wanted, units);
  for (std::int64_t k = 0; k < tasks; ++k) {
    tasks_.push_back(boxes_of_blocks(t, units * k / tasks * unit, units * (k + 1) / tasks * unit));
  }
}

void TapeTasks::run(const Workers& workers, int binding, float* moved) const {
  if (parts_ > 0) return run_parts(workers);
  const auto task = [&](std::int64_t t, int worker) {
    const std::vector<Box>& boxes = tasks_[static_cast<std::size_t>(t)];
    const WorkerMemory& memory = workers.memory[static_cast<std::size_t>(worker)];
    if (binding < 0) return tape_.run(memory, boxes.data(), boxes.size());
    std::copy(tape_.bases().begin(), tape_.bases().end(), memory.bases);
    memory.bases[binding] = moved;
    tape_.run(memory, boxes.data(), boxes.size(), memory.bases);
  };
  if (tasks_.size() == 1) {
    task(0, 0);
  } else if (!tasks_.empty()) {
    workers.pool->run(static_cast<std::int64_t>(tasks_.size()), task);
  }
}

void TapeTasks::run_parts(const Workers& workers) const {
  auto* partials = reinterpret_cast<float*>(workers.shared);
  const std::int64_t steps = tape_.tape().inner_steps, lanes = tape_.partial_lanes();
  workers.pool->run(parts_, [&](std::int64_t part, int worker) {
    tape_.run_part(workers.memory[static_cast<std::size_t>(worker)], steps * part / parts_,
                   steps * (part + 1) / parts_, partials + part * lanes);
  });
  tape_.finish(workers.memory[0], partials, parts_);
}

Needs TapeTasks::needs() const {
  Needs n;
  n.cover(tape_.tape(), tape_.bases().size());
  n.shared = static_cast<std::size_t>(parts_ * tape_.partial_lanes()) * sizeof(float);
  return n;
}

namespace {

class TapeKernel final : public CpuKernel {
 public:
  TapeKernel(const Kernel& kernel, const KernelContext& context) {
    TapeOptions options;
    options.threads = context.threads;
    options.lanes = context.lanes;
    for (const Kernel& part : cut_into_parts(kernel)) {
      parts_.emplace_back(compile_tape(normalise(part).kernel, options),
                          binding_bases(kernel, context), context);
    }
  }

  void run(const Workers& workers) const override {
    for (const TapeTasks& part : parts_) part.run(workers);
  }
  Needs needs() const override {
    Needs n;
    for (const TapeTasks& part : parts_) n.cover(part.needs());
    return n;
  }
  std::string description() const override {
    const Tape& t = parts_.front().tape();
    std::string text = t.has_inner ? t.columns ? "tape columns" : "tape rows" : "tape";
    if (t.has_inner && !t.single_step) text += " in steps";
    if (parts_.size() > 1) text += " in " + std::to_string(parts_.size()) + " parts";
    return text;
  }

 private:
  std::deque<TapeTasks> parts_;
};

}  // namespace

std::unique_ptr<CpuKernel> make_tape_kernel(const Kernel& kernel, const KernelContext& context) {
  return std::make_unique<TapeKernel>(kernel, context);
}

// ---- kernels around a hint

bool overlap(const Binding& a, const Binding& b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.elements &&
         b.offset < a.offset + a.elements;
}

bool is_simple_epilogue(const Kernel& kernel, ExprId reduction) {
  for (std::size_t id = 0; id < kernel.exprs.size(); ++id) {
    if (kernel.exprs[id].kind == Expr::Kind::Reduce && static_cast<ExprId>(id) != reduction)
      return false;
  }
  return std::none_of(kernel.stores.begin(), kernel.stores.end(),
                      [](const Store& s) { return s.inner; }) &&
         static_cast<int>(kernel.vars.size()) == kernel.outer_count + 1;
}

void blank_unused(Kernel& kernel, const std::vector<ExprId>& roots) {
  std::vector<bool> used(kernel.exprs.size(), false);
  const auto use = [&](ExprId id) { used[static_cast<std::size_t>(id)] = true; };
  const std::function<void(const Index&)> use_data = [&](const Index& index) {
    for (const Index::Term& t : index.terms()) {
      if (t.atom->kind == IndexAtom::Kind::Data) use(t.atom->id);
      if (t.atom->arg) use_data(*t.atom->arg);
    }
  };
  for (ExprId id : roots) use(id);
  for (const Store& s : kernel.stores) {
    use(s.value);
    use_data(s.index);
  }
  for (std::size_t id = kernel.exprs.size(); id-- > 0;) {
    Expr& e = kernel.exprs[id];
    if (!used[id]) {
      e = Expr{Expr::Kind::Const};
      continue;
    }
    for (ExprId arg : e.args) use(arg);
    use_data(e.index);
    for (const Guard& g : e.guards) use_data(g.index);
  }
}

Kernel without_reduction(const Kernel& kernel, ExprId id, int binding, const Index& index) {
  Kernel rest = kernel;
  rest.matmul.reset();
  rest.scatter.reset();
  Expr load{Expr::Kind::Load};
  load.binding = binding;
  load.index = index;
  load.node = kernel.exprs[static_cast<std::size_t>(id)].node;
  rest.exprs[static_cast<std::size_t>(id)] = std::move(load);
  rest.bindings[static_cast<std::size_t>(binding)].read = true;
  rest.vars.resize(static_cast<std::size_t>(rest.outer_count));
  blank_unused(rest);
  return rest;
}

std::unique_ptr<CpuKernel> make_kernel(const Kernel& kernel, const KernelContext& context,
                                       KernelNotes* notes) {
  if (kernel.special) return make_special_kernel(kernel, context);
  std::unique_ptr<CpuKernel> special;
  if (kernel.matmul) special = make_matmul_kernel(kernel, context);
  if (kernel.scatter) special = make_scatter_kernel(kernel, context);
  if (special) return special;
  if (notes) notes->unused_hint = kernel.matmul || kernel.scatter;
  return make_tape_kernel(kernel, context);
}

}  // namespace tensorgrad::cpu
