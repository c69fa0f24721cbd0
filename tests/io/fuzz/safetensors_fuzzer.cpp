// A libFuzzer target for the safetensors reader: any bytes are a file and an index, and must be
// read or refused with IoError. Clang only, built on demand from the root of the repository:
//
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
//     -Iinclude -Isrc -Itests tests/io/fuzz/safetensors_fuzzer.cpp src/io/*.cpp \
//     -o build/safetensors_fuzzer
//   mkdir -p build/corpus && build/safetensors_fuzzer --write-seeds=build/corpus
//   build/safetensors_fuzzer -max_total_time=600 -rss_limit_mb=1024 -max_len=4096 build/corpus
//
// A crash is kept in crash-…; give that file as the only argument to see it again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "io/safetensors_support.hpp"

namespace {

using namespace tensorgrad;

void write_seeds(const std::string& folder) {
  int number = 0;
  const auto write = [&](const test::Bytes& bytes) {
    std::ofstream out(folder + "/seed-" + std::to_string(number++), std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  };
  for (const test::Bytes& bytes : test::valid_files()) write(bytes);
  write(test::bytes_of(test::valid_index()));
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  constexpr std::string_view kOption = "--write-seeds=";
  for (int i = 1; i < *count; ++i) {
    const std::string_view argument = (*arguments)[i];
    if (argument.substr(0, kOption.size()) == kOption) {
      write_seeds(std::string(argument.substr(kOption.size())));
      std::exit(0);
    }
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  test::read_everything(test::bytes_of(text));
  test::read_index(text);
  return 0;
}
