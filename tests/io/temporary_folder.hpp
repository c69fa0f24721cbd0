// A folder of a test's own, removed with all it holds.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <stdexcept>
#include <string>

namespace tensorgrad::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tensorgrad-io-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("cannot make the folder " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  /// Writes a file by the plainest means and returns its path.
  std::string put(const std::string& name, std::span<const std::byte> bytes) const {
    std::ofstream out(*this / name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) throw std::runtime_error("cannot write " + (*this / name));
    return *this / name;
  }

  std::set<std::string> files() const {
    std::set<std::string> out;
    for (const auto& at : std::filesystem::directory_iterator(path_)) {
      out.insert(at.path().filename().string());
    }
    return out;
  }

 private:
  std::string path_;
};

}  // namespace tensorgrad::test
