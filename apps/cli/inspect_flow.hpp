// What flows between the kernels of a plan: every stretch of a buffer, from the kernel that writes
// it to those that read it. Pictures of kernels and of memory are drawn from it.
#pragma once

#include <string>
#include <vector>

#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::cli {

struct StoredValue {
  int buffer = -1;
  std::int64_t offset = 0, elements = 0;  ///< of the buffer
  int writer = -1;                        ///< a kernel; -1: it was there before the step
  std::vector<int> readers = {};          ///< kernels, ascending
  std::string name = {};                  ///< of a leaf, output or gradient; else empty
  std::string type = {};  ///< `f32[256, 64]`, where a tensor of the graph lies there

  int last_use() const { return readers.empty() ? writer : std::max(writer, readers.back()); }
};

/// In the order of their writers; leaves that nobody reads are left out.
std::vector<StoredValue> stored_values(const Plan& plan);

}  // namespace tensorgrad::cli
