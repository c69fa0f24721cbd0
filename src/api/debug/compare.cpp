// Two devices, op by op: every op of the second works on the first one's values.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "api/debug/stepper.hpp"
#include "ir/text.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad {

namespace {

using debug::Stepper;
using debug::Values;
using Level = DeviceComparison::Level;

// Rounding adds up over a whole step, where nobody corrects it between ops; and a gradient that
// would be 0 if nothing were rounded is compared on the scale of the others.
constexpr double kWholeStep = 100;
constexpr double kNegligible = 1e-4;

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

double largest(const Values& values) {
  double result = 0;
  for (double value : values) {
    if (std::isfinite(value)) result = std::max(result, std::abs(value));
  }
  return result;
}

/// Where two tensors are furthest apart.
struct Gap {
  std::size_t element = 0;
  double size = 0;       // absolute; infinite where only one is finite, or they differ in kind
  bool differs = false;  // at all
};

Gap widest_gap(const Values& want, const Values& got) {
  Gap gap;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const bool same = want[i] == got[i] || (std::isnan(want[i]) && std::isnan(got[i]));
    if (same) continue;
    const bool finite = std::isfinite(want[i]) && std::isfinite(got[i]);
    const double size = finite ? std::abs(want[i] - got[i]) : INFINITY;
    if (!gap.differs || size > gap.size) gap = {i, size, true};
  }
  return gap;
}

/// `[3, 17]`: an element's place in its tensor.
std::string index_text(const Shape& shape, std::size_t element) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()));
  auto rest = static_cast<std::int64_t>(element);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[static_cast<std::size_t>(axis)] = rest % shape[axis];
    rest /= shape[axis];
  }
  return list_text(index);
}

class Comparison {
 public:
  Comparison(std::shared_ptr<const Graph> graph, const LeafValues& leaves, const Device& first,
             const Device& second, const CompareOptions& options)
      : graph_(std::move(graph)),
        leaves_(leaves),
        second_(second),
        tolerance_(options.tolerance),
        want_(debug::evaluate(graph_, leaves, first)) {
    result_.graph = graph_;
    result_.first = first.name();
    result_.second = second.name();
  }

  DeviceComparison run() {
    compare_kernels(Level::Op);
    if (result_.agree) compare_kernels(Level::Kernel);
    if (result_.agree) compare_step();
    describe();
    return result_;
  }

 private:
  const Values& want(TensorId id) const { return want_[static_cast<std::size_t>(id)]; }

  /// Runs kernel by kernel, and puts the first device's values in the place of the second's.
  void compare_kernels(Level level) {
    Stepper stepper(graph_, leaves_, second_, level == Level::Op);
    for (std::size_t k = 0; k < stepper.count(); ++k) {
      const Kernel& kernel = stepper.kernel(k);
      stepper.run(k);
      bool differs = false;
      for (const Stepper::Written& w : stepper.written(k)) {
        const Gap gap = widest_gap(want(w.tensor), stepper.read(w.place));
        if (!gap.differs) continue;
        differs = judge(w, gap, stepper, level, &kernel) || differs;
        stepper.write(w.place, want(w.tensor));
      }
      differing_ += differs ? 1 : 0;
    }
    (level == Level::Op ? result_.ops : result_.kernels) = static_cast<int>(stepper.count());
  }

  void compare_step() {
    Stepper stepper(graph_, leaves_, second_, false);
    stepper.run_all();
    for (const NamedTensor& gradient : graph_->gradients)
      least_scale_ = std::max(least_scale_, kNegligible * largest(want(gradient.tensor)));
    for (const Stepper::Written& w : stepper.results()) {
      const Gap gap = widest_gap(want(w.tensor), stepper.read(w.place));
      if (gap.differs) judge(w, gap, stepper, Level::Step, nullptr);
    }
  }

  /// Whether a gap is more than rounding; the earliest such is kept as the result.
  bool judge(const Stepper::Written& w, const Gap& gap, Stepper& stepper, Level level,
             const Kernel* kernel) {
    const bool exact = w.place.type.dtype != f32;
    const double tolerance = level == Level::Step ? kWholeStep * tolerance_ : tolerance_;
    double scale = largest(want(w.tensor));
    if (!exact && gap.size > tolerance * scale) scale = std::max(scale, cause(w, level, kernel));
    const double error = gap.size / std::max(scale, 1e-30);
    const bool differs = exact || error > tolerance;
    if (!differs) {
      if (result_.agree && level == Level::Op) result_.error = std::max(result_.error, error);
      return false;
    }
    const NodeId node = graph_->tensor(w.tensor).producer;
    if (!result_.agree && node >= result_.node) return true;
    result_.agree = false;
    result_.level = level;
    result_.kernel = level == Level::Kernel ? kernel->name : "";
    result_.node = node;
    result_.element = static_cast<std::int64_t>(gap.element);
    result_.error = error;
    tensor_ = w.tensor;
    scale_ = scale;
    result_.first_value = want(w.tensor)[gap.element];
    result_.second_value = stepper.read(w.place)[gap.element];
    return true;
  }

