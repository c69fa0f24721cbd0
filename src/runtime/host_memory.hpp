// How much memory this machine can still give, for devices that live in it. Asking first is needed
// because the system may promise more than it has and end the process when it is used.
#pragma once

#include <cstdint>
#include <string>

namespace tensorgrad {

/// Bytes that can be had now: what the system calls available, or less where the process is
/// confined to less (a container). A very large number where the system does not tell.
std::int64_t available_memory();

/// Throws DeviceError with what was asked for and what there is, if `bytes` are not to be had for
/// `what` (`the buffer "params"`) on `device`.
void check_memory(const std::string& device, const std::string& what, std::int64_t bytes);

/// `1610612736 bytes (1.5 GiB)`.
std::string bytes_text(std::int64_t bytes);

}  // namespace tensorgrad
