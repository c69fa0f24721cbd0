#include "support/kernel_eval.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include "runtime/reference/interpreter.hpp"
#include "tensorgrad/random.hpp"

namespace tensorgrad::testing {

namespace {

double wrap_i32(double value) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::int64_t>(value)));
}

double to_i32(double value) {
  if (std::isnan(value)) return 0;
  return std::min(std::max(std::trunc(value), -2147483648.0), 2147483647.0);
}

double with_nan(double a, double b, double otherwise) {
  return std::isnan(a) ? a : std::isnan(b) ? b : otherwise;
}

double apply(const Expr& e, DType from, const std::vector<double>& x) {
  const bool integer = e.dtype == DType::I32;
  const auto number = [&](double value) { return integer ? wrap_i32(value) : value; };
  switch (e.op) {
    case OpKind::Neg:
      return number(-x[0]);
    case OpKind::Abs:
      return number(std::fabs(x[0]));
    case OpKind::Sqrt:
      return std::sqrt(x[0]);
    case OpKind::Rsqrt:
      return 1 / std::sqrt(x[0]);
    case OpKind::Exp:
      return std::exp(x[0]);
    case OpKind::Log:
      return std::log(x[0]);
    case OpKind::Log1p:
      return std::log1p(x[0]);
    case OpKind::Expm1:
      return std::expm1(x[0]);
    case OpKind::Sin:
      return std::sin(x[0]);
    case OpKind::Cos:
      return std::cos(x[0]);
    case OpKind::Tanh:
      return std::tanh(x[0]);
    case OpKind::Erf:
      return std::erf(x[0]);
    case OpKind::Floor:
      return std::floor(x[0]);
    case OpKind::Sign:
      return std::isnan(x[0]) ? x[0] : (x[0] > 0) - (x[0] < 0);
    case OpKind::Relu:
      return x[0] <= 0 ? 0 : x[0];
    case OpKind::Sigmoid:
      return 1 / (1 + std::exp(-x[0]));
    case OpKind::Softplus:
      return x[0] > 0 ? x[0] + std::log1p(std::exp(-x[0])) : std::log1p(std::exp(x[0]));
    case OpKind::LogicalNot:
      return x[0] == 0;
    case OpKind::Cast:
      if (e.dtype == DType::Bool) return x[0] != 0;
      return e.dtype == DType::I32 && from == DType::F32 ? to_i32(x[0]) : x[0];
    case OpKind::Add:
      return number(x[0] + x[1]);
    case OpKind::Sub:
      return number(x[0] - x[1]);
    case OpKind::Mul:
      if (!integer) return x[0] * x[1];
      return wrap_i32(static_cast<double>(
          static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::int32_t>(x[0])) *
                                    static_cast<std::uint32_t>(static_cast<std::int32_t>(x[1])))));
    case OpKind::Div:
      if (!integer) return x[0] / x[1];
      return x[1] == 0 ? 0 : wrap_i32(std::trunc(x[0] / x[1]));
    case OpKind::Minimum:
      return with_nan(x[0], x[1], std::fmin(x[0], x[1]));
    case OpKind::Maximum:
      return with_nan(x[0], x[1], std::fmax(x[0], x[1]));
    case OpKind::Pow:
      return std::pow(x[0], x[1]);
    case OpKind::Less:
      return x[0] < x[1];
    case OpKind::LessEqual:
      return x[0] <= x[1];
    case OpKind::Equal:
      return x[0] == x[1];
    case OpKind::LogicalAnd:
      return x[0] != 0 && x[1] != 0;
    case OpKind::LogicalOr:
      return x[0] != 0 || x[1] != 0;
    case OpKind::Where:
      return x[0] != 0 ? x[1] : x[2];
    case OpKind::Random: {
      const auto word = [&](int k) {
        return static_cast<std::uint32_t>(static_cast<std::int64_t>(x[k]));
      };
      return (threefry({word(0), 0}, {word(1), word(2)})[0] >> 8) * 0x1p-24;
    }
    default:
      throw std::logic_error(std::string("evaluate: no elementwise op: ") + to_string(e.op));
  }
}

