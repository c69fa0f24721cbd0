#include "runtime/host_memory.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>

#include "runtime/control_groups.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad {

namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

/// A field of /proc/meminfo in bytes, or -1.
std::int64_t meminfo(const std::string& field) {
  std::ifstream file("/proc/meminfo");
  long long kibibytes = 0;  // what %lld reads, whatever std::int64_t is
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(field + ":", 0) != 0) continue;
    if (std::sscanf(line.c_str() + field.size() + 1, "%lld", &kibibytes) == 1)
      return kibibytes * 1024;
  }
  return -1;
}

/// A number in a file of its own, or -1 (also for "max").
std::int64_t number_in(const std::string& path) {
  std::int64_t value = -1;
  std::ifstream file(path);
  return file >> value ? value : -1;
}

/// What one control group leaves: its limit without what cannot be given back. Memory that holds
/// files can.
std::int64_t left_in(const std::string& folder, const char* limit_file, const char* used_file,
                     const std::string& files_field) {
  const std::int64_t limit = number_in(folder + limit_file);
  std::int64_t used = number_in(folder + used_file);
  if (limit < 0 || used < 0) return kUnknown;
  std::ifstream statistics(folder + "/memory.stat");
  std::int64_t value = 0;
  for (std::string name; statistics >> name >> value;) {
    if (name == files_field) used -= value;
  }
  return std::max<std::int64_t>(0, limit - used);
}

/// The same for this process's group and all around it.
std::int64_t left_in_groups() {
  std::int64_t left = kUnknown;
  for_each_control_group("memory", [&](const std::string& folder, bool unified) {
    left =
        std::min(left, unified ? left_in(folder, "/memory.max", "/memory.current", "inactive_file")
                               : left_in(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                         "total_inactive_file"));
  });
  return left;
}

}  // namespace

std::int64_t available_memory() {
  const std::int64_t available = meminfo("MemAvailable");
  const std::int64_t swap = std::max<std::int64_t>(0, meminfo("SwapFree"));
  return std::min(available < 0 ? kUnknown : available + swap, left_in_groups());
}

std::string bytes_text(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  std::string text = std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  if (bytes < 1024) return text;
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  char short_form[32];
  std::snprintf(short_form, sizeof short_form, " (%.1f %s)", value, kUnits[unit]);
  return text + short_form;
}

void check_memory(const std::string& device, const std::string& what, std::int64_t bytes) {
  constexpr std::int64_t kSmall = 1 << 20;  // not worth the question
  if (bytes < kSmall) return;
  const std::int64_t available = available_memory();
  if (bytes <= available) return;
  throw DeviceError(device + ": out of memory: " + what + " needs " + bytes_text(bytes) + ", and " +
                    bytes_text(available) + " are available.");
}

}  // namespace tensorgrad
