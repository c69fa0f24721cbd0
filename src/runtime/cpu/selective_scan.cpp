// The selective scan: its chunks, shared out to the workers. What a task computes depends on the
// sizes alone, so the bits do not depend on the number of workers.
#include <algorithm>

#include "runtime/cpu/scan_chunk.hpp"

namespace tensorgrad::cpu {

namespace {

class SelectiveScan final : public CpuKernel {
 public:
  SelectiveScan(const char* name, ScanOperands operands, ScanFunctions::Function function,
                std::int64_t together, const KernelContext& context)
      : name_(name), operands_(std::move(operands)), function_(function), together_(together) {
    const ScanShape& s = operands_.shape;
    blocks_ = (s.channels + together_ - 1) / together_;
    tasks_ = s.batch * s.chunks() * blocks_;
    constexpr double kOperations = 20;  // for each state of each step
    const double work =
        kOperations * static_cast<double>(s.batch * s.length * s.channels * s.states);
    shares_ = work < context.least_work ? 1 : std::min<std::int64_t>(tasks_, context.threads);
  }

  void run(const Workers& workers) const override {
    workers.pool->run(shares_, [&](std::int64_t share, int worker) {
      auto* scratch = reinterpret_cast<float*>(workers.scratch[static_cast<std::size_t>(worker)]);
      for (std::int64_t t = tasks_ * share / shares_; t < tasks_ * (share + 1) / shares_; ++t)
        function_(operands_, part(t), scratch);
    });
  }

  Needs needs() const override {
    Needs n;
    n.scratch = static_cast<std::size_t>(scan_scratch(operands_.shape)) * sizeof(float);
    return n;
  }
  std::string description() const override { return name_; }

 private:
  ScanPart part(std::int64_t task) const {
    const ScanShape& s = operands_.shape;
    const std::int64_t channel = task % blocks_ * together_, row = task / blocks_;
    return {row / s.chunks(), row % s.chunks(), channel, std::min(together_, s.channels - channel)};
  }

  const char* name_;
  ScanOperands operands_;
  ScanFunctions::Function function_;
  std::int64_t together_;  ///< channels a task
  std::int64_t blocks_ = 1, tasks_ = 1, shares_ = 1;
};

}  // namespace

std::unique_ptr<CpuKernel> make_selective_scan(const Kernel& kernel, const KernelContext& context) {
  const SpecialHint& hint = *kernel.special;
  const auto in = [&](std::size_t i) { return bind(hint.inputs[i], kernel, context); };
  const auto& attr = std::get<ScanAttr>(hint.attrs);
  const bool forward = hint.op != OpKind::ScanGradState;  // the one without u
  const std::size_t delta = forward ? 1 : 0;
  const ScanFunctions& f = scan_functions();
  ScanOperands o{{hint.inputs[delta].type.shape, hint.inputs[delta + 1].type.shape, attr},
                 attr.zoh,
                 forward ? in(0) : Strided{},
                 in(delta),
                 in(delta + 1),
                 in(delta + 2),
                 {},
                 {},
                 {},
                 bind(hint.outputs[0], kernel, context)};
  const auto make = [&](const char* name, ScanFunctions::Function function, std::int64_t together) {
    return std::make_unique<SelectiveScan>(name, std::move(o), function, together, context);
  };
  switch (hint.op) {
    case OpKind::ScanState:
      return make("scan state", f.state, f.lanes);
    case OpKind::ScanOutput:
      o.start = in(4);
      return make("scan output", f.output, f.lanes);
    case OpKind::ScanGradState:
      o.g = in(3);
      return make("scan gradient state", f.grad_state, f.lanes);
    default:  // ScanGrad: dB and dC are summed over a block of channels
      o.start = in(4);
      o.end = in(5);
      o.g = in(6);
      return make("scan gradient", f.grad, kScanChannels);
  }
}

}  // namespace tensorgrad::cpu
