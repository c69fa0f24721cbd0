// The ops in plain loops. Every function computes one node; `x`, `y` are inputs, `out` is the
// output.
#include "runtime/reference/interpreter.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "ops/scalar.hpp"
#include "runtime/reference/call.hpp"

namespace tensorgrad::reference {

namespace {

/// A view: each element of the output is the element of the input that `source` says.
Values view(const Call& c, const std::function<Index(const Index&)>& source) {
  Values out;
  for_each(c.out_shape(), [&](const Index& index) {
    out.push_back(c.input(0)[position(c.shape(0), source(index))]);
  });
  return out;
}

/// An index read from data, or an error if it lies outside of `size` places.
std::int64_t checked_index(const Call& c, double value, std::int64_t size) {
  if (value >= 0 && value < static_cast<double>(size)) return static_cast<std::int64_t>(value);
  const std::string site = c.node.site.to_string();
  throw Error(std::string(to_string(c.node.op)) + ": the index " +
              std::to_string(static_cast<std::int64_t>(value)) + " is out of range: axis " +
              std::to_string(c.attr<AxisAttr>().axis) + " of " + c.graph.type(c.id(0)).to_string() +
              " takes 0 to " + std::to_string(size - 1) + "." +
              (site.empty() ? "" : "\n  at " + site));
}

// ---- leaves that make themselves

Values iota(const Call& c) {
  Values out;
  for_each(c.out_shape(), [&](const Index& index) {
    out.push_back(static_cast<double>(index[at(c.attr<IotaAttr>().axis)]));
  });
  return out;
}

// ---- elementwise

Values elementwise(const Call& c) {
  Values out = c.zeros();
  const DType from = c.dtype(c.count() - 1);  // of where: the values', not the condition's
  double args[3] = {};
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (int k = 0; k < c.count(); ++k) args[k] = c.input(k)[i];
    out[i] = apply_scalar(c.node.op, from, c.out_type().dtype, args);
  }
  return out;
}

// ---- views and joins

// out[i] = x[j] where j[perm[k]] = i[k]
Values permute(const Call& c) {
  const std::vector<int>& perm = c.attr<PermAttr>().perm;
  return view(c, [&](const Index& index) {
    Index from(index.size());
    for (std::size_t k = 0; k < perm.size(); ++k) from[at(perm[k])] = index[k];
    return from;
  });
}

// Axes are counted from the last; where x has 1, every index reads 0.
Values broadcast_to(const Call& c) {
  const int extra = c.out_shape().rank() - c.shape(0).rank();
  return view(c, [&](const Index& index) {
    Index from;
    for (int k = 0; k < c.shape(0).rank(); ++k) {
      from.push_back(c.shape(0)[k] == 1 ? 0 : index[at(k + extra)]);
    }
    return from;
  });
}

// out[i] = x[start + i·step]
Values slice(const Call& c) {
  const auto& a = c.attr<SliceAttr>();
  return view(c, [&](Index index) {
    for (std::size_t k = 0; k < index.size(); ++k) index[k] = a.start[k] + index[k] * a.step[k];
    return index;
  });
}

// out[.., i, k, ..] = x[.., i·stride + k·dilation, ..]
Values window(const Call& c) {
  const auto& a = c.attr<WindowAttr>();
  return view(c, [&](Index index) {
    index[at(a.axis)] = index[at(a.axis)] * a.stride + index[at(a.axis + 1)] * a.dilation;
    index.erase(index.begin() + a.axis + 1);
    return index;
  });
}

// out[low + i·(interior + 1)] = x[i], the value elsewhere
Values pad(const Call& c) {
  const auto& a = c.attr<PadAttr>();
  Values out(at(c.out_shape().size()), a.value);
  for_each(c.shape(0), [&](const Index& index) {
    Index to = index;
    for (std::size_t k = 0; k < to.size(); ++k) to[k] = a.low[k] + to[k] * (a.interior[k] + 1);
    out[position(c.out_shape(), to)] = c.input(0)[position(c.shape(0), index)];
  });
  return out;
}

Values concat(const Call& c) {
  const int axis = c.attr<AxisAttr>().axis;
  Values out = c.zeros();
  std::int64_t start = 0;
  for (int i = 0; i < c.count(); ++i) {
    for_each(c.shape(i), [&](const Index& index) {
      const Index to = with(index, axis, start + index[at(axis)]);
      out[position(c.out_shape(), to)] = c.input(i)[position(c.shape(i), index)];
    });
    start += c.shape(i)[axis];
  }
  return out;
}

// ---- gathers and scatters

// out[.., i, ..] = x[.., idx[i], ..]
Values index_select(const Call& c) {
  const int axis = c.attr<AxisAttr>().axis;
  return view(c, [&](const Index& index) {
    return with(index, axis, checked_index(c, c.input(1)[at(index[at(axis)])], c.shape(0)[axis]));
  });
}

// out[p] = x[p with its axis replaced by idx[p]]
Values take_along_axis(const Call& c) {
  const int axis = c.attr<AxisAttr>().axis;
  return view(c, [&](const Index& index) {
    return with(index, axis,
                checked_index(c, c.input(1)[position(c.shape(1), index)], c.shape(0)[axis]));
  });
}

// out = x; out[.., idx[i], ..] += src[.., i, ..]
Values scatter_add(const Call& c) {
  const int axis = c.attr<AxisAttr>().axis;
  Values out = c.input(0);
  for_each(c.shape(2), [&](const Index& index) {
    const double row = c.input(1)[at(index[at(axis)])];
    const Index to = with(index, axis, checked_index(c, row, c.shape(0)[axis]));
    out[position(c.out_shape(), to)] += c.input(2)[position(c.shape(2), index)];
  });
  return out;
}

// ---- reductions

/// `index` without the reduced axes.
Index kept(const Index& index, const std::vector<int>& axes) {
  Index result;
  for (int axis = 0; axis < static_cast<int>(index.size()); ++axis) {
    if (!std::binary_search(axes.begin(), axes.end(), axis)) result.push_back(index[at(axis)]);
  }
  return result;
}

/// Folds the elements that share an output, starting with the first.
Values reduce(const Call& c, const std::function<double(double, double)>& fold) {
  const std::vector<int>& axes = c.attr<AxesAttr>().axes;
  Values out = c.zeros();
  std::vector<bool> started(out.size(), false);
  for_each(c.shape(0), [&](const Index& index) {
    const std::size_t to = position(c.out_shape(), kept(index, axes));
    const double x = c.input(0)[position(c.shape(0), index)];
    out[to] = started[to] ? fold(out[to], x) : x;
    started[to] = true;
  });
  return out;
}

/// A sum or product of the tensor's dtype: i32 wraps.
Values reduce_arithmetic(const Call& c, OpKind op) {
  const DType dtype = c.dtype(0);
  return reduce(c, [=](double a, double b) {
    const double args[] = {a, b};
    return apply_scalar(op, dtype, dtype, args);
  });
}

/// The index of the first element along the axis that none after it beats.
Values arg_reduce(const Call& c, const std::function<bool(double, double)>& beats) {
  const int axis = c.attr<AxisAttr>().axis;
  Values out = c.zeros();
  for_each(c.out_shape(), [&](const Index& outer) {
    Index index = outer;
    index.insert(index.begin() + axis, 0);
    const auto value = [&](std::int64_t i) {
      return c.input(0)[position(c.shape(0), with(index, axis, i))];
    };
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < c.shape(0)[axis]; ++i) {
      if (beats(value(i), value(best))) best = i;
    }
    out[position(c.out_shape(), outer)] = static_cast<double>(best);
  });
  return out;
}

