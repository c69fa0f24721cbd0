#include "io/io_fail.hpp"

#include <system_error>

#include "tensorgrad/error.hpp"

namespace tensorgrad::io {
namespace {

constexpr std::size_t kLongestName = 160;
constexpr std::size_t kLongestPath = 4096;

/// Bytes of the well-formed UTF-8 character at the start of `text`, or 0 if there is none.
std::size_t utf8_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = at(0) < 0x80   ? 1
                             : at(0) < 0xc2 ? 0
                             : at(0) < 0xe0 ? 2
                             : at(0) < 0xf0 ? 3
                             : at(0) < 0xf5 ? 4
                                            : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (at(0) == 0xe0 && at(1) < 0xa0) || (at(0) == 0xf0 && at(1) < 0x90);
  const bool beyond = (at(0) == 0xed && at(1) >= 0xa0) || (at(0) == 0xf4 && at(1) >= 0x90);
  return overlong || beyond ? 0 : length;
}

/// C0 and C1: they move the cursor or change colours.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    if (i + (length ? length : 1) > limit) {
      return out + "... (" + std::to_string(text.size()) + " bytes)";
    }
    if (length > 0 && !is_control(text.substr(i, length))) {
      out += text.substr(i, length);
      i += length;
    } else {
      const auto byte = static_cast<unsigned char>(text[i++]);
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

std::string quoted(std::string_view text) { return '"' + printable(text, kLongestName) + '"'; }

void fail_at_path(std::string_view path, const std::string& sentence) {
  throw IoError(sentence + "\n  in file " + printable(path, kLongestPath));
}

void fail_errno(std::string_view path, const std::string& action, int error_number) {
  fail_at_path(path, "Cannot " + action + ": " + std::generic_category().message(error_number) +
                         " (errno " + std::to_string(error_number) + ").");
}

void fail_in_file(std::string_view path, const std::string& sentence) {
  fail_at_path(path, "safetensors: " + sentence);
}

void fail_in_tensor(std::string_view path, std::string_view tensor, const std::string& sentence) {
  fail_in_file(path, sentence + "\n  in tensor " + quoted(tensor));
}

}  // namespace tensorgrad::io