/// Evaluates expressions at one point: the values of all variables, inner ones included.
class Evaluator {
 public:
  Evaluator(const Kernel& kernel, const HostBuffers& before) : kernel_(kernel), before_(before) {}

  std::vector<std::int64_t> point;

  /// To be called whenever `point` changes; `row` says that an outer variable did.
  void moved(bool row) {
    inner_.assign(kernel_.exprs.size(), std::nullopt);
    if (row) outer_.assign(kernel_.exprs.size(), std::nullopt);
  }

  double value(ExprId id) {
    const Expr& e = kernel_.exprs.at(static_cast<std::size_t>(id));
    // Copied out because a reduction moves the inner variables on the way.
    auto& known = e.inner ? inner_ : outer_;
    if (known[static_cast<std::size_t>(id)]) return *known[static_cast<std::size_t>(id)];
    const double result = compute(id, e);
    (e.inner ? inner_ : outer_)[static_cast<std::size_t>(id)] = result;
    return result;
  }

  std::int64_t index(const Index& map, ExprId user) {
    std::int64_t sum = map.constant();
    for (const Index::Term& term : map.terms()) {
      std::int64_t atom = 0;
      switch (term.atom->kind) {
        case IndexAtom::Kind::Var:
          atom = point.at(static_cast<std::size_t>(term.atom->id));
          break;
        case IndexAtom::Kind::Data:
          before_use(term.atom->id, user);
          atom = static_cast<std::int64_t>(value(term.atom->id));
          break;
        case IndexAtom::Kind::Div:
          atom = floor_div(index(*term.atom->arg, user), term.atom->divisor);
          break;
        case IndexAtom::Kind::Mod: {
          const std::int64_t arg = index(*term.atom->arg, user);
          atom = arg - term.atom->divisor * floor_div(arg, term.atom->divisor);
          break;
        }
      }
      sum += term.coefficient * atom;
    }
    return sum;
  }

 private:
  static std::int64_t floor_div(std::int64_t a, std::int64_t b) {
    return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
  }

  static void before_use(ExprId id, ExprId user) {
    if (id < 0 || id >= user) throw std::logic_error("evaluate: an expression uses a later one");
  }

  bool holds(const std::vector<Guard>& guards, ExprId user) {
    for (const Guard& g : guards) {
      const std::int64_t at = index(g.index, user);
      if (at < g.low || at >= g.high) return false;
      if (g.modulus > 1 && (at - g.low) % g.modulus != 0) return false;
    }
    return true;
  }

  double compute(ExprId id, const Expr& e) {
    switch (e.kind) {
      case Expr::Kind::Const:
        if (e.dtype == DType::F32) return static_cast<double>(static_cast<float>(e.value));
        return e.value;
      case Expr::Kind::Position:
        return static_cast<double>(index(e.index, id));
      case Expr::Kind::Test:
        return holds(e.guards, id);
      case Expr::Kind::Load: {
        if (!holds(e.guards, id)) return 0;
        const Binding& b = kernel_.bindings.at(static_cast<std::size_t>(e.binding));
        const std::int64_t at = index(e.index, id);
        if (!b.read) throw std::logic_error("evaluate: a load from a binding that is not read");
        if (b.dtype != e.dtype) throw std::logic_error("evaluate: a load of another dtype");
        if (at < 0 || at >= b.elements) {
          throw std::logic_error("evaluate: e" + std::to_string(id) + " loads element " +
                                 std::to_string(at) + " of binding " + std::to_string(e.binding) +
                                 ", which has " + std::to_string(b.elements));
        }
        return before_.at(b.buffer).at(static_cast<std::size_t>(b.offset + at));
      }
      case Expr::Kind::Op: {
        std::vector<double> args;
        for (ExprId arg : e.args) {
          before_use(arg, id);
          args.push_back(value(arg));
        }
        const DType from =
            e.args.empty() ? e.dtype : kernel_.exprs[static_cast<std::size_t>(e.args[0])].dtype;
        return apply(e, from, args);
      }
      case Expr::Kind::Reduce:
        before_use(e.args.at(0), id);
        return reduce(e);
    }
    throw std::logic_error("evaluate: no such kind of expression");
  }

