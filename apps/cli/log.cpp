#include "log.hpp"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tensorgrad/error.hpp"

namespace tensorgrad::cli {

JsonLog::JsonLog(const std::string& path, bool append) : path_(path) {
  if (path.empty()) return;
  file_.open(path, append ? std::ios::app : std::ios::trunc);
  if (!file_) throw IoError("Cannot write the log " + path + ": " + std::strerror(errno) + ".");
}

void JsonLog::event(const char* kind, const Fields& fields) {
  if (path_.empty()) return;
  nlohmann::ordered_json line = {{"event", kind}};
  for (const auto& [name, value] : fields) {
    std::visit([&, key = name](const auto& v) { line[key] = v; }, value);
  }
  using Handler = nlohmann::ordered_json::error_handler_t;
  // Flushed, so that whoever follows the file sees each step.
  file_ << line.dump(-1, ' ', false, Handler::replace) << std::endl;
  if (!file_) throw IoError("Cannot write the log " + path_ + ": " + std::strerror(errno) + ".");
}

}  // namespace tensorgrad::cli
