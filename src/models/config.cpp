#include "models/config.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "io/io_fail.hpp"
#include "tensorgrad/python_json.hpp"

namespace tensorgrad::models {

namespace {

constexpr std::uintmax_t kLargestFile = 1 << 24;
constexpr std::int64_t kLargestSize = 1 << 24;
constexpr std::size_t kShown = 80;  // bytes of a value in an error

std::string read_text(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) io::fail_errno(path, "open the model's configuration", error.value());
  if (bytes > kLargestFile)
    io::fail_at_path(path, "The file is too large to be a model's configuration.");
  std::ifstream file(path, std::ios::binary);
  if (!file) io::fail_errno(path, "open the model's configuration", errno);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) io::fail_errno(path, "read the model's configuration", errno);
  return text;
}

}  // namespace

Config::Config(const std::string& folder)
    : path_((std::filesystem::path(folder) / "config.json").string()) {
  try {
    json_ = Json::parse(strict_json(read_text(path_)));
  } catch (const Json::exception& error) {
    io::fail_at_path(path_,
                     "The file is not valid JSON: " + io::printable(error.what(), 200) + ".");
  }
  if (!json_.is_object())
    io::fail_at_path(path_, "The file should hold a JSON object, but holds " +
                                std::string(json_.type_name()) + ".");
}

const Config::Json* Config::find(const char* name) const {
  const auto found = json_.find(name);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

const Config::Json& Config::need(const char* name) const {
  const Json* value = find(name);
  if (!value) io::fail_at_path(path_, "The field \"" + std::string(name) + "\" is missing.");
  return *value;
}

void Config::refuse(const char* name, const std::string& sentence) const {
  const Json* value = find(name);
  const std::string given =
      value ? io::printable(value->dump(-1, ' ', true, Json::error_handler_t::replace), kShown)
            : "missing";
  io::fail_at_path(path_,
                   "The field \"" + std::string(name) + "\" is " + given + ", but " + sentence);
}

std::string Config::text(const char* name, const std::optional<std::string>& fallback) const {
  if (fallback && !has(name)) return *fallback;
  const Json& value = need(name);
  if (!value.is_string()) refuse(name, "should be a text.");
  return value.get<std::string>();
}

bool Config::is(const char* name, const char* value) const {
  const Json* given = find(name);
  return given && given->is_string() && *given == value;
}

bool Config::flag(const char* name, bool fallback) const {
  const Json* value = find(name);
  if (!value) return fallback;
  if (!value->is_boolean()) refuse(name, "should be true or false.");
  return value->get<bool>();
}

/// Numbers that JSON does not have come as the texts of strict_json, or as newer versions of
/// transformers write them: {"__float__": "Infinity"}.
std::optional<double> Config::as_number(const Json& value) const {
  if (value.is_number()) return value.get<double>();
  const Json* word = &value;
  if (value.is_object() && value.size() == 1 && value.contains("__float__"))
    word = &value["__float__"];
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (*word == "inf" || *word == "Infinity") return kInfinity;
  if (*word == "-inf" || *word == "-Infinity") return -kInfinity;
  return {};
}

double Config::number(const char* name, std::optional<double> fallback) const {
  if (fallback && !has(name)) return *fallback;
  const std::optional<double> value = as_number(need(name));
  if (!value) refuse(name, "should be a number.");
  return *value;
}

std::int64_t Config::size(const char* name, std::optional<std::int64_t> fallback) const {
  if (fallback && !has(name)) return *fallback;
  const Json& value = need(name);
  const double number = value.is_number() ? value.get<double>() : 0;
  if (!(number >= 1 && number <= kLargestSize && std::floor(number) == number))
    refuse(name, "should be a whole number from 1 to " + std::to_string(kLargestSize) + ".");
  return static_cast<std::int64_t>(number);
}

std::vector<double> Config::numbers(const char* name) const {
  const Json& value = need(name);
  std::vector<double> list;
  for (const Json& item : value.is_array() ? value : Json::array({value})) {
    const std::optional<double> number = as_number(item);
    if (!number) refuse(name, "should be a number or a list of numbers.");
    list.push_back(*number);
  }
  return list;
}

std::vector<std::int32_t> Config::tokens(const char* name) const {
  std::vector<std::int32_t> list;
  if (!has(name)) return list;
  for (const double number : numbers(name)) {
    if (!(std::abs(number) <= kLargestSize && std::floor(number) == number))
      refuse(name, "should be a token's number or a list of them.");
    list.push_back(static_cast<std::int32_t>(number));
  }
  return list;
}

}  // namespace tensorgrad::models
