// Block functions of the CPU executor: one instruction over a whole block of 32-bit lanes.
//
// math() is a table of plain function pointers for the widest vector unit of this machine
// (SSE4, AVX2 or AVX-512; plain scalars below that), chosen once. The executor copies the
// pointers into its instructions, so nothing is dispatched per call. Every entry takes
// untyped pointers because a register of the executor is a block of 32-bit lanes whose type
// is known from the kernel; the groups below say which type each lane has. bool is an i32
// that is 0 or 1.
//
// Pointers need the natural alignment of their lanes only; any n, 0 included; `out` may be
// the same block as an input, but may not overlap one otherwise. A scalar operand ("s" in
// vs, sv, ...) is read once through its pointer, before anything is written.
//
// Errors are in units in the last place of the exact result (ulp), measured against long
// double libm on 70 million floats spread over the whole range, on every vector unit.
// Subnormal inputs are taken as they are and subnormal results are produced (nothing is
// flushed, unless the caller has set FTZ/DAZ in the thread).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tensorgrad::cpu {

using Fn1 = void (*)(const void* x, void* out, size_t n);
using Fn2 = void (*)(const void* a, const void* b, void* out, size_t n);
using Fn3 = void (*)(const void* a, const void* b, const void* c, void* out, size_t n);

// The same function for a block or a broadcast scalar on either side.
struct Forms2 {
  Fn2 vv, vs, sv;
};

// The first operand is a block; the second and the third may be broadcast scalars.
struct Forms3 {
  Fn3 vvv, vvs, vsv, vss;
};

template <class T>
struct Reductions {
  T(*sum)
  (const T* x, size_t n);           // 0 of nothing; f32: several accumulators in a fixed
                                    // order, pairwise over long blocks; i32 wraps
  T (*prod)(const T* x, size_t n);  // 1 of nothing; i32 wraps
  T (*max)(const T* x, size_t n);   // -inf or INT32_MIN of nothing; a NaN gives NaN
  T (*min)(const T* x, size_t n);   // +inf or INT32_MAX of nothing; a NaN gives NaN
  // The first index of the extreme value; a NaN counts as extreme, so the first NaN wins.
  // 0 of nothing.
  size_t (*argmax)(const T* x, size_t n);
  size_t (*argmin)(const T* x, size_t n);
  // One step of an arg-reduction down columns: where x[i] beats best[i] (by the rule
  // above), best[i] = x[i] and index[i] = row. Rows come in ascending order; start from a
  // copy of row 0 with index 0. Other column reductions are binary ops with out == a.
  void (*argmax_step)(T* best, int32_t* index, const T* x, int32_t row, size_t n);
  void (*argmin_step)(T* best, int32_t* index, const T* x, int32_t row, size_t n);
};

struct Math {
  const char* target;  // "AVX3" (AVX-512), "AVX2", "SSE4", "SCALAR", ...

  // f32 -> f32. Exact or correctly rounded: neg abs sqrt floor sign relu reciprocal square.
  // sign is -1, 0 or 1, NaN of NaN; relu(NaN) is NaN.
  Fn1 neg, abs, sqrt, floor, sign, relu, reciprocal, square;
  Fn1 rsqrt;     // 1.5 ulp; inf of +0, -inf of -0, NaN below
  Fn1 exp;       // 1.1 ulp; inf above 88.73, 0 below -103.98
  Fn1 expm1;     // 2 ulp
  Fn1 log;       // 0.9 ulp; -inf of 0, NaN below
  Fn1 log1p;     // 1.5 ulp; -inf of -1, NaN below
  Fn1 sin, cos;  // 0.51 ulp for every finite argument (beyond 2^20 each lane calls libm)
  Fn1 tanh;      // 3 ulp; |tanh| <= 1
  Fn1 erf;       // 2 ulp; |erf| <= 1; no division
  Fn1 sigmoid;   // 2.5 ulp, subnormal results included
  Fn1 softplus;  // 2 ulp, log(1 + exp(x)) without overflow

  // f32, f32 -> f32, correctly rounded but for pow: 0.51 ulp with libm's special cases
  // (a negative base with an integer exponent works, anything^0 and 1^anything are 1).
  // minimum and maximum are NaN if either side is.
  Forms2 add, sub, mul, div, minimum, maximum, pow;
  // a * b + c, a * b - c, c - a * b: rounded once where the machine can, else twice.
  Forms3 fma, mul_sub, neg_mul_add;
  // (a * b) * c, (a + b) * c, (a - b) * c, (a + b) + c, (a - b) - c: rounded twice.
  Forms3 mul_mul, add_mul, sub_mul, add_add, sub_sub;

  // f32, f32 -> bool; false if either side is NaN.
  Forms2 less, less_equal, equal;

  // i32 -> i32 and i32, i32 -> i32. Overflow wraps (neg and abs of INT32_MIN too). div
  // truncates; x / 0 is 0 and INT32_MIN / -1 is INT32_MIN.
  Fn1 neg_i32, abs_i32, sign_i32;
  Forms2 add_i32, sub_i32, mul_i32, div_i32, minimum_i32, maximum_i32;
  Forms2 less_i32, less_equal_i32, equal_i32;  // -> bool

  // bool -> bool
  Fn1 logical_not;
  Forms2 logical_and, logical_or;

  // Any lane type: a is an i32 condition, out = a != 0 ? b : c, bits as they are.
  Forms3 select;

  // i32 index, i32 key, i32 key -> f32 in [0, 1): Threefry-2x32, as tensorgrad/random.hpp says.
  Forms3 random;

  Fn1 i32_to_f32;
  Fn1 f32_to_i32;   // toward zero, saturating; 0 of NaN
  Fn1 f32_to_bool;  // x != 0 (true of NaN)
  Fn1 i32_to_bool;

  Reductions<float> f32;
  Reductions<int32_t> i32;
};

// The table for this machine.
const Math& math();

// The tables of every vector unit that this build has and this machine can run, for tests.
std::vector<const Math*> math_variants();

// Moving 32-bit lanes; strides count lanes. The source and the target may not overlap,
// except copy_lanes onto itself.
void copy_lanes(const void* x, void* out, size_t n);
void fill_lanes(uint32_t bits, void* out, size_t n);
void load_strided(const void* base, ptrdiff_t stride, void* out, size_t n);
void store_strided(const void* x, void* base, ptrdiff_t stride, size_t n);
void load_indexed(const void* base, const int32_t* index, void* out, size_t n);
void iota(int32_t start, int32_t step, int32_t* out, size_t n);  // wraps

}  // namespace tensorgrad::cpu
