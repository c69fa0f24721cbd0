// A libFuzzer target for the safetensors reader: any bytes are a file and an index, and must be
// read or refused with IoError. ./dev fuzz builds and runs it.
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
