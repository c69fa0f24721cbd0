#include "io/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <new>
#include <stdexcept>

#include "io/io_fail.hpp"

namespace tensorgrad::io {
namespace {

#ifdef __EMSCRIPTEN__
constexpr bool kCanMap = false;
#else
constexpr bool kCanMap = true;
#endif

std::vector<std::byte> read_all(int descriptor, std::size_t size, const std::string& path) {
  std::vector<std::byte> bytes;
  try {
    bytes.resize(size);
  } catch (const std::exception&) {  // bad_alloc or length_error
    fail_at_path(path, "The file has " + std::to_string(size) + " bytes, more than fit in memory.");
  }
  for (std::size_t done = 0; done < size;) {
    const ssize_t got = ::read(descriptor, bytes.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(path, "read the file", errno);
    if (got == 0) {
      fail_at_path(path, "The file ended after " + std::to_string(done) + " of its " +
                             std::to_string(size) + " bytes.");
    }
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  check_path(path);
  std::shared_ptr<MappedFile> file(new MappedFile(path));

  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  file->descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->descriptor_ < 0) fail_errno(path, "open the file for reading", errno);

  struct stat status {};
  if (::fstat(file->descriptor_, &status) != 0) fail_errno(path, "examine the file", errno);
  if (S_ISDIR(status.st_mode)) fail_at_path(path, "Expected a file, but this is a folder.");
  if (!S_ISREG(status.st_mode)) {
    fail_at_path(path, "Expected a regular file, but this is a pipe, socket or device.");
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max())) {
    fail_at_path(path, "The file has " + std::to_string(size) +
                           " bytes, more than this machine can address.");
  }

  const auto length = static_cast<std::size_t>(size);
  if (length == 0) return file;  // an empty mapping is an error to the system
  if (kCanMap) {
    void* start = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file->descriptor_, 0);
    if (start == MAP_FAILED) fail_errno(path, "map the file into memory", errno);
    file->bytes_ = {static_cast<const std::byte*>(start), length};
  } else {
    file->owned_ = read_all(file->descriptor_, length, path);
    file->bytes_ = file->owned_;
  }
  return file;
}

std::shared_ptr<const MappedFile> MappedFile::from_bytes(std::vector<std::byte> bytes,
                                                         std::string label) {
  std::shared_ptr<MappedFile> file(new MappedFile(std::move(label)));
  file->owned_ = std::move(bytes);
  file->bytes_ = file->owned_;
  return file;
}

MappedFile::~MappedFile() {
  if (owned_.empty() && !bytes_.empty()) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MappedFile::check_still_whole() const {
  if (descriptor_ < 0 || !owned_.empty()) return;
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail_errno(path_, "examine the file", errno);
  if (static_cast<std::uint64_t>(status.st_size) < bytes_.size()) {
    fail_at_path(path_, "The file was cut short while open: it had " +
                            std::to_string(bytes_.size()) + " bytes and now has " +
                            std::to_string(status.st_size) + ".");
  }
}

PathKind path_kind(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return PathKind::Nothing;
  return S_ISDIR(status.st_mode) ? PathKind::Folder : PathKind::File;
}

void check_path(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    fail_at_path(path, "The path has a zero byte in it.");
  }
}

}  // namespace tensorgrad::io
