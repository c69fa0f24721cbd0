// Writing: what is written reads back, and whatever goes wrong leaves the old file and nothing
// else.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <random>
#include <thread>

#include "io/error_of.hpp"
#include "io/safetensors_support.hpp"
#include "io/temporary_folder.hpp"
#include "tensorgrad/safetensors.hpp"

namespace tensorgrad {
namespace {

using test::error_of;
using test::raw;
using test::TemporaryFolder;
using Names = std::set<std::string>;

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_one(const std::string& path, const std::vector<float>& values) {
  const FileTensor tensor =
      FileTensor::f32("w", {static_cast<std::int64_t>(values.size())}, values);
  write_safetensors(path, std::span(&tensor, 1));
}

TEST(WriteSafetensors, RoundTripsValuesShapesAndMetadata) {
  const TemporaryFolder folder;
  const std::vector<float> w = {1.5f, -0.0f, 1e-45f, std::numeric_limits<float>::infinity(),
                                0.1f, 7};
  const std::vector<std::int32_t> ids = {-5, 2147483647};
  const std::vector<float> scalar = {3};
  const std::vector<FileTensor> tensors = {
      FileTensor::f32("z\"\\\n é", {2, 3}, w), FileTensor::i32("a", {2}, ids),
      FileTensor::f32("", {}, scalar), FileTensor::f32("none", {0, 4}, {})};
  const std::map<std::string, std::string> metadata = {{"step", "12"},
                                                       {"config", "{\"d\": [1]}\n"}};
  write_safetensors(folder / "m.safetensors", tensors, metadata);

  const auto file = SafetensorsFile::open(folder / "m.safetensors");
  EXPECT_EQ(file.names(), (std::vector<std::string>{"z\"\\\n é", "a", "", "none"}));
  EXPECT_EQ(raw(file.read_f32("z\"\\\n é")), raw(w));
  EXPECT_EQ(file.info("z\"\\\n é").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.read_i32("a"), ids);
  EXPECT_EQ(file.info("").shape, std::vector<std::int64_t>{});
  EXPECT_EQ(file.read_f32(""), scalar);
  EXPECT_EQ(file.info("none").shape, (std::vector<std::int64_t>{0, 4}));
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(folder.files(), Names{"m.safetensors"});
}

TEST(WriteSafetensors, MakesTheSameBytesEveryTimeWithAlignedData) {
  const TemporaryFolder folder;
  write_one(folder / "m", {1.0f});
  const std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(contents(folder / "m"),
            raw<std::uint64_t>({padded.size()}) + padded + raw<float>({1.0f}));

  write_safetensors(folder / "empty", {});
  EXPECT_EQ(contents(folder / "empty"), raw<std::uint64_t>({8}) + "{}      ");
}

TEST(WriteSafetensors, PutsWiderElementsFirstSoThatAllAreAligned) {
  const TemporaryFolder folder;
  const std::string data(24, '\1');
  const auto tensor = [&](const char* name, FileDType dtype, std::int64_t count) {
    const auto bytes = std::as_bytes(std::span(data));
    return FileTensor{
        name, dtype, {count}, bytes.first(byte_size(dtype) * static_cast<std::size_t>(count))};
  };
  const std::vector<FileTensor> tensors = {
      tensor("flag", FileDType::BOOL, 3), tensor("f", FileDType::F32, 1),
      tensor("half", FileDType::BF16, 1), tensor("d", FileDType::F64, 2),
      tensor("i", FileDType::I32, 1),     tensor("byte", FileDType::U8, 1)};
  write_safetensors(folder / "m", tensors);
  const auto file = SafetensorsFile::open(folder / "m");
  EXPECT_EQ(file.names(), (std::vector<std::string>{"d", "f", "i", "half", "flag", "byte"}));
  for (const FileTensor& at : file.tensors()) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at.bytes.data()) % byte_size(at.dtype), 0u)
        << at.name;
  }
}

