// A file that appears whole or not at all: written under a temporary name in the same folder,
// flushed, then renamed over its final name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tensorgrad::io {

class AtomicFile {
 public:
  /// Creates the temporary file `.<name>.tensorgrad-tmp<N>` beside `path`.
  explicit AtomicFile(std::string path);

  /// Removes the temporary file unless it was committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  /// Flushes the file, renames it to its final name and flushes the folder.
  void commit();

 private:
  bool try_to_own(const std::string& candidate);

  std::string path_;
  std::string folder_;
  std::string temporary_;  // empty when there is none to remove
  int descriptor_ = -1;
};

}  // namespace tensorgrad::io
