// A text file as a language model sees it: characters numbered by an alphabet of those that occur,
// divided into a part to learn from and the last tenth, which is held out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tensorgrad::cli {

/// A character is a code point of UTF-8. A file that is not UTF-8 is taken byte by byte, as
/// Latin-1.
class CharText {
 public:
  /// Throws IoError if the file cannot be read or is too short for windows of `context` characters
  /// in both parts.
  CharText(const std::string& path, std::int64_t context);
  /// The same for a text in memory; `name` stands for its path.
  CharText(std::string_view bytes, const std::string& name, std::int64_t context);

  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t alphabet_size() const { return static_cast<std::int64_t>(alphabet_.size()); }
  bool is_utf8() const { return is_utf8_; }
  std::uint64_t hash() const { return hash_; }  ///< of the bytes

  /// Characters to indices. Throws Error if one is not in the alphabet.
  std::vector<std::int32_t> encode(std::string_view utf8) const;
  /// What a new text can follow: a line end, or the text's first character if it has none.
  std::vector<std::int32_t> beginning() const;
  /// Indices to UTF-8.
  std::string decode(std::span<const std::int32_t> tokens) const;

  /// A window and the characters that follow each of its own, for training: any place of the first
  /// part.
  struct Window {
    std::span<const std::int32_t> tokens, next;
  };
  std::int64_t training_windows() const { return split_ - context_; }
  Window training_window(std::int64_t i) const { return window(i); }
  /// Windows side by side that cover the held-out part.
  std::int64_t heldout_windows() const { return (size() - split_ - 1) / context_; }
  Window heldout_window(std::int64_t i) const { return window(split_ + i * context_); }

 private:
  Window window(std::int64_t start) const;

  std::u32string alphabet_;  // sorted
  std::vector<std::int32_t> tokens_;
  std::int64_t context_, split_ = 0;
  std::uint64_t hash_ = 0;
  bool is_utf8_ = true;
};

/// Text from anywhere, made safe for a terminal or a log: control characters but line ends and tabs
/// become the replacement character.
std::string printable(std::string_view utf8);

}  // namespace tensorgrad::cli
