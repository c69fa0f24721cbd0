// Views and joins: changes of index that the scheduler turns into index maps, never into copies
// unless somebody needs the result in memory.
#include <algorithm>
#include <numeric>

#include "ir/text.hpp"
#include "ops/rule.hpp"

namespace tensorgrad {

Types infer_Reshape(const Rule& r) {
  const Shape& shape = r.attr<ShapeAttr>().shape;
  if (shape.size() != r.type(0).shape.size()) {
    r.fail("cannot make " + shape.to_string() + " (" + std::to_string(shape.size()) +
           " elements) of " + r.type(0).to_string() + " (" +
           std::to_string(r.type(0).shape.size()) + " elements).");
  }
  return {{r.type(0).dtype, shape}};
}
void grad_Reshape(GradContext& c) { c.give(0, reshape(c.cotangent(), c.input(0).shape())); }
Tensor reshape(Operand x, Shape shape) {
  const Tensor tensor = as_tensor("reshape", x, f32);
  int unknown = -1;
  std::int64_t known = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != -1) {
      known *= shape[axis];
    } else if (unknown >= 0) {
      fail_op("reshape", "only one dimension may be -1, not two as in " + shape.to_string() + ".",
              x.site());
    } else {
      unknown = axis;
    }
  }
  if (unknown >= 0) {
    if (known <= 0 || tensor.shape().size() % known != 0) {
      fail_op("reshape",
              "cannot make " + shape.to_string() + " of " + tensor.type().to_string() + ": " +
                  std::to_string(tensor.shape().size()) + " elements are no multiple of " +
                  std::to_string(known) + ".",
              x.site());
    }
    shape.set(unknown, tensor.shape().size() / known);
  }
  if (shape == tensor.shape()) return tensor;
  return emit(OpKind::Reshape, {tensor}, ShapeAttr{std::move(shape)}, x.site());
}

Types infer_Permute(const Rule& r) {
  const std::vector<int>& perm = r.attr<PermAttr>().perm;
  std::vector<int> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int> all(static_cast<std::size_t>(r.type(0).shape.rank()));
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) {
    r.fail("the permutation " + list_text(perm) + " does not name every axis of " +
           r.type(0).to_string() + " once.");
  }
  Shape shape;
  for (int axis : perm) shape.push_back(r.type(0).shape.dim(axis));
  return {{r.type(0).dtype, shape}};
}
void grad_Permute(GradContext& c) {
  const std::vector<int>& perm = c.attr<PermAttr>().perm;
  std::vector<int> inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<int>(i);
  c.give(0, permute(c.cotangent(), inverse));
}
Tensor permute(Operand x, std::vector<int> perm) {
  const Tensor tensor = as_tensor("permute", x, f32);
  for (int& axis : perm)
    axis = resolve_axis("permute", axis, tensor.rank(), tensor.type(), x.site());
  if (static_cast<int>(perm.size()) == tensor.rank() && std::is_sorted(perm.begin(), perm.end()) &&
      std::adjacent_find(perm.begin(), perm.end()) == perm.end()) {
    return tensor;
  }
  return emit(OpKind::Permute, {tensor}, PermAttr{std::move(perm)}, x.site());
}

Tensor swap_axes(Operand x, int axis1, int axis2) {
  const Tensor tensor = as_tensor("swap_axes", x, f32);
  std::vector<int> perm(static_cast<std::size_t>(tensor.rank()));
  std::iota(perm.begin(), perm.end(), 0);
  const int a = resolve_axis("swap_axes", axis1, tensor.rank(), tensor.type(), x.site());
  const int b = resolve_axis("swap_axes", axis2, tensor.rank(), tensor.type(), x.site());
  std::swap(perm[static_cast<std::size_t>(a)], perm[static_cast<std::size_t>(b)]);
  return permute(x, perm);
}

Tensor expand_dims(Operand x, int axis) {
  const Tensor tensor = as_tensor("expand_dims", x, f32);
  const int at = resolve_axis("expand_dims", axis, tensor.rank() + 1, tensor.type(), x.site());
  std::vector<Dim> dims = tensor.shape().dims();
  dims.insert(dims.begin() + at, 1);
  return reshape(x, Shape(dims));
}

Tensor squeeze(Operand x, Axes axes) {
  const Tensor tensor = as_tensor("squeeze", x, f32);
  const std::vector<int> chosen = resolve_axes("squeeze", axes, tensor.type(), x.site());
  Shape shape;
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    const bool drop = std::binary_search(chosen.begin(), chosen.end(), axis);
    if (drop && axes.list && tensor.shape()[axis] != 1) {
      fail_op("squeeze",
              "axis " + std::to_string(axis) + " of " + tensor.type().to_string() + " is not 1.",
              x.site());
    }
    if (!drop || tensor.shape()[axis] != 1) shape.push_back(tensor.shape().dim(axis));
  }
  return reshape(x, shape);
}

