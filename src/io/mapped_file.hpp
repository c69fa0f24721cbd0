// The bytes of a file, mapped into memory: the one seam between the reader and the system. Where
// mapping is an illusion (Emscripten) the file is read instead.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tensorgrad::io {

class MappedFile {
 public:
  /// Maps a regular file; anything else (a folder, a pipe, nothing) is an IoError.
  static std::shared_ptr<const MappedFile> open(const std::string& path);

  /// Takes bytes that are already in memory.
  static std::shared_ptr<const MappedFile> from_bytes(std::vector<std::byte> bytes,
                                                      std::string label);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  /// IoError if the file on disk is now shorter than the mapping: touching the missing pages would
  /// kill the process.
  void check_still_whole() const;

 private:
  explicit MappedFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::span<const std::byte> bytes_;
  std::vector<std::byte> owned_;  // used where nothing is mapped
  int descriptor_ = -1;           // kept open for check_still_whole
};

/// What lies at a path.
enum class PathKind { Nothing, File, Folder };
PathKind path_kind(const std::string& path);

/// A path with a zero byte in it would be cut there by the system: IoError.
void check_path(const std::string& path);

}  // namespace tensorgrad::io
