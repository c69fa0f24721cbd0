// JSON as a stream of events: nothing is built, so nothing in a hostile file can make us allocate
// or recurse, and a key given twice is seen twice (a document tree would keep the last and hide
// it).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tensorgrad::io {

/// What happens while a text is read. Handlers throw to stop. Every default is to do nothing.
struct JsonEvents {
  virtual ~JsonEvents() = default;
  virtual void object_begin() {}
  virtual void array_begin() {}
  virtual void end() {}  // of an object or array
  virtual void key(std::string) {}
  virtual void string(std::string) {}
  virtual void whole_number(std::uint64_t) {}
  virtual void other(std::string_view) {
  }  // null, true, false, negative or fractional numbers: as text
};

/// Reads all of `text`. What is not JSON, or nests deeper than 32 levels, is an IoError; `what`
/// names the text in it ("the header").
void parse_json(std::string_view text, JsonEvents& events, std::string_view path,
                const std::string& what);

/// `text` as a JSON string with its quotes. IoError if it is not UTF-8; `what` names it.
std::string json_string(std::string_view text, std::string_view path, const std::string& what);

}  // namespace tensorgrad::io
