#include "io/file_dtype.hpp"

#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

namespace tensorgrad {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

const char* to_string(FileDType dtype) {
  switch (dtype) {
    case FileDType::F64:
      return "F64";
    case FileDType::F32:
      return "F32";
    case FileDType::F16:
      return "F16";
    case FileDType::BF16:
      return "BF16";
    case FileDType::F8_E4M3:
      return "F8_E4M3";
    case FileDType::F8_E5M2:
      return "F8_E5M2";
    case FileDType::I64:
      return "I64";
    case FileDType::I32:
      return "I32";
    case FileDType::I16:
      return "I16";
    case FileDType::I8:
      return "I8";
    case FileDType::U64:
      return "U64";
    case FileDType::U32:
      return "U32";
    case FileDType::U16:
      return "U16";
    case FileDType::U8:
      return "U8";
    case FileDType::BOOL:
      return "BOOL";
  }
  throw InternalError("to_string: not a FileDType");
}

std::size_t byte_size(FileDType dtype) {
  switch (dtype) {
    case FileDType::F64:
    case FileDType::I64:
    case FileDType::U64:
      return 8;
    case FileDType::F32:
    case FileDType::I32:
    case FileDType::U32:
      return 4;
    case FileDType::F16:
    case FileDType::BF16:
    case FileDType::I16:
    case FileDType::U16:
      return 2;
    case FileDType::F8_E4M3:
    case FileDType::F8_E5M2:
    case FileDType::I8:
    case FileDType::U8:
    case FileDType::BOOL:
      return 1;
  }
  throw InternalError("byte_size: not a FileDType");
}

std::int64_t FileTensor::elements() const {
  std::int64_t product = 1;
  for (std::int64_t dimension : shape) product *= dimension;
  return product;
}

FileTensor FileTensor::f32(std::string name, std::vector<std::int64_t> shape,
                           std::span<const float> values) {
  return {std::move(name), FileDType::F32, std::move(shape), std::as_bytes(values)};
}

FileTensor FileTensor::i32(std::string name, std::vector<std::int64_t> shape,
                           std::span<const std::int32_t> values) {
  return {std::move(name), FileDType::I32, std::move(shape), std::as_bytes(values)};
}

namespace io {
namespace {

constexpr FileDType kAllDTypes[] = {
    FileDType::F64,     FileDType::F32, FileDType::F16, FileDType::BF16, FileDType::F8_E4M3,
    FileDType::F8_E5M2, FileDType::I64, FileDType::I32, FileDType::I16,  FileDType::I8,
    FileDType::U64,     FileDType::U32, FileDType::U16, FileDType::U8,   FileDType::BOOL};

float float_of_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// A small float of `exponent_bits` and `mantissa_bits`: (-1)^s · 2^(e - bias) · 1.m, and
// (-1)^s · 2^(1 - bias) · 0.m where e = 0. All ones in e is infinity or NaN.
template <int exponent_bits, int mantissa_bits>
float widen(std::uint32_t bits) {
  constexpr std::uint32_t kBias = (1u << (exponent_bits - 1)) - 1;
  constexpr std::uint32_t kTop = (1u << exponent_bits) - 1;
  constexpr int kShift = 23 - mantissa_bits;
  const std::uint32_t sign = bits >> (exponent_bits + mantissa_bits) << 31;
  const std::uint32_t exponent = bits >> mantissa_bits & kTop;
  const std::uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  if (exponent == 0) {
    // m · 2^(1 - bias - mantissa_bits): exact, and untouched by flush-to-zero modes.
    const float unit = float_of_bits((127 + 1 - kBias - mantissa_bits) << 23);
    const float magnitude = static_cast<float>(mantissa) * unit;
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == kTop ? 255 : exponent + 127 - kBias;
  return float_of_bits(sign | wide << 23 | mantissa << kShift);
}

float widen_f16(std::uint16_t bits) { return widen<5, 10>(bits); }
float widen_bf16(std::uint16_t bits) { return float_of_bits(std::uint32_t{bits} << 16); }
float widen_e5m2(std::uint8_t bits) { return widen<5, 2>(bits); }

// The `fn` variety of E4M3: no infinities; all ones is NaN and the rest of the top exponent is
// finite.
float widen_e4m3(std::uint8_t bits) {
  const std::uint32_t sign = std::uint32_t{bits} >> 7 << 31;
  const std::uint32_t magnitude = bits & 0x7fu;
  if (magnitude == 0x7f) return float_of_bits(sign | 0x7fc00000u);
  if (magnitude >= 0x78) return float_of_bits(sign | (8u + 127) << 23 | (magnitude & 7u) << 20);
  return widen<4, 3>(bits);
}

template <class Stored, class Out, class Convert>
void convert_each(std::span<const std::byte> bytes, std::span<Out> into, Convert convert) {
  for (std::size_t i = 0; i < into.size(); ++i) {
    Stored stored;  // copied out: a file promises no alignment
    std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    into[i] = convert(stored);
  }
}

template <class Stored>
void cast_each(std::span<const std::byte> bytes, std::span<float> into) {
  convert_each<Stored>(bytes, into, [](Stored value) { return static_cast<float>(value); });
}

void copy_each(std::span<const std::byte> bytes, void* into) {
  if (!bytes.empty()) std::memcpy(into, bytes.data(), bytes.size());
}

template <class Stored>
std::optional<Misfit> narrow_each(std::span<const std::byte> bytes, std::span<std::int32_t> into) {
  using Limits = std::numeric_limits<std::int32_t>;
  for (std::size_t i = 0; i < into.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    bool fits = true;
    if constexpr (sizeof(Stored) >= sizeof(std::int32_t)) {
      if constexpr (std::is_signed_v<Stored>) {
        fits = stored >= Limits::min() && stored <= Limits::max();
      } else {
        fits = stored <= static_cast<std::uint32_t>(Limits::max());
      }
    }
    if (!fits) return Misfit{i, std::to_string(stored)};
    into[i] = static_cast<std::int32_t>(stored);
  }
  return std::nullopt;
}

}  // namespace

std::optional<FileDType> parse_file_dtype(std::string_view text) {
  for (FileDType dtype : kAllDTypes) {
    if (text == to_string(dtype)) return dtype;
  }
  return std::nullopt;
}

std::string all_file_dtypes() {
  std::string out;
  for (FileDType dtype : kAllDTypes) {
    if (!out.empty()) out += ", ";
    out += to_string(dtype);
  }
  return out;
}

std::optional<std::uint64_t> tensor_byte_size(FileDType dtype,
                                              std::span<const std::int64_t> shape) {
  auto product = static_cast<std::int64_t>(byte_size(dtype));
  bool empty = false;
  for (std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    if (dimension == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, dimension, &product)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : static_cast<std::uint64_t>(product);
}

std::string describe(FileDType dtype, std::span<const std::int64_t> shape) {
  std::string out = to_string(dtype);
  out += '[';
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(shape[i]);
  }
  return out + ']';
}

void convert_to_f32(FileDType dtype, std::span<const std::byte> bytes, std::span<float> into) {
  switch (dtype) {
    case FileDType::F64:
      return cast_each<double>(bytes, into);
    case FileDType::F32:
      return copy_each(bytes, into.data());
    case FileDType::F16:
      return convert_each<std::uint16_t>(bytes, into, widen_f16);
    case FileDType::BF16:
      return convert_each<std::uint16_t>(bytes, into, widen_bf16);
    case FileDType::F8_E4M3:
      return convert_each<std::uint8_t>(bytes, into, widen_e4m3);
    case FileDType::F8_E5M2:
      return convert_each<std::uint8_t>(bytes, into, widen_e5m2);
    case FileDType::I64:
      return cast_each<std::int64_t>(bytes, into);
    case FileDType::I32:
      return cast_each<std::int32_t>(bytes, into);
    case FileDType::I16:
      return cast_each<std::int16_t>(bytes, into);
    case FileDType::I8:
      return cast_each<std::int8_t>(bytes, into);
    case FileDType::U64:
      return cast_each<std::uint64_t>(bytes, into);
    case FileDType::U32:
      return cast_each<std::uint32_t>(bytes, into);
    case FileDType::U16:
      return cast_each<std::uint16_t>(bytes, into);
    case FileDType::U8:
      return cast_each<std::uint8_t>(bytes, into);
    case FileDType::BOOL:
      return convert_each<std::uint8_t>(bytes, into,
                                        [](std::uint8_t value) { return value ? 1.0f : 0.0f; });
  }
}

bool holds_integers(FileDType dtype) {
  switch (dtype) {
    case FileDType::F64:
    case FileDType::F32:
    case FileDType::F16:
    case FileDType::BF16:
    case FileDType::F8_E4M3:
    case FileDType::F8_E5M2:
      return false;
    case FileDType::I64:
    case FileDType::I32:
    case FileDType::I16:
    case FileDType::I8:
    case FileDType::U64:
    case FileDType::U32:
    case FileDType::U16:
    case FileDType::U8:
    case FileDType::BOOL:
      return true;
  }
  throw InternalError("holds_integers: not a FileDType");
}

std::optional<Misfit> convert_to_i32(FileDType dtype, std::span<const std::byte> bytes,
                                     std::span<std::int32_t> into) {
  switch (dtype) {
    case FileDType::F64:
    case FileDType::F32:
    case FileDType::F16:
    case FileDType::BF16:
    case FileDType::F8_E4M3:
    case FileDType::F8_E5M2:
      break;
    case FileDType::I64:
      return narrow_each<std::int64_t>(bytes, into);
    case FileDType::I32:
      copy_each(bytes, into.data());
      return std::nullopt;
    case FileDType::I16:
      return narrow_each<std::int16_t>(bytes, into);
    case FileDType::I8:
      return narrow_each<std::int8_t>(bytes, into);
    case FileDType::U64:
      return narrow_each<std::uint64_t>(bytes, into);
    case FileDType::U32:
      return narrow_each<std::uint32_t>(bytes, into);
    case FileDType::U16:
      return narrow_each<std::uint16_t>(bytes, into);
    case FileDType::U8:
      return narrow_each<std::uint8_t>(bytes, into);
    case FileDType::BOOL:
      convert_each<std::uint8_t>(bytes, into, [](std::uint8_t value) { return value ? 1 : 0; });
      return std::nullopt;
  }
  throw InternalError(std::string("convert_to_i32: not an integer dtype: ") + to_string(dtype));
}

}  // namespace io
}  // namespace tensorgrad