  double reduce(const Expr& e) {
    if (e.inner) throw std::logic_error("evaluate: a reduction is an outer value");
    const std::vector<std::int64_t> here = point;
    const auto kept = inner_;
    std::optional<double> best;
    std::int64_t at = 0, position = 0;
    const DType dtype = kernel_.exprs[static_cast<std::size_t>(e.args[0])].dtype;
    for_inner([&] {
      const double x = value(e.args[0]);
      switch (e.reduce) {
        case ReduceKind::Sum:
          best = best.value_or(0) + x;
          break;
        case ReduceKind::Prod:
          if (dtype == DType::I32) {  // a double would lose the low bits of a large product
            best = static_cast<double>(static_cast<std::int32_t>(
                static_cast<std::uint32_t>(static_cast<std::int64_t>(best.value_or(1))) *
                static_cast<std::uint32_t>(static_cast<std::int64_t>(x))));
          } else {
            best = best.value_or(1) * x;
          }
          break;
        case ReduceKind::Max:
          best = best ? with_nan(*best, x, std::fmax(*best, x)) : x;
          break;
        case ReduceKind::Min:
          best = best ? with_nan(*best, x, std::fmin(*best, x)) : x;
          break;
        case ReduceKind::ArgMax:
        case ReduceKind::ArgMin: {
          const bool beats =
              !best ||
              (!std::isnan(*best) &&
               (std::isnan(x) || (e.reduce == ReduceKind::ArgMax ? x > *best : x < *best)));
          if (beats) best = x, at = position;
          break;
        }
      }
      if (dtype == DType::I32 && best) best = wrap_i32(*best);
      ++position;
    });
    point = here;
    inner_ = kept;
    if (e.reduce == ReduceKind::ArgMax || e.reduce == ReduceKind::ArgMin)
      return static_cast<double>(at);
    return best.value_or(0);
  }

  const Kernel& kernel_;
  const HostBuffers& before_;
  std::vector<std::optional<double>> outer_, inner_;

 public:
  /// Calls `body` at every inner point of this row, in row-major order.
  template <class Body>
  void for_inner(Body body) {
    for_range(static_cast<std::size_t>(kernel_.outer_count), kernel_.vars.size(), [&] {
      moved(false);
      body();
    });
  }

  /// Calls `body` at every value of the variables [first, end), in row-major order.
  template <class Body>
  void for_range(std::size_t first, std::size_t end, Body body) {
    if (first == end) return body();
    for (std::int64_t i = 0; i < kernel_.vars[first].extent; ++i) {
      point[first] = i;
      for_range(first + 1, end, body);
    }
    point[first] = 0;
  }
};

void check_hints(const Kernel& k) {
  const auto expr = [&](ExprId id) -> const Expr& {
    return k.exprs.at(static_cast<std::size_t>(id));
  };
  if (k.matmul) {
    const Expr& acc = expr(k.matmul->acc);
    const bool fits = acc.kind == Expr::Kind::Reduce && acc.reduce == ReduceKind::Sum &&
                      expr(acc.args.at(0)).op == OpKind::Mul &&
                      expr(acc.args[0]).args == std::vector<ExprId>{k.matmul->lhs, k.matmul->rhs} &&
                      expr(k.matmul->lhs).kind == Expr::Kind::Load &&
                      expr(k.matmul->rhs).kind == Expr::Kind::Load && k.outer_count >= 2 &&
                      k.vars.size() == static_cast<std::size_t>(k.outer_count) + 1;
    if (!fits) throw std::logic_error("evaluate: the matmul hint does not fit");
  }
  if (k.scatter) {
    const bool fits = expr(k.scatter->sum).kind == Expr::Kind::Reduce && k.scatter->row_var >= 0 &&
                      k.scatter->row_var < k.outer_count &&
                      k.vars.size() == static_cast<std::size_t>(k.outer_count) + 1 &&
                      expr(k.scatter->indices).dtype == DType::I32;
    if (!fits) throw std::logic_error("evaluate: the scatter hint does not fit");
  }
}

}  // namespace

