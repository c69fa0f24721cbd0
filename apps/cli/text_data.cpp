#include "text_data.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "checkpoint.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::cli {

namespace {

constexpr char32_t kByteOrderMark = 0xFEFF, kReplacement = 0xFFFD;
constexpr std::int64_t kHeldOutPart = 10;  // one of so many

/// Nothing if it is no UTF-8: cut short, overlong, a surrogate or beyond Unicode.
std::optional<std::u32string> decode_utf8(std::string_view bytes) {
  std::u32string text;
  text.reserve(bytes.size());
  for (std::size_t i = 0; i < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[i++]);
    const int more = lead < 0x80   ? 0
                     : lead < 0xC2 ? -1
                     : lead < 0xE0 ? 1
                     : lead < 0xF0 ? 2
                     : lead < 0xF5 ? 3
                                   : -1;
    if (more < 0) return {};
    char32_t c = more == 0 ? lead : lead & (0x3Fu >> more);
    for (int k = 0; k < more; ++k, ++i) {
      if (i == bytes.size() || (static_cast<unsigned char>(bytes[i]) & 0xC0) != 0x80) return {};
      c = (c << 6) | (static_cast<unsigned char>(bytes[i]) & 0x3F);
    }
    const char32_t least = more == 2 ? 0x800 : more == 3 ? 0x10000 : 0;
    if (c < least || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return {};
    text += c;
  }
  return text;
}

std::u32string decode_latin1(std::string_view bytes) {
  std::u32string text;
  for (const char c : bytes) text += static_cast<unsigned char>(c);
  return text;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t value) { out += static_cast<char>(value); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

std::string read_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  std::string bytes;
  std::vector<char> chunk(std::size_t{1} << 20);
  while (file) {
    const std::size_t got = std::fread(chunk.data(), 1, chunk.size(), file.get());
    bytes.append(chunk.data(), got);
    if (got == 0) break;
  }
  if (!file || std::ferror(file.get())) {
    throw IoError("Cannot read the text " + path + ": " + std::strerror(errno) + ".");
  }
  return bytes;
}

}  // namespace

CharText::CharText(const std::string& path, std::int64_t context)
    : CharText(read_file(path), path, context) {}

CharText::CharText(std::string_view bytes, const std::string& name, std::int64_t context)
    : context_(context), hash_(hash_bytes(bytes)) {
  std::optional<std::u32string> decoded = decode_utf8(bytes);
  is_utf8_ = decoded.has_value();
  std::u32string text = is_utf8_ ? std::move(*decoded) : decode_latin1(bytes);
  if (is_utf8_ && !text.empty() && text[0] == kByteOrderMark) text.erase(0, 1);

  const auto count = static_cast<std::int64_t>(text.size());
  const std::int64_t heldout = count / kHeldOutPart;
  if (heldout <= context) {  // a window and one character after it
    const std::int64_t needed = kHeldOutPart * (context + 1);
    throw IoError(name + " is too short: it has " + std::to_string(count) +
                  " characters. With windows of " + std::to_string(context) +
                  ", in the last tenth too, at least " + std::to_string(needed) + " are needed.");
  }
  split_ = count - heldout;

  alphabet_ = text;
  std::sort(alphabet_.begin(), alphabet_.end());
  alphabet_.erase(std::unique(alphabet_.begin(), alphabet_.end()), alphabet_.end());
  tokens_.reserve(text.size());
  for (const char32_t c : text) {
    const auto place = std::lower_bound(alphabet_.begin(), alphabet_.end(), c);
    tokens_.push_back(static_cast<std::int32_t>(place - alphabet_.begin()));
  }
}

std::vector<std::int32_t> CharText::encode(std::string_view utf8) const {
  const std::optional<std::u32string> text = decode_utf8(utf8);
  if (!text) throw Error("\"" + printable(utf8) + "\" is not UTF-8.");
  std::vector<std::int32_t> tokens;
  for (const char32_t c : *text) {
    const auto place = std::lower_bound(alphabet_.begin(), alphabet_.end(), c);
    if (place == alphabet_.end() || *place != c) {
      std::string character;
      append_utf8(character, c);
      throw Error("The character \"" + printable(character) + "\" does not occur in the text.");
    }
    tokens.push_back(static_cast<std::int32_t>(place - alphabet_.begin()));
  }
  return tokens;
}

std::vector<std::int32_t> CharText::beginning() const {
  const std::size_t place = alphabet_.find(U'\n');
  return {place == std::u32string::npos ? tokens_[0] : static_cast<std::int32_t>(place)};
}

std::string CharText::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    append_utf8(text, alphabet_.at(static_cast<std::size_t>(token)));
  }
  return text;
}

CharText::Window CharText::window(std::int64_t start) const {
  const auto first = static_cast<std::size_t>(start), length = static_cast<std::size_t>(context_);
  const std::span<const std::int32_t> all(tokens_);
  return {all.subspan(first, length), all.subspan(first + 1, length)};
}

std::string printable(std::string_view utf8) {
  const std::u32string text = decode_utf8(utf8).value_or(decode_latin1(utf8));
  std::string out;
  for (const char32_t c : text) {
    const bool control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0);
    append_utf8(out, control ? kReplacement : c);
  }
  return out;
}

}  // namespace tensorgrad::cli
