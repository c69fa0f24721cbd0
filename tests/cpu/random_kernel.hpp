// Kernels made at random, valid by construction: index maps with quotients, guards and data,
// several reductions, values used on both sides of them, stores in any order, in place at times.
#pragma once

#include <random>

#include "support/kernel_builder.hpp"
#include "support/kernel_eval.hpp"

namespace tensorgrad::testing {

class RandomKernel {
 public:
  explicit RandomKernel(std::uint32_t seed)
      : random_(seed), builder_("random_" + std::to_string(seed)) {
    const int outer = pick(0, 3), inner = pick(0, 2);
    for (int k = 0; k < outer; ++k) variables_.push_back(builder_.outer(extent(k == 0 ? 60 : 14)));
    outer_ = variables_;
    for (int k = 0; k < inner; ++k) variables_.push_back(builder_.inner(extent(k == 0 ? 90 : 9)));
    make_expressions();
    make_stores();
  }

  const Kernel& kernel() { return builder_.kernel(); }
  const HostBuffers& buffers() const { return buffers_; }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  std::int64_t extent(int most) {
    const int usual[] = {1, 2, 3, 4, 6, 8, 12};
    return chance(60) ? usual[pick(0, 6)] : pick(1, most);
  }

  // ---- inputs

  int input(std::int64_t elements, DType dtype, int low, int high) {
    const int b = builder_.input(elements, dtype);
    std::vector<double>& values = buffers_[b];
    for (std::int64_t k = 0; k < elements; ++k) {
      values.push_back(dtype == f32 ? pick(-400, 400) / 128.0 : pick(low, high));
    }
    return b;
  }

  /// A sum of multiples of variables, of quotients and of remainders.
  Index map() {
    Index sum = pick(-3, 3);
    std::int64_t stride = 1;
    std::vector<Index> order = variables_;
    std::shuffle(order.begin(), order.end(), random_);
    for (const Index& v : order) {
      if (chance(25)) continue;
      if (chance(75)) {
        sum = sum + v * stride;
        stride *= std::max<std::int64_t>(1, v.high() + 1);
      } else {
        sum = sum + v * pick(-3, 3);
      }
    }
    if (chance(25)) sum = sum.div(pick(2, 6));
    if (chance(20)) sum = sum.mod(pick(2, 12));
    if (chance(15) && !variables_.empty()) {
      sum = sum +
            variables_[static_cast<std::size_t>(pick(0, static_cast<int>(variables_.size()) - 1))]
                .div(pick(2, 4));
    }
    return sum;
  }

  ExprId load(DType dtype) {
    Index index = map();
    std::vector<Guard> guards;
    if (chance(20)) {  // an element chosen by data
      Index at = map();
      at = at - at.low();
      const int choices = pick(1, 9);
      const ExprId chosen = builder_.load(input(at.high() + 1, i32, 0, choices - 1), at);
      const Index data = Index::data(chosen, choices);
      index = index + data * pick(1, 20);
      if (chance(50)) guards.push_back({data, 0, choices, 1, true, -1});
    }
    const std::int64_t low = index.low(), high = index.high();
    if (chance(30) && high > low) {  // a part of the range, by a step
      const int modulus = chance(30) ? pick(2, 3) : 1;
      const std::int64_t from = low + pick(0, static_cast<int>((high - low) / 2));
      const std::int64_t to = from + 1 + pick(0, static_cast<int>((high - from) / 2));
      guards.push_back({index, from, to, modulus, false, -1});
      if (chance(40)) {
        const Index other = map();
        guards.push_back({other, other.low(),
                          other.low() + 1 + pick(0, static_cast<int>(other.high() - other.low())),
                          1, false, -1});
      }
      index = modulus > 1 ? (index - from).div(modulus) : index - from;
      const std::int64_t elements = (to - 1 - from) / modulus + 1;
      return builder_.load(input(elements, dtype, -9, 9), index, std::move(guards));
    }
    return builder_.load(input(high - low + 1, dtype, -9, 9), index - low, std::move(guards));
  }

  // ---- expressions

  ExprId any(DType dtype) {
    std::vector<ExprId> fitting;
    for (ExprId id : values_) {
      if (builder_.expr(id).dtype == dtype) fitting.push_back(id);
    }
    if (fitting.empty() || chance(10)) {
      const ExprId made = chance(70) ? load(dtype) : builder_.constant(pick(-2, 3), dtype);
      values_.push_back(made);
      return made;
    }
    return fitting[static_cast<std::size_t>(pick(0, static_cast<int>(fitting.size()) - 1))];
  }

