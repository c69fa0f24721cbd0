#include "ir/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace tensorgrad {
namespace {

#if defined(__cpp_lib_to_chars)

template <class T>
std::string shortest(T value) {
  char buffer[40];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

#else  // a library without std::to_chars for floats, as Emscripten's: the same text by hand

template <class T>
std::string shortest(T value) {
  char buffer[40];
  const auto print = [&](const char* format, int precision) {
    std::snprintf(buffer, sizeof buffer, format, precision, static_cast<double>(value));
    return std::string(buffer);
  };
  const auto reads_back = [&](const std::string& text) {
    if (sizeof(T) == sizeof(float)) return std::strtof(text.c_str(), nullptr) == value;
    return std::strtod(text.c_str(), nullptr) == value;
  };
  int precision = 0;
  std::string scientific = print("%.*e", precision);
  while (!reads_back(scientific)) scientific = print("%.*e", ++precision);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  if (exponent < -5 || exponent > 24) return scientific;  // surely shorter
  const std::string fixed = print("%.*f", std::max(0, precision - exponent));
  return fixed.size() <= scientific.size() ? fixed : scientific;
}

#endif

}  // namespace

std::string shortest_text(float value) { return shortest(value); }
std::string shortest_text(double value) { return shortest(value); }

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // A value that came from a float is shown as that float: 0.1, not 0.10000000149011612.
  const auto as_float = static_cast<float>(value);
  return static_cast<double>(as_float) == value ? shortest_text(as_float) : shortest_text(value);
}

}  // namespace tensorgrad