  /// The magnitude of what a value was made of, where that is what its rounding is relative to: of
  /// the terms of a sum that may have cancelled, or of all that a kernel of several ops reads.
  double cause(const Stepper::Written& w, Level level, const Kernel* kernel) const {
    if (level == Level::Step) return least_scale_;
    if (level == Level::Op) return sum_of_magnitudes(graph_->producer(w.tensor));
    const std::set<NodeId> members(kernel->nodes.begin(), kernel->nodes.end());
    double result = 0;
    for (NodeId member : members) {
      for (TensorId input : graph_->node(member).inputs) {
        if (graph_->type(input).dtype == f32 && !members.count(graph_->tensor(input).producer))
          result = std::max(result, largest(want(input)));
      }
    }
    return result;
  }

  /// Σ|terms|, the largest, of an op that sums; 0 for all others.
  double sum_of_magnitudes(const Node& node) const {
    if (node.op != OpKind::MatMul && node.op != OpKind::ReduceSum && node.op != OpKind::ScatterAdd)
      return 0;
    std::vector<Values> magnitudes(want_.size());
    for (TensorId input : node.inputs) {
      Values& values = magnitudes[static_cast<std::size_t>(input)];
      values = want(input);
      for (double& value : values) value = std::abs(value);
    }
    reference::compute(*graph_, node, magnitudes);
    return largest(magnitudes[static_cast<std::size_t>(node.output())]);
  }

  void describe() {
    if (result_.agree) {
      result_.text = result_.second + " agrees with " + result_.first + " on " +
                     std::to_string(result_.ops) + " ops and " + std::to_string(result_.kernels) +
                     " kernels. The largest difference of an op is " + short_number(result_.error) +
                     " of its tensor's largest magnitude.";
      return;
    }
    const Node& node = graph_->node(result_.node);
    result_.op = node.op;
    result_.site = node.site;
    result_.output = debug::summarise(*graph_, tensor_, want(tensor_));
    result_.inputs = debug::summarise_inputs(*graph_, node, want_);
    const std::string place = node_text(*graph_, node) + debug::location_text(*graph_, node);
    std::string text;
    if (result_.level == Level::Op) {
      text = result_.second + " and " + result_.first + " differ in " + std::to_string(differing_) +
             " of " + std::to_string(result_.ops) + " ops, first in\n  " + place;
    } else if (result_.level == Level::Kernel) {
      text = result_.second + " and " + result_.first +
             " agree on every op by itself, but not in " + std::to_string(differing_) + " of " +
             std::to_string(result_.kernels) + " kernels, which fuse several. The first is " +
             result_.kernel + ", in\n  " + place;
    } else {
      text = result_.second + " and " + result_.first +
             " agree on every kernel by itself, but not on the whole step. The first result that "
             "differs is\n  " +
             place;
    }
    result_.text =
        text + "\n  element " +
        index_text(result_.output.type.shape, static_cast<std::size_t>(result_.element)) + " is " +
        short_number(result_.first_value) + " on " + result_.first + " and " +
        short_number(result_.second_value) + " on " + result_.second +
        "; the largest magnitude is " + short_number(scale_) +
        debug::list_summaries("from", result_.inputs);
  }

  const std::shared_ptr<const Graph> graph_;
  const LeafValues& leaves_;
  const Device& second_;
  const double tolerance_;
  const std::vector<Values> want_;  // the first device's, by tensor
  DeviceComparison result_;
  int differing_ = 0;
  TensorId tensor_ = -1;
  double scale_ = 0, least_scale_ = 0;
};

}  // namespace

DeviceComparison compare_devices(const std::shared_ptr<const Graph>& graph,
                                 const LeafValues& leaves, const Device& first,
                                 const Device& second, const CompareOptions& options) {
  for (const Device* device : {&first, &second}) {
    if (device->name() == "null")
      throw DeviceError("compare_devices: the null device computes nothing to compare.");
  }
  if (!(options.tolerance > 0)) throw Error("compare_devices: the tolerance must be positive.");
  const std::shared_ptr<const Graph> passed = run_passes(*graph, second.target().passes);
  return Comparison(passed, leaves, first, second, options).run();
}

}  // namespace tensorgrad
