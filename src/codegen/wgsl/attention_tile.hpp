// How an attention kernel is cut into tiles, and which tile a shape gets.
//
// A workgroup computes a tile of scores, `tall` rows and `wide` columns, and accumulates a tile of
// results with the same rows. Thread (x, y) holds the rows of the quads y, y + down, … and of the
// scores the columns x, x + across, …: when scores become the left operand of the next product,
// neighbouring threads then write neighbouring rows of its tile.
#pragma once

#include <vector>

#include "codegen/wgsl/print.hpp"
#include "ir/attention_shape.hpp"

namespace tensorgrad::wgsl {

struct AttentionTile {
  std::int64_t across, down;   ///< threads side by side and below each other
  std::int64_t rows, columns;  ///< of the scores, in a thread; multiples of 4
  std::int64_t deep;           ///< how much of a contraction is in workgroup memory at most

  std::int64_t threads() const { return across * down; }
  std::int64_t tall() const { return down * rows; }
  std::int64_t wide() const { return across * columns; }

  /// A contraction over the elements of rows: `count` parts of `depth`, a multiple of 4.
  struct Parts {
    std::int64_t depth, count;
  };
  Parts parts(std::int64_t width) const;
  /// Quads from one place of such a contraction to the next, in a tile of `rows` rows.
  static std::int64_t stride(const Parts& parts, std::int64_t rows);

  /// A contraction over the columns of scores: how many of a thread's are in workgroup memory at a
  /// time, and the quads from one to the next.
  std::int64_t columns_at_once() const;
  std::int64_t score_stride() const;

  /// Quads of a row of a result of this width that a thread holds.
  std::int64_t result_quads(std::int64_t width) const;
};

AttentionShape attention_shape(const SpecialHint& hint);

/// Workgroup memory in quads. Products and exchanges between threads follow one another in it.
std::int64_t attention_quads(const SpecialHint& hint, const AttentionTile& tile);

/// The tiles with which a kernel can be printed, the largest first.
std::vector<AttentionTile> attention_tiles(const SpecialHint& hint, const WgslLimits& limits);

/// The one to take: the largest that leaves a device enough to do.
AttentionTile choose_attention_tile(const SpecialHint& hint, const WgslLimits& limits);

}  // namespace tensorgrad::wgsl
