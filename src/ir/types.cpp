// Shapes, dtypes, sites and the random source of initial values.
#include <cmath>
#include <cstring>

#include "tensorgrad/graph.hpp"

namespace tensorgrad {

std::string Site::to_string() const {
  if (file == nullptr) return "";
  const char* slash = std::strrchr(file, '/');
  return std::string(slash ? slash + 1 : file) + ":" + std::to_string(line);
}

const char* to_string(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return "f32";
    case DType::I32:
      return "i32";
    case DType::Bool:
      return "bool";
  }
  return "?";
}

std::int64_t storage_bytes(Storage storage, std::int64_t elements) {
  switch (storage) {
    case Storage::Word32:
      return elements * 4;
  }
  return 0;
}

std::int64_t Shape::size() const {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;  // sums and bytes of such still fit
  std::int64_t product = 1;
  for (const Dim& dim : dims_) {
    if (__builtin_mul_overflow(product, dim.size, &product) || product > kMost)
      throw ShapeError("The shape " + to_string() + " has more elements than any machine holds.");
  }
  return product;
}

std::vector<std::int64_t> Shape::strides() const {
  std::vector<std::int64_t> strides(dims_.size(), 1);
  for (int axis = rank() - 2; axis >= 0; --axis) {
    strides[static_cast<std::size_t>(axis)] =
        strides[static_cast<std::size_t>(axis) + 1] * (*this)[axis + 1];
  }
  return strides;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(dims_[i].size);
  }
  return text + "]";
}

std::string TensorType::to_string() const {
  return tensorgrad::to_string(dtype) + shape.to_string();
}

// SplitMix64 (Steele, Lea, Flood 2014): full period, passes BigCrush, one line.
std::uint64_t Rng::next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

double Rng::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

double Rng::normal() {
  const double u = 1.0 - uniform();  // (0, 1]: log stays finite
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * uniform());
}

const Shape& Tensor::shape() const { return type().shape; }

std::int64_t Tensor::shape(int axis) const {
  const Shape& s = shape();
  const int positive = axis < 0 ? axis + s.rank() : axis;
  if (positive < 0 || positive >= s.rank()) {
    throw ShapeError("shape: axis " + std::to_string(axis) + " is out of range for " +
                     type().to_string() + ".");
  }
  return s[positive];
}

DType Tensor::dtype() const { return type().dtype; }

const TensorType& Tensor::type() const {
  if (graph_ == nullptr) {
    throw Error(spec_ ? "This parameter is not part of a graph yet: use it inside the forward "
                        "function that compile traces, on the model that is passed to it."
                      : "This tensor is empty: it was never assigned a value.");
  }
  return graph_->type(id_);
}

}  // namespace tensorgrad