// The gradient of a broadcast is the sum over what was repeated.
Types infer_BroadcastTo(const Rule& r) {
  const Shape &from = r.type(0).shape, &to = r.attr<ShapeAttr>().shape;
  const int extra = to.rank() - from.rank();
  bool fits = extra >= 0;
  for (int i = 0; fits && i < from.rank(); ++i) fits = from[i] == 1 || from[i] == to[i + extra];
  for (const Dim& dim : to) fits = fits && dim.size > 0;
  if (!fits) r.fail(r.type(0).to_string() + " does not broadcast to " + to.to_string() + ".");
  return {{r.type(0).dtype, to}};
}
void grad_BroadcastTo(GradContext& c) {
  c.give(0, sum_to_shape(c.cotangent(), c.input(0).shape()));
}
Tensor broadcast_to(Operand x, Shape shape) {
  return broadcast(as_tensor("broadcast_to", x, f32), shape, x.site());
}

Tensor sum_to_shape(Operand x, Shape shape) {
  SiteScope scope(x.site());
  const Tensor tensor = as_tensor("sum_to_shape", x, f32);
  const int extra = tensor.rank() - shape.rank();
  bool fits = extra >= 0;
  std::vector<int> axes;
  for (int i = 0; fits && i < tensor.rank(); ++i) {
    const std::int64_t want = i < extra ? 1 : shape[i - extra];
    fits = want == tensor.shape()[i] || want == 1;
    if (i < extra || want != tensor.shape()[i]) axes.push_back(i);
  }
  if (!fits) {
    fail_op("sum_to_shape",
            tensor.type().to_string() + " does not sum to " + shape.to_string() + ".", x.site());
  }
  return reshape(axes.empty() ? tensor : sum(tensor, {Axes(axes)}), shape);
}

