// Compiled shaders kept between runs: found again, never believed when damaged. tests/cli has
// several processes that share them.
#include "runtime/webgpu/disk_cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "cli/run_program.hpp"
#include "runtime/webgpu/gpu.hpp"

namespace tensorgrad::webgpu {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

std::string load(DiskCache& cache, const std::string& key) {
  std::string value(cache.load(key, nullptr, 0), '?');
  EXPECT_EQ(cache.load(key, value.data(), value.size()), value.size());
  return value;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void overwrite(const fs::path& file, std::streamoff at, const std::string& bytes) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(at);
  stream << bytes;
}

TEST(DiskCache, KeepsBlobs) {
  const ScratchFolder folder;
  const fs::path path = folder / "new" / "deep";
  DiskCache first(path);
  EXPECT_EQ(load(first, "key"), "");
  first.store("key", "value");
  first.store("empty key's neighbour", std::string("a\0b", 3));
  EXPECT_EQ(load(first, "key"), "value");
  first.store("key", "another");
  EXPECT_EQ(load(first, "key"), "another");
  DiskCache second(path);
  EXPECT_EQ(load(second, "key"), "another");
  EXPECT_EQ(load(second, "empty key's neighbour"), std::string("a\0b", 3));
  EXPECT_EQ(load(second, "other"), "");
  EXPECT_EQ(second.hits(), 2u);
}

TEST(DiskCache, ADamagedFileIsReplacedNotBelieved) {
  const std::string value(300, 'v');
  const auto damage = [](const fs::path& file, int kind) {
    const auto bytes = static_cast<std::streamoff>(fs::file_size(file));
    switch (kind) {
      case 0:
        return fs::resize_file(file, 0);
      case 1:
        return fs::resize_file(file, 5);
      case 2:
        return fs::resize_file(file, static_cast<std::uintmax_t>(bytes - 1));
      case 3:
        return fs::resize_file(file, static_cast<std::uintmax_t>(bytes + 1));
      case 4:
        return overwrite(file, bytes - 1, "w");  // the value
      case 5:
        return overwrite(file, 32, "K");  // the key
      case 6:
        return overwrite(file, 0, "something");  // the mark of our files
      case 7:
        return overwrite(file, 8, "\xff\xff\xff\xff\xff\xff\xff\x7f");  // the key's length
      case 8:
        return overwrite(file, 16, "\xff\xff\xff\xff\xff\xff\xff\xff");  // the value's
      case 9:
        return overwrite(file, 24, "hashhash");
      default:
        std::ofstream(file) << "not ours at all, but longer than the head of such a file";
    }
  };
  for (int kind = 0; kind <= 10; ++kind) {
    SCOPED_TRACE(kind);
    const ScratchFolder folder;
    const fs::path path = folder / "cache";
    DiskCache(path).store("key", value);
    ASSERT_EQ(files_in(path).size(), 1u);
    damage(files_in(path)[0], kind);
    DiskCache cache(path);
    EXPECT_EQ(load(cache, "key"), "");
    cache.store("key", value);
    EXPECT_EQ(load(cache, "key"), value);
    EXPECT_EQ(files_in(path).size(), 1u);
  }
}

TEST(DiskCache, AFileOfAnotherKeyIsNotTakenForThisOne) {
  const ScratchFolder folder;
  const fs::path path = folder / "cache";
  DiskCache cache(path);
  cache.store("one", "1");
  const fs::path one = files_in(path)[0];
  cache.store("two", "2");
  for (const fs::path& file : files_in(path)) {
    if (file != one) fs::copy_file(one, file, fs::copy_options::overwrite_existing);
  }
  DiskCache again(path);
  EXPECT_EQ(load(again, "one"), "1");
  EXPECT_EQ(load(again, "two"), "");
}

TEST(DiskCache, PlacesThatCannotBeUsedAreDoneWithout) {
  const ScratchFolder folder;
  std::ofstream(folder / "file") << "in the way";
  DiskCache in_a_file(folder / "file");
  in_a_file.store("key", "value");
  EXPECT_EQ(load(in_a_file, "key"), "");
  DiskCache nowhere("/proc/nowhere");
  nowhere.store("key", "value");
  EXPECT_EQ(load(nowhere, "key"), "");

  // A folder, and a pipe nobody writes to, where a file should be.
  for (const bool pipe : {false, true}) {
    const fs::path path = folder / (pipe ? "pipe" : "folder");
    DiskCache cache(path);
    cache.store("key", "value");
    const fs::path file = files_in(path)[0];
    fs::remove(file);
    if (pipe) {
      ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
    } else {
      fs::create_directories(file / "inside");
    }
    DiskCache again(path);
    EXPECT_EQ(load(again, "key"), "");
    again.store("key", "value");
    EXPECT_EQ(load(again, "key"), pipe ? "value" : "");
  }
}

TEST(DiskCache, StaysBoundedAndKeepsWhatIsUsed) {
  const ScratchFolder folder;
  const fs::path path = folder / "cache";
  DiskCache cache(path, 10'000);
  const std::string value(1000, 'x');
  cache.store("used", value);
  for (int i = 0; i < 50; ++i) {
    cache.store("key" + std::to_string(i), value);
    EXPECT_EQ(load(cache, "used"), value) << i;
    std::uintmax_t total = 0;
    for (const fs::path& file : files_in(path)) total += fs::file_size(file);
    EXPECT_LE(total, 13'000u);
  }
  EXPECT_EQ(load(cache, "key49"), value);
  EXPECT_EQ(load(cache, "key0"), "");
}

TEST(DiskCache, WhatADyingProcessLeftBehindIsRemovedLater) {
  const ScratchFolder folder;
  const fs::path path = folder / "cache";
  DiskCache(path).store("key", "value");
  const std::string left = files_in(path)[0].string() + ".0123";
  std::ofstream(left) << "half";
  std::ofstream(path / "notes.txt") << "of the user's";
  { DiskCache cache(path); }
  EXPECT_TRUE(fs::exists(left)) << "it may still be written";
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(2);
  fs::last_write_time(left, long_ago);
  fs::last_write_time(path / "notes.txt", long_ago);
  DiskCache cache(path);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(path / "notes.txt"));
  EXPECT_EQ(load(cache, "key"), "value");
}

TEST(DiskCache, ThreadsAndTwoCachesOfOneFolderDoNotDisturbEachOther) {
  const ScratchFolder folder;
  const fs::path path = folder / "cache";
  DiskCache a(path), b(path);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      DiskCache& cache = t % 2 ? a : b;
      for (int i = 0; i < 50; ++i) {
        const std::string key = "key" + std::to_string(i % 5);
        const std::string value(1000 + 100 * (i % 5), static_cast<char>('a' + i % 5));
        cache.store(key, value);
        std::string got(5000, '?');
        got.resize(cache.load(key, got.data(), got.size()));
        if (got != value) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(DiskCache, TheEnvironmentNamesTheFolder) {
  const auto with = [](const char* name, const char* value) {
    const char* old = std::getenv(name);
    const std::string kept = old ? old : "";
    setenv(name, value, 1);
    const std::string folder = default_cache_folder();
    if (old) {
      setenv(name, kept.c_str(), 1);
    } else {
      unsetenv(name);
    }
    return folder;
  };
  EXPECT_EQ(with("TENSORGRAD_CACHE", "/somewhere"), "/somewhere");
  EXPECT_EQ(with("TENSORGRAD_CACHE", "off"), "");
  EXPECT_EQ(with("TENSORGRAD_CACHE", ""), "");
  const char* chosen = std::getenv("TENSORGRAD_CACHE");
  const std::string kept = chosen ? chosen : "";
  unsetenv("TENSORGRAD_CACHE");
  EXPECT_EQ(with("XDG_CACHE_HOME", "/cache"), "/cache/tensorgrad");
  if (chosen) setenv("TENSORGRAD_CACHE", kept.c_str(), 1);
}

// ---- with a GPU

TEST(ShaderCache, ShadersAreFoundAgain) {
  const ScratchFolder folder;
  const GpuOptions options{.checked = false, .cache_folder = (folder / "cache").string()};
  const ShaderSource source{.label = "seven",
                            .wgsl =
                                "@group(0) @binding(0) var<storage, read_write> a: array<u32>;\n"
                                "@compute @workgroup_size(1) fn main() { a[0] += 77u; }\n",
                            .bindings = {Access::ReadWrite}};
  {
    Gpu gpu = Gpu::open(options);
    gpu.compile(source);
    EXPECT_EQ(gpu.counters().disk_cache_hits, 0u);
  }
  Gpu gpu = Gpu::open(options);
  const Buffer a = gpu.create_buffer(4);
  const Pipeline pipeline = gpu.compile(source);
  EXPECT_GT(gpu.counters().disk_cache_hits, 0u);
  const Binding binding{a};
  gpu.submit(Commands{{pipeline, gpu.bind(pipeline, {&binding, 1}), 1}});
  std::uint32_t value = 0;
  gpu.read(a, 0, std::as_writable_bytes(std::span(&value, 1)));
  EXPECT_EQ(value, 77u);
}

}  // namespace
}  // namespace tensorgrad::webgpu
