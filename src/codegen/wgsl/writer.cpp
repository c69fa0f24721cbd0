#include "codegen/wgsl/writer.hpp"

#include <sstream>

namespace tensorgrad::wgsl {

void Writer::line(const std::string& text, NodeId node) {
  if (!text.empty()) text_.append(2 * static_cast<std::size_t>(depth_), ' ');
  text_ += text;
  text_ += '\n';
  nodes_.push_back(node);
}

void Writer::open(const std::string& text, NodeId node) {
  line(text.empty() ? "{" : text + " {", node);
  ++depth_;
}

void Writer::close() {
  --depth_;
  line("}");
}

void Writer::raw(const std::string& block) {
  std::istringstream lines(block);
  for (std::string text; std::getline(lines, text);) line(text);
}

void Writer::append(const Writer& other) {
  text_ += other.text_;
  nodes_.insert(nodes_.end(), other.nodes_.begin(), other.nodes_.end());
}

std::string unsigned_text(std::int64_t value) {
  return std::to_string(static_cast<std::uint32_t>(value)) + "u";  // negative ones wrap, as sums do
}

std::string plus(std::int64_t value) { return value == 0 ? "" : " + " + unsigned_text(value); }

}  // namespace tensorgrad::wgsl
