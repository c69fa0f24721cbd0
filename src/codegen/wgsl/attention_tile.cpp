#include "codegen/wgsl/attention_tile.hpp"

#include <algorithm>

#include "ir/ceil_div.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::wgsl {

namespace {

std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

/// The least stride of at least `quads` at which eight threads, `rows` of them below each other,
/// write to different banks: there are eight of quads.
std::int64_t spread(std::int64_t quads, std::int64_t rows) {
  rows = std::min<std::int64_t>(rows, 8);
  if (rows == 1) return quads;
  while (8 % rows == 0 ? quads % 8 != 8 / rows : quads % 2 == 0) ++quads;
  return quads;
}

/// What a kernel multiplies and how large its results are.
struct Work {
  std::vector<std::int64_t> contracted, results;
  std::int64_t heads, extent;  // of the results

  explicit Work(const SpecialHint& hint) {
    const AttentionShape s = attention_shape(hint);
    const bool by_keys = hint.op == OpKind::AttentionGradKV;
    heads = s.batch * (by_keys ? s.groups : s.heads);
    extent = by_keys ? s.keys : s.queries;
    contracted = {s.dim};
    if (hint.op != OpKind::Attention) contracted.push_back(s.width);
    if (hint.op != OpKind::Attention) results.push_back(s.dim);
    if (hint.op != OpKind::AttentionGradQ) results.push_back(s.width);
  }
  std::int64_t widest() const { return *std::max_element(results.begin(), results.end()); }
  std::int64_t workgroups(const AttentionTile& t) const {
    return heads * ceil_div(extent, t.tall());
  }
};

/// By the width of a row of results, the largest tile first. A thread accumulates 64 numbers or so:
/// with more, registers run out; with less, reading operands takes longer than multiplying them.
/// Figures of an H200, bench/attention_sweep.cpp.
std::vector<AttentionTile> tiles_of(const Work& work) {
  const std::int64_t widest = work.widest();
  std::vector<AttentionTile> tiles;
  if (widest <= 16) {
    tiles = {{4, 8, 4, 8, 16}};
  } else if (widest <= 48) {
    tiles = {{8, 16, 4, 8, 16}};
  } else if (widest <= 64) {
    tiles = {{16, 8, 8, 4, 16}};
  } else if (widest <= 96) {
    tiles = {{8, 16, 4, 8, 32}};
  } else {
    tiles = {{16, 16, 8, 8, 32}, {16, 8, 8, 4, 16}};
  }
  // For small problems, and devices with little workgroup memory.
  const std::int64_t across = tiles[0].across;
  for (const std::int64_t threads : {128, 64, 32}) {
    if (threads >= 4 * across) tiles.push_back({across, threads / across, 4, 4, 16});
  }
  return tiles;
}

}  // namespace

AttentionTile::Parts AttentionTile::parts(std::int64_t width) const {
  const std::int64_t depth = round_up(ceil_div(width, ceil_div(width, deep)), 4);
  return {depth, ceil_div(width, depth)};
}

std::int64_t AttentionTile::stride(const Parts& parts, std::int64_t rows) {
  return spread(rows / 4, parts.depth / 4);
}

std::int64_t AttentionTile::columns_at_once() const {
  std::int64_t count = columns;
  while (count > 1 && count * across > deep) count /= 2;
  return count;
}

std::int64_t AttentionTile::score_stride() const { return spread(tall() / 4, across); }

std::int64_t AttentionTile::result_quads(std::int64_t width) const {
  return ceil_div(width, 4 * across);
}

AttentionShape attention_shape(const SpecialHint& hint) {
  return {hint.inputs[0].type.shape, hint.inputs[1].type.shape, hint.inputs[2].type.shape,
          std::get<AttentionAttr>(hint.attrs)};
}

std::int64_t attention_quads(const SpecialHint& hint, const AttentionTile& tile) {
  const Work work(hint);
  std::int64_t most = tile.across * tile.score_stride();
  for (const std::int64_t width : work.contracted) {
    const AttentionTile::Parts parts = tile.parts(width);
    most = std::max(most, parts.depth * (AttentionTile::stride(parts, tile.tall()) +
                                         AttentionTile::stride(parts, tile.wide())));
  }
  for (const std::int64_t width : work.results) {
    const std::int64_t depth = tile.across * tile.columns_at_once();
    most = std::max(most, depth * (tile.score_stride() + tile.across * tile.result_quads(width)));
  }
  return most;
}

std::vector<AttentionTile> attention_tiles(const SpecialHint& hint, const WgslLimits& limits) {
  std::vector<AttentionTile> tiles;
  for (AttentionTile tile : tiles_of(Work(hint))) {
    if (tile.threads() > static_cast<std::int64_t>(limits.invocations)) continue;
    for (; tile.deep >= 8; tile.deep /= 2) {
      if (16 * attention_quads(hint, tile) > static_cast<std::int64_t>(limits.workgroup_bytes))
        continue;
      tiles.push_back(tile);
      break;
    }
  }
  return tiles;
}

AttentionTile choose_attention_tile(const SpecialHint& hint, const WgslLimits& limits) {
  const Work work(hint);
  const std::vector<AttentionTile> tiles = attention_tiles(hint, limits);
  if (tiles.empty()) throw InternalError("wgsl: no tile for " + std::string(to_string(hint.op)));
  // Fewer than these leave a large device idle.
  constexpr std::int64_t kManyWorkgroups = 128, kManyThreads = 1 << 15;
  for (const AttentionTile& tile : tiles) {
    const std::int64_t workgroups = work.workgroups(tile);
    if (workgroups >= kManyWorkgroups && workgroups * tile.threads() >= kManyThreads &&
        tile.tall() < 2 * work.extent)
      return tile;
  }
  return tiles.back();
}

}  // namespace tensorgrad::wgsl
