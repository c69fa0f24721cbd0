// The values of a graph as the user holds them: dtypes, dimensions, shapes and the Tensor handle.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensorgrad/error.hpp"

namespace tensorgrad {

class Graph;

/// What arithmetic a tensor's elements do. How they are stored is `Storage`'s business.
enum class DType : std::uint8_t { F32, I32, Bool };
inline constexpr DType f32 = DType::F32;
inline constexpr DType i32 = DType::I32;
inline constexpr DType boolean = DType::Bool;

/// `f32`, `i32`, `bool`.
const char* to_string(DType dtype);

/// How elements lie in memory. Word32: one 32-bit word an element, whatever the dtype (a bool is 0
/// or 1). Half precision and packed integers with scales come here, not as dtypes.
enum class Storage : std::uint8_t { Word32 };

/// Bytes that `elements` elements take in a storage format.
std::int64_t storage_bytes(Storage storage, std::int64_t elements);

/// One dimension of a shape: a constant now; `symbol` names a bounded symbol (whose bound is
/// `size`) once lengths may vary from call to call.
struct Dim {
  std::int64_t size = 0;
  std::int32_t symbol = -1;

  constexpr Dim() = default;
  template <std::integral T>
  constexpr Dim(T value) : size(static_cast<std::int64_t>(value)) {}  // NOLINT: implicit on purpose
  constexpr operator std::int64_t() const { return size; }            // NOLINT: implicit on purpose
  constexpr bool is_constant() const { return symbol < 0; }
  friend constexpr bool operator==(const Dim& a, const Dim& b) = default;
};

/// The dimensions of a tensor, outermost first. Rank 0 is a scalar.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dim> dims) : dims_(dims) {}
  explicit Shape(std::vector<Dim> dims) : dims_(std::move(dims)) {}
  template <std::integral T>
  explicit Shape(const std::vector<T>& dims) : dims_(dims.begin(), dims.end()) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  std::int64_t operator[](int axis) const { return dims_[static_cast<std::size_t>(axis)].size; }
  const Dim& dim(int axis) const { return dims_[static_cast<std::size_t>(axis)]; }
  void set(int axis, Dim dim) { dims_[static_cast<std::size_t>(axis)] = dim; }
  void push_back(Dim dim) { dims_.push_back(dim); }
  /// Number of elements; 1 for a scalar.
  std::int64_t size() const;
  /// Row-major strides in elements.
  std::vector<std::int64_t> strides() const;
  const std::vector<Dim>& dims() const { return dims_; }
  auto begin() const { return dims_.begin(); }
  auto end() const { return dims_.end(); }
  friend bool operator==(const Shape& a, const Shape& b) = default;
  /// `[256, 64]`.
  std::string to_string() const;

 private:
  std::vector<Dim> dims_;
};

/// What the elements of a tensor are and how many: everything a shape rule needs to know.
struct TensorType {
  DType dtype = DType::F32;
  Shape shape;
  Storage storage = Storage::Word32;

  std::int64_t bytes() const { return storage_bytes(storage, shape.size()); }
  friend bool operator==(const TensorType& a, const TensorType& b) = default;
  /// `f32[256, 64]`.
  std::string to_string() const;
};

using TensorId = std::int32_t;
using NodeId = std::int32_t;

/// A deterministic source of random numbers for initial values, the same on every machine.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// Uniform in [0, 1).
  double uniform();
  /// Standard normal.
  double normal();

 private:
  std::uint64_t state_;
};

/// Makes a parameter's first values on the host, so that every device starts from the same bits.
using InitFn = std::function<std::vector<float>(const Shape&, Rng&)>;

/// How a parameter starts, and whether weight decay is meant for values that start so.
struct Init {
  InitFn make;
  bool decay = true;

  Init() = default;
  Init(InitFn fn, bool decays) : make(std::move(fn)), decay(decays) {}
  /// Any function `(shape, rng) -> vector<float>` is an init.
  template <class F>
  requires std::is_invocable_r_v < std::vector<float>, F,
  const Shape&, Rng& > Init(F fn) : make(std::move(fn)) {}  // NOLINT: implicit on purpose
};

/// How a parameter's axes are meant, for files that keep them otherwise. InOut: a matrix [in, out],
/// which PyTorch keeps as [out, in].
enum class ParamLayout : std::uint8_t { Plain, InOut };

/// What `param` declares. It travels inside the model's Tensor until compile makes it real.
struct ParamSpec {
  Shape shape;
  Init init;
  bool decay = true;
  bool trainable = true;
  ParamLayout layout = ParamLayout::Plain;
};

/// A value in a graph: a light handle, passed by value. In a model, before compile, it may instead
/// be the declaration of a parameter (see `param`).
class Tensor {
 public:
  Tensor() = default;
  Tensor(Graph* graph, TensorId id) : graph_(graph), id_(id) {}
  explicit Tensor(std::shared_ptr<const ParamSpec> spec) : spec_(std::move(spec)) {}

  const Shape& shape() const;
  std::int64_t shape(int axis) const;  ///< Size of one axis; negative axes count from the end.
  int rank() const { return shape().rank(); }
  DType dtype() const;
  const TensorType& type() const;

  Graph* graph() const { return graph_; }
  TensorId id() const { return id_; }
  bool valid() const { return graph_ != nullptr; }
  /// The declaration, where this is a parameter that no compile has made real yet.
  const std::shared_ptr<const ParamSpec>& spec() const { return spec_; }

 private:
  Graph* graph_ = nullptr;
  TensorId id_ = -1;
  std::shared_ptr<const ParamSpec> spec_;
};

/// An argument of an op: a tensor or a number, and where in the user's code it was passed. Being
/// made implicitly at the call, it carries call sites through operators, which take no other
/// arguments.
class Operand {
 public:
  Operand(const Tensor& tensor, const char* file = __builtin_FILE(),  // NOLINT: implicit on purpose
          int line = __builtin_LINE())
      : tensor_(tensor), site_{file, line} {}
  template <class T>
  requires std::is_arithmetic_v<T> Operand(
      T number, const char* file = __builtin_FILE(),  // NOLINT: implicit on purpose
      int line = __builtin_LINE())
      : number_(static_cast<double>(number)), is_number_(true), site_{file, line} {}

  bool is_number() const { return is_number_; }
  double number() const { return number_; }
  const Tensor& tensor() const { return tensor_; }
  const Site& site() const { return site_; }

 private:
  Tensor tensor_;
  double number_ = 0;
  bool is_number_ = false;
  Site site_;
};

}  // namespace tensorgrad
