// A first-order recurrence along one axis. Neighbours on the last other axis advance together, so
// that memory is read in order.
#include <algorithm>

#include "runtime/cpu/special.hpp"

namespace tensorgrad::cpu {

namespace {

class LinearScan final : public CpuKernel {
 public:
  LinearScan(const Kernel& kernel, const KernelContext& context)
      : a_(bind(kernel.special->inputs[0], kernel, context)),
        b_(bind(kernel.special->inputs[1], kernel, context)),
        initial_(bind(kernel.special->inputs[2], kernel, context)),
        out_(bind(kernel.special->outputs[0], kernel, context)),
        axis_(std::get<AxisAttr>(kernel.special->attrs).axis) {
    const Shape& shape = out_.shape;
    for (int k = 0; k < shape.rank(); ++k) {
      if (k != axis_) others_.push_back(k);
    }
    if (!others_.empty()) together_ = shape[others_.back()];
    rows_ = shape.size() / shape[axis_] / together_;
    // A batch of neighbours is cut so that every worker has something to do.
    if (static_cast<double>(shape.size()) >= context.least_work && rows_ < context.threads)
      cuts_ = std::min<std::int64_t>(context.threads, together_);
  }

  void run(const Workers& workers) const override {
    workers.pool->run(rows_ * cuts_, [&](std::int64_t task, int) {
      const std::int64_t cut = task % cuts_;
      scan(task / cuts_, together_ * cut / cuts_, together_ * (cut + 1) / cuts_);
    });
  }
  Needs needs() const override { return {}; }
  std::string description() const override { return "linear scan"; }

 private:
  /// Neighbours `first` to `end` of a row.
  void scan(std::int64_t row, std::int64_t first, std::int64_t end) const {
    const float *a = a_.data, *b = b_.data, *h = initial_.data;
    float* out = out_.data;
    std::int64_t rest = row;
    for (std::size_t k = others_.size(); k-- > 0;) {
      const bool last = k + 1 == others_.size();
      const int axis = others_[k];
      const std::int64_t at = last ? first : rest % out_.shape[axis];
      if (!last) rest /= out_.shape[axis];
      a += at * a_.stride(axis);
      b += at * b_.stride(axis);
      h += at * initial_.strides[k];
      out += at * out_.stride(axis);
    }
    const auto step = [&](const Strided& s) {
      return others_.empty() ? std::int64_t{0} : s.stride(others_.back());
    };
    const std::int64_t sa = step(a_), sb = step(b_), so = step(out_), count = end - first;
    const std::int64_t sh = others_.empty() ? 0 : initial_.strides.back();
    for (std::int64_t i = 0; i < count; ++i) out[i * so] = h[i * sh];
    for (std::int64_t t = 1; t < out_.shape[axis_]; ++t) {
      const float* before = out;
      out += out_.stride(axis_);
      if (sa == 1 && sb == 1 && so == 1) {
        for (std::int64_t i = 0; i < count; ++i) out[i] = a[i] * before[i] + b[i];
      } else {
        for (std::int64_t i = 0; i < count; ++i)
          out[i * so] = a[i * sa] * before[i * so] + b[i * sb];
      }
      a += a_.stride(axis_);
      b += b_.stride(axis_);
    }
  }

  Strided a_, b_, initial_, out_;
  int axis_;
  std::vector<int> others_;  // the other axes, outermost first
  std::int64_t together_ = 1, rows_ = 1, cuts_ = 1;
};

}  // namespace

std::unique_ptr<CpuKernel> make_linear_scan(const Kernel& kernel, const KernelContext& context) {
  return std::make_unique<LinearScan>(kernel, context);
}

}  // namespace tensorgrad::cpu
