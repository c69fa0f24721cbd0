#include "runtime/webgpu/disk_cache.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
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

std::string read_blob(const fs::path& file, std::string_view key) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return {};
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  Header header;
  if (all.size() < sizeof header) return {};
  std::memcpy(&header, all.data(), sizeof header);
  const std::string_view rest = std::string_view(all).substr(sizeof header);
  if (header.magic != kMagic || header.key_bytes != key.size() || rest.size() < key.size() ||
      rest.size() - key.size() != header.value_bytes || rest.substr(0, key.size()) != key ||
      header.hash != hash(rest)) {
    return {};
  }
  return std::string(rest.substr(key.size()));
}

void delete_oldest(const fs::path& folder, std::uint64_t max_bytes) {
  struct Entry {
    fs::path file;
    fs::file_time_type written;
    std::uint64_t bytes;
  };
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // another process may be deleting too
    Entry entry{it->path(), it->last_write_time(gone), it->file_size(gone)};
    if (gone || entry.file.extension() != ".blob") continue;
    total += entry.bytes;
    entries.push_back(std::move(entry));
  }
  if (total <= max_bytes) return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.written < b.written; });
  for (const Entry& entry : entries) {
    if (total <= max_bytes / 2) break;
    fs::remove(entry.file, error);
    total -= entry.bytes;
  }
}

}  // namespace

DiskCache::DiskCache(const fs::path& folder, std::uint64_t max_bytes) : folder_(folder) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (!error) delete_oldest(folder_, max_bytes);
}

fs::path DiskCache::file_for(std::string_view key) const {
  return folder_ / (hex(hash(key)) + hex(hash(key, ~kHashStart)) + ".blob");
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
}

std::uint64_t DiskCache::hits() const {
  const std::lock_guard lock(mutex_);
  return hits_;
}

}  // namespace tensorgrad::webgpu