// ---- products

// out[.., m, n] = Σ_k x[.., m, k]·y[.., k, n]
Values matmul(const Call& c) {
  const int rank = c.out_shape().rank();
  const std::int64_t rows = c.out_shape()[rank - 2], columns = c.out_shape()[rank - 1];
  const std::int64_t inner = c.shape(0)[rank - 1],
                     batches = c.out_shape().size() / (rows * columns);
  Values out = c.zeros();
  for (std::int64_t b = 0; b < batches; ++b) {
    for (std::int64_t m = 0; m < rows; ++m) {
      for (std::int64_t n = 0; n < columns; ++n) {
        double sum = 0;
        for (std::int64_t k = 0; k < inner; ++k) {
          sum += c.input(0)[at((b * rows + m) * inner + k)] *
                 c.input(1)[at((b * inner + k) * columns + n)];
        }
        out[at((b * rows + m) * columns + n)] = sum;
      }
    }
  }
  return out;
}

// ---- optimizers; the formulas stand at the head of optim/optimizer.cpp

// √Σ g² over all inputs
Values global_norm(const Call& c) {
  double sum = 0;
  for (int i = 0; i < c.count(); ++i) {
    for (double g : c.input(i)) sum += g * g;
  }
  return {std::sqrt(sum)};
}

