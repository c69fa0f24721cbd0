#include "idx.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "tensorgrad/error.hpp"

namespace tensorgrad::cli {

namespace {

constexpr std::uint8_t kUnsignedBytes = 0x08;               // the magic number's third byte
constexpr std::int64_t kMostBytes = std::int64_t{1} << 31;  // far more than MNIST's 47 million
constexpr std::size_t kChunk = std::size_t{1} << 20;

/// Decompresses on the way; what has no gzip header passes as it is.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (!file_) fail(std::strerror(errno));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw IoError("Cannot read " + path_ + ": " + what + ".");
  }

  /// As many bytes as there still are, up to `count`.
  std::size_t read(void* into, std::size_t count) {
    const int got = gzread(file_.get(), into, static_cast<unsigned>(count));
    int error = Z_OK;
    const char* text = gzerror(file_.get(), &error);
    if (error == Z_ERRNO) fail(std::strerror(errno));
    if (error == Z_BUF_ERROR) fail("its compressed data end too early");
    if (got < 0 || (error != Z_OK && error != Z_STREAM_END)) fail(text);
    return static_cast<std::size_t>(got);
  }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };
  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

}  // namespace

IdxArray read_idx(const std::string& path, int rank) {
  Reader reader(path);
  std::vector<std::uint8_t> header(4 + 4 * static_cast<std::size_t>(rank));
  const std::size_t got = reader.read(header.data(), header.size());
  if (got < 4 || header[0] != 0 || header[1] != 0) reader.fail("it is no idx file");
  if (header[2] != kUnsignedBytes || header[3] != rank) {
    reader.fail("it holds elements of type " + std::to_string(header[2]) + " in " +
                std::to_string(header[3]) + " dimensions, expected bytes (type 8) in " +
                std::to_string(rank));
  }
  if (got < header.size()) reader.fail("it ends within its header");

  IdxArray array;
  std::int64_t size = 1;
  for (std::size_t at = 4; at < header.size(); at += 4) {
    std::int64_t dim = 0;
    for (std::size_t i = 0; i < 4; ++i) dim = dim << 8 | header[at + i];
    array.shape.push_back(dim);
    size = dim == 0 || size <= kMostBytes / dim ? size * dim : kMostBytes + 1;
  }
  if (size > kMostBytes) {
    reader.fail("its header promises more than " + std::to_string(kMostBytes) + " bytes");
  }
  // Room is made for what is there, not for what the header promises.
  while (static_cast<std::int64_t>(array.bytes.size()) < size) {
    const std::size_t have = array.bytes.size();
    const std::size_t next = std::min(kChunk, static_cast<std::size_t>(size) - have);
    array.bytes.resize(have + next);
    const std::size_t more = reader.read(array.bytes.data() + have, next);
    if (more < next) {
      reader.fail("it ends after " + std::to_string(have + more) + " of the " +
                  std::to_string(size) + " bytes that its header promises");
    }
  }
  std::uint8_t extra = 0;
  if (reader.read(&extra, 1) != 0) {
    reader.fail("it goes on after the " + std::to_string(size) + " bytes that its header promises");
  }
  return array;
}

}  // namespace tensorgrad::cli
