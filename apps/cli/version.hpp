// The version of the program and the library: the one of CMakeLists.txt, which a test compares.
#pragma once

namespace tensorgrad::cli {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace tensorgrad::cli
