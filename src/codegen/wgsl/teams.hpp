// How the threads of a workgroup are spread over the rows of a kernel.
#pragma once

#include "codegen/wgsl/module.hpp"

namespace tensorgrad::wgsl {

struct Teams {
  std::int64_t rows = 1;     ///< P: rows of a workgroup
  std::int64_t threads = 1;  ///< T: threads of a row, a power of two
  /// Neighbouring threads take neighbouring elements of a row, or neighbouring rows: whichever lie
  /// side by side in memory.
  bool along_row = true;
};

Teams choose_teams(const Module& module);

}  // namespace tensorgrad::wgsl
