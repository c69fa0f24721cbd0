// `--log FILE`: one JSON object a line, for scripts that watch or plot a training.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tensorgrad::cli {

class JsonLog {
 public:
  using Value = std::variant<std::int64_t, std::uint64_t, double, std::string>;
  using Field = std::pair<const char*, Value>;
  using Fields = std::vector<Field>;

  /// An empty path: nothing is written. `append`: to what the file already has. Throws IoError if
  /// it cannot be written.
  JsonLog(const std::string& path, bool append);

  /// Writes `{"event": kind, ...}`. A number that is not finite becomes null, as JSON has none.
  void event(const char* kind, const Fields& fields);

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace tensorgrad::cli
