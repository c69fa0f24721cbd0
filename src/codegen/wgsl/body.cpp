#include "codegen/wgsl/body.hpp"

#include <cmath>
#include <limits>

#include "codegen/wgsl/fold.hpp"
#include "ir/text.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::wgsl {

namespace {

std::string bracket(const std::string& text) { return "(" + text + ")"; }

/// Whether it can be multiplied or divided as it stands: a name, a number, something in brackets.
bool is_single(const std::string& text) {
  int depth = 0;
  for (const char c : text) {
    if (c == ')') --depth;
    if (c == ' ' && depth == 0) return false;
    if (c == '(') ++depth;
  }
  return true;
}

std::string factor(const std::string& text) { return is_single(text) ? text : bracket(text); }

std::string float_text(float value) {
  std::string text = shortest_text(value);
  // A compiler reads the decimal in double precision, and refuses one above the largest float.
  if (std::fabs(std::strtod(text.c_str(), nullptr)) > std::numeric_limits<float>::max()) {
    text = shortest_text(static_cast<double>(value));
  }
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void add_data(const Index& index, std::vector<ExprId>& ids) {
  for (const Index::Term& term : index.terms()) {
    if (term.atom->kind == IndexAtom::Kind::Data) ids.push_back(term.atom->id);
    if (term.atom->arg) add_data(*term.atom->arg, ids);
  }
}

}  // namespace

const char* value_type(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return "f32";
    case DType::I32:
      return "i32";
    case DType::Bool:
      return "bool";
  }
  return "?";
}

std::string literal(double value, DType dtype, std::set<std::string>& prelude) {
  const auto signed_text = [](const std::string& text) {
    return text[0] == '-' ? bracket(text) : text;
  };
  switch (dtype) {
    case DType::Bool:
      return value != 0 ? "true" : "false";
    case DType::I32:
      return signed_text(std::to_string(static_cast<std::int32_t>(value)));
    case DType::F32:
      break;
  }
  const auto single = static_cast<float>(value);
  if (std::isnan(single)) {
    prelude.insert("tg_nan");
    return "tg_nan()";
  }
  if (std::isinf(single)) {
    prelude.insert("tg_inf");
    return single > 0 ? "tg_inf()" : "(-tg_inf())";
  }
  return signed_text(float_text(single));
}

std::string name_of(const Kernel& kernel, ExprId id) {
  const Expr& e = kernel.exprs[static_cast<std::size_t>(id)];
  const std::string number = std::to_string(id);
  switch (e.kind) {
    case Expr::Kind::Const:
      return "const" + number;
    case Expr::Kind::Position:
      return "at" + number;
    case Expr::Kind::Load:
      return "load" + number;
    case Expr::Kind::Test:
      return "test" + number;
    case Expr::Kind::Op:
      return to_string(e.op) + number;
    case Expr::Kind::Reduce:
      return reduce_name(e.reduce) + number;
  }
  return "?";
}

std::vector<ExprId> uses(const Expr& e) {
  std::vector<ExprId> ids = e.args;
  add_data(e.index, ids);
  for (const Guard& guard : e.guards) add_data(guard.index, ids);
  return ids;
}

Body::Body(Module& module, Writer& out)
    : module_(module),
      out_(out),
      vars_(module.kernel.vars.size()),
      names_(module.kernel.exprs.size()) {
  for (std::size_t v = 0; v < vars_.size(); ++v) vars_[v] = "i" + std::to_string(v);
}

// ---- index maps

void Body::unravel(const std::string& linear, int first, int end) {
  const auto extent = [&](int v) { return kernel().vars[static_cast<std::size_t>(v)].extent; };
  std::int64_t below = 1;
  int last = -1;  // the outermost variable that is more than a constant
  for (int v = end - 1; v >= first; --v) {
    if (extent(v) > 1) last = v;
  }
  std::vector<std::string> lines;
  for (int v = end - 1; v >= first; --v) {
    if (extent(v) == 1) continue;
    std::string text = below == 1 ? linear : factor(linear) + " / " + unsigned_text(below);
    if (v != last) text = text + " % " + unsigned_text(extent(v));
    const std::string name = "i" + std::to_string(v) + suffix_;
    set_var(v, name);
    if (text != name) lines.insert(lines.begin(), "let " + name + " = " + text + ";");
    below *= extent(v);
  }
  for (const std::string& line : lines) out_.line(line);
}

