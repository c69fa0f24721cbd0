// The ops that conformance cases can name.
#pragma once

#include <string>
#include <vector>

#include "conformance_json.hpp"
#include "tensorgrad/ops.hpp"

namespace tensorgrad::conformance {

/// Inputs and attributes of an op, as a case gives them.
class Call {
 public:
  Call(std::string op, std::vector<Tensor> inputs, const Attrs& attrs)
      : attrs(attrs), op_(std::move(op)), inputs_(std::move(inputs)) {}

  const Attrs& attrs;

  /// An input; an Error if the case has no such.
  const Tensor& operator[](std::size_t i) const;
  /// An input that may be missing.
  std::optional<Tensor> maybe(std::size_t i) const;
  /// An input, or the number that stands for it among the attributes.
  Operand operand(std::size_t i) const;
  const std::vector<Tensor>& inputs() const { return inputs_; }

  /// One axis, several, or all of them (absent or null).
  Axes axes() const;
  /// One axis, or none.
  std::optional<int> axis() const;
  int axis(int fallback) const { return axis().value_or(fallback); }
  ReduceOptions reduce() const;
  Shape shape() const;
  DType dtype(DType fallback) const;
  Reduction reduction() const;
  CrossEntropyOptions cross_entropy() const;
  GeluOptions gelu() const;
  std::vector<PadWidth> pads() const;
  ConvOptions conv() const;
  PoolOptions pool() const;

  [[noreturn]] void fail(const std::string& what) const { throw Error(op_ + ": " + what); }

 private:
  std::int64_t same_on_all_axes(Attrs::Names names, std::int64_t fallback) const;
  std::string op_;
  std::vector<Tensor> inputs_;
};

using OpFn = Tensor (*)(const Call&);

/// How to call an op, or null if there is none of that name.
OpFn find_op(const std::string& name);

}  // namespace tensorgrad::conformance
