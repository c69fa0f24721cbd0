// Small functions of tensors, evaluated and differentiated on the reference interpreter, and the
// expectations that tests of ops share.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/reference/interpreter.hpp"
#include "tensorgrad/ops.hpp"

namespace tensorgrad::test {

using reference::Values;

/// An argument of a function: a type and its elements.
struct Array {
  Shape shape;
  Values values;
  DType dtype = f32;
};

/// A vector, or a scalar of one number.
Array vector(Values values);
Array scalar(double value);
Array indices(Values values);

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

struct Result {
  TensorType type;
  Values values;
};

/// f(args).
Result evaluate(const std::vector<Array>& args, const Function& f);
/// The values of f() alone.
Values evaluate(const std::function<Tensor()>& f);

/// d Σ(cotangent·f) / d arg for each argument; empty where nothing flows back. The cotangent is all
/// ones unless given.
std::vector<Values> gradients(const std::vector<Array>& args, const Function& f,
                              const Values& cotangent = {});

/// The same for one argument, a vector, and an elementwise function of it.
Values derivative(const Values& x, const Function& f);

/// Element by element: |got − want| ≤ tolerance·max(1, |want|). Infinities and NaN must be the
/// same.
void expect_near(const Values& got, const Values& want, double tolerance = 1e-12);

/// What `fn`, run inside a trace, throws as a `Kind` (or what derives from it); fails the test if
/// it throws nothing or something else.
template <class Kind = ShapeError>
std::string error_of(const std::function<void()>& fn);

/// Fails the test for each of `parts` that `text` does not contain.
void expect_contains(std::string_view text, std::initializer_list<std::string_view> parts);

/// `file.cpp:line` for a line of the calling file, as errors show call sites.
std::string site(int line, const char* file = __builtin_FILE());

}  // namespace tensorgrad::test