std::string Body::atom(const IndexAtom& a) {
  switch (a.kind) {
    case IndexAtom::Kind::Var:
      return vars_[static_cast<std::size_t>(a.id)];
    case IndexAtom::Kind::Data: {
      const Expr& e = expr(a.id);
      if (e.kind == Expr::Kind::Const) return unsigned_text(static_cast<std::int64_t>(e.value));
      return "u32(" + value(a.id) + ")";
    }
    case IndexAtom::Kind::Div: {
      // Rounding is downwards: a numerator that may be negative is moved up by whole divisors.
      const std::int64_t low = a.arg->low(), up = low < 0 ? (-low + a.divisor - 1) / a.divisor : 0;
      const std::string text =
          factor(index(*a.arg + up * a.divisor)) + " / " + unsigned_text(a.divisor);
      return bracket(up == 0 ? text : text + " - " + unsigned_text(up));
    }
    case IndexAtom::Kind::Mod: {
      const std::int64_t low = a.arg->low(), up = low < 0 ? (-low + a.divisor - 1) / a.divisor : 0;
      return bracket(factor(index(*a.arg + up * a.divisor)) + " % " + unsigned_text(a.divisor));
    }
  }
  return "?";
}

Index Body::linear(int first, int end) const {
  Index result;
  for (int v = first; v < end; ++v) {
    const std::int64_t extent = kernel().vars[static_cast<std::size_t>(v)].extent;
    result = result * extent + Index::var(v, extent);
  }
  return result;
}

std::string Body::index(const Index& map) {
  if (const auto known = aliases_.find(map.to_string()); known != aliases_.end())
    return known->second;
  std::string text;
  const auto add = [&](bool minus, const std::string& term) {
    if (text.empty()) {
      text = minus ? "0u - " + term : term;
    } else {
      text += (minus ? " - " : " + ") + term;
    }
  };
  const auto add_terms = [&](bool negative) {
    for (const Index::Term& t : map.terms()) {
      if ((t.coefficient < 0) != negative) continue;
      const std::int64_t size = negative ? -t.coefficient : t.coefficient;
      const std::string part = atom(*t.atom);
      add(negative, size == 1 ? part : unsigned_text(size) + " * " + part);
    }
  };
  add_terms(false);
  if (map.constant() > 0 || map.is_constant()) add(false, unsigned_text(map.constant()));
  add_terms(true);
  if (map.constant() < 0 && !map.is_constant()) add(true, unsigned_text(-map.constant()));
  return text;
}

// low <= i < high is one comparison: i - low wraps to something large below low.
std::string Body::condition(const std::vector<Guard>& guards) {
  std::string text;
  const auto also = [&](const std::string& part) { text += (text.empty() ? "" : " && ") + part; };
  for (const Guard& g : guards) {
    const Index from_low = g.index - g.low;
    const std::int64_t size = g.high - g.low;
    const bool sure = !from_low.uses_data() && from_low.low() >= 0 && from_low.high() < size;
    if (size <= 0) return "false";
    if (!sure) also(index(from_low) + " < " + unsigned_text(size));
    if (g.modulus > 1) also(factor(index(from_low)) + " % " + unsigned_text(g.modulus) + " == 0u");
  }
  return text.empty() ? "true" : text;
}

std::string Body::element(int binding, const Index& map) {
  const ArrayRef& ref = module_.array(binding);
  return ref.array + "[" + index(map + ref.start) + "]";
}

// ---- expressions

std::string Body::value(ExprId id) {
  const std::string& name = names_[static_cast<std::size_t>(id)];
  if (!name.empty()) return name;
  const Expr& e = expr(id);
  if (e.kind == Expr::Kind::Const) return literal(e.value, e.dtype, module_.prelude);
  throw InternalError("wgsl: the kernel \"" + kernel().name + "\" uses " + name_of(kernel(), id) +
                      " where it is not computed");
}

void Body::compute(const std::vector<ExprId>& ids, const std::function<bool(const Expr&)>& wanted) {
  std::vector<bool> needed(kernel().exprs.size());
  for (ExprId id : ids) needed[static_cast<std::size_t>(id)] = true;
  for (auto id = static_cast<ExprId>(needed.size()) - 1; id >= 0; --id) {
    if (!needed[static_cast<std::size_t>(id)] || known(id)) continue;
    for (ExprId used : uses(expr(id))) needed[static_cast<std::size_t>(used)] = true;
  }
  for (ExprId id = 0; id < static_cast<ExprId>(needed.size()); ++id) {
    if (needed[static_cast<std::size_t>(id)] && !known(id) && wanted(expr(id))) print(id);
  }
}

