// Kernels as text.
#include "tensorgrad/kernel.hpp"

#include "ir/text.hpp"

namespace tensorgrad {

std::int64_t Kernel::outer_size() const {
  std::int64_t n = 1;
  for (int v = 0; v < outer_count; ++v) n *= vars[static_cast<std::size_t>(v)].extent;
  return n;
}

std::int64_t Kernel::inner_size() const {
  std::int64_t n = 1;
  for (std::size_t v = static_cast<std::size_t>(outer_count); v < vars.size(); ++v)
    n *= vars[v].extent;
  return n;
}

namespace {

const char* name(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::Sum:
      return "sum";
    case ReduceKind::Prod:
      return "prod";
    case ReduceKind::Max:
      return "max";
    case ReduceKind::Min:
      return "min";
    case ReduceKind::ArgMax:
      return "argmax";
    case ReduceKind::ArgMin:
      return "argmin";
  }
  return "?";
}

std::string text(const std::vector<Guard>& guards) {
  std::string result;
  for (const Guard& g : guards) {
    result += (result.empty() ? "" : " and ") + std::to_string(g.low) +
              " <= " + g.index.to_string() + " < " + std::to_string(g.high);
    if (g.modulus > 1) result += " by " + std::to_string(g.modulus);
  }
  return result;
}

std::string text(const Expr& e) {
  switch (e.kind) {
    case Expr::Kind::Const:
      return number_text(e.value);
    case Expr::Kind::Position:
      return e.index.to_string();
    case Expr::Kind::Load:
      return "b" + std::to_string(e.binding) + "[" + e.index.to_string() + "]" +
             (e.guards.empty() ? "" : " if " + text(e.guards));
    case Expr::Kind::Test:
      return "test " + text(e.guards);
    case Expr::Kind::Op:
    case Expr::Kind::Reduce: {
      std::string result =
          e.kind == Expr::Kind::Op ? to_string(e.op) : std::string("reduce_") + name(e.reduce);
      result += "(";
      for (std::size_t k = 0; k < e.args.size(); ++k)
        result += (k ? ", e" : "e") + std::to_string(e.args[k]);
      return result + ")";
    }
  }
  return "?";
}

std::string text(const StridedOperand& operand) {
  if (operand.binding < 0) return "nothing";
  return operand.type.to_string() + " b" + std::to_string(operand.binding) + " + " +
         std::to_string(operand.offset) + " by " + list_text(operand.strides);
}

std::string text(const SpecialHint& special) {
  std::string result =
      std::string("  ") + to_string(special.op) + "(" + to_string(special.attrs) + ")\n";
  for (const StridedOperand& operand : special.inputs) result += "    of " + text(operand) + "\n";
  for (const StridedOperand& operand : special.outputs) result += "    to " + text(operand) + "\n";
  return result;
}

}  // namespace

StridedOperand StridedOperand::swapped(int axis1, int axis2) const {
  StridedOperand other = *this;
  other.type.shape.set(axis1, type.shape[axis2]);
  other.type.shape.set(axis2, type.shape[axis1]);
  if (!strides.empty())
    std::swap(other.strides[static_cast<std::size_t>(axis1)],
              other.strides[static_cast<std::size_t>(axis2)]);
  return other;
}

std::string Kernel::to_string() const {
  std::string result = "kernel " + name + " over [";
  for (std::size_t v = 0; v < vars.size(); ++v) {
    if (v > 0) result += static_cast<int>(v) == outer_count ? " | " : ", ";
    if (v == 0 && outer_count == 0) result += "| ";
    result += "i" + std::to_string(v) + " < " + std::to_string(vars[v].extent);
  }
  result += "]\n";
  for (std::size_t k = 0; k < bindings.size(); ++k) {
    const Binding& b = bindings[k];
    result += "  b" + std::to_string(k) + ": " + tensorgrad::to_string(b.dtype) + "[" +
              std::to_string(b.elements) + "] at buffer " + std::to_string(b.buffer) + " + " +
              std::to_string(b.offset) +
              (b.written ? (b.read ? ", read and written" : ", written") : "") + "\n";
  }
  if (special) result += text(*special);
  for (std::size_t k = 0; k < exprs.size(); ++k) {
    result += "  e" + std::to_string(k) + (exprs[k].inner ? " (inner)" : "") + " = " +
              text(exprs[k]) + "\n";
  }
  for (const Store& s : stores) {
    result += "  b" + std::to_string(s.binding) + "[" + s.index.to_string() + "] = e" +
              std::to_string(s.value) + "\n";
  }
  return result;
}

}  // namespace tensorgrad
