// Attention backward. Both kernels make the weights again from the rows' log-sum-exp L,
// P = e^{s − L}, with dP = do·vᵀ and dS = P·(dP − δ): one goes over tiles of keys for a tile of
// queries and accumulates dq = scale·dS·k; the other goes over tiles of queries, of all heads that
// share the key head, for a tile of keys and accumulates dv = Pᵀ·do and dk = scale·dSᵀ·q. So each
// result is made by one workgroup, in one order.
#include "codegen/wgsl/attention_printer.hpp"
#include "codegen/wgsl/body.hpp"
#include "codegen/wgsl/special.hpp"

namespace tensorgrad::wgsl {

namespace {

class AttentionGradPrinter : public AttentionPrinter {
 public:
  using AttentionPrinter::AttentionPrinter;

 protected:
  const StridedOperand& q() const { return hint().inputs[0]; }
  const StridedOperand& k() const { return hint().inputs[1]; }
  const StridedOperand& v() const { return hint().inputs[2]; }
  const StridedOperand& log_sums() const { return hint().inputs[3]; }
  const StridedOperand& delta() const { return hint().inputs[4]; }
  const StridedOperand& g() const { return hint().inputs[5]; }
  std::string scale() { return literal(shape_.scale, DType::F32, module_.prelude); }

  /// `fn log_sum(b: u32, head: u32, row: u32) -> f32`: a number of a query; 0 beyond the last.
  void print_row_function(const std::string& name, const StridedOperand& operand,
                          std::int64_t tile) {
    Writer& f = module_.functions;
    f.blank();
    f.open("fn " + name + "(b: u32, head: u32, row: u32) -> f32", node());
    if (shape_.queries % tile != 0) {
      f.open("if (row >= " + unsigned_text(shape_.queries) + ")");
      f.line("return 0.0;");
      f.close();
    }
    f.line("return " + element(module_, operand, {"b", "head", "row"}) + ";", node());
    f.close();
  }
};

class GradQPrinter : public AttentionGradPrinter {
 public:
  using AttentionGradPrinter::AttentionGradPrinter;

  void print() {
    const StridedOperand output = hint().outputs[0].swapped(1, 2);  // by head
    const RowSource queries = source("q", q(), tile_.tall()), keys = source("k", k(), tile_.wide()),
                    values = source("v", v(), tile_.wide()),
                    cotangents = source("g", g(), tile_.tall());
    print_row_function("log_sum", log_sums(), tile_.tall());
    print_row_function("delta", delta(), tile_.tall());
    print_weight();

    print_grid(shape_.heads, shape_.queries, shape_.causal);
    const std::string group = "(head / " + unsigned_text(shape_.share()) + ")";
    print_head("q", q(), "head");
    print_head("g", g(), "head");
    print_head("k", k(), group);
    print_head("v", v(), group);
    for (std::int64_t row = 0; row < tile_.rows; ++row) {
      const std::string number = std::to_string(row), at = "(b, head, first + " + row_of(row) + ")";
      out_.line("let log_sum" + number + " = log_sum" + at + ";", node());
      out_.line("let delta" + number + " = delta" + at + ";", node());
    }
    const Fragment dq = result("dq", shape_.dim), s = scores("s"), dp = scores("dp");
    declare(dq);
    print_key_loop();
    declare(s);
    multiply_rows(s, queries, "first", keys, "key");
    declare(dp);
    multiply_rows(dp, cotangents, "first", values, "key");
    assign(s, [&](auto row, auto quad) {
      const std::string number = std::to_string(row);
      return "attention_weight(" + s.at(row, quad) + " * " + scale() + " - log_sum" + number +
             ") * (" + dp.at(row, quad) + " - delta" + number + ")";
    });
    print_seen([&](std::int64_t row, std::int64_t quad, const std::string& seen) {
      out_.line(s.at(row, quad) + " = select(vec4<f32>(), " + s.at(row, quad) + ", " + seen + ");",
                node());
    });
    multiply_scores(dq, s, keys, "key");
    out_.close();
    print_head("dq", output, "head");
    store("dq", output, dq, [&](std::int64_t) { return scale(); });
  }
};

class GradKVPrinter : public AttentionGradPrinter {
 public:
  using AttentionGradPrinter::AttentionGradPrinter;