/// What gradients are multiplied by: min(1, max_norm/(norm + 1e-6)), 1 without clipping.
double clip_scale(const Call& c) {
  const double max_norm = c.attr<UpdateAttr>().max_norm;
  if (max_norm <= 0) return 1;
  return std::min(1.0, max_norm / (c.input(c.count() - 1)[0] + 1e-6));
}

// Inputs: parameter, gradient, m, v, scalars[, norm]. Outputs: parameter, m, v.
std::vector<Values> adam_update(const Call& c) {
  const auto& a = c.attr<UpdateAttr>();
  const Values &scalars = c.input(4), &gradient = c.input(1);
  const double decay = a.decay ? scalars[2] : 1, scale = clip_scale(c);
  Values p = c.input(0), m = c.input(2), v = c.input(3);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double g = scale * gradient[i];
    m[i] = a.beta1 * m[i] + (1 - a.beta1) * g;
    v[i] = a.beta2 * v[i] + (1 - a.beta2) * g * g;
    p[i] = p[i] * decay - scalars[0] * m[i] / (std::sqrt(v[i]) * scalars[1] + a.eps);
  }
  return {p, m, v};
}

// Inputs: parameter, gradient[, momentum], scalars[, norm]. Outputs: parameter[, momentum].
std::vector<Values> sgd_update(const Call& c) {
  const auto& a = c.attr<UpdateAttr>();
  const bool has_momentum = a.momentum != 0;
  const double rate = c.input(has_momentum ? 3 : 2)[0], scale = clip_scale(c);
  const Values& gradient = c.input(1);
  Values p = c.input(0), b = has_momentum ? c.input(2) : Values(p.size(), 0);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double g = scale * gradient[i] + (a.decay ? a.weight_decay * p[i] : 0);
    b[i] = a.momentum * b[i] + g;
    p[i] -= rate * (a.nesterov ? g + a.momentum * b[i] : b[i]);
  }
  if (!has_momentum) return {p};
  return {p, b};
}

