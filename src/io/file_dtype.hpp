// The element types of safetensors: their spelling and width, the size of a tensor, and conversion
// to the two types the rest of tensorgrad computes with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tensorgrad/safetensors.hpp"

namespace tensorgrad::io {

/// The dtype spelled so, if it is one we know.
std::optional<FileDType> parse_file_dtype(std::string_view text);

/// `F64, F32, …`: all spellings, for errors.
std::string all_file_dtypes();

/// Bytes of a tensor, or nothing if a dimension is negative or the size passes 2^63 - 1. Zero
/// dimensions do not hide an overflow of the others: code downstream multiplies in any order.
std::optional<std::uint64_t> tensor_byte_size(FileDType dtype, std::span<const std::int64_t> shape);

/// `F32[2, 3]`.
std::string describe(FileDType dtype, std::span<const std::int64_t> shape);

/// Converts `into.size()` elements of any dtype.
void convert_to_f32(FileDType dtype, std::span<const std::byte> bytes, std::span<float> into);

/// An element that 32 bits cannot hold.
struct Misfit {
  std::size_t index;
  std::string value;
};

bool holds_integers(FileDType dtype);  // or BOOL

/// Converts elements of an integer dtype, stopping at the first that does not fit.
std::optional<Misfit> convert_to_i32(FileDType dtype, std::span<const std::byte> bytes,
                                     std::span<std::int32_t> into);

}  // namespace tensorgrad::io
