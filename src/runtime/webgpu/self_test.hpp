// Proof that a device computes and that our declarations fit the library, before anything relies on
// either.
#pragma once

#include "runtime/webgpu/dawn_api.hpp"
#include "runtime/webgpu/gpu.hpp"

namespace tensorgrad::webgpu {

/// Throws DeviceError if limits that were read from an adapter cannot be true: then the struct that
/// they were read into is laid out otherwise in the library.
void check_limits(const dawn::Limits& limits);

/// Writes numbers, computes on them, reads them back and compares, and sees that a shader's mistake
/// is reported with its line. Throws DeviceError if the device fails.
void self_test(Gpu& gpu);

}  // namespace tensorgrad::webgpu