std::vector<Values> evaluate(const Call& c) {
  // clang-format off
  switch (c.node.op) {
    case OpKind::ParamInput:
    case OpKind::TensorInput:
    case OpKind::StateInput:
      throw InternalError(std::string("reference: ") + to_string(c.node.op) + "(" +
                          to_string(c.node.attrs) + ") has no value");
    case OpKind::Literal: return {*c.attr<LiteralAttr>().data};
    case OpKind::Constant: return {Values(at(c.out_shape().size()), c.attr<ValueAttr>().value)};
    case OpKind::Iota: return {iota(c)};

    case OpKind::Neg:
    case OpKind::Abs:
    case OpKind::Sqrt:
    case OpKind::Rsqrt:
    case OpKind::Exp:
    case OpKind::Log:
    case OpKind::Log1p:
    case OpKind::Expm1:
    case OpKind::Sin:
    case OpKind::Cos:
    case OpKind::Tanh:
    case OpKind::Erf:
    case OpKind::Floor:
    case OpKind::Sign:
    case OpKind::Relu:
    case OpKind::Sigmoid:
    case OpKind::Softplus:
    case OpKind::LogicalNot:
    case OpKind::Cast:
    case OpKind::Add:
    case OpKind::Sub:
    case OpKind::Mul:
    case OpKind::Div:
    case OpKind::Minimum:
    case OpKind::Maximum:
    case OpKind::Pow:
    case OpKind::Less:
    case OpKind::LessEqual:
    case OpKind::Equal:
    case OpKind::LogicalAnd:
    case OpKind::LogicalOr:
    case OpKind::Where:
    case OpKind::Random: return {elementwise(c)};

    case OpKind::StopGradient:
    case OpKind::Reshape: return {c.input(0)};
    case OpKind::Permute: return {permute(c)};
    case OpKind::BroadcastTo: return {broadcast_to(c)};
    case OpKind::Slice: return {slice(c)};
    case OpKind::Window: return {window(c)};
    case OpKind::Pad: return {pad(c)};
    case OpKind::Concat: return {concat(c)};
    case OpKind::IndexSelect: return {index_select(c)};
    case OpKind::TakeAlongAxis: return {take_along_axis(c)};

    case OpKind::ReduceSum: return {reduce_arithmetic(c, OpKind::Add)};
    case OpKind::ReduceMax: return {reduce(c, maximum_scalar)};
    case OpKind::ReduceMin: return {reduce(c, minimum_scalar)};
    case OpKind::ReduceProd: return {reduce_arithmetic(c, OpKind::Mul)};
    case OpKind::ArgMax: return {arg_reduce(c, std::greater<>())};
    case OpKind::ArgMin: return {arg_reduce(c, std::less<>())};

    case OpKind::MatMul: return {matmul(c)};
    case OpKind::ScatterAdd: return {scatter_add(c)};

    case OpKind::LinearScan: return {linear_scan(c)};
    case OpKind::ScanState: return {scan_state(c)};
    case OpKind::ScanOutput: return {scan_output(c)};
    case OpKind::ScanGradState: return {scan_grad_state(c)};
    case OpKind::ScanGrad: return {scan_grad(c)};
    case OpKind::Attention: return attention(c);
    case OpKind::AttentionGradQ: return {attention_grad_q(c)};
    case OpKind::AttentionGradKV: return attention_grad_kv(c);

    case OpKind::GlobalNorm: return {global_norm(c)};
    case OpKind::AdamUpdate: return adam_update(c);
    case OpKind::SgdUpdate: return sgd_update(c);
  }
  // clang-format on
  throw InternalError("reference: an op that is not in ops.def");
}

/// The name of a leaf that the caller feeds; null for every other node.
const std::string* fed_name(const Node& node) {
  if (const auto* input = std::get_if<InputAttr>(&node.attrs)) return &input->name;
  if (const auto* state = std::get_if<StateAttr>(&node.attrs)) return &state->name;
  return nullptr;
}

}  // namespace

void compute(const Graph& graph, const Node& node, std::vector<Values>& tensors) {
  std::vector<Values> outputs = evaluate(Call{graph, node, tensors});
  for (std::size_t k = 0; k < outputs.size(); ++k)
    tensors[at(node.outputs[k])] = std::move(outputs[k]);
}

std::vector<Values> Interpreter::run(
    const std::map<std::string, Values>& leaves,
    const std::function<void(const TensorType&, Values&)>& adjust) const {
  std::vector<Values> tensors(at(graph_.tensor_count()));
  const auto finish = [&](const Node& node) {
    if (!adjust) return;
    for (TensorId output : node.outputs) adjust(graph_.type(output), tensors[at(output)]);
  };
  for (const Node& node : graph_.nodes()) {
    const std::string* name = fed_name(node);
    if (name == nullptr) {
      compute(graph_, node, tensors);
      finish(node);
      continue;
    }
    const TensorType& type = graph_.type(node.output());
    const auto given = leaves.find(*name);
    if (given == leaves.end()) {
      throw Error("reference: " + std::string(to_string(node.op)) + " \"" + *name + "\", " +
                  type.to_string() + ", is not given.");
    }
    if (static_cast<std::int64_t>(given->second.size()) != type.shape.size()) {
      throw Error("reference: " + std::string(to_string(node.op)) + " \"" + *name + "\" is " +
                  type.to_string() + " and takes " + std::to_string(type.shape.size()) +
                  " values, but " + std::to_string(given->second.size()) + " are given.");
    }
    tensors[at(node.output())] = given->second;
    finish(node);
  }
  return tensors;
}

}  // namespace tensorgrad::reference