  void print() {
    const StridedOperand dk_output = hint().outputs[0].swapped(1, 2),
                         dv_output = hint().outputs[1].swapped(1, 2);  // by head
    const bool needs_dk = dk_output.binding >= 0, needs_dv = dv_output.binding >= 0;
    const RowSource keys = source("k", k(), tile_.tall()), queries = source("q", q(), tile_.wide()),
                    cotangents = source("g", g(), tile_.wide());
    RowSource values;
    print_row_function("log_sum", log_sums(), tile_.wide());
    if (needs_dk) {
      values = source("v", v(), tile_.tall());
      print_row_function("delta", delta(), tile_.wide());
    }
    print_weight();

    print_grid(shape_.groups, shape_.keys, false);
    print_head("k", k(), "head");
    if (needs_dk) print_head("v", v(), "head");
    const Fragment dk = result("dk", shape_.dim), dv = result("dv", shape_.width), s = scores("s"),
                   dp = scores("dp");
    if (needs_dk) declare(dk);
    if (needs_dv) declare(dv);
    out_.open("for (var member = 0u; member < " + unsigned_text(shape_.share()) + "; member++)");
    out_.line("let query_head = head * " + unsigned_text(shape_.share()) + " + member;");
    print_head("q", q(), "query_head");
    print_head("g", g(), "query_head");
    // Queries before the first key of the tile do not see it.
    const std::int64_t wide = tile_.wide(), tiles = (shape_.queries + wide - 1) / wide;
    out_.open("for (var block_of_queries = " +
              (shape_.causal ? "first / " + unsigned_text(wide) : std::string("0u")) +
              "; block_of_queries < " + unsigned_text(tiles) + "; block_of_queries++)");
    out_.line("let query = block_of_queries * " + unsigned_text(wide) + ";");
    declare(s);
    multiply_rows(s, keys, "first", queries, "query");
    print_weights(s);
    if (needs_dv) multiply_scores(dv, s, cotangents, "query");
    if (needs_dk) {
      declare(dp);
      multiply_rows(dp, values, "first", cotangents, "query");
      print_columns("delta");
      assign(s, [&](auto row, auto quad) {
        return s.at(row, quad) + " * (" + dp.at(row, quad) + " - delta" + std::to_string(quad) +
               ")";
      });
      multiply_scores(dk, s, queries, "query");
    }
    out_.close();
    out_.close();
    if (needs_dk) {
      print_head("dk", dk_output, "head");
      store("dk", dk_output, dk, [&](std::int64_t) { return scale(); });
    }
    if (needs_dv) {
      print_head("dv", dv_output, "head");
      store("dv", dv_output, dv, [&](std::int64_t) { return std::string("1.0"); });
    }
  }

 private:
  /// `let delta0 = …;`: the numbers of four queries, the columns of a quad.
  void print_columns(const std::string& name) {
    for (std::int64_t quad = 0; quad < tile_.columns / 4; ++quad) {
      std::string values;
      for (std::int64_t c = 0; c < 4; ++c) {
        values += (c ? ", " : "") + name + "(b, query_head, query + x + " +
                  unsigned_text((4 * quad + c) * tile_.across) + ")";
      }
      out_.line("let " + name + std::to_string(quad) + " = vec4<f32>(" + values + ");", node());
    }
  }

  void print_weights(const Fragment& s) {
    print_columns("log_sum");
    assign(s, [&](auto row, auto quad) {
      return "attention_weight(" + s.at(row, quad) + " * " + scale() + " - log_sum" +
             std::to_string(quad) + ")";
    });
    if (!shape_.causal) return;
    out_.open("if (first + " + unsigned_text(tile_.tall() - 1) + " > query)");
    assign(s, [&](auto row, auto quad) {
      return "select(vec4<f32>(), " + s.at(row, quad) + ", vec4<u32>(first + " + row_of(row) +
             ") <= query + " + columns_of(quad) + ")";
    });
    out_.close();
  }
};

}  // namespace

void print_attention_grad_q(Module& module, const AttentionTile& tile) {
  GradQPrinter(module, tile).print();
}

void print_attention_grad_kv(Module& module, const AttentionTile& tile) {
  GradKVPrinter(module, tile).print();
}

}  // namespace tensorgrad::wgsl
