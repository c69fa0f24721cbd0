// `--log FILE`: one JSON object a line, for scripts that watch or plot a training.
#pragma once

#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>

namespace tensorgrad::cli {

class JsonLog {
 public:
  using Field = std::pair<const char*, std::variant<std::int64_t, double, std::string>>;

  /// An empty path: nothing is written. Throws IoError if the file cannot be made.
  explicit JsonLog(const std::string& path);

  /// Writes `{"event": kind, ...}`. A number that is not finite becomes null, as JSON has none.
  void event(const char* kind, std::initializer_list<Field> fields);

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace tensorgrad::cli