// The gradient of a slice is a pad: with zeros outside, and between where the step skipped.
Types infer_Slice(const Rule& r) {
  const auto& a = r.attr<SliceAttr>();
  const Shape& from = r.type(0).shape;
  Shape shape;
  for (int i = 0; i < from.rank(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    const std::int64_t last = a.start[k] + (a.size[k] - 1) * a.step[k];
    if (a.size[k] < 1 || a.step[k] == 0 || a.start[k] < 0 || a.start[k] >= from[i] || last < 0 ||
        last >= from[i]) {
      r.fail("the range start " + std::to_string(a.start[k]) + ", length " +
             std::to_string(a.size[k]) + ", step " + std::to_string(a.step[k]) +
             " is empty or leaves axis " + std::to_string(i) + " of " + r.type(0).to_string() +
             ".");
    }
    shape.push_back(a.size[k]);
  }
  return {{r.type(0).dtype, shape}};
}
void grad_Slice(GradContext& c) {
  const auto& a = c.attr<SliceAttr>();
  const Shape& from = c.input(0).shape();
  Tensor g = c.cotangent();
  std::vector<int> flipped;
  PadAttr pad;
  for (int i = 0; i < from.rank(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    const std::int64_t step = a.step[k] < 0 ? -a.step[k] : a.step[k];
    const std::int64_t span = (a.size[k] - 1) * step;
    const std::int64_t low = a.step[k] < 0 ? a.start[k] - span : a.start[k];
    if (a.step[k] < 0) flipped.push_back(i);
    pad.low.push_back(low);
    pad.high.push_back(from[i] - low - span - 1);
    pad.interior.push_back(step - 1);
  }
  if (!flipped.empty()) g = flip(g, flipped);
  c.give(0, emit(OpKind::Pad, {g}, pad, {}));
}

namespace {
SliceAttr whole(const Shape& shape) {
  SliceAttr a;
  for (const Dim& dim : shape) {
    a.start.push_back(0);
    a.step.push_back(1);
    a.size.push_back(dim.size);
  }
  return a;
}
}  // namespace

Tensor narrow(Operand x, int axis, std::int64_t start, std::int64_t length) {
  const Tensor tensor = as_tensor("narrow", x, f32);
  axis = resolve_axis("narrow", axis, tensor.rank(), tensor.type(), x.site());
  if (start < 0) start += tensor.shape()[axis];
  if (start < 0 || length < 1 || start + length > tensor.shape()[axis]) {
    fail_op("narrow",
            "start " + std::to_string(start) + " and length " + std::to_string(length) +
                " leave axis " + std::to_string(axis) + " of " + tensor.type().to_string() + ".",
            x.site());
  }
  if (length == tensor.shape()[axis]) return tensor;
  SliceAttr a = whole(tensor.shape());
  a.start[static_cast<std::size_t>(axis)] = start;
  a.size[static_cast<std::size_t>(axis)] = length;
  return emit(OpKind::Slice, {tensor}, a, x.site());
}

Tensor slice(Operand x, int axis, std::int64_t start, std::int64_t end, std::int64_t step) {
  const Tensor tensor = as_tensor("slice", x, f32);
  axis = resolve_axis("slice", axis, tensor.rank(), tensor.type(), x.site());
  const std::int64_t n = tensor.shape()[axis];
  if (step == 0) fail_op("slice", "the step must not be 0.", x.site());
  // As Python: positions are clamped to the axis; with a negative step, "to the end" is before 0.
  const auto position = [&](std::int64_t p, std::int64_t lo, std::int64_t hi) {
    if (p < 0) p += n;
    return std::clamp(p, lo, hi);
  };
  const bool open = end == kEnd;
  const std::int64_t first = step > 0 ? position(start, 0, n) : position(start, -1, n - 1);
  const std::int64_t last =
      open ? (step > 0 ? n : -1) : (step > 0 ? position(end, 0, n) : position(end, -1, n - 1));
  const std::int64_t length =
      step > 0 ? (last - first + step - 1) / step : (first - last - step - 1) / -step;
  if (length < 1) {
    fail_op("slice",
            "the range from " + std::to_string(start) + (open ? "" : " to " + std::to_string(end)) +
                " by " + std::to_string(step) + " of axis " + std::to_string(axis) + " of " +
                tensor.type().to_string() + " is empty.",
            x.site());
  }
  if (length == n && step == 1) return tensor;
  SliceAttr a = whole(tensor.shape());
  a.start[static_cast<std::size_t>(axis)] = first;
  a.step[static_cast<std::size_t>(axis)] = step;
  a.size[static_cast<std::size_t>(axis)] = length;
  return emit(OpKind::Slice, {tensor}, a, x.site());
}

Tensor flip(Operand x, Axes axes) {
  const Tensor tensor = as_tensor("flip", x, f32);
  SliceAttr a = whole(tensor.shape());
  for (int axis : resolve_axes("flip", axes, tensor.type(), x.site())) {
    a.start[static_cast<std::size_t>(axis)] = tensor.shape()[axis] - 1;
    a.step[static_cast<std::size_t>(axis)] = -1;
  }
  return emit(OpKind::Slice, {tensor}, a, x.site());
}

std::vector<Tensor> split(Operand x, std::vector<std::int64_t> sizes, int axis) {
  SiteScope scope(x.site());
  const Tensor tensor = as_tensor("split", x, f32);
  axis = resolve_axis("split", axis, tensor.rank(), tensor.type(), x.site());
  if (std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) != tensor.shape()[axis]) {
    fail_op("split",
            "the sizes " + list_text(sizes) + " do not add up to axis " + std::to_string(axis) +
                " of " + tensor.type().to_string() + ".",
            x.site());
  }
  std::vector<Tensor> parts;
  std::int64_t start = 0;
  for (std::int64_t size : sizes) {
    parts.push_back(narrow(tensor, axis, start, size));
    start += size;
  }
  return parts;
}

std::vector<Tensor> split(Operand x, int parts, int axis) {
  const Tensor tensor = as_tensor("split", x, f32);
  const int at = resolve_axis("split", axis, tensor.rank(), tensor.type(), x.site());
  if (parts < 1 || tensor.shape()[at] % parts != 0) {
    fail_op("split",
            "axis " + std::to_string(at) + " of " + tensor.type().to_string() +
                " does not divide into " + std::to_string(parts) + " equal parts.",
            x.site());
  }
  return split(
      x, std::vector<std::int64_t>(static_cast<std::size_t>(parts), tensor.shape()[at] / parts),
      axis);
}

// The gradient of a pad is the slice that undoes it.
Types infer_Pad(const Rule& r) {
  const auto& a = r.attr<PadAttr>();
  const Shape& from = r.type(0).shape;
  Shape shape;
  for (int i = 0; i < from.rank(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    if (a.low[k] < 0 || a.high[k] < 0 || a.interior[k] < 0) {
      r.fail("widths must not be negative; use narrow to cut.");
    }
    shape.push_back(a.low[k] + a.high[k] + from[i] + (from[i] - 1) * a.interior[k]);
  }
  return {{r.type(0).dtype, shape}};
}
void grad_Pad(GradContext& c) {
  const auto& a = c.attr<PadAttr>();
  SliceAttr s;
  for (int i = 0; i < c.input(0).rank(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    s.start.push_back(a.low[k]);
    s.step.push_back(a.interior[k] + 1);
    s.size.push_back(c.input(0).shape()[i]);
  }
  c.give(0, emit(OpKind::Slice, {c.cotangent()}, s, {}));
}
Tensor pad(Operand x, const std::vector<PadWidth>& widths, double value) {
  const Tensor tensor = as_tensor("pad", x, f32);
  if (static_cast<int>(widths.size()) != tensor.rank()) {
    fail_op("pad",
            std::to_string(widths.size()) + " widths are given for " + tensor.type().to_string() +
                "; give one for each axis.",
            x.site());
  }
  PadAttr a;
  a.value = value;
  for (const PadWidth& width : widths) {
    a.low.push_back(width.before);
    a.high.push_back(width.after);
    a.interior.push_back(0);
  }
  return emit(OpKind::Pad, {tensor}, a, x.site());
}

Types infer_Concat(const Rule& r) {
  if (r.count() == 0) r.fail("there is nothing to join.");
  const int axis = r.attr<AxisAttr>().axis;
  Shape shape = r.type(0).shape;
  if (axis < 0 || axis >= shape.rank())
    r.fail("the axis is out of range for " + r.type(0).to_string() + ".");
  std::int64_t total = 0;
  for (int i = 0; i < r.count(); ++i) {
    Shape other = r.type(i).shape;
    bool fits = other.rank() == shape.rank() && r.type(i).dtype == r.type(0).dtype;
    for (int k = 0; fits && k < shape.rank(); ++k) fits = k == axis || other[k] == shape[k];
    if (!fits) {
      r.fail("part " + std::to_string(i) + " is " + r.type(i).to_string() +
             ", which does not fit " + r.type(0).to_string() + " beside it on axis " +
             std::to_string(axis) + ".");
    }
    total += other[axis];
  }
  shape.set(axis, total);
  return {{r.type(0).dtype, shape}};
}
void grad_Concat(GradContext& c) {
  const int axis = c.attr<AxisAttr>().axis;
  std::int64_t start = 0;
  for (int i = 0; i < c.input_count(); ++i) {
    const std::int64_t length = c.input(i).shape()[axis];
    if (c.needs(i)) c.give(i, narrow(c.cotangent(), axis, start, length));
    start += length;
  }
}
Tensor concat(const std::vector<Tensor>& parts, int axis, Site site) {
  if (parts.empty()) fail_op("concat", "there is nothing to join.", site);
  const Tensor first = as_tensor("concat", Operand(parts[0], site.file, site.line), f32);
  axis = resolve_axis("concat", axis, first.rank(), first.type(), site);
  if (parts.size() == 1) return first;
  return emit(OpKind::Concat, parts, AxisAttr{axis}, site);
}

Tensor stack(const std::vector<Tensor>& parts, int axis, Site site) {
  SiteScope scope(site);
  std::vector<Tensor> expanded;
  for (const Tensor& part : parts) expanded.push_back(expand_dims(part, axis));
  if (expanded.empty()) fail_op("stack", "there is nothing to join.", site);
  return concat(expanded, axis < 0 ? axis + expanded[0].rank() : axis, site);
}

// Repeats are new axes of the wanted size beside each axis, broadcast and merged.
Tensor tile(Operand x, std::vector<std::int64_t> repeats) {
  SiteScope scope(x.site());
  Tensor tensor = as_tensor("tile", x, f32);
  for (std::int64_t r : repeats) {
    if (r < 1)
      fail_op("tile", "repeats must be positive, not " + list_text(repeats) + ".", x.site());
  }
  while (tensor.rank() < static_cast<int>(repeats.size())) tensor = expand_dims(tensor, 0);
  while (static_cast<int>(repeats.size()) < tensor.rank()) repeats.insert(repeats.begin(), 1);
  Shape split_shape, wide, merged;
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    const std::int64_t n = tensor.shape()[axis], r = repeats[static_cast<std::size_t>(axis)];
    split_shape.push_back(1);
    split_shape.push_back(n);
    wide.push_back(r);
    wide.push_back(n);
    merged.push_back(r * n);
  }
  return reshape(broadcast_to(reshape(tensor, split_shape), wide), merged);
}

}  // namespace tensorgrad
