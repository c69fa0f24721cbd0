// Which tile a matrix product gets.
#pragma once

#include <optional>

#include "codegen/wgsl/print.hpp"

namespace tensorgrad::wgsl {

/// `batch` products [m, k]·[k, n].
struct TileRequest {
  std::int64_t batch, m, n, k;
  bool heavy_epilogue;  ///< what becomes of an element takes many instructions
  bool turned;          ///< the right operand lies along k in memory
};

/// The tile for a product within the limits; nothing where a plain row does better.
std::optional<MatMulTile> choose_tile(const TileRequest& request, const WgslLimits& limits);

}  // namespace tensorgrad::wgsl
