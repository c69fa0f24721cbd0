#include "runtime/webgpu/disk_cache.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <random>
#include <system_error>
#include <vector>

namespace tensorgrad::webgpu {
namespace {

namespace fs = std::filesystem;

// A file is: magic, key bytes, value bytes, hash of key and value, key, value.
constexpr std::uint64_t kMagic = 0x3165686361436774;  // "tgCache1"

struct Header {
  std::uint64_t magic = kMagic;
  std::uint64_t key_bytes = 0;
  std::uint64_t value_bytes = 0;
  std::uint64_t hash = 0;
};

constexpr const char* kExtension = ".blob";  // what is still being written has another behind it
constexpr std::uint64_t kHashStart = 0xcbf29ce484222325;

/// FNV-1a, 64 bits.
std::uint64_t hash(std::string_view bytes, std::uint64_t state = kHashStart) {
  for (const char byte : bytes) {
    state = (state ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return state;
}

std::string hex(std::uint64_t value) {
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[(value >> shift) & 15];
  return text;
}

/// The value in a file, or nothing if the file is not one of ours, is damaged, or holds another
/// key.
std::string read_blob(const fs::path& file, std::string_view key) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return {};  // opening a pipe would wait forever
  const std::uint64_t bytes = fs::file_size(file, error);
  std::ifstream in(file, std::ios::binary);
  Header header;
  if (error || !in.read(reinterpret_cast<char*>(&header), sizeof header)) return {};
  const bool fits = header.magic == kMagic && header.key_bytes == key.size() &&
                    bytes >= sizeof header + key.size() &&
                    header.value_bytes == bytes - sizeof header - key.size();
  if (!fits) return {};  // without having read what may be a large file of somebody else's
  std::string rest(key.size() + header.value_bytes, '\0');
  if (!in.read(rest.data(), static_cast<std::streamsize>(rest.size()))) return {};
  if (std::string_view(rest).substr(0, key.size()) != key || header.hash != hash(rest)) return {};
  return rest.substr(key.size());
}

}  // namespace

DiskCache::DiskCache(const fs::path& folder, std::uint64_t max_bytes)
    : folder_(folder), max_bytes_(max_bytes) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (!error) shrink();
}

/// Deletes the files that were not used for longest if there is too much, and what processes that
/// ended while writing have left behind.
void DiskCache::shrink() {
  struct Entry {
    fs::path file;
    fs::file_time_type used;
    std::uint64_t bytes;
  };
  stored_ = 0;
  const auto abandoned = fs::file_time_type::clock::now() - std::chrono::hours(1);
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // another process may be deleting too
    if (!it->is_regular_file(gone)) continue;
    Entry entry{it->path(), it->last_write_time(gone), it->file_size(gone)};
    if (gone) continue;
    if (entry.file.extension() == kExtension) {
      total += entry.bytes;
      entries.push_back(std::move(entry));
    } else if (entry.file.stem().extension() == kExtension && entry.used < abandoned) {
      fs::remove(entry.file, gone);
    }
  }
  if (total <= max_bytes_) return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= max_bytes_ / 2) break;
    fs::remove(entry.file, error);
    total -= entry.bytes;
  }
}

fs::path DiskCache::file_for(std::string_view key) const {
  return folder_ / (hex(hash(key)) + hex(hash(key, ~kHashStart)) + kExtension);
}

std::size_t DiskCache::load(std::string_view key, void* value, std::size_t value_bytes) {
  const std::lock_guard lock(mutex_);
  if (last_key_ != key) {
    last_value_ = read_blob(file_for(key), key);
    last_key_ = key;
  }
  const std::size_t bytes = last_value_.size();
  if (value != nullptr && bytes > 0 && value_bytes >= bytes) {
    std::memcpy(value, last_value_.data(), bytes);
    ++hits_;
    std::error_code ignored;
    fs::last_write_time(file_for(key), fs::file_time_type::clock::now(), ignored);
  }
  return bytes;
}

void DiskCache::store(std::string_view key, std::string_view value) {
  const std::lock_guard lock(mutex_);
  if (last_key_ == key) last_key_.clear();
  // Written under a name of its own and renamed, so that no reader ever sees half a file.
  static std::atomic<std::uint64_t> serial{std::random_device{}()};
  const fs::path file = file_for(key);
  const fs::path temporary = file.string() + "." + hex(std::random_device{}() ^ ++serial << 32);
  Header header;
  header.key_bytes = key.size();
  header.value_bytes = value.size();
  header.hash = hash(value, hash(key));
  std::error_code error;
  {
    std::ofstream out(temporary, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&header), sizeof header);
    out.write(key.data(), static_cast<std::streamsize>(key.size()));
    out.write(value.data(), static_cast<std::streamsize>(value.size()));
    out.close();
    if (!out) {
      fs::remove(temporary, error);
      return;
    }
  }
  fs::rename(temporary, file, error);
  if (error) fs::remove(temporary, error);
  stored_ += sizeof header + key.size() + value.size();
  if (stored_ > max_bytes_ / 4) shrink();
}

std::uint64_t DiskCache::hits() const {
  const std::lock_guard lock(mutex_);
  return hits_;
}

}  // namespace tensorgrad::webgpu
