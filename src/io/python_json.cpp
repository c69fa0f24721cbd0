#include "tensorgrad/python_json.hpp"

#include <utility>

namespace tensorgrad {

std::string strict_json(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"-Infinity", "\"-inf\""}, {"Infinity", "\"inf\""}, {"NaN", "\"nan\""}};
  std::string result;
  result.reserve(text.size());
  bool in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    if (in_string && text[i] == '\\') {
      result += text.substr(i, 2);
      i += 2;
      continue;
    }
    if (text[i] == '"') in_string = !in_string;
    std::string_view given = text.substr(i, 1), taken = given;
    for (const auto& [word, quoted] : kWords) {
      if (in_string || text.substr(i, word.size()) != word) continue;
      given = word;
      taken = quoted;
      break;
    }
    result += taken;
    i += given.size();
  }
  return result;
}

}  // namespace tensorgrad
