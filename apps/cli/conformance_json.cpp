#include "conformance_json.hpp"

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include "tensorgrad/error.hpp"
#include "tensorgrad/python_json.hpp"

namespace tensorgrad::conformance {

Json read_json(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError("Cannot open " + path + ".");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) throw IoError("Cannot read " + path + ".");
  try {
    return Json::parse(strict_json(text));
  } catch (const Json::exception& error) {
    throw IoError(path + " is not valid JSON: " + error.what() + ".");
  }
}

Attrs::Attrs(const Json& json, std::string owner) : json_(json), owner_(std::move(owner)) {
  if (!json_.is_object() && !json_.is_null()) {
    throw Error(owner_ + " should be a JSON object, but is " + json_.type_name() + ".");
  }
}

const Json* Attrs::find(Names names) const {
  if (!json_.is_object()) return nullptr;
  for (const char* name : names) {
    const auto found = json_.find(name);
    if (found == json_.end()) continue;
    used_.insert(name);
    if (!found->is_null()) return &*found;
  }
  return nullptr;
}

const Json& Attrs::need(Names names) const {
  const Json* value = find(names);
  if (!value) throw Error(owner_ + " has no \"" + *names.begin() + "\".");
  return *value;
}

void Attrs::fail(Names names, const std::string& what) const {
  throw Error("\"" + std::string(*names.begin()) + "\" of " + owner_ + " should be " + what +
              ", but is " + need(names).dump() + ".");
}

double Attrs::to_number(const Json& value, Names names) const {
  if (value.is_number()) return value.get<double>();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  fail(names, "a number");
}

std::int64_t Attrs::to_integer(const Json& value, Names names) const {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::abs(number) < 9e15 && std::floor(number) == number) {
      return static_cast<std::int64_t>(number);
    }
  }
  fail(names, "a whole number");
}

double Attrs::number(Names names, std::optional<double> fallback) const {
  if (fallback && !has(names)) return *fallback;
  return to_number(need(names), names);
}

std::int64_t Attrs::integer(Names names, std::optional<std::int64_t> fallback) const {
  if (fallback && !has(names)) return *fallback;
  return to_integer(need(names), names);
}

bool Attrs::flag(Names names, bool fallback) const {
  const Json* value = find(names);
  if (!value) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number_integer()) return value->get<std::int64_t>() != 0;
  fail(names, "true or false");
}

std::string Attrs::text(Names names, const std::string& fallback) const {
  const Json* value = find(names);
  if (!value) return fallback;
  if (!value->is_string()) fail(names, "a string");
  return value->get<std::string>();
}

std::vector<std::int64_t> Attrs::integers(Names names) const {
  const Json& value = need(names);
  if (!value.is_array()) return {to_integer(value, names)};
  std::vector<std::int64_t> list;
  for (const Json& item : value) list.push_back(to_integer(item, names));
  return list;
}

std::vector<double> Attrs::numbers(Names names) const {
  const Json& value = need(names);
  if (!value.is_array()) return {to_number(value, names)};
  std::vector<double> list;
  for (const Json& item : value) list.push_back(to_number(item, names));
  return list;
}

Json Attrs::raw(Names names) const {
  const Json* value = find(names);
  return value ? *value : Json();
}

std::vector<std::string> Attrs::unused() const {
  std::vector<std::string> names;
  if (!json_.is_object()) return names;
  for (const auto& item : json_.items()) {
    if (!used_.count(item.key())) names.push_back(item.key());
  }
  return names;
}

}  // namespace tensorgrad::conformance