namespace {

/// A special kernel means what its op means on the reference interpreter.
void evaluate_special(const Kernel& kernel, HostBuffers& buffers) {
  const SpecialHint& special = *kernel.special;
  const auto for_each_element = [&](const StridedOperand& operand,
                                    const std::function<void(double&, std::size_t)>& visit) {
    const Binding& b = kernel.bindings.at(static_cast<std::size_t>(operand.binding));
    const std::vector<std::int64_t> dense = operand.type.shape.strides();
    for (std::int64_t i = 0; i < operand.type.shape.size(); ++i) {
      std::int64_t at = operand.offset;
      for (std::size_t k = 0; k < dense.size(); ++k) {
        at += i / dense[k] % operand.type.shape[static_cast<int>(k)] * operand.strides.at(k);
      }
      if (at < 0 || at >= b.elements)
        throw std::logic_error("evaluate: an operand outside its binding");
      visit(buffers.at(b.buffer).at(static_cast<std::size_t>(b.offset + at)),
            static_cast<std::size_t>(i));
    }
  };
  Graph graph;
  std::map<std::string, reference::Values> feeds;
  std::vector<TensorId> inputs;
  for (const StridedOperand& operand : special.inputs) {
    const std::string name = "in" + std::to_string(inputs.size());
    inputs.push_back(
        graph.node(graph.add(OpKind::TensorInput, {}, InputAttr{name, operand.type}, {})).output());
    feeds[name].resize(static_cast<std::size_t>(operand.type.shape.size()));
    for_each_element(operand, [&](double& value, std::size_t i) { feeds[name][i] = value; });
  }
  const Node node = graph.node(graph.add(special.op, inputs, special.attrs, {}));
  const std::vector<reference::Values> tensors = reference::Interpreter(graph).run(feeds);
  for (std::size_t k = 0; k < special.outputs.size(); ++k) {
    if (special.outputs[k].binding < 0) continue;
    const reference::Values& values = tensors.at(static_cast<std::size_t>(node.outputs[k]));
    for_each_element(special.outputs[k], [&](double& value, std::size_t i) { value = values[i]; });
  }
}

}  // namespace

void evaluate(const Kernel& kernel, HostBuffers& buffers) {
  if (kernel.special) return evaluate_special(kernel, buffers);
  check_hints(kernel);
  const HostBuffers before = buffers;
  Evaluator at(kernel, before);
  at.point.assign(kernel.vars.size(), 0);
  std::set<std::pair<int, std::int64_t>> stored;
  const auto store = [&](const Store& s) {
    const Binding& b = kernel.bindings.at(static_cast<std::size_t>(s.binding));
    const std::int64_t element = at.index(s.index, static_cast<ExprId>(kernel.exprs.size()));
    const Expr& value = kernel.exprs.at(static_cast<std::size_t>(s.value));
    if (!b.written) throw std::logic_error("evaluate: a store to a binding that is not written");
    if (b.dtype != value.dtype) throw std::logic_error("evaluate: a store of another dtype");
    if (element < 0 || element >= b.elements)
      throw std::logic_error("evaluate: a store outside its binding");
    if (!stored.insert({b.buffer, b.offset + element}).second) {
      throw std::logic_error("evaluate: element " + std::to_string(element) + " of binding " +
                             std::to_string(s.binding) + " is stored twice");
    }
    buffers.at(b.buffer).at(static_cast<std::size_t>(b.offset + element)) = at.value(s.value);
  };
  at.for_range(0, static_cast<std::size_t>(kernel.outer_count), [&] {
    at.moved(true);
    for (const Store& s : kernel.stores) {
      if (!s.inner) store(s);
    }
    at.for_inner([&] {
      for (const Store& s : kernel.stores) {
        if (s.inner) store(s);
      }
    });
  });
}

}  // namespace tensorgrad::testing
