// Lines of WGSL, each with the graph node it comes from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensorgrad/tensor.hpp"

namespace tensorgrad::wgsl {

class Writer {
 public:
  explicit Writer(int depth = 0) : depth_(depth) {}
  void line(const std::string& text, NodeId node = -1);
  /// `text {`, and everything up to `close` further in.
  void open(const std::string& text, NodeId node = -1);
  void close();
  void blank() { line(""); }
  /// Text of several lines, as it is.
  void raw(const std::string& block);
  void append(const Writer& other);

  const std::string& text() const { return text_; }
  const std::vector<NodeId>& nodes() const { return nodes_; }
  bool empty() const { return text_.empty(); }

 private:
  std::string text_;
  std::vector<NodeId> nodes_;
  int depth_;
};

/// `12u`
std::string unsigned_text(std::int64_t value);

/// ` + 12u`, or nothing for 0.
std::string plus(std::int64_t value);

}  // namespace tensorgrad::wgsl
