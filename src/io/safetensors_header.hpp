// The two JSON texts of the format, parsed and checked: the header of a file and the index of a
// sharded model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensorgrad/safetensors.hpp"

namespace tensorgrad::io {

/// The limit of the reference implementation.
constexpr std::uint64_t kLargestHeader = 100'000'000;

struct HeaderTensor {
  FileTensor tensor;                 // without its bytes
  std::uint64_t begin = 0, end = 0;  // in the data that follows the header
};

struct Header {
  std::vector<HeaderTensor> tensors;  // in the order of the header
  std::map<std::string, std::string> metadata;
};

/// Parses the JSON of a header for a file with `data_size` bytes after it, and checks everything:
/// names differ, each length fits its dtype and shape, and the tensors cover the data exactly.
Header parse_header(std::string_view text, std::uint64_t data_size, std::string_view path);

/// The `weight_map` of an index: (tensor, name of the file beside the index), in its order.
std::vector<std::pair<std::string, std::string>> parse_index(std::string_view text,
                                                             std::string_view path);

}  // namespace tensorgrad::io
