// Views as index maps.
#include "schedule/fusion.hpp"

namespace tensorgrad {

bool is_transparent(OpKind op) {
  switch (op_class(op)) {
    case OpClass::Generated:
    case OpClass::View:
    case OpClass::Join:
    case OpClass::Gather:
      return true;
    case OpClass::Input:
    case OpClass::Elementwise:
    case OpClass::Reduce:
    case OpClass::Contract:
    case OpClass::Scatter:
    case OpClass::Special:
    case OpClass::Update:
      return false;
  }
  return false;
}

Index ravel(const std::vector<Index>& index, const Shape& shape) {
  const std::vector<std::int64_t> strides = shape.strides();
  Index linear = 0;
  for (std::size_t axis = 0; axis < index.size(); ++axis)
    linear = linear + index[axis] * strides[axis];
  return linear;
}

std::vector<Index> unravel(const Index& linear, const Shape& shape) {
  const std::vector<std::int64_t> strides = shape.strides();
  std::vector<Index> index;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    Index at = linear.div(strides[static_cast<std::size_t>(axis)]);
    // The outermost axis needs no remainder: the position lies inside the tensor.
    index.push_back(axis == 0 ? (shape[0] == 1 ? Index(0) : at) : at.mod(shape[axis]));
  }
  return index;
}

std::vector<Index> through_view(const Graph& graph, const Node& view,
                                const std::vector<Index>& index) {
  const Shape& from = graph.type(view.inputs[0]).shape;
  switch (view.op) {
    case OpKind::Reshape:
      return unravel(ravel(index, graph.type(view.output()).shape), from);
    case OpKind::Permute: {
      const std::vector<int>& perm = std::get<PermAttr>(view.attrs).perm;
      std::vector<Index> result(index.size());
      for (std::size_t i = 0; i < perm.size(); ++i)
        result[static_cast<std::size_t>(perm[i])] = index[i];
      return result;
    }
    case OpKind::BroadcastTo: {
      const std::size_t extra = index.size() - static_cast<std::size_t>(from.rank());
      std::vector<Index> result;
      for (int axis = 0; axis < from.rank(); ++axis) {
        result.push_back(from[axis] == 1 ? Index(0)
                                         : index[extra + static_cast<std::size_t>(axis)]);
      }
      return result;
    }
    case OpKind::Slice: {
      const auto& s = std::get<SliceAttr>(view.attrs);
      std::vector<Index> result;
      for (std::size_t axis = 0; axis < index.size(); ++axis) {
        result.push_back(index[axis] * s.step[axis] + s.start[axis]);
      }
      return result;
    }
    case OpKind::Window: {
      const auto& w = std::get<WindowAttr>(view.attrs);
      const auto axis = static_cast<std::size_t>(w.axis);
      std::vector<Index> result(index.begin(), index.begin() + w.axis);
      result.push_back(index[axis] * w.stride + index[axis + 1] * w.dilation);
      result.insert(result.end(), index.begin() + w.axis + 2, index.end());
      return result;
    }
    case OpKind::StopGradient:
      return index;
    default:
      throw InternalError(std::string("through_view: ") + to_string(view.op) + " is no plain view");
  }
}

}  // namespace tensorgrad
