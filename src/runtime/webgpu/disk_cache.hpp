// Compiled shaders kept between runs. Dawn asks for a blob by a key of its own (which holds the
// shader, the device, the driver and Dawn's version); each blob is a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>

namespace tensorgrad::webgpu {

/// Safe for several threads and several processes. A file that is damaged, of somebody else's, or
/// holds another key with the same hash, counts as absent and is replaced. Failures to write are
/// ignored: it is only a cache.
class DiskCache {
 public:
  /// Makes the folder. Whenever it has outgrown `max_bytes`, now or later, what was not used for
  /// longest is deleted.
  explicit DiskCache(const std::filesystem::path& folder, std::uint64_t max_bytes = 512u << 20);

  /// The size of the blob under `key`, copied to `value` if it is not null and has room; 0 if none.
  std::size_t load(std::string_view key, void* value, std::size_t value_bytes);
  void store(std::string_view key, std::string_view value);

  std::uint64_t hits() const;  // blobs delivered

 private:
  std::filesystem::path file_for(std::string_view key) const;
  void shrink();

  std::filesystem::path folder_;
  std::uint64_t max_bytes_;
  std::uint64_t stored_ = 0;  // bytes since the folder was last looked through
  mutable std::mutex mutex_;
  std::uint64_t hits_ = 0;
  std::string last_key_;  // Dawn asks for the size, then for the bytes: one read of the file serves
  std::string last_value_;
};

}  // namespace tensorgrad::webgpu
