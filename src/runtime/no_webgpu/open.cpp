// Takes the place of runtime/webgpu where there is no Dawn to load, as in WebAssembly.
#include "runtime/backend.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad {

std::shared_ptr<Backend> open_webgpu() {
  throw DeviceError("webgpu: this build of tensorgrad has no WebGPU runtime.");
}

}  // namespace tensorgrad