void Body::print(ExprId id) {
  const Expr& e = expr(id);
  const std::string name = name_of(kernel(), id) + suffix_;
  std::string text;
  switch (e.kind) {
    case Expr::Kind::Const:
      return;  // printed where it is used
    case Expr::Kind::Position:
      text = "i32(" + index(e.index) + ")";
      if (e.dtype == DType::F32) text = "f32(" + text + ")";
      break;
    case Expr::Kind::Test:
      text = condition(e.guards);
      break;
    case Expr::Kind::Load: {
      const std::string guard = condition(e.guards);
      text = element(e.binding, e.index);
      if (module_.array(e.binding).as_bits) {
        text = std::string("bitcast<") + value_type(e.dtype) + ">(" + text + ")";
      } else if (e.dtype == DType::Bool) {
        text += " != 0u";
      }
      if (guard == "true") break;
      out_.line("var " + name + " = " + literal(0, e.dtype, module_.prelude) + ";", e.node);
      out_.open("if (" + guard + ")", e.node);
      out_.line(name + " = " + text + ";", e.node);
      out_.close();
      this->name(id, name);
      return;
    }
    case Expr::Kind::Op: {
      // An operation on literals alone would be evaluated by the compiler, which refuses what
      // overflows or has no value.
      bool constant = true;
      for (ExprId arg : e.args) constant = constant && expr(arg).kind == Expr::Kind::Const;
      for (ExprId arg : e.args) {
        if (!constant || known(arg)) continue;
        const std::string arg_name = name_of(kernel(), arg) + suffix_;
        out_.line("let " + arg_name + " = " + value(arg) + ";", e.node);
        this->name(arg, arg_name);
      }
      text = operation(e);
      break;
    }
    case Expr::Kind::Reduce:
      throw InternalError("wgsl: the kernel \"" + kernel().name + "\" uses " + name +
                          " before its row is folded");
  }
  out_.line("let " + name + " = " + text + ";", e.node);
  this->name(id, name);
}

/// Whether a number is at most 0 because of how it is made: −x·x, or x less the largest of a row.
/// There the built-in exp, which is good to 3 + 2|x| units in the last place, is as good as any:
/// it is off by less than a unit of 1.
bool Body::falls(ExprId id) const {
  const auto is = [&](ExprId x, OpKind op) {
    return expr(x).kind == Expr::Kind::Op && expr(x).op == op;
  };
  const auto largest = [&](ExprId x) {
    return expr(x).kind == Expr::Kind::Reduce && expr(x).reduce == ReduceKind::Max;
  };
  const auto square = [&](ExprId x) {
    return is(x, OpKind::Mul) && expr(x).args[0] == expr(x).args[1];
  };
  const auto constant = [&](ExprId x, auto holds) {
    return expr(x).kind == Expr::Kind::Const && holds(expr(x).value);
  };
  const auto at_most_0 = [](double c) { return c <= 0; };
  if (is(id, OpKind::Neg)) return square(expr(id).args[0]);
  if (is(id, OpKind::Mul)) {
    const ExprId a = expr(id).args[0], b = expr(id).args[1];
    return (constant(a, at_most_0) && square(b)) || (constant(b, at_most_0) && square(a));
  }
  if (!is(id, OpKind::Sub)) return false;
  const ExprId from = expr(id).args[0], by = expr(id).args[1];
  if (constant(by, [](double c) { return c >= 0; })) return falls(from);
  if (is(by, OpKind::Maximum)) return largest(expr(by).args[0]) || largest(expr(by).args[1]);
  // x − max − log Σ e^(x − max): a logarithm of at least 1 goes off what falls already
  return largest(by) || (is(by, OpKind::Log) && falls(from));
}

