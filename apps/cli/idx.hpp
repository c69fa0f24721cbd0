// Files in idx format, in which MNIST comes: a magic number, sizes, then bytes. Plain or gzipped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tensorgrad::cli {

struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;
};

/// Reads an array of bytes with `rank` dimensions. The file may be anything: what does not fit is
/// an IoError that names the file.
IdxArray read_idx(const std::string& path, int rank);

}  // namespace tensorgrad::cli
