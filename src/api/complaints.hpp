// Everything that is wrong with something, told at once.
#pragma once

#include <string>

namespace tensorgrad {

/// Lines for an error. A hostile file cannot make it longer than a screen or two.
class Complaints {
 public:
  void add(const std::string& line) {
    if (++count_ <= kShown) text_ += "\n  " + line;
  }
  bool empty() const { return count_ == 0; }
  /// Each line indented on a line of its own.
  std::string text() const {
    if (count_ <= kShown) return text_;
    return text_ + "\n  and " + std::to_string(count_ - kShown) + " more";
  }

 private:
  static constexpr std::size_t kShown = 50;
  std::size_t count_ = 0;
  std::string text_;
};

}  // namespace tensorgrad
