// MNIST: images of handwritten digits, 60,000 to learn from and 10,000 to be tested on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tensorgrad::cli {

inline constexpr std::int64_t kDigitSide = 28, kDigitPixels = kDigitSide * kDigitSide;
inline constexpr int kDigitClasses = 10;

struct Digits {
  std::vector<std::uint8_t> pixels;  ///< [count, 28, 28], 0 to 255
  std::vector<std::int32_t> labels;  ///< 0 to 9
  std::size_t count() const { return labels.size(); }
  /// Appends an image as a network likes it: mean 0 and variance 1 or so.
  void append_image(std::size_t i, std::vector<float>& into) const;
};

struct Mnist {
  Digits training, test;
  std::uint64_t hash = 0;  ///< of the training part
};

/// Reads the four idx files of a folder, gzipped or not. Throws IoError.
Mnist read_mnist(const std::string& folder);

/// Where MNIST is: a folder near here, the cache, or the cache after fetching it with npm, of which
/// this tells on standard output. Throws Error that says how to get it.
std::string find_mnist();

/// An image in Braille characters, 14 columns and 7 lines.
std::vector<std::string> draw_digit(const Digits& digits, std::size_t i);

}  // namespace tensorgrad::cli