std::string Body::operation(const Expr& e) {
  std::vector<std::string> x;
  for (ExprId arg : e.args) x.push_back(value(arg));
  const DType from = e.args.empty() ? e.dtype : expr(e.args[0]).dtype;
  const bool is_float = from == DType::F32, is_bool = from == DType::Bool;
  const auto call = [&](const std::string& function) {
    if (function.rfind("tg_", 0) == 0) module_.prelude.insert(function);
    std::string text = function + "(";
    for (std::size_t i = 0; i < x.size(); ++i) text += (i ? ", " : "") + x[i];
    return text + ")";
  };
  const auto infix = [&](const char* op) { return x[0] + " " + op + " " + x[1]; };
  switch (e.op) {
    case OpKind::Neg:
      return "-" + x[0];
    case OpKind::Abs:
      return call("abs");
    case OpKind::Sqrt:
      return call("sqrt");
    case OpKind::Rsqrt:
      return call("inverseSqrt");
    case OpKind::Exp:
      return call(falls(e.args[0]) ? "exp" : "tg_exp");
    case OpKind::Log:
      return call("tg_log");
    case OpKind::Log1p:
      return call("tg_log1p");
    case OpKind::Expm1:
      return call("tg_expm1");
    case OpKind::Sin:
      return call("tg_sin");
    case OpKind::Cos:
      return call("tg_cos");
    case OpKind::Tanh:
      return call("tg_tanh");
    case OpKind::Erf:
      return call("tg_erf");
    case OpKind::Floor:
      return is_float ? call("floor") : x[0];
    case OpKind::Sign:
      return call(is_float ? "tg_sign" : "sign");
    case OpKind::Relu:
      return is_float ? call("tg_relu") : "max(" + x[0] + ", 0)";
    case OpKind::Sigmoid:
      return call("tg_sigmoid");
    case OpKind::Softplus:
      return call("tg_softplus");
    case OpKind::LogicalNot:
      return "!" + x[0];
    case OpKind::Cast:
      if (from == e.dtype) return x[0];
      if (e.dtype == DType::Bool)
        return is_float ? "!(" + x[0] + " == 0.0)" : x[0] + " != 0";  // true of NaN
      if (e.dtype == DType::I32 && is_float) return call("tg_to_i32");
      return call(value_type(e.dtype));
    case OpKind::Add:
      return infix("+");
    case OpKind::Sub:
      return infix("-");
    case OpKind::Mul:
      return infix("*");
    case OpKind::Div:
      return is_float ? infix("/") : call("tg_div_i32");
    case OpKind::Minimum:
      return call(is_float ? "tg_min" : "min");
    case OpKind::Maximum:
      return call(is_float ? "tg_max" : "max");
    case OpKind::Pow:
      return call("tg_pow");
    case OpKind::Less:
      return is_bool ? "!" + x[0] + " && " + x[1] : infix("<");
    case OpKind::LessEqual:
      return is_bool ? "!" + x[0] + " || " + x[1] : infix("<=");
    case OpKind::Equal:
      return infix("==");
    case OpKind::LogicalAnd:
      return infix("&&");
    case OpKind::LogicalOr:
      return infix("||");
    case OpKind::Where:
      return "select(" + x[2] + ", " + x[1] + ", " + x[0] + ")";
    case OpKind::Random:
      return call("tg_random");

    case OpKind::StopGradient:
      return x[0];
    case OpKind::ParamInput:
    case OpKind::TensorInput:
    case OpKind::StateInput:
    case OpKind::Literal:
    case OpKind::Constant:
    case OpKind::Iota:
    case OpKind::Reshape:
    case OpKind::Permute:
    case OpKind::BroadcastTo:
    case OpKind::Slice:
    case OpKind::Window:
    case OpKind::Pad:
    case OpKind::Concat:
    case OpKind::IndexSelect:
    case OpKind::TakeAlongAxis:
    case OpKind::ReduceSum:
    case OpKind::ReduceMax:
    case OpKind::ReduceMin:
    case OpKind::ReduceProd:
    case OpKind::ArgMax:
    case OpKind::ArgMin:
    case OpKind::MatMul:
    case OpKind::ScatterAdd:
    case OpKind::LinearScan:
    case OpKind::ScanState:
    case OpKind::ScanOutput:
    case OpKind::ScanGradState:
    case OpKind::ScanGrad:
    case OpKind::Attention:
    case OpKind::AttentionGradQ:
    case OpKind::AttentionGradKV:
    case OpKind::GlobalNorm:
    case OpKind::AdamUpdate:
    case OpKind::SgdUpdate:
      break;
  }
  throw InternalError(std::string("wgsl: ") + to_string(e.op) + " is no elementwise op");
}

// ---- stores

std::vector<ExprId> Body::needs(const Store& s) const {
  std::vector<ExprId> ids{s.value};
  add_data(s.index, ids);
  return ids;
}

void Body::store(const Store& s) {
  const Expr& e = expr(s.value);
  std::string text = value(s.value);
  if (e.dtype == DType::Bool) {
    text = "select(0u, 1u, " + text + ")";
  } else if (module_.array(s.binding).as_bits) {
    text = "bitcast<u32>(" + text + ")";
  }
  out_.line(element(s.binding, s.index) + " = " + text + ";", e.node);
}

}  // namespace tensorgrad::wgsl
