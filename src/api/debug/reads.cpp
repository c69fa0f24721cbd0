#include "api/debug/reads.hpp"

#include <algorithm>

namespace tensorgrad::debug {

namespace {

// Elements are numbered from here when they are sent through an op to see where they come out; what
// lies below is a value that the op itself put there (padding).
constexpr double kFirstNumber = 1e12;

}  // namespace

Reads::Reads(const Graph& graph, const Node& node, const std::vector<Values>& tensors)
    : graph_(graph), node_(node), tensors_(tensors), manner_(manner()) {
  if (manner_ == Manner::Moved) trace_movement();
  if (manner_ == Manner::Grouped) group_elements();
}

Reads::Manner Reads::manner() const {
  switch (op_class(node_.op)) {
    case OpClass::Input:
    case OpClass::Generated:
      return Manner::Nothing;
    case OpClass::Elementwise:
      return Manner::SamePlace;
    case OpClass::Update:
      return node_.op == OpKind::GlobalNorm ? Manner::Everything : Manner::SamePlace;
    case OpClass::View:
    case OpClass::Join:
    case OpClass::Gather:
      return Manner::Moved;
    case OpClass::Reduce:
      return Manner::Grouped;
    case OpClass::Scatter:
      return node_.op == OpKind::ScatterAdd ? Manner::Grouped : Manner::Everything;
    case OpClass::Special:
      return Manner::Everything;
    case OpClass::Contract:
      return node_.op == OpKind::MatMul ? Manner::Product : Manner::Everything;
  }
  return Manner::Everything;
}

const Values& Reads::input(std::size_t k) const {
  return tensors_[static_cast<std::size_t>(node_.inputs[k])];
}

/// Computes the node on the numbers of its elements instead of their values. Only a join moves
/// elements of several inputs; what others have beside the first are indices.
void Reads::trace_movement() {
  std::vector<Values> numbered(tensors_.size());
  double next = kFirstNumber;
  for (std::size_t k = 0; k < node_.inputs.size(); ++k) {
    Values& numbers = numbered[static_cast<std::size_t>(node_.inputs[k])];
    if (k > 0 && op_class(node_.op) != OpClass::Join) {
      numbers = input(k);
      continue;
    }
    if (!numbers.empty()) continue;  // a tensor that is joined to itself
    origins_.push_back({next, k});
    numbers.resize(input(k).size());
    for (double& number : numbers) number = next++;
  }
  reference::compute(graph_, node_, numbered);
  sources_ = std::move(numbered[static_cast<std::size_t>(node_.output())]);
}

/// Reductions: the input's elements by the output's element that they are folded into. Scatters:
/// the source's elements by the element that they are added to.
void Reads::group_elements() {
  groups_.resize(static_cast<std::size_t>(out_shape().size()));
  const bool scatter = node_.op == OpKind::ScatterAdd;
  const Shape& from = shape(scatter ? 2 : 0);
  const auto* axes = std::get_if<AxesAttr>(&node_.attrs);
  const int one = axes ? -1 : std::get<AxisAttr>(node_.attrs).axis;
  const auto folded = [&](int axis) {
    if (scatter) return false;
    return axes ? std::binary_search(axes->axes.begin(), axes->axes.end(), axis) : axis == one;
  };
  for (std::int64_t element = 0; element < from.size(); ++element) {
    std::int64_t rest = element, to = 0, stride = 1;
    for (int axis = from.rank() - 1; axis >= 0; --axis) {
      std::int64_t index = rest % from[axis];
      rest /= from[axis];
      if (folded(axis)) continue;
      if (scatter && axis == one)
        index = static_cast<std::int64_t>(input(1)[static_cast<std::size_t>(index)]);
      to += index * stride;
      stride *= scatter ? out_shape()[axis] : from[axis];
    }
    groups_[static_cast<std::size_t>(to)].push_back(static_cast<std::size_t>(element));
  }
}

void Reads::visit_all(std::size_t k, const Visit& visit) const {
  for (std::size_t i = 0; i < input(k).size(); ++i) visit(k, i);
}

// A product's bundles are the rows of x, then the columns of y.
std::size_t Reads::out_rows() const {
  return static_cast<std::size_t>(out_shape().size() / out_shape()[out_shape().rank() - 1]);
}

Reads::Bundles Reads::bundles(std::size_t element) const {
  if (manner_ == Manner::Everything) return {0, 0};
  if (manner_ != Manner::Product) return {element, element};
  const int rank = out_shape().rank();
  const auto m = static_cast<std::size_t>(out_shape()[rank - 2]),
             n = static_cast<std::size_t>(out_shape()[rank - 1]);
  const std::size_t row = element / n, batch = row / m;
  return {row, out_rows() + batch * n + element % n};
}

std::size_t Reads::bundle_count() const {
  if (manner_ == Manner::Everything) return 1;
  const auto elements = static_cast<std::size_t>(out_shape().size());
  if (manner_ != Manner::Product) return elements;
  const auto m = static_cast<std::size_t>(out_shape()[out_shape().rank() - 2]);
  return out_rows() + elements / m;
}

void Reads::visit_bundle(std::size_t bundle, const Visit& visit) const {
  switch (manner_) {
    case Manner::Nothing:
      return;
    case Manner::SamePlace:
      if (node_.op == OpKind::Where) return visit(input(0)[bundle] != 0 ? 1 : 2, bundle);
      for (std::size_t k = 0; k < node_.inputs.size(); ++k) {
        // An update's rate and norm, say, are not of the parameter's shape.
        if (shape(k) == out_shape()) {
          visit(k, bundle);
        } else {
          visit_all(k, visit);
        }
      }
      return;
    case Manner::Moved: {
      const double number = sources_[bundle];
      for (std::size_t k = origins_.size(); k-- > 0;) {
        if (number < origins_[k].first_number) continue;
        return visit(origins_[k].input,
                     static_cast<std::size_t>(number - origins_[k].first_number));
      }
      return;
    }
    case Manner::Grouped:
      if (node_.op == OpKind::ScatterAdd) visit(0, bundle);
      for (std::size_t from : groups_[bundle]) visit(node_.inputs.size() - 1, from);
      return;
    case Manner::Product: {  // out[b, m, n] = Σ_k x[b, m, k]·y[b, k, n]
      const auto inner = static_cast<std::size_t>(shape(0)[shape(0).rank() - 1]),
                 n = static_cast<std::size_t>(out_shape()[out_shape().rank() - 1]);
      const bool is_row = bundle < out_rows();
      const std::size_t column = is_row ? 0 : (bundle - out_rows()) % n,
                        batch = is_row ? 0 : (bundle - out_rows()) / n;
      for (std::size_t k = 0; k < inner; ++k) {
        if (is_row) {
          visit(0, bundle * inner + k);
        } else {
          visit(1, (batch * inner + k) * n + column);
        }
      }
      return;
    }
    case Manner::Everything:
      for (std::size_t k = 0; k < node_.inputs.size(); ++k) visit_all(k, visit);
      return;
  }
}

}  // namespace tensorgrad::debug
