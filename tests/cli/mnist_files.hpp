// Small files in MNIST's format, for tests: digits that are easily told apart.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace tensorgrad::test {

inline std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

/// An idx file of bytes.
inline std::string idx(const std::vector<std::uint32_t>& shape, const std::string& bytes) {
  std::string file = {0, 0, 8, static_cast<char>(shape.size())};
  for (const std::uint32_t dim : shape) file += big_endian(dim);
  return file + bytes;
}

/// Class k is a bright column at 2k+4, a little up or down: easy to learn, but not in one step.
inline std::string image_of(int label, int variant) {
  std::string pixels(28 * 28, 0);
  for (int row = 6 + variant % 3; row < 20; ++row) {
    for (int column = 2 * label + 4; column < 2 * label + 6; ++column) {
      pixels[static_cast<std::size_t>(row * 28 + column)] = static_cast<char>(250);
    }
  }
  return pixels;
}

struct DigitFiles {
  std::string images, labels;
};

inline DigitFiles digits(int count) {
  std::string images, labels;
  for (int i = 0; i < count; ++i) {
    images += image_of(i % 10, i / 10);
    labels += static_cast<char>(i % 10);
  }
  const auto n = static_cast<std::uint32_t>(count);
  return {idx({n, 28, 28}, images), idx({n}, labels)};
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline void write_mnist(const std::filesystem::path& folder, const DigitFiles& training,
                        const DigitFiles& test) {
  std::filesystem::create_directories(folder);
  write_bytes(folder / "train-images-idx3-ubyte", training.images);
  write_bytes(folder / "train-labels-idx1-ubyte", training.labels);
  write_bytes(folder / "t10k-images-idx3-ubyte", test.images);
  write_bytes(folder / "t10k-labels-idx1-ubyte", test.labels);
}

}  // namespace tensorgrad::test
