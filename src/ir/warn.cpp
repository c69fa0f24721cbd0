// Warnings go to one place that a program may choose.
#include <cstdio>
#include <mutex>

#include "tensorgrad/error.hpp"

namespace tensorgrad {

namespace {
std::mutex mutex;
std::function<void(const std::string&)> handler;
}  // namespace

void set_warning_handler(std::function<void(const std::string&)> fn) {
  std::lock_guard lock(mutex);
  handler = std::move(fn);
}

void warn(const std::string& message) {
  std::lock_guard lock(mutex);
  if (handler) {
    handler(message);
  } else {
    std::fprintf(stderr, "tensorgrad: warning: %s\n", message.c_str());
  }
}

}  // namespace tensorgrad
