// Dawn loaded at run time: a program of ours starts, and can say why there is no GPU, on machines
// that have no WebGPU library at all.
#pragma once

#include <string>
#include <type_traits>

#include "runtime/webgpu/dawn_api.hpp"

namespace tensorgrad::webgpu {

/// Dawn's functions, one pointer each, all of them set.
struct DawnFunctions {
#define TENSORGRAD_DAWN_MEMBER(name, symbol, ...) std::add_pointer_t<dawn::name##_type> name;
  TENSORGRAD_DAWN_FUNCTIONS(TENSORGRAD_DAWN_MEMBER)
#undef TENSORGRAD_DAWN_MEMBER
};

struct DawnLibrary {
  DawnFunctions functions;
  std::string path;  // as the dynamic linker found it
};

/// Finds and loads Dawn, once per process: from the path in TENSORGRAD_DAWN and nowhere else if
/// that is set, else beside this library or the program, in `../lib` of those folders, at the
/// build's default path, and last by name in the system's folders. Throws DeviceError with the
/// places looked in. A loaded library stays loaded: Dawn keeps threads of its own.
const DawnLibrary& load_dawn();

/// Why no Vulkan device can be there (no loader, no driver), or nothing if one can. Asked before
/// Dawn is, which would complain on stderr and offer a device that computes nothing.
std::string vulkan_problem(const DawnLibrary& library);

}  // namespace tensorgrad::webgpu
