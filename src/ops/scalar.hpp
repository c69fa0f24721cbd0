// The meaning of every elementwise op on single values. The reference interpreter computes with it,
// and constant folding too, so the two cannot disagree.
//
// All values are doubles: an f32 is one without rounding, an i32 a whole number, a bool 0 or 1.
#pragma once

#include <cstdint>

#include "tensorgrad/graph.hpp"

namespace tensorgrad {

/// What an elementwise op gives for one element of each input. `from` is the dtype of the operands
/// (of `where`: of the two values), `to` of the result; they differ for cast and comparisons only.
double apply_scalar(OpKind op, DType from, DType to, const double* args);

/// i32 arithmetic: the low 32 bits, as a signed number.
double wrap_i32(std::int64_t value);

/// A change of dtype. f32 → i32 truncates towards zero, stops at the ends of i32 and makes 0 of
/// NaN; anything → bool is x ≠ 0, true for NaN.
double cast_scalar(DType from, DType to, double value);

/// The larger, or NaN if there is one.
inline double maximum_scalar(double a, double b) { return a > b || a != a ? a : b; }
/// The smaller, or NaN if there is one.
inline double minimum_scalar(double a, double b) { return a < b || a != a ? a : b; }

}  // namespace tensorgrad
