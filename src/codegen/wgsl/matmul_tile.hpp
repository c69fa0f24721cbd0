// Which tile a matrix product gets.
#pragma once

#include <optional>

#include "codegen/wgsl/print.hpp"

namespace tensorgrad::wgsl {

/// The tile for `batch` products [m, k]·[k, n] within the limits; nothing where a plain row does
/// better.
std::optional<MatMulTile> choose_tile(std::int64_t batch, std::int64_t m, std::int64_t n,
                                      std::int64_t k, const WgslLimits& limits);

}  // namespace tensorgrad::wgsl
