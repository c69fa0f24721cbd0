#include "version.hpp"

#include <cstdio>

#include "commands.hpp"

namespace tensorgrad::cli {

int run_version(const Arguments& args) {
  Options options("tensorgrad version", "Prints the version, and the compiler that built it.");
  if (!options.parse(args)) return 0;
#if defined(__clang__)
  const char* compiler = "Clang " __clang_version__;
#else
  const char* compiler = "GCC " __VERSION__;
#endif
  std::printf("tensorgrad %s\nbuilt with %s\n", kVersion, compiler);
  return 0;
}

}  // namespace tensorgrad::cli