TEST(WriteSafetensors, KeepsWhatReadsTheOldFileValid) {
  const TemporaryFolder folder;
  write_one(folder / "m", {1, 2, 3});
  const auto old = SafetensorsFile::open(folder / "m");
  write_one(folder / "m", {4});
  EXPECT_EQ(old.read_f32("w"), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(SafetensorsFile::open(folder / "m").read_f32("w"), std::vector<float>{4});
}

TEST(WriteSafetensors, RefusesTensorsTheFormatCannotHold) {
  const TemporaryFolder folder;
  const std::string path = folder / "m";
  const std::vector<float> two = {1, 2};
  const auto refusal = [&](std::vector<FileTensor> tensors,
                           std::map<std::string, std::string> metadata = {}) {
    const std::string text = error_of([&] { write_safetensors(path, tensors, metadata); });
    const std::string end = "\n  in file " + path;
    EXPECT_EQ(text.substr(text.size() - std::min(text.size(), end.size())), end);
    EXPECT_EQ(folder.files(), Names{});
    return text.substr(0, text.size() - std::min(text.size(), end.size()));
  };
  EXPECT_EQ(refusal({FileTensor::f32("w", {3}, two)}),
            "safetensors: got 8 bytes to write, but F32[3] needs 12.\n  in tensor \"w\"");
  EXPECT_EQ(refusal({FileTensor::f32("w", {2}, two), FileTensor::f32("w", {2}, two)}),
            "safetensors: the header names the same tensor twice.\n  in tensor \"w\"");
  EXPECT_EQ(refusal({FileTensor::f32("__metadata__", {2}, two)}),
            "safetensors: the format keeps this name for itself.\n  in tensor \"__metadata__\"");
  EXPECT_EQ(refusal({FileTensor::f32("w", {-2, -1}, two)}),
            "safetensors: F32[-2, -1] has a negative dimension or more than 2^63 - 1 bytes.\n"
            "  in tensor \"w\"");
  EXPECT_EQ(refusal({FileTensor::f32("w", {std::int64_t{1} << 62}, two)}),
            "safetensors: F32[4611686018427387904] has a negative dimension or more than 2^63 - 1 "
            "bytes.\n  in tensor \"w\"");
  EXPECT_EQ(refusal({FileTensor::f32("w\xff", {2}, two)}),
            "safetensors: the name \"w\\xff\" is not valid UTF-8.");
  EXPECT_EQ(refusal({}, {{"k", "\xc3"}}), "safetensors: the metadata \"k\" is not valid UTF-8.");
}

TEST(SafetensorsWriter, TakesTensorsInAnyOrder) {
  const TemporaryFolder folder;
  const std::vector<float> a = {1}, b = {2, 3};
  const std::vector<FileTensor> layout = {FileTensor::f32("a", {1}, {}),
                                          FileTensor::f32("b", {2}, {})};
  SafetensorsWriter writer(folder / "m", layout, {{"k", "v"}});
  writer.write("b", std::as_bytes(std::span(b)));
  EXPECT_EQ(
      error_of([&] { writer.commit(); }),
      "safetensors: the tensor was laid out but never written.\n  in tensor \"a\"\n  in file " +
          folder / "m");
  EXPECT_EQ(
      error_of([&] { writer.write("c", {}); }),
      "safetensors: the tensor is not in the layout of the file.\n  in tensor \"c\"\n  in file " +
          folder / "m");
  EXPECT_FALSE(folder.files().count("m"));
  writer.write("a", std::as_bytes(std::span(a)));
  writer.commit();
  EXPECT_EQ(error_of([&] { writer.commit(); }),
            "safetensors: the file is already committed.\n  in file " + folder / "m");
  const auto file = SafetensorsFile::open(folder / "m");
  EXPECT_EQ(file.read_f32("a"), a);
  EXPECT_EQ(file.read_f32("b"), b);
}

TEST(SafetensorsWriter, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  write_one(folder / "m", {1});
  {
    const std::vector<FileTensor> layout = {FileTensor::f32("w", {0}, {})};
    SafetensorsWriter writer(folder / "m", layout);
    EXPECT_EQ(folder.files(), (Names{"m", ".m.tensorgrad-tmp0"}));
  }
  EXPECT_EQ(folder.files(), Names{"m"});
  EXPECT_EQ(SafetensorsFile::open(folder / "m").read_f32("w"), std::vector<float>{1});
}

TEST(SafetensorsWriter, SharesAPathWithOtherWriters) {
  const TemporaryFolder folder;
  const std::vector<FileTensor> layout = {FileTensor::f32("w", {0}, {})};
  SafetensorsWriter first(folder / "m", layout);
  SafetensorsWriter second(folder / "m", layout);
  EXPECT_EQ(folder.files(), (Names{".m.tensorgrad-tmp0", ".m.tensorgrad-tmp1"}));
  second.write("w", {});
  first.write("w", {});
  second.commit();
  first.commit();
  EXPECT_EQ(folder.files(), Names{"m"});
}

TEST(WriteSafetensors, SurvivesManyThreadsOnOnePath) {
  const TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        write_one(folder / "m", std::vector<float>(1000, static_cast<float>(t)));
        const auto values = SafetensorsFile::open(folder / "m").read_f32("w");
        EXPECT_EQ(values, std::vector<float>(1000, values[0]));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(folder.files(), Names{"m"});
}

TEST(WriteSafetensors, SaysWhyItCannotWriteThere) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { write_one(folder / "no/m", {1}); }),
            "Cannot create a temporary file beside it: No such file or directory "
            "(errno 2).\n  in file " +
                folder / "no/m");
  EXPECT_EQ(
      error_of([&] { write_one(folder.path(), {1}); }),
      "Expected the name of a file to write, but this is a folder.\n  in file " + folder.path());
  EXPECT_EQ(error_of([&] { write_one(folder / "", {1}); }),
            "Expected the name of a file to write, but there is none.\n  in file " + folder / "");
}

