// JSON as the fixtures hold it: reading a file, and named values with the spellings that different
// writers use for them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tensorgrad::conformance {

using Json = nlohmann::json;

/// Parses a file; an IoError that names it if that fails. Python's NaN, Infinity and -Infinity,
/// which JSON does not have, become the strings "nan", "inf" and "-inf".
Json read_json(const std::string& path);

/// The values of an object by name. Every getter takes several spellings of one name; a null counts
/// as absent. A value of the wrong type is an Error that names it.
class Attrs {
 public:
  using Names = std::initializer_list<const char*>;

  /// `json` is an object or null; `owner` stands for it in errors.
  Attrs(const Json& json, std::string owner);

  bool has(Names names) const { return find(names) != nullptr; }
  /// Without a fallback an absent value is an Error.
  double number(Names names, std::optional<double> fallback = {}) const;
  std::int64_t integer(Names names, std::optional<std::int64_t> fallback = {}) const;
  bool flag(Names names, bool fallback) const;
  std::string text(Names names, const std::string& fallback) const;
  /// A list, or a single number as a list of one.
  std::vector<std::int64_t> integers(Names names) const;
  std::vector<double> numbers(Names names) const;
  /// The value itself, or null.
  Json raw(Names names) const;

  /// What nobody has asked for.
  std::vector<std::string> unused() const;

 private:
  const Json* find(Names names) const;
  const Json& need(Names names) const;
  [[noreturn]] void fail(Names names, const std::string& what) const;
  double to_number(const Json& value, Names names) const;
  std::int64_t to_integer(const Json& value, Names names) const;

  Json json_;
  std::string owner_;
  mutable std::set<std::string> used_;
};

}  // namespace tensorgrad::conformance
