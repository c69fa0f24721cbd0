#include "io/json_events.hpp"

#include <nlohmann/json.hpp>

#include "io/io_fail.hpp"

namespace tensorgrad::io {
namespace {

using nlohmann::json;

constexpr int kDeepest = 32;
constexpr std::size_t kLongestReason = 240;

/// Between nlohmann's parser, which is not recursive, and our events.
class Adapter : public nlohmann::json_sax<json> {
 public:
  Adapter(JsonEvents& events, std::string_view path, const std::string& what)
      : events_(events), path_(path), what_(what) {}

  bool null() override { return other("null"); }
  bool boolean(bool value) override { return other(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return other(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return other(text); }
  bool binary(binary_t&) override { return other("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    events_.whole_number(value);
    return true;
  }
  bool string(string_t& value) override {
    events_.string(std::move(value));
    return true;
  }
  bool key(string_t& value) override {
    events_.key(std::move(value));
    return true;
  }
  bool start_object(std::size_t) override {
    descend();
    events_.object_begin();
    return true;
  }
  bool start_array(std::size_t) override {
    descend();
    events_.array_begin();
    return true;
  }
  bool end_object() override { return ascend(); }
  bool end_array() override { return ascend(); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    std::string_view reason = error.what();  // "[json.exception.parse_error.101] parse error at …"
    if (const std::size_t bracket = reason.find("] "); bracket != std::string_view::npos) {
      reason.remove_prefix(bracket + 2);
    }
    fail_in_file(path_, what_ + " is not valid JSON at its byte " + std::to_string(position) +
                            ": " + printable(reason, kLongestReason) + ".");
  }

 private:
  bool other(std::string_view text) {
    events_.other(text);
    return true;
  }
  void descend() {
    if (++depth_ > kDeepest) {
      fail_in_file(path_, what_ + " nests deeper than " + std::to_string(kDeepest) + " levels.");
    }
  }
  bool ascend() {
    --depth_;
    events_.end();
    return true;
  }

  JsonEvents& events_;
  std::string_view path_;
  const std::string& what_;
  int depth_ = 0;
};

}  // namespace

void parse_json(std::string_view text, JsonEvents& events, std::string_view path,
                const std::string& what) {
  // nlohmann takes a zero byte for the end of the text and would ignore what follows.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    fail_in_file(path, what + " is not valid JSON at its byte " + std::to_string(zero) +
                           ": it has a zero byte there.");
  }
  Adapter adapter(events, path, what);
  json::sax_parse(text.begin(), text.end(), &adapter);
}

std::string json_string(std::string_view text, std::string_view path, const std::string& what) {
  try {
    return json(text).dump();
  } catch (const json::type_error&) {
    fail_in_file(path, what + " is not valid UTF-8.");
  }
}

}  // namespace tensorgrad::io
