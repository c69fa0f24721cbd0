// Small pieces of text that the printers of every stage share.
#pragma once

#include <string>
#include <vector>

namespace tensorgrad {

class Graph;
struct Node;

/// The shortest decimal that reads back as the same finite number, as std::to_chars writes it.
std::string shortest_text(float value);
std::string shortest_text(double value);

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

/// `%7: f32[256, 64] = matmul(%3, %5)`.
std::string node_text(const Graph& graph, const Node& node);

}  // namespace tensorgrad
