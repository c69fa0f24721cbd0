// Safetensors files made by hand, right or wrong, for the tests of src/io and the fuzzers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors_header.hpp"
#include "tensorgrad/safetensors.hpp"

namespace tensorgrad::test {

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::string_view text) {
  const auto* start = reinterpret_cast<const std::byte*>(text.data());
  return Bytes(start, start + text.size());
}

/// The bytes of numbers, one after the other.
template <class Value>
std::string raw(const std::vector<Value>& values) {
  std::string out(values.size() * sizeof(Value), '\0');
  if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

/// A whole file: the length of the header, the header as given, the data as given.
inline Bytes file_with(std::string_view header, std::string_view data = "") {
  std::string text = raw<std::uint64_t>({header.size()});
  text += header;
  text += data;
  return bytes_of(text);
}

/// `"name":{"dtype":…}`: one entry of a header.
inline std::string entry(std::string_view name, std::string_view dtype, std::string_view shape,
                         std::string_view offsets) {
  std::string out = "\"";
  out.append(name).append("\":{\"dtype\":\"").append(dtype).append("\",\"shape\":").append(shape);
  return out.append(",\"data_offsets\":").append(offsets).append("}");
}

/// Reads everything a file offers. True if the file was accepted, false on IoError; all else
/// escapes. What was accepted must hold together, or this throws std::logic_error.
inline bool read_everything(Bytes bytes) {
  try {
    const auto file = SafetensorsFile::from_bytes(std::move(bytes), "fuzz");
    for (const FileTensor& tensor : file.tensors()) {
      const auto elements = static_cast<std::size_t>(tensor.elements());
      if (elements * byte_size(tensor.dtype) != tensor.bytes.size() || !file.has(tensor.name) ||
          file.read_f32(tensor.name).size() != elements) {
        throw std::logic_error("an accepted tensor does not hold together: " + tensor.name);
      }
      try {
        file.read_i32(tensor.name);
      } catch (const IoError&) {  // a float dtype or a value out of range
      }
    }
    return true;
  } catch (const IoError&) {
    return false;
  }
}

/// The same for the index of a sharded model.
inline bool read_index(std::string_view text) {
  try {
    io::parse_index(text, "fuzz");
    return true;
  } catch (const IoError&) {
    return false;
  }
}

/// Valid files, each showing another part of the format.
inline std::vector<Bytes> valid_files() {
  const std::string three = raw<float>({1.5f, -2.0f, 3.25f});
  return {
      file_with("{}"),
      file_with("{" + entry("w", "F32", "[3]", "[0,12]") + "}   ", three),
      file_with(R"({"__metadata__":{"step":"12","name":"é\n"},)" +
                    entry("a.b", "I64", "[2,1]", "[0,16]") + "," +
                    entry("empty", "F16", "[0,7]", "[16,16]") + "," +
                    entry("flag", "BOOL", "[]", "[16,17]") + "}",
                raw<std::int64_t>({7, -1}) + "\1"),
      file_with(
          "{" + entry("z", "BF16", "[2,2]", "[8,16]") + "," + entry("y", "U8", "[8]", "[0,8]") +
              "," + entry("x", "F64", "[1]", "[16,24]") + "," +
              entry("e", "F8_E4M3", "[1]", "[24,25]") + "}",
          "abcdefgh" + raw<std::uint16_t>({0x3f80, 0, 0xffff, 1}) + raw<double>({1e300}) + "x"),
  };
}

inline std::string valid_index() {
  return R"({"metadata":{"total_size":40,"extra":[1,{"a":null}]},)"
         R"("weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})";
}

}  // namespace tensorgrad::test
