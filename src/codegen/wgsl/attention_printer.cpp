#include "codegen/wgsl/attention_printer.hpp"

#include <algorithm>
#include <map>

#include "ir/ceil_div.hpp"

namespace tensorgrad::wgsl {

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
    : module_(module),
      out_(module.main),
      tile_(tile),
      shape_(attention_shape(*module.kernel.special)) {
  module_.share("tile", "vec4<f32>", attention_quads(hint(), tile), 16);
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
  return {name, 4 * tile_.result_quads(width)};
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
  const AttentionTile::Parts parts = tile_.parts(width);
  Writer& f = module_.functions;
  if (!f.empty()) f.blank();
  f.open("fn load_" + name + "(head: u32, row: u32, quad: u32) -> vec4<f32>", node());
  std::vector<std::string> outside;
  if (rows % tile != 0) outside.push_back("row >= " + unsigned_text(rows));
  if (parts.depth * parts.count > 4 * quads || tile_.result_quads(width) * tile_.across > quads)
    outside.push_back("quad >= " + unsigned_text(quads));
  if (!outside.empty()) {
    f.open("if (" + outside[0] + (outside.size() > 1 ? " || " + outside[1] : "") + ")");
    f.line("return vec4<f32>();");
    f.close();
  }
  const auto row = [&](std::int64_t stride) {
    return "head" + (rows > 1 && stride != 0 ? " + row * " + unsigned_text(stride) : "");
  };
  if (module_.has_quads(operand.binding)) {
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
  const std::int64_t unit = module_.has_quads(operand.binding) ? 4 : 1;
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
  // The built-in exp is good to 3 + 2|x| units in the last place. What is far below 0 counts for
  // nothing beside the largest weight, so that is as good as exact.
  Writer& f = module_.functions;
  if (!f.empty()) f.blank();
  f.open("fn attention_weight(x: vec4<f32>) -> vec4<f32>");
  f.line("return exp(x);");
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
  const AttentionTile::Parts parts = tile_.parts(a.operand->type.shape[3]);
  const std::int64_t lhs = AttentionTile::stride(parts, tile_.tall()),
                     rhs = AttentionTile::stride(parts, tile_.wide());
  out_.open("for (var part = 0u; part < " + unsigned_text(parts.count) + "; part++)", node());
  fill_turned(a, a_first, tile_.tall(), parts, 0, false);
  fill_turned(b, b_first, tile_.wide(), parts, parts.depth * lhs, true);
  out_.line("workgroupBarrier();");
  multiply(acc, parts.depth, lhs, rhs);
  out_.line("workgroupBarrier();");
  out_.close();
}

void AttentionPrinter::multiply_scores(const Fragment& acc, const Fragment& scores,
                                       const RowSource& b, const std::string& b_first) {
  const std::int64_t own = tile_.columns_at_once(), depth = own * tile_.across,
                     lhs = tile_.score_stride(), rhs = tile_.across * acc.columns / 4;
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
                                   std::int64_t count, const AttentionTile::Parts& parts,
                                   std::int64_t start, bool dealt) {
  const std::int64_t deep_quads = parts.depth / 4, stride = AttentionTile::stride(parts, count);
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
  const std::int64_t stride = tile_.score_stride(), quads = tile_.rows / 4;
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
  const bool vectors = module_.has_quads(output.binding);
  const std::int64_t rows = shape[2], width = shape[3], unit = vectors ? 4 : 1;
  const std::int64_t stride = output.strides[2] / unit;
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
