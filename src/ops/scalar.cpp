// Elementwise ops on single values.
#include "ops/scalar.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "tensorgrad/random.hpp"

namespace tensorgrad {

namespace {

double divide(DType dtype, double a, double b) {
  if (dtype == f32) return a / b;
  if (b == 0) return 0;
  return wrap_i32(static_cast<std::int64_t>(a) / static_cast<std::int64_t>(b));
}

/// Results of i32 arithmetic wrap. Sums of two i32 are exact in a double, products in an int64.
double arithmetic(DType dtype, double value) {
  return dtype == i32 ? wrap_i32(static_cast<std::int64_t>(value)) : value;
}

double multiply(DType dtype, double a, double b) {
  if (dtype == f32) return a * b;
  return wrap_i32(static_cast<std::int64_t>(a) * static_cast<std::int64_t>(b));
}

// max(x, 0) + log1p(e^(−|x|)): never overflows.
double softplus_scalar(double x) {
  return maximum_scalar(x, 0) + std::log1p(std::exp(-std::abs(x)));
}

double random_scalar(const double* args) {
  const auto word = [&](int k) {
    return static_cast<std::uint32_t>(static_cast<std::int64_t>(args[k]));
  };
  return (threefry({word(0), 0}, {word(1), word(2)})[0] >> 8) * 0x1p-24;
}

}  // namespace

double wrap_i32(std::int64_t value) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(value));
}

double cast_scalar(DType from, DType to, double value) {
  if (to == boolean) return value != 0;
  if (to == i32 && from == f32) {
    if (value != value) return 0;
    using Limits = std::numeric_limits<std::int32_t>;
    return std::clamp<double>(std::trunc(value), Limits::min(), Limits::max());
  }
  return value;
}

double apply_scalar(OpKind op, DType from, DType to, const double* args) {
  const double a = args[0];
  const auto b = [&] { return args[1]; };  // only binary ops have a second operand
  // clang-format off
  switch (op) {
    case OpKind::Neg: return arithmetic(from, -a);
    case OpKind::Abs: return arithmetic(from, std::abs(a));
    case OpKind::Sqrt: return std::sqrt(a);
    case OpKind::Rsqrt: return 1 / std::sqrt(a);
    case OpKind::Exp: return std::exp(a);
    case OpKind::Log: return std::log(a);
    case OpKind::Log1p: return std::log1p(a);
    case OpKind::Expm1: return std::expm1(a);
    case OpKind::Sin: return std::sin(a);
    case OpKind::Cos: return std::cos(a);
    case OpKind::Tanh: return std::tanh(a);
    case OpKind::Erf: return std::erf(a);
    case OpKind::Floor: return std::floor(a);
    case OpKind::Sign: return a > 0 ? 1 : a < 0 ? -1 : a;  // 0 and NaN stay what they are
    case OpKind::Relu: return maximum_scalar(a, 0);
    case OpKind::Sigmoid: return 1 / (1 + std::exp(-a));  // e^(−a) = ∞ rightly gives 0
    case OpKind::Softplus: return softplus_scalar(a);
    case OpKind::LogicalNot: return a == 0;
    case OpKind::Cast: return cast_scalar(from, to, a);

    case OpKind::Add: return arithmetic(from, a + b());
    case OpKind::Sub: return arithmetic(from, a - b());
    case OpKind::Mul: return multiply(from, a, b());
    case OpKind::Div: return divide(from, a, b());
    case OpKind::Minimum: return minimum_scalar(a, b());
    case OpKind::Maximum: return maximum_scalar(a, b());
    case OpKind::Pow: return std::pow(a, b());
    case OpKind::Less: return a < b();
    case OpKind::LessEqual: return a <= b();
    case OpKind::Equal: return a == b();
    case OpKind::LogicalAnd: return a != 0 && b() != 0;
    case OpKind::LogicalOr: return a != 0 || b() != 0;
    case OpKind::Where: return a != 0 ? args[1] : args[2];
    case OpKind::Random: return random_scalar(args);

    case OpKind::ParamInput:
    case OpKind::TensorInput:
    case OpKind::StateInput:
    case OpKind::Literal:
    case OpKind::Constant:
    case OpKind::Iota:
    case OpKind::StopGradient:
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
    case OpKind::SgdUpdate: break;
  }
  // clang-format on
  throw InternalError(std::string("apply_scalar: ") + to_string(op) + " is not elementwise");
}

}  // namespace tensorgrad
