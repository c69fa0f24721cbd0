// The meaning of elementwise ops on single values.
#include "ops/scalar.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tensorgrad::test {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kMin = -2147483648.0, kMax = 2147483647.0;

double unary(OpKind op, DType dtype, double x) { return apply_scalar(op, dtype, dtype, &x); }

double binary(OpKind op, DType dtype, double a, double b) {
  const double args[] = {a, b};
  return apply_scalar(op, dtype, dtype, args);
}

}  // namespace

TEST(Scalar, KnowsEveryElementwiseOpAndNoOther) {
  const double args[] = {1, 1, 1};
#define OP(Kind, name, arity, Class)                                                  \
  if (op_class(OpKind::Kind) == OpClass::Elementwise) {                               \
    EXPECT_NO_THROW(apply_scalar(OpKind::Kind, f32, f32, args)) << #name;             \
  } else {                                                                            \
    EXPECT_THROW(apply_scalar(OpKind::Kind, f32, f32, args), InternalError) << #name; \
  }
#include "tensorgrad/ops.def"
#undef OP
}

TEST(Scalar, IntegerArithmeticWraps) {
  EXPECT_EQ(binary(OpKind::Add, i32, kMax, 1), kMin);
  EXPECT_EQ(binary(OpKind::Sub, i32, kMin, 1), kMax);
  EXPECT_EQ(binary(OpKind::Mul, i32, 65537, 65537), 131073);  // 2³² + 131073
  EXPECT_EQ(binary(OpKind::Mul, i32, kMax, kMax), 1);
  EXPECT_EQ(unary(OpKind::Neg, i32, kMin), kMin);
  EXPECT_EQ(unary(OpKind::Abs, i32, kMin), kMin);
}

TEST(Scalar, IntegerDivisionTruncatesAndByZeroIsZero) {
  EXPECT_EQ(binary(OpKind::Div, i32, 7, 2), 3);
  EXPECT_EQ(binary(OpKind::Div, i32, -7, 2), -3);
  EXPECT_EQ(binary(OpKind::Div, i32, 7, -2), -3);
  EXPECT_EQ(binary(OpKind::Div, i32, 7, 0), 0);
  EXPECT_EQ(binary(OpKind::Div, i32, kMin, -1), kMin);
  EXPECT_EQ(binary(OpKind::Div, f32, 7, 2), 3.5);
  EXPECT_EQ(binary(OpKind::Div, f32, 7, 0), kInf);
}

TEST(Scalar, NanPropagatesThroughArithmeticMinimumAndMaximum) {
  for (OpKind op :
       {OpKind::Add, OpKind::Sub, OpKind::Mul, OpKind::Div, OpKind::Minimum, OpKind::Maximum}) {
    EXPECT_TRUE(std::isnan(binary(op, f32, NAN, 1))) << to_string(op);
    EXPECT_TRUE(std::isnan(binary(op, f32, 1, NAN))) << to_string(op);
  }
  for (OpKind op : {OpKind::Neg, OpKind::Abs, OpKind::Exp, OpKind::Tanh, OpKind::Sign, OpKind::Relu,
                    OpKind::Sigmoid, OpKind::Softplus, OpKind::Floor}) {
    EXPECT_TRUE(std::isnan(unary(op, f32, NAN))) << to_string(op);
  }
}

TEST(Scalar, ComparisonsWithNanAreFalse) {
  for (OpKind op : {OpKind::Less, OpKind::LessEqual, OpKind::Equal}) {
    EXPECT_EQ(binary(op, f32, NAN, 1), 0) << to_string(op);
    EXPECT_EQ(binary(op, f32, 1, NAN), 0) << to_string(op);
    EXPECT_EQ(binary(op, f32, NAN, NAN), 0) << to_string(op);
  }
}

TEST(Scalar, CastToIntegerTruncatesAndStopsAtTheEnds) {
  EXPECT_EQ(cast_scalar(f32, i32, 2.9), 2);
  EXPECT_EQ(cast_scalar(f32, i32, -2.9), -2);
  EXPECT_EQ(cast_scalar(f32, i32, 1e20), kMax);
  EXPECT_EQ(cast_scalar(f32, i32, -kInf), kMin);
  EXPECT_EQ(cast_scalar(f32, i32, NAN), 0);
  EXPECT_EQ(cast_scalar(boolean, i32, 1), 1);
}

TEST(Scalar, CastToBoolAsksForNonZero) {
  EXPECT_EQ(cast_scalar(f32, boolean, 0), 0);
  EXPECT_EQ(cast_scalar(f32, boolean, -0.0), 0);
  EXPECT_EQ(cast_scalar(f32, boolean, 0.25), 1);
  EXPECT_EQ(cast_scalar(f32, boolean, NAN), 1);
  EXPECT_EQ(cast_scalar(i32, boolean, -3), 1);
}

TEST(Scalar, ActivationsDoNotOverflow) {
  EXPECT_EQ(unary(OpKind::Sigmoid, f32, 1000), 1);
  EXPECT_EQ(unary(OpKind::Sigmoid, f32, -1000), 0);
  EXPECT_EQ(unary(OpKind::Softplus, f32, 1000), 1000);
  EXPECT_EQ(unary(OpKind::Softplus, f32, -1000), 0);
  EXPECT_EQ(unary(OpKind::Tanh, f32, 100), 1);
  EXPECT_EQ(unary(OpKind::Tanh, f32, -100), -1);
}

TEST(Scalar, PowOfANegativeBaseNeedsAnIntegerExponent) {
  EXPECT_EQ(binary(OpKind::Pow, f32, -2, 3), -8);
  EXPECT_EQ(binary(OpKind::Pow, f32, -2, -2), 0.25);
  EXPECT_TRUE(std::isnan(binary(OpKind::Pow, f32, -2, 0.5)));
  EXPECT_EQ(binary(OpKind::Pow, f32, 0, 0), 1);
}

TEST(Scalar, WhereChoosesByTheCondition) {
  const double yes[] = {1, 3, NAN}, no[] = {0, NAN, 4};
  EXPECT_EQ(apply_scalar(OpKind::Where, f32, f32, yes), 3);
  EXPECT_EQ(apply_scalar(OpKind::Where, f32, f32, no), 4);
}

}  // namespace tensorgrad::test