  ExprId condition() {
    if (chance(25)) {
      const Index index = map();
      return builder_.test(
          {{index, index.low() + pick(0, 2), index.high() + pick(-2, 1) + 1, 1, false, -1}});
    }
    // Integers compare the same in every precision.
    return builder_.op(chance(50) ? OpKind::Less : OpKind::Equal, {any(i32), any(i32)}, boolean);
  }

  ExprId bounded(ExprId x) { return builder_.op(chance(50) ? OpKind::Tanh : OpKind::Sigmoid, {x}); }

  ExprId step() {
    switch (pick(0, 13)) {
      case 0:
        return load(f32);
      case 1:
        return load(i32);
      case 2:
        return builder_.position(map());
      case 3:
        return builder_.op(OpKind::Add, {any(f32), any(f32)});
      case 4:
        return builder_.op(OpKind::Sub, {any(f32), any(f32)});
      case 5:
        return builder_.op(OpKind::Mul, {bounded(any(f32)), any(f32)});
      case 6:
        return builder_.op(OpKind::Add,
                           {builder_.op(OpKind::Mul, {bounded(any(f32)), any(f32)}), any(f32)});
      case 7:
        return builder_.op(chance(50) ? OpKind::Maximum : OpKind::Minimum, {any(f32), any(f32)});
      case 8:
        return builder_.op(OpKind::Where, {condition(), any(f32), any(f32)});
      case 9:
        return builder_.op(OpKind::Where, {condition(), any(i32), any(i32)});
      case 10:
        return builder_.op(OpKind::Add, {any(i32), any(i32)});
      case 11:
        return builder_.op(OpKind::Cast, {any(i32)}, f32);
      case 12:
        return reduction();
      default:
        return bounded(any(f32));
    }
  }

  ExprId reduction() {
    if (variables_.size() == outer_.size() && chance(70)) return bounded(any(f32));
    switch (pick(0, 6)) {
      case 0:
        return builder_.reduce(ReduceKind::Max, any(f32));
      case 1:
        return builder_.reduce(ReduceKind::Min, any(f32));
      case 2:
        return builder_.reduce(ReduceKind::Prod, bounded(any(f32)));
      case 3:
        return builder_.reduce(ReduceKind::ArgMax, load(chance(50) ? f32 : i32));
      case 4:
        return builder_.reduce(ReduceKind::ArgMin, load(chance(50) ? f32 : i32));
      case 5:
        return builder_.reduce(ReduceKind::Sum, load(i32));
      default:
        return bounded(builder_.reduce(ReduceKind::Sum, any(f32)));
    }
  }

  void make_expressions() {
    values_ = {load(f32), load(i32)};
    for (int k = pick(2, 14); k > 0; --k) values_.push_back(step());
  }

  // ---- stores

  /// Row-major in any order of the variables, forwards or backwards.
  Index places(const std::vector<Index>& variables, std::int64_t& elements) {
    std::vector<Index> order = variables;
    if (chance(40)) std::shuffle(order.begin(), order.end(), random_);
    Index index = 0;
    elements = 1;
    for (const Index& v : order) {
      const std::int64_t n = v.high() + 1;
      index = index * n + (chance(10) ? v * -1 + (n - 1) : v);
      elements *= n;
    }
    if (chance(10)) {  // with gaps
      index = index * 2 + 1;
      elements *= 2;
    }
    return index;
  }

  void make_stores() {
    const int count = pick(1, 3);
    for (int k = 0; k < count; ++k) {
      ExprId value = values_[values_.size() - 1 -
                             static_cast<std::size_t>(
                                 pick(0, std::min(3, static_cast<int>(values_.size()) - 1)))];
      std::int64_t elements = 1;
      const bool inner = builder_.expr(value).inner;
      const Index index = places(inner ? variables_ : outer_, elements);
      const DType dtype = builder_.expr(value).dtype;
      const int out = builder_.output(elements, dtype);
      std::vector<double>& values = buffers_[out];
      for (std::int64_t e = 0; e < elements; ++e) values.push_back(pick(-20, 20));
      if (dtype == f32 && chance(25)) {  // in place
        builder_.binding(out).read = true;
        value = builder_.op(OpKind::Add, {builder_.load(out, index), value});
      }
      builder_.store(out, index, value);
    }
  }

  std::mt19937 random_;
  KernelBuilder builder_;
  std::vector<Index> variables_, outer_;
  std::vector<ExprId> values_;
  HostBuffers buffers_;
};

}  // namespace tensorgrad::testing
