// The temporary file is held under a lock (flock), which the system drops when a process dies,
// however it dies. So a name left behind by a killed process is taken over by the next writer
// instead of piling up, and two live writers never share one.
#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "io/io_fail.hpp"
#include "io/mapped_file.hpp"

namespace tensorgrad::io {
namespace {

constexpr int kMostWriters = 64;                             // at once, on one path
constexpr std::size_t kLargestWrite = std::size_t{1} << 30;  // Linux writes at most 2 GiB per call

/// Some file systems have no locks, or cannot flush a folder; neither stops us from writing.
bool unsupported(int error_number) {
  return error_number == ENOSYS || error_number == EINVAL || error_number == ENOLCK ||
         error_number == ENOTSUP || error_number == EOPNOTSUPP || error_number == EBADF;
}

int open_retrying(const char* path, int flags) {
  for (;;) {
    const int descriptor = ::open(path, flags | O_CLOEXEC, 0666);
    if (descriptor >= 0 || errno != EINTR) return descriptor;
  }
}

/// Makes the new name in the folder survive a power cut. A folder that we may write to but not read
/// cannot be opened; then the system flushes it in its own time.
void flush_folder(const std::string& folder, const std::string& path) {
  const int descriptor = open_retrying(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) return;
  const int result = ::fsync(descriptor);
  const int error_number = errno;
  ::close(descriptor);
  if (result != 0 && !unsupported(error_number)) {
    fail_errno(path, "flush the folder of the renamed file", error_number);
  }
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  check_path(path_);
  const std::size_t slash = path_.rfind('/');
  const std::string name = slash == std::string::npos ? path_ : path_.substr(slash + 1);
  const std::string prefix = slash == std::string::npos ? "" : path_.substr(0, slash + 1);
  if (name.empty()) fail_at_path(path_, "Expected the name of a file to write, but there is none.");
  if (path_kind(path_) == PathKind::Folder) {
    fail_at_path(path_, "Expected the name of a file to write, but this is a folder.");
  }
  folder_ = prefix.empty() ? "." : prefix;

  for (int i = 0; i < kMostWriters; ++i) {
    if (try_to_own(prefix + "." + name + ".tensorgrad-tmp" + std::to_string(i))) return;
  }
  fail_at_path(path_, "Found all " + std::to_string(kMostWriters) +
                          " temporary names in use by other writers of this file.");
}

// A file opened here may be renamed or removed by its owner before we hold the lock; it is ours
// only if, once locked, the name still leads to it.
bool AtomicFile::try_to_own(const std::string& candidate) {
  struct stat opened {
  }, named{};
  const int descriptor =
      open_retrying(candidate.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) {
    const int error_number = errno;
    const bool taken =
        ::lstat(candidate.c_str(), &named) == 0 &&  // by a link, a folder, another user
        (error_number == ELOOP || error_number == EISDIR || error_number == ENXIO ||
         error_number == EACCES);
    if (taken) return false;
    fail_errno(path_, "create a temporary file beside it", error_number);
  }
  const bool locked = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || unsupported(errno);
  const bool ours = locked && ::fstat(descriptor, &opened) == 0 &&
                    ::lstat(candidate.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
                    opened.st_ino == named.st_ino && S_ISREG(opened.st_mode) &&
                    opened.st_nlink == 1;
  if (!ours) {
    ::close(descriptor);
    return false;
  }
  if (::ftruncate(descriptor, 0) != 0) {
    const int error_number = errno;
    ::unlink(candidate.c_str());
    ::close(descriptor);
    fail_errno(path_, "empty the temporary file " + quoted(candidate), error_number);
  }
  descriptor_ = descriptor;
  temporary_ = candidate;
  return true;
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());  // before the lock goes with the close
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kLargestWrite),
                                  static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      fail_errno(
          path_,
          "write " + std::to_string(bytes.size()) + " bytes at byte " + std::to_string(offset),
          done < 0 ? errno : EIO);
    }
    offset += static_cast<std::uint64_t>(done);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail_errno(path_, "flush the file to the disk", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    fail_errno(path_, "rename the temporary file " + quoted(temporary_) + " to its final name",
               errno);
  }
  temporary_.clear();
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0 && errno != EINTR) fail_errno(path_, "close the file", errno);
  flush_folder(folder_, path_);
}

}  // namespace tensorgrad::io
