#include "codegen/wgsl/attention_tiles.hpp"

#include <algorithm>
#include <map>

#include "codegen/wgsl/special.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::wgsl {

namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

/// ` + 3u`, or nothing.
std::string plus(std::int64_t value) { return value == 0 ? "" : " + " + unsigned_text(value); }

AttentionShape shape_of(const SpecialHint& hint) {
  return {hint.inputs[0].type.shape, hint.inputs[1].type.shape, hint.inputs[2].type.shape,
          std::get<AttentionAttr>(hint.attrs)};
}

/// The least stride of at least `quads` at which eight threads, `rows` of them below each other,
/// write to different banks: there are eight of quads.
std::int64_t spread(std::int64_t quads, std::int64_t rows) {
  rows = std::min<std::int64_t>(rows, 8);
  if (rows == 1) return quads;
  while (8 % rows == 0 ? quads % 8 != 8 / rows : quads % 2 == 0) ++quads;
  return quads;
}

// ---- contractions in parts

/// A contraction over the elements of rows, in parts of nearly equal depth.
struct Parts {
  std::int64_t depth, count;

  Parts(std::int64_t width, std::int64_t deep) {
    depth = round_up(ceil_div(width, ceil_div(width, deep)), 4);
    count = ceil_div(width, depth);
  }
  std::int64_t stride(std::int64_t rows) const { return spread(rows / 4, depth / 4); }
};

/// Columns of a thread's scores that are in workgroup memory at a time.
std::int64_t columns_at_once(const AttentionTile& tile) {
  std::int64_t columns = tile.columns;
  while (columns > 1 && columns * tile.across > tile.deep) columns /= 2;
  return columns;
}

std::int64_t score_stride(const AttentionTile& tile) {
  return spread(tile.tall() / 4, tile.across);
}

/// Quads of a result in a thread.
std::int64_t result_quads(std::int64_t width, const AttentionTile& tile) {
  return ceil_div(width, 4 * tile.across);
}

// ---- which tile

/// What a kernel multiplies and how large its results are.
struct Work {
  std::vector<std::int64_t> contracted, results;
  std::int64_t heads, extent;  // of the results

  explicit Work(const SpecialHint& hint) {
    const AttentionShape s = shape_of(hint);
    const bool keys = hint.op == OpKind::AttentionGradKV;
    heads = s.batch * (keys ? s.groups : s.heads);
    extent = keys ? s.keys : s.queries;
    contracted = {s.dim};
    if (hint.op != OpKind::Attention) contracted.push_back(s.width);
    if (hint.op != OpKind::Attention) results.push_back(s.dim);
    if (hint.op != OpKind::AttentionGradQ) results.push_back(s.width);
  }
  std::int64_t widest() const { return *std::max_element(results.begin(), results.end()); }
  std::int64_t workgroups(const AttentionTile& t) const {
    return heads * ceil_div(extent, t.tall());
  }
  /// Workgroup memory. Products and exchanges between threads follow one another in the same place.
  std::int64_t quads(const AttentionTile& t) const {
    std::int64_t most = t.across * score_stride(t);
    for (std::int64_t width : contracted) {
      const Parts parts(width, t.deep);
      most = std::max(most, parts.depth * (parts.stride(t.tall()) + parts.stride(t.wide())));
    }
    for (std::int64_t width : results) {
      const std::int64_t depth = t.across * columns_at_once(t);
      most = std::max(most, depth * (score_stride(t) + t.across * result_quads(width, t)));
    }
    return most;
  }
};

