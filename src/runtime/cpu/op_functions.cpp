// Which block function computes an op.
#include <string>

#include "runtime/cpu/runner.hpp"

namespace tensorgrad::cpu {

namespace {

void copy(const void* x, void* out, size_t n) { copy_lanes(x, out, n); }

void relu_i32(const void* x, void* out, size_t n) {
  const auto* from = static_cast<const std::int32_t*>(x);
  auto* to = static_cast<std::int32_t*>(out);
  for (size_t k = 0; k < n; ++k) to[k] = from[k] > 0 ? from[k] : 0;
}

OpFunctions unary(Fn1 f) { return {f, nullptr, nullptr}; }
OpFunctions binary(const Forms2& f) { return {nullptr, &f, nullptr}; }
OpFunctions ternary(const Forms3& f) { return {nullptr, nullptr, &f}; }

Fn1 cast(const Math& m, DType from, DType to) {
  if (from == to) return copy;
  switch (to) {
    case DType::F32:
      return m.i32_to_f32;
    case DType::I32:
      return from == DType::F32 ? m.f32_to_i32 : copy;  // a bool is 0 or 1 already
    case DType::Bool:
      return from == DType::F32 ? m.f32_to_bool : m.i32_to_bool;
  }
  return nullptr;
}

}  // namespace

OpFunctions functions_of(const Math& m, OpKind op, DType from, DType to) {
  const bool f = from == DType::F32;
  switch (op) {
    case OpKind::Neg:
      return unary(f ? m.neg : m.neg_i32);
    case OpKind::Abs:
      return unary(f ? m.abs : m.abs_i32);
    case OpKind::Sign:
      return unary(f ? m.sign : m.sign_i32);
    case OpKind::Sqrt:
      return unary(m.sqrt);
    case OpKind::Rsqrt:
      return unary(m.rsqrt);
    case OpKind::Exp:
      return unary(m.exp);
    case OpKind::Log:
      return unary(m.log);
    case OpKind::Log1p:
      return unary(m.log1p);
    case OpKind::Expm1:
      return unary(m.expm1);
    case OpKind::Sin:
      return unary(m.sin);
    case OpKind::Cos:
      return unary(m.cos);
    case OpKind::Tanh:
      return unary(m.tanh);
    case OpKind::Erf:
      return unary(m.erf);
    case OpKind::Floor:
      return unary(m.floor);
    case OpKind::Relu:
      return unary(f ? m.relu : relu_i32);
    case OpKind::Sigmoid:
      return unary(m.sigmoid);
    case OpKind::Softplus:
      return unary(m.softplus);
    case OpKind::LogicalNot:
      return unary(m.logical_not);
    case OpKind::Cast:
      return unary(cast(m, from, to));
    case OpKind::Add:
      return binary(f ? m.add : m.add_i32);
    case OpKind::Sub:
      return binary(f ? m.sub : m.sub_i32);
    case OpKind::Mul:
      return binary(f ? m.mul : m.mul_i32);
    case OpKind::Div:
      return binary(f ? m.div : m.div_i32);
    case OpKind::Minimum:
      return binary(f ? m.minimum : m.minimum_i32);
    case OpKind::Maximum:
      return binary(f ? m.maximum : m.maximum_i32);
    case OpKind::Pow:
      return binary(m.pow);
    case OpKind::Less:
      return binary(f ? m.less : m.less_i32);
    case OpKind::LessEqual:
      return binary(f ? m.less_equal : m.less_equal_i32);
    case OpKind::Equal:
      return binary(f ? m.equal : m.equal_i32);
    case OpKind::LogicalAnd:
      return binary(m.logical_and);
    case OpKind::LogicalOr:
      return binary(m.logical_or);
    case OpKind::Where:
      return ternary(m.select);
    case OpKind::Random:
      return ternary(m.random);
      // All other classes.
#define TENSORGRAD_CASE_Elementwise(Kind)
#define TENSORGRAD_CASE_Input(Kind) case OpKind::Kind:
#define TENSORGRAD_CASE_Generated(Kind) case OpKind::Kind:
#define TENSORGRAD_CASE_View(Kind) case OpKind::Kind:
#define TENSORGRAD_CASE_Join(Kind) case OpKind::Kind:
#define TENSORGRAD_CASE_Gather(Kind) case OpKind::Kind:
#define TENSORGRAD_CASE_Reduce(Kind) case OpKind::Kind:
#define TENSORGRAD_CASE_Contract(Kind) case OpKind::Kind:
#define TENSORGRAD_CASE_Scatter(Kind) case OpKind::Kind:
#define TENSORGRAD_CASE_Special(Kind) case OpKind::Kind:
#define TENSORGRAD_CASE_Update(Kind) case OpKind::Kind:
#define OP(Kind, name, arity, Class) TENSORGRAD_CASE_##Class(Kind)
#include "tensorgrad/ops.def"
#undef OP
      break;
  }
  throw InternalError(std::string("cpu: ") + to_string(op) + " is not elementwise");
}

const Forms3* functions_of(const Math& m, Pair pair) {
  switch (pair) {
    case Pair::None:
      break;
    case Pair::MulAdd:
      return &m.fma;
    case Pair::MulSub:
      return &m.mul_sub;
    case Pair::NegMulAdd:
      return &m.neg_mul_add;
    case Pair::MulMul:
      return &m.mul_mul;
    case Pair::AddMul:
      return &m.add_mul;
    case Pair::SubMul:
      return &m.sub_mul;
    case Pair::AddAdd:
      return &m.add_add;
    case Pair::SubSub:
      return &m.sub_sub;
  }
  throw InternalError("cpu: there is no such pair of operations");
}

}  // namespace tensorgrad::cpu
