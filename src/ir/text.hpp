// Small pieces of text that the printers of every stage share.
#pragma once

#include <string>
#include <vector>

namespace tensorgrad {

/// The shortest decimal that reads back as the same double; `inf`, `-inf`, `nan`.
std::string number_text(double value);

/// `[1, 2, 3]`.
template <class T>
std::string list_text(const std::vector<T>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(values[i]);
  }
  return text + "]";
}

}  // namespace tensorgrad
