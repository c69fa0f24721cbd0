// What goes into a step and what comes out.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tensorgrad/tensor.hpp"

namespace tensorgrad {

/// The declaration of an input: a shape, f32 unless said: `{B, 1}` or `{{B, T}, tg::i32}`.
struct InputDecl {
  Shape shape;
  DType dtype = DType::F32;

  InputDecl() = default;
  InputDecl(std::initializer_list<Dim> dims) : shape(dims) {}
  InputDecl(std::initializer_list<Dim> dims, DType type) : shape(dims), dtype(type) {}
  InputDecl(Shape s, DType type = DType::F32)
      : shape(std::move(s)), dtype(type) {}  // NOLINT: implicit
};
using InputDecls = std::vector<std::pair<std::string, InputDecl>>;

/// Borrowed values for an input: any contiguous range of float or int32. Bool inputs take int32.
class FeedValue {
 public:
  FeedValue(std::span<const float> values)  // NOLINT: implicit on purpose
      : words_(values.data()), count_(static_cast<std::int64_t>(values.size())), is_float_(true) {}
  FeedValue(std::span<const std::int32_t> values)  // NOLINT: implicit on purpose
      : words_(values.data()), count_(static_cast<std::int64_t>(values.size())), is_float_(false) {}
  FeedValue(const std::vector<float>& values)
      : FeedValue(std::span<const float>(values)) {}  // NOLINT
  FeedValue(const std::vector<std::int32_t>& values)
      : FeedValue(std::span<const std::int32_t>(values)) {}  // NOLINT
  template <std::size_t N>
  FeedValue(const std::array<float, N>& values)
      : FeedValue(std::span<const float>(values)) {}  // NOLINT
  template <std::size_t N>
  FeedValue(const std::array<std::int32_t, N>& values)
      : FeedValue(std::span<const std::int32_t>(values)) {}  // NOLINT
  template <std::size_t N>
  FeedValue(const float (&values)[N]) : FeedValue(std::span<const float>(values, N)) {}  // NOLINT
  template <std::size_t N>
  FeedValue(const std::int32_t (&values)[N])
      : FeedValue(std::span<const std::int32_t>(values, N)) {}  // NOLINT

  const void* words() const { return words_; }
  std::int64_t count() const { return count_; }
  bool is_float() const { return is_float_; }

 private:
  const void* words_;
  std::int64_t count_;
  bool is_float_;
};

struct FeedItem {
  std::string_view name;
  FeedValue value;
};

/// The inputs of one call, copied before it returns: `{{"x", x}, {"y", y}}`.
class Feed {
 public:
  Feed() = default;
  Feed(std::initializer_list<FeedItem> items) : items_(items.begin(), items.size()) {}
  Feed(const std::vector<FeedItem>& items) : items_(items) {}  // NOLINT: implicit on purpose
  std::span<const FeedItem> items() const { return items_; }

 private:
  std::span<const FeedItem> items_;
};

/// Inputs that own their values, for run_steps.
class Batch {
 public:
  using Values = std::variant<std::vector<float>, std::vector<std::int32_t>>;
  Batch() = default;
  Batch(std::initializer_list<std::pair<std::string, Values>> items) : items_(items) {}
  void set(std::string name, Values values) {
    items_.emplace_back(std::move(name), std::move(values));
  }
  const std::vector<std::pair<std::string, Values>>& items() const { return items_; }
  std::vector<FeedItem> view() const;

 private:
  std::vector<std::pair<std::string, Values>> items_;
};

/// A tensor that was read back.
class Value {
 public:
  Value() = default;
  Value(TensorType type, std::vector<std::uint32_t> words)
      : type_(std::move(type)), words_(std::move(words)) {}
  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  const TensorType& type() const { return type_; }
  /// The elements, 32 bits each.
  const std::vector<std::uint32_t>& words() const { return words_; }
  /// The elements as float (f32) or int32_t (i32, bool); another type is an error.
  template <class T>
  std::vector<T> as() const;

 private:
  TensorType type_;
  std::vector<std::uint32_t> words_;
};
template <>
std::vector<float> Value::as<float>() const;
template <>
std::vector<std::int32_t> Value::as<std::int32_t>() const;

/// Activations that `capture` marked, as one call read them back.
class Captures {
 public:
  /// The values under a name; an error that lists the names if there is none.
  std::vector<float> get(const std::string& name) const { return at(name).as<float>(); }
  const Value& at(const std::string& name) const;
  const Shape& shape(const std::string& name) const { return at(name).shape(); }
  bool has(const std::string& name) const { return values.count(name) > 0; }
  std::vector<std::string> names() const;
  /// One vector a head: the axis before the last two of the first batch entry.
  std::vector<std::vector<float>> per_head(const std::string& name) const;

  std::map<std::string, Value> values;
};

struct RunOptions {
  bool captures = false;  ///< Read back what `capture` marked.
};

struct StepResult {
  float loss = 0;
  Captures captures;
};

struct RunResult {
  std::vector<float>
      output;  ///< The single f32 output; empty if there are several or it is not f32.
  std::map<std::string, Value> outputs;
  Captures captures;
  /// An output by its name; an error that lists the names if there is none.
  const Value& operator[](const std::string& name) const;
};

}  // namespace tensorgrad