/// Tiles by the number of a thread's results in a row, so that what a thread accumulates stays near
/// 128 numbers: with more, registers run out; with less, reading operands takes longer than
/// multiplying.
std::vector<AttentionTile> tiles_of(OpKind op, const Work& work) {
  const std::int64_t widest = work.widest(), across = widest <= 16 ? 4 : widest <= 96 ? 8 : 16;
  const std::int64_t own = round_up(ceil_div(widest, across), 4);
  std::vector<AttentionTile> tiles;
  const auto add = [&](std::int64_t rows, std::int64_t columns) {
    for (std::int64_t down : {16, 8, 4}) {
      if (across * down >= 32) tiles.push_back({across, down, rows, columns, 0});
    }
  };
  if (op == OpKind::Attention) {
    add(8, own > 8 ? 4 : 8);
    add(4, 4);
  } else if (op == OpKind::AttentionGradQ) {
    add(8, 4);
    add(4, 4);
  } else {
    if (own <= 4) add(8, 4);
    add(4, 8);
    add(4, 4);
  }
  return tiles;
}

}  // namespace

std::vector<AttentionTile> attention_tiles(const SpecialHint& hint, const WgslLimits& limits) {
  const Work work(hint);
  std::vector<AttentionTile> tiles;
  for (AttentionTile tile : tiles_of(hint.op, work)) {
    if (tile.threads() > static_cast<std::int64_t>(limits.invocations)) continue;
    for (std::int64_t deep : {32, 16, 8}) {
      tile.deep = deep;
      if (16 * work.quads(tile) > static_cast<std::int64_t>(limits.workgroup_bytes)) continue;
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

void print_attention(Module& module, const AttentionTile& tile) {
  switch (module.kernel.special->op) {
    case OpKind::Attention:
      return print_attention_forward(module, tile);
    case OpKind::AttentionGradQ:
      return print_attention_grad_q(module, tile);
    default:
      return print_attention_grad_kv(module, tile);
  }
}

// ---- the printer

AttentionPrinter::AttentionPrinter(Module& module, const AttentionTile& tile)
    : module_(module), out_(module.main), tile_(tile), shape_(shape_of(*module.kernel.special)) {
  module_.share("tile", "vec4<f32>", Work(hint()).quads(tile), 16);
  // An array can be read as vectors if every operand in it can.
  const auto whole_quads = [&](const StridedOperand& o) {
    const auto divides = [](std::int64_t value) { return value % 4 == 0; };
    if (o.type.shape.rank() != 4 || !divides(o.type.shape[3]) || o.strides[3] != 1 ||
        module_.array(o.binding).as_bits)
      return false;
    return divides(module_.array(o.binding).start + o.offset) &&
           std::all_of(o.strides.begin(), o.strides.end() - 1, divides);
  };
  std::map<std::string, bool> all;
  for (const auto* operands : {&hint().inputs, &hint().outputs}) {
    for (const StridedOperand& o : *operands) {
      if (o.binding < 0) continue;
      const auto [at, added] = all.emplace(module_.array(o.binding).array, true);
      at->second = at->second && whole_quads(o);
    }
  }
  for (const auto& [array, fit] : all) {
    if (fit) module_.use_quads(array);
  }
}

Fragment AttentionPrinter::result(const std::string& name, std::int64_t width) const {
  return {name, 4 * result_quads(width, tile_)};
}

void AttentionPrinter::print_grid(std::int64_t heads, std::int64_t extent, bool last_first) {
  const std::int64_t tiles = ceil_div(extent, tile_.tall()), all_heads = shape_.batch * heads;
  module_.workgroups(all_heads * tiles, static_cast<std::uint32_t>(tile_.threads()), "block");
  out_.line("let b = block % " + unsigned_text(all_heads) + " / " + unsigned_text(heads) + ";");
  out_.line("let head = block % " + unsigned_text(heads) + ";");
  const std::string number = "block / " + unsigned_text(all_heads);
  out_.line("let first = " +
            (last_first ? "(" + unsigned_text(tiles - 1) + " - " + number + ")" : number) + " * " +
            unsigned_text(tile_.tall()) + ";");
  out_.line("let x = local % " + unsigned_text(tile_.across) + ";");
  out_.line("let y = local / " + unsigned_text(tile_.across) + ";");
}

RowSource AttentionPrinter::source(const std::string& name, const StridedOperand& operand,
                                   std::int64_t tile) {
  const Shape& shape = operand.type.shape;
  const std::int64_t rows = shape[2], width = shape[3], quads = ceil_div(width, 4);
  const ArrayRef& array = module_.array(operand.binding);
  const Parts parts(width, tile_.deep);
  Writer& f = module_.functions;
  if (!f.empty()) f.blank();
  f.open("fn load_" + name + "(head: u32, row: u32, quad: u32) -> vec4<f32>", node());
  std::vector<std::string> outside;
  if (rows % tile != 0) outside.push_back("row >= " + unsigned_text(rows));
  if (parts.depth * parts.count > 4 * quads || result_quads(width, tile_) * tile_.across > quads)
    outside.push_back("quad >= " + unsigned_text(quads));
  if (!outside.empty()) {
    f.open("if (" + outside[0] + (outside.size() > 1 ? " || " + outside[1] : "") + ")");
    f.line("return vec4<f32>();");
    f.close();
  }
  const auto row = [&](std::int64_t stride) {
    return "head" + (rows > 1 && stride != 0 ? " + row * " + unsigned_text(stride) : "");
  };
  if (module_.has_quads(array.array)) {
    f.line("return " + array.array + "[" + row(operand.strides[2] / 4) + " + quad];", node());
    f.close();
    return {name, &operand};
  }
  f.line("let at = " + row(operand.strides[2]) + ";");
  f.line("let column = 4u * quad;");
  f.line("var four: vec4<f32>;");
  for (std::int64_t c = 0; c < 4; ++c) {
    // The first of a quad is always inside.
    const bool guarded = c > 0 && width % 4 != 0 && c >= width % 4;
    const std::string column = "column" + plus(c);
    if (guarded) f.open("if (" + column + " < " + unsigned_text(width) + ")");
    const std::string place = array.array + "[at + (" + column + ") * " +
                              unsigned_text(width > 1 ? operand.strides[3] : 0) + "]";
    f.line("four[" + std::to_string(c) +
               "] = " + (array.as_bits ? "bitcast<f32>(" + place + ")" : place) + ";",
           node());
    if (guarded) f.close();
  }
  f.line("return four;");
  f.close();
  return {name, &operand};
}

void AttentionPrinter::print_head(const std::string& name, const StridedOperand& operand,
                                  const std::string& head) {
  const ArrayRef& array = module_.array(operand.binding);
  const std::int64_t unit = module_.has_quads(array.array) ? 4 : 1;
  const Shape& shape = operand.type.shape;
  std::string text = unsigned_text((array.start + operand.offset) / unit);
  if (shape[0] > 1) text += " + b * " + unsigned_text(operand.strides[0] / unit);
  if (shape[1] > 1) text += " + " + head + " * " + unsigned_text(operand.strides[1] / unit);
  out_.line("let " + name + "_head = " + text + ";");
}

void AttentionPrinter::print_key_loop() {
  const std::int64_t wide = tile_.wide(), all = ceil_div(shape_.keys, wide);
  std::string tiles = unsigned_text(all);
  if (shape_.causal) {
    out_.line("let key_tiles = min(" + tiles + ", (first + " +
              unsigned_text(tile_.tall() + wide - 1) + ") / " + unsigned_text(wide) + ");");
    tiles = "key_tiles";
  }
  out_.open("for (var key_tile = 0u; key_tile < " + tiles + "; key_tile++)", node());
  out_.line("let key = key_tile * " + unsigned_text(wide) + ";");
}

void AttentionPrinter::print_seen(
    const std::function<void(std::int64_t, std::int64_t, const std::string&)>& body) {
  const std::int64_t wide = tile_.wide();
  const bool ragged = shape_.keys % wide != 0;
  if (!ragged && !shape_.causal) return;
  const std::string after = "key + " + unsigned_text(wide), end = unsigned_text(shape_.keys);
  const std::string beyond = after + " > " + end, crosses = after + " > first + 1u";
  out_.open("if (" +
            (!ragged          ? crosses
             : !shape_.causal ? beyond
                              : beyond + " || " + crosses) +
            ")");
  for (std::int64_t quad = 0; quad < tile_.columns / 4; ++quad) {
    const std::string keys = "keys" + std::to_string(quad);
    out_.line("let " + keys + " = key + " + columns_of(quad) + ";");
    for (std::int64_t row = 0; row < tile_.rows; ++row) {
      std::string seen = ragged ? keys + " < vec4<u32>(" + end + ")" : "";
      if (shape_.causal) {
        const std::string past = keys + " <= vec4<u32>(first + " + row_of(row) + ")";
        seen = ragged ? "(" + seen + ") & (" + past + ")" : past;
      }
      body(row, quad, seen);
    }
  }
  out_.close();
}

void AttentionPrinter::print_weight() {
  // A built-in exp would be off by some units in the last place of 1 where x is near 0, less than
  // that far below: it is exact enough, and here is the place to change.
  module_.prelude.insert("tg_exp");
  Writer& f = module_.functions;
  if (!f.empty()) f.blank();
  f.open("fn attention_weight(x: vec4<f32>) -> vec4<f32>");
  f.line("return vec4<f32>(tg_exp(x.x), tg_exp(x.y), tg_exp(x.z), tg_exp(x.w));");
  f.close();
}

void AttentionPrinter::declare(const Fragment& fragment) {
  for (std::int64_t row = 0; row < tile_.rows; ++row) {
    for (std::int64_t quad = 0; quad < fragment.columns / 4; ++quad)
      out_.line("var " + fragment.at(row, quad) + " = vec4<f32>();", node());
  }
}

void AttentionPrinter::assign(
    const Fragment& fragment,
    const std::function<std::string(std::int64_t, std::int64_t)>& expression) {
  for (std::int64_t row = 0; row < tile_.rows; ++row) {
    for (std::int64_t quad = 0; quad < fragment.columns / 4; ++quad)
      out_.line(fragment.at(row, quad) + " = " + expression(row, quad) + ";", node());
  }
}

std::string AttentionPrinter::row_of(std::int64_t row) const {
  return "4u * y" + plus(row / 4 * 4 * tile_.down + row % 4);
}

std::string AttentionPrinter::columns_of(std::int64_t quad) const {
  std::string text;
  for (std::int64_t c = 0; c < 4; ++c)
    text += (c ? ", " : "") + unsigned_text((4 * quad + c) * tile_.across);
  return "(x + vec4<u32>(" + text + "))";
}

// ---- products

void AttentionPrinter::multiply_rows(const Fragment& acc, const RowSource& a,
                                     const std::string& a_first, const RowSource& b,
                                     const std::string& b_first) {
  const Parts parts(a.operand->type.shape[3], tile_.deep);
  const std::int64_t lhs = parts.stride(tile_.tall()), rhs = parts.stride(tile_.wide());
  out_.open("for (var part = 0u; part < " + unsigned_text(parts.count) + "; part++)", node());
  fill_turned(a, a_first, tile_.tall(), parts.depth, 0, false);
  fill_turned(b, b_first, tile_.wide(), parts.depth, parts.depth * lhs, true);
  out_.line("workgroupBarrier();");
  multiply(acc, parts.depth, lhs, rhs);
  out_.line("workgroupBarrier();");
  out_.close();
}

void AttentionPrinter::multiply_scores(const Fragment& acc, const Fragment& scores,
                                       const RowSource& b, const std::string& b_first) {
  const std::int64_t own = columns_at_once(tile_), depth = own * tile_.across,
                     lhs = score_stride(tile_), rhs = tile_.across * acc.columns / 4;
  for (std::int64_t begin = 0; begin < tile_.columns; begin += own) {
    for (std::int64_t u = begin; u < begin + own; ++u) {
      for (std::int64_t quad = 0; quad < tile_.rows / 4; ++quad) {
        std::string values;
        for (std::int64_t c = 0; c < 4; ++c) {
          values +=
              (c ? ", " : "") + scores.at(4 * quad + c, u / 4) + "[" + std::to_string(u % 4) + "]";
        }
        out_.line("tile[" + unsigned_text(lhs) + " * x + y" +
                      plus((u - begin) * tile_.across * lhs + quad * tile_.down) +
                      "] = vec4<f32>(" + values + ");",
                  node());
      }
    }
    fill_straight(b, b_first + plus(begin * tile_.across), depth, rhs, depth * lhs);
    out_.line("workgroupBarrier();");
    multiply(acc, depth, lhs, rhs);
    out_.line("workgroupBarrier();");
  }
}

/// The threads take `items` in turn; `item` is the number of one.
void AttentionPrinter::deal(std::int64_t items, const std::function<void()>& body) {
  const std::int64_t threads = tile_.threads(), whole = items / threads, rest = items % threads;
  constexpr std::int64_t kUnroll = 4;  // loads that are under way together
  if (whole > kUnroll) {
    out_.open("for (var round = 0u; round < " + unsigned_text(whole) + "; round++)");
    out_.line("let item = local + round * " + unsigned_text(threads) + ";");
    body();
    out_.close();
  }
  for (std::int64_t round = whole > kUnroll ? whole : 0; round * threads < items; ++round) {
    out_.open(round == whole ? "if (local < " + unsigned_text(rest) + ")" : "");
    out_.line("let item = local" + plus(round * threads) + ";");
    body();
    out_.close();
  }
}

/// A part of `count` rows, turned: a thread takes four neighbours of each of four rows. The element
/// 4·q + c of a part goes to row c·(depth / 4) + q of the tile: threads then write to different
/// banks, and the order of a contraction is free.
void AttentionPrinter::fill_turned(const RowSource& source, const std::string& first,
                                   std::int64_t count, std::int64_t depth, std::int64_t start,
                                   bool dealt) {
  const std::int64_t deep_quads = depth / 4, stride = spread(count / 4, deep_quads);
  deal(count / 4 * deep_quads, [&] {
    out_.line("let deep = item % " + unsigned_text(deep_quads) + ";");
    out_.line("let quad = item / " + unsigned_text(deep_quads) + ";");
    const std::string across = unsigned_text(tile_.across);
    out_.line("let row = " + first +
              (dealt ? " + quad % " + across + " + quad / " + across + " * " +
                           unsigned_text(4 * tile_.across)
                     : " + 4u * quad") +
              ";");
    for (std::int64_t c = 0; c < 4; ++c) {
      out_.line("let row" + std::to_string(c) + " = load_" + source.name + "(" + source.name +
                    "_head, row" + plus(c * (dealt ? tile_.across : 1)) + ", part * " +
                    unsigned_text(deep_quads) + " + deep);",
                node());
    }
    for (std::int64_t c = 0; c < 4; ++c) {
      const std::string at = "[" + std::to_string(c) + "]";
      out_.line("tile[deep * " + unsigned_text(stride) + " + quad" +
                    plus(start + c * deep_quads * stride) + "] = vec4<f32>(row0" + at + ", row1" +
                    at + ", row2" + at + ", row3" + at + ");",
                node());
    }
  });
}

/// `count` rows as they are.
void AttentionPrinter::fill_straight(const RowSource& source, const std::string& first,
                                     std::int64_t count, std::int64_t quads, std::int64_t start) {
  deal(count * quads, [&] {
    const std::string across = unsigned_text(quads);
    out_.line("tile[item" + plus(start) + "] = load_" + source.name + "(" + source.name +
                  "_head, " + first + " + item / " + across + ", item % " + across + ");",
              node());
  });
}

void AttentionPrinter::multiply(const Fragment& acc, std::int64_t depth, std::int64_t lhs_stride,
                                std::int64_t rhs_stride) {
  constexpr std::int64_t kUnroll = 4;
  out_.open("for (var step = 0u; step < " + unsigned_text(depth / kUnroll) + "; step++)", node());
  out_.line("let lhs_at = step * " + unsigned_text(kUnroll * lhs_stride) + " + y;");
  out_.line("let rhs_at = step * " + unsigned_text(kUnroll * rhs_stride) + " + x" +
            plus(depth * lhs_stride) + ";");
  for (std::int64_t k = 0; k < kUnroll; ++k) {
    const std::string suffix = std::to_string(k) + "_";
    for (std::int64_t quad = 0; quad < tile_.rows / 4; ++quad) {
      out_.line("let l" + suffix + std::to_string(quad) + " = tile[lhs_at" +
                    plus(k * lhs_stride + quad * tile_.down) + "];",
                node());
    }
    for (std::int64_t quad = 0; quad < acc.columns / 4; ++quad) {
      out_.line("let r" + suffix + std::to_string(quad) + " = tile[rhs_at" +
                    plus(k * rhs_stride + quad * tile_.across) + "];",
                node());
    }
    assign(acc, [&](std::int64_t row, std::int64_t quad) {
      return "fma(vec4<f32>(l" + suffix + std::to_string(row / 4) + "[" + std::to_string(row % 4) +
             "]), r" + suffix + std::to_string(quad) + ", " + acc.at(row, quad) + ")";
    });
  }
  out_.close();
}

// ---- rows

void AttentionPrinter::fold_rows(
    const std::string& name,
    const std::function<std::string(const std::string&, const std::string&)>& op) {
  const std::int64_t stride = score_stride(tile_), quads = tile_.rows / 4;
  const auto own = [&](std::int64_t quad) { return name + std::to_string(quad); };
  for (std::int64_t quad = 0; quad < quads; ++quad) {
    out_.line("tile[" + unsigned_text(stride) + " * x + y" + plus(quad * tile_.down) +
                  "] = " + own(quad) + ";",
              node());
  }
  out_.line("workgroupBarrier();");
  for (std::int64_t quad = 0; quad < quads; ++quad)
    out_.line(own(quad) + " = tile[y" + plus(quad * tile_.down) + "];", node());
  for (std::int64_t other = 1; other < tile_.across; ++other) {
    for (std::int64_t quad = 0; quad < quads; ++quad) {
      const std::string value = "tile[y" + plus(other * stride + quad * tile_.down) + "]";
      out_.line(own(quad) + " = " + op(own(quad), value) + ";", node());
    }
  }
  out_.line("workgroupBarrier();");
}

void AttentionPrinter::store(const std::string& name, const StridedOperand& output,
                             const Fragment& fragment,
                             const std::function<std::string(std::int64_t)>& factor) {
  const Shape& shape = output.type.shape;
  const std::string& array = module_.array(output.binding).array;
  const bool vectors = module_.has_quads(array);
  const std::int64_t rows = shape[2], width = shape[3], unit = vectors ? 4 : 1;
  const std::int64_t stride = output.strides[2] / unit;  // outputs are dense
  for (std::int64_t row = 0; row < tile_.rows; ++row) {
    const std::string place = "first + " + row_of(row);
    out_.open(rows % tile_.tall() == 0 ? "" : "if (" + place + " < " + unsigned_text(rows) + ")");
    out_.line("let at = " + name + "_head + (" + place + ") * " + unsigned_text(stride) + ";");
    for (std::int64_t quad = 0; quad < fragment.columns / 4; ++quad) {
      const std::string column = "x" + plus(quad * tile_.across);
      const std::int64_t last = (quad + 1) * tile_.across;  // quads up to this thread row's end
      out_.open("");
      out_.line("let value = " + fragment.at(row, quad) + " * " + factor(row) + ";", node());
      for (std::int64_t c = 0; c < (vectors ? 1 : 4); ++c) {
        const std::string element = vectors ? column : "4u * (" + column + ")" + plus(c);
        const bool guarded = 4 * last > width;
        if (guarded) out_.open("if (" + element + " < " + unsigned_text(width / unit) + ")");
        out_.line(array + "[at + " + element + "] = value" +
                      (vectors ? "" : "[" + std::to_string(c) + "]") + ";",
                  node());
        if (guarded) out_.close();
      }
      out_.close();
    }
    out_.close();
  }
}

}  // namespace tensorgrad::wgsl
