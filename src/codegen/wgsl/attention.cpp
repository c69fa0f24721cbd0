// Attention forward: o = softmax(scale·q·kᵀ)·v, a tile of queries a workgroup, over tiles of keys.
// The softmax is made as scores come: each row keeps its largest score so far, `top`, and the sum
// of the weights relative to it, and what was accumulated shrinks when `top` grows. Scores are
// never in memory.
#include "codegen/wgsl/attention_printer.hpp"
#include "codegen/wgsl/body.hpp"
#include "codegen/wgsl/generators.hpp"
#include "codegen/wgsl/special.hpp"

namespace tensorgrad::wgsl {

namespace {

/// The score of a key that is not seen: below all others, but finite, as WGSL wants it.
constexpr const char* kUnseen = "vec4<f32>(-1e30)";

class ForwardPrinter : public AttentionPrinter {
 public:
  using AttentionPrinter::AttentionPrinter;

  void print() {
    const StridedOperand &q = hint().inputs[0], &k = hint().inputs[1], &v = hint().inputs[2],
                         &log_sums = hint().outputs[1];
    const StridedOperand output = hint().outputs[0].swapped(1, 2);  // by head
    const bool mixes = output.binding >= 0;
    const RowSource queries = source("q", q, tile_.tall()), keys = source("k", k, tile_.wide());
    RowSource values;
    if (mixes) values = source("v", v, tile_.wide());
    print_weight();

    print_grid(shape_.heads, shape_.queries, shape_.causal);
    const std::string group = "head / " + unsigned_text(shape_.share());
    print_head("q", q, "head");
    print_head("k", k, "(" + group + ")");
    if (mixes) print_head("v", v, "(" + group + ")");
    const Fragment mixed = result("o", shape_.width), s = scores("s");
    if (mixes) declare(mixed);
    for_row_quads([&](const std::string& i) {
      out_.line("var top" + i + " = " + kUnseen + ";", node());
      out_.line("var sum" + i + " = vec4<f32>();", node());
    });
    print_key_loop();
    declare(s);
    multiply_rows(s, queries, "first", keys, "key");
    print_scores(s);
    print_softmax(s, mixed, mixes);
    if (mixes) multiply_scores(mixed, s, values, "key");
    out_.close();

    fold_rows("sum", [](const std::string& a, const std::string& b) { return a + " + " + b; });
    if (mixes) {
      print_head("o", output, "head");
      for_row_quads(
          [&](const std::string& i) { out_.line("let share" + i + " = 1.0 / sum" + i + ";"); });
      store("o", output, mixed, [](std::int64_t row) { return of_row("share", row); });
    }
    if (log_sums.binding >= 0) print_log_sums(log_sums);
  }

 private:
  template <class Fn>
  void for_row_quads(Fn fn) {
    for (std::int64_t quad = 0; quad < tile_.rows / 4; ++quad) fn(std::to_string(quad));
  }
  static std::string of_row(const std::string& name, std::int64_t row) {
    return name + std::to_string(row / 4) + "[" + std::to_string(row % 4) + "]";
  }

  /// Scaled products, and the mask.
  void print_scores(const Fragment& s) {
    const std::string scale = literal(shape_.scale, DType::F32, module_.prelude);
    assign(s, [&](auto row, auto quad) { return s.at(row, quad) + " * " + scale; });
    print_seen([&](std::int64_t row, std::int64_t quad, const std::string& seen) {
      out_.line(
          s.at(row, quad) + " = select(" + kUnseen + ", " + s.at(row, quad) + ", " + seen + ");",
          node());
    });
  }

  /// From scores to weights relative to the rows' largest score.
  void print_softmax(const Fragment& s, const Fragment& mixed, bool mixes) {
    for_row_quads(
        [&](const std::string& i) { out_.line("var best" + i + " = top" + i + ";", node()); });
    const auto fold = [&](std::int64_t row, const std::string& op) {
      std::string text;  // over a row of this thread
      for (std::int64_t quad = 0; quad < s.columns / 4; ++quad) {
        const std::string& v = s.at(row, quad);
        text = quad == 0 ? v : op == "max" ? "max(" + text + ", " + v + ")" : text + " + " + v;
      }
      return text;
    };
    for (std::int64_t row = 0; row < tile_.rows; ++row) {
      const std::string four = "max" + std::to_string(row);
      out_.line("let " + four + " = " + fold(row, "max") + ";", node());
      out_.line(of_row("best", row) + " = max(" + of_row("best", row) + ", max(max(" + four +
                    "[0], " + four + "[1]), max(" + four + "[2], " + four + "[3])));",
                node());
    }
    fold_rows("best", [](const std::string& a, const std::string& b) {
      return "max(" + a + ", " + b + ")";
    });
    for_row_quads([&](const std::string& i) {
      out_.line("let shrink" + i + " = attention_weight(top" + i + " - best" + i + ");", node());
      out_.line("top" + i + " = best" + i + ";", node());
      out_.line("sum" + i + " *= shrink" + i + ";", node());
    });
    assign(s, [&](auto row, auto quad) {
      return "attention_weight(" + s.at(row, quad) + " - " + of_row("top", row) + ")";
    });
    for (std::int64_t row = 0; row < tile_.rows; ++row) {
      out_.line(of_row("sum", row) + " += dot(" + fold(row, "+") + ", vec4<f32>(1.0));", node());
    }
    if (mixes)
      assign(mixed, [&](auto row, auto quad) {
        return mixed.at(row, quad) + " * " + of_row("shrink", row);
      });
  }

  void print_log_sums(const StridedOperand& log_sums) {
    module_.prelude.insert("tg_log");
    out_.open("if (x == 0u)");
    for (std::int64_t row = 0; row < tile_.rows; ++row) {
      out_.open("");
      out_.line("let row = first + " + row_of(row) + ";");
      if (shape_.queries % tile_.tall() != 0)
        out_.open("if (row < " + unsigned_text(shape_.queries) + ")");
      out_.line(element(module_, log_sums, {"b", "head", "row"}) + " = " + of_row("top", row) +
                    " + tg_log(" + of_row("sum", row) + ");",
                node());
      if (shape_.queries % tile_.tall() != 0) out_.close();
      out_.close();
    }
    out_.close();
  }
};

}  // namespace

void print_attention_forward(Module& module, const AttentionTile& tile) {
  ForwardPrinter(module, tile).print();
}

void emit_attention(Module& module) {
  print_attention(module, choose_attention_tile(*module.kernel.special, module.limits));
}

}  // namespace tensorgrad::wgsl
