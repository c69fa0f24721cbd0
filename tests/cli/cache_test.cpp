// Processes that share the cache of compiled shaders.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cli/cli_support.hpp"

namespace tensorgrad::test {
namespace {

namespace fs = std::filesystem;

/// Trains a little in a process of its own and gives the losses.
std::map<int, double> train(const fs::path& log) {
  const ProgramResult result = tensorgrad({"train", "sin", "--device", "webgpu", "--steps", "3",
                                           "--batch", "8", "--log", log.string()});
  EXPECT_EQ(result.status, 0) << result.err;
  return losses_of(log.string());
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Half of it, something else in its middle, or something else altogether.
void damage(const fs::path& path, std::size_t how) {
  const std::uintmax_t bytes = fs::file_size(path);
  if (how == 0) return fs::resize_file(path, bytes / 2);
  if (how == 1) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(bytes / 2)) << "damage";
    return;
  }
  std::ofstream(path) << "somebody else's";
}

TEST(ShaderCache, TwoProcessesShareItWholeOrDamaged) {
  const ScratchFolder folder;
  const char* old = std::getenv("TENSORGRAD_CACHE");
  const std::string kept = old ? old : "";
  setenv("TENSORGRAD_CACHE", "off", 1);
  const std::map<int, double> want = train(folder / "alone");
  EXPECT_EQ(want.size(), 3u);
  const fs::path cache = folder / "cache";
  setenv("TENSORGRAD_CACHE", cache.c_str(), 1);
  const auto two_at_once = [&] {
    std::map<int, double> second;
    std::thread other([&] { second = train(folder / "second"); });
    EXPECT_EQ(train(folder / "first"), want);
    other.join();
    EXPECT_EQ(second, want);
  };
  two_at_once();  // both find nothing and write everything
  const std::vector<fs::path> files = files_in(cache);
  EXPECT_GT(files.size(), 0u);
  two_at_once();  // both read
  EXPECT_EQ(files_in(cache), files) << "nothing is left lying about";
  for (std::size_t i = 0; i < files.size(); ++i) damage(files[i], i % 3);
  two_at_once();  // both find damage and write again
  EXPECT_EQ(files_in(cache).size(), files.size());
  for (const fs::path& file : files) EXPECT_GT(fs::file_size(file), 40u) << "replaced";
  if (old) {
    setenv("TENSORGRAD_CACHE", kept.c_str(), 1);
  } else {
    unsetenv("TENSORGRAD_CACHE");
  }
}

}  // namespace
}  // namespace tensorgrad::test