// A link planted under the temporary name must not lead the writer to another file.
TEST(WriteSafetensors, DoesNotFollowLinksUnderItsTemporaryName) {
  const TemporaryFolder folder;
  folder.put("precious", test::bytes_of("kept"));
  std::filesystem::create_symlink(folder / "precious", folder / ".m.tensorgrad-tmp0");
  std::filesystem::create_hard_link(folder / "precious", folder / ".m.tensorgrad-tmp1");
  std::filesystem::create_directory(folder / ".m.tensorgrad-tmp2");
  write_one(folder / "m", {1});
  EXPECT_EQ(contents(folder / "precious"), "kept");
  EXPECT_EQ(SafetensorsFile::open(folder / "m").read_f32("w"), std::vector<float>{1});
}

#ifndef __EMSCRIPTEN__  // no users, limits or processes there

TEST(WriteSafetensors, SaysThatItHasNoPermission) {
  const TemporaryFolder folder;
  write_one(folder / "m", {1});
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  const bool root = geteuid() == 0;  // root may do anything: become nobody for a moment
  if (root) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  const std::string text = error_of([&] { write_one(folder / "m", {2}); });
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  EXPECT_EQ(text,
            "Cannot create a temporary file beside it: Permission denied (errno 13)."
            "\n  in file " +
                folder / "m");
  EXPECT_EQ(folder.files(), Names{"m"});
}

// A limit on the size of files fails in the middle of the data, as a full disk does.
TEST(WriteSafetensors, KeepsTheOldFileWhenTheDiskIsFull) {
  const TemporaryFolder folder;
  write_one(folder / "m", {1});
  rlimit old_limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = 4096;
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string text =
      error_of([&] { write_one(folder / "m", std::vector<float>(5000, 2.0f)); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  signal(SIGXFSZ, old_handler);
  EXPECT_EQ(text.rfind("Cannot write ", 0), 0u) << text;
  EXPECT_NE(text.find("bytes at byte 4096: File too large (errno 27).\n  in file " + folder / "m"),
            std::string::npos)
      << text;
  EXPECT_EQ(folder.files(), Names{"m"});
  EXPECT_EQ(SafetensorsFile::open(folder / "m").read_f32("w"), std::vector<float>{1});
}

TEST(WriteSafetensors, LeavesAWholeFileWheneverItIsKilled) {
  const TemporaryFolder folder;
  const std::size_t count = 50'000;
  write_one(folder / "m", std::vector<float>(count, -1.0f));
  std::mt19937 random(7);
  float last = -1;
  int changes = 0, longest = 8000;  // microseconds until the kill; more where the disk is slow
  for (int kill_number = 0; kill_number < 100; ++kill_number) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        for (float value = 0;; ++value) write_one(folder / "m", std::vector<float>(count, value));
      } catch (...) {
      }
      _exit(1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % longest));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child could not write";

    const auto values = SafetensorsFile::open(folder / "m").read_f32("w");
    ASSERT_EQ(values, std::vector<float>(count, values.at(0))) << "kill " << kill_number;
    changes += values[0] != last;
    if (changes * 4 <= kill_number) longest = std::min(longest * 5 / 4, 200'000);
    last = values[0];
    // What a killed writer leaves is taken over by the next one, not added to.
    ASSERT_LE(folder.files().size(), 2u) << "kill " << kill_number;
  }
  std::cout << changes << " of 100 kills found a new file, at most " << longest
            << " us after the start\n";
  EXPECT_GT(changes, 0) << "every child died before it had written anything";
  write_one(folder / "m", {1});
  EXPECT_EQ(folder.files(), Names{"m"});
}

#endif

}  // namespace
}  // namespace tensorgrad
