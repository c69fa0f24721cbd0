// config.json of a model folder: its fields by name, checked as they are asked for.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tensorgrad::models {

/// A field of the wrong type or out of range is an IoError that names it. A null counts as absent.
class Config {
 public:
  /// Reads `folder`/config.json.
  explicit Config(const std::string& folder);

  const std::string& path() const { return path_; }
  bool has(const char* name) const { return find(name) != nullptr; }

  /// Without a fallback an absent field is an error.
  std::string text(const char* name, const std::optional<std::string>& fallback = {}) const;
  bool flag(const char* name, bool fallback) const;
  double number(const char* name, std::optional<double> fallback = {}) const;
  /// A whole number from 1 to 2^24: large enough for any model, and small enough that products of
  /// two do not overflow.
  std::int64_t size(const char* name, std::optional<std::int64_t> fallback = {}) const;
  /// One number, or a list of them.
  std::vector<double> numbers(const char* name) const;
  /// Token ids: one, a list, or none.
  std::vector<std::int32_t> tokens(const char* name) const;
  /// Whether the field is this text; something else than a text is not.
  bool is(const char* name, const char* value) const;

  /// `The field "x" of config.json is 3, but <sentence>`.
  [[noreturn]] void refuse(const char* name, const std::string& sentence) const;

 private:
  using Json = nlohmann::json;
  const Json* find(const char* name) const;
  const Json& need(const char* name) const;
  std::optional<double> as_number(const Json& value) const;

  std::string path_;
  Json json_;
};

}  // namespace tensorgrad::models
