// Matrix products in tiles. A workgroup computes a tile of BM x BN elements of the output; in each
// step it brings BM x BK of the left and BK x BN of the right operand to workgroup memory, and each
// thread accumulates TM x TN elements in registers. The rest of the kernel, the epilogue, is a
// function that is called for each element.
//
// Tiles lie in workgroup memory as quads, four elements along m or n at one k, so that a thread
// reads its operands as vectors; a thread writes whole quads, because two threads may not write
// parts of one vector. Any strides will do: quads are dealt to threads along the axis that is
// contiguous.
#include <algorithm>
#include <optional>

#include "codegen/wgsl/body.hpp"
#include "codegen/wgsl/generators.hpp"

namespace tensorgrad::wgsl {

namespace {

struct Tile {
  std::int64_t m, n, k;        // BM, BN, BK
  std::int64_t rows, columns;  // TM, TN: of a thread; multiples of 4
  std::int64_t slices = 1;     // S
  std::int64_t slice_threads() const { return (m / rows) * (n / columns); }
  std::int64_t threads() const { return slices * slice_threads(); }
  /// Workgroup memory, with the padding that a tile may have.
  std::int64_t bytes() const { return slices * (m + n + 8) * k * 4; }
};

/// One operand: a load whose index is a sum of multiples of the variables.
struct Operand {
  const char* name;
  const Expr* load;
  int along;          // the variable that is not k: m or n
  std::int64_t size;  // BM or BN
  bool k_contiguous;  // k steps by 1 through memory
  /// Quads in a row of the tile. One more than needed, where threads write down a column: then they
  /// do not all meet in one bank.
  std::int64_t row() const { return size / 4 + (k_contiguous ? 1 : 0); }
};

/// ` + 3u`, or nothing.
std::string plus(std::int64_t value) { return value == 0 ? "" : " + " + unsigned_text(value); }

class MatMulPrinter {
 public:
  explicit MatMulPrinter(Module& module)
      : module_(module), kernel_(module.kernel), out_(module.main) {}

  bool print() {
    if (!fits()) return false;
    m_ = kernel_.outer_count - 2, n_ = kernel_.outer_count - 1, k_ = kernel_.outer_count;
    for (int v = 0; v < m_; ++v) batch_ *= extent(v);
    const std::optional<Tile> tile = choose();
    if (!tile) return false;
    tile_ = *tile;
    lhs_ = {"lhs", &expr(kernel_.matmul->lhs), m_, tile_.m,
            expr(kernel_.matmul->lhs).index.stride(k_) == 1};
    rhs_ = {"rhs", &expr(kernel_.matmul->rhs), n_, tile_.n,
            expr(kernel_.matmul->rhs).index.stride(k_) == 1};
    print_load(lhs_);
    print_load(rhs_);
    print_finish();
    print_main();
    return true;
  }

 private:
  const Expr& expr(ExprId id) const { return kernel_.exprs[static_cast<std::size_t>(id)]; }
  std::int64_t extent(int v) const { return kernel_.vars[static_cast<std::size_t>(v)].extent; }
  bool ragged(int v, std::int64_t size) const { return extent(v) % size != 0; }

  /// Whether the kernel is a product and nothing else is inner.
  bool fits() const {
    if (!kernel_.matmul) return false;
    const MatMulHint& hint = *kernel_.matmul;
    const auto plain = [&](ExprId id) {
      const Expr& e = expr(id);
      return e.kind == Expr::Kind::Load && e.guards.empty() && e.index.is_affine() &&
             e.dtype == DType::F32 && !module_.array(e.binding).as_bits;
    };
    if (!plain(hint.lhs) || !plain(hint.rhs) || expr(hint.acc).args.size() != 1) return false;
    const ExprId product = expr(hint.acc).args[0];
    for (ExprId id = 0; id < static_cast<ExprId>(kernel_.exprs.size()); ++id) {
      const bool own = id == hint.lhs || id == hint.rhs || id == product || id == hint.acc;
      if (!own && (expr(id).inner || expr(id).kind == Expr::Kind::Reduce)) return false;
    }
    return std::none_of(kernel_.stores.begin(), kernel_.stores.end(),
                        [](const Store& s) { return s.inner; });
  }

  /// The largest tile that leaves the device enough workgroups; nothing where a plain row does
  /// better.
  std::optional<Tile> choose() const {
    const std::int64_t m = extent(m_), n = extent(n_), k = extent(k_);
    if (m < 8 || n < 8 || k < 8 || m * n * k < (1 << 15)) return std::nullopt;
    const auto workgroups = [&](const Tile& t) {
      return batch_ * ((m + t.m - 1) / t.m) * ((n + t.n - 1) / t.n);
    };
    const auto allowed = [&](const Tile& t) {
      return t.threads() <= module_.limits.invocations &&
             t.bytes() <= static_cast<std::int64_t>(module_.limits.workgroup_bytes);
    };
    constexpr Tile kLarge{128, 128, 16, 8, 8};
    if (m >= 128 && n >= 128 && workgroups(kLarge) >= 256 && allowed(kLarge)) return kLarge;
    constexpr Tile kMiddle{64, 64, 16, 4, 4};
    if (m > 32 && n > 32 && workgroups(kMiddle) >= 128 && allowed(kMiddle)) return kMiddle;
    Tile small{32, 32, 16, 4, 4};
    if (m <= 16) small = {16, 64, 16, 4, 4};
    if (n <= 16) small = {64, 16, 16, 4, 4};
    if (!allowed(small)) return std::nullopt;

    // More threads as long as the device has room for them and each has a few steps left.
    constexpr std::int64_t kManyThreads = 1 << 16, kMostThreads = 512, kFewSteps = 4;
    for (Tile sliced = small;; small = sliced) {
      sliced.slices *= 2;
      const bool busy = workgroups(small) * small.threads() >= kManyThreads;
      const bool short_k = k < kFewSteps * sliced.slices * sliced.k;
      if (busy || short_k || sliced.threads() > kMostThreads || !allowed(sliced)) return small;
    }
  }

  /// The parameters `i0: u32, i1: u32` of functions that know the batch.
  std::string batch_parameters() const {
    std::string text;
    for (int v = 0; v < m_; ++v) {
      if (extent(v) > 1) text += "i" + std::to_string(v) + ": u32, ";
    }
    return text;
  }
  std::string batch_arguments() const {
    std::string text;
    for (int v = 0; v < m_; ++v) {
      if (extent(v) > 1) text += "i" + std::to_string(v) + ", ";
    }
    return text;
  }

  // ---- functions

  /// `fn lhs(i0: u32, m: u32, k: u32) -> f32`: an element of an operand, 0 outside of it.
  void print_load(const Operand& operand) {
    Writer& f = module_.functions;
    const std::string along = operand.along == m_ ? "m" : "n";
    if (!f.empty()) f.blank();
    f.open("fn " + std::string(operand.name) + "(" + batch_parameters() + along +
               ": u32, k: u32) -> f32",
           operand.load->node);
    std::vector<std::string> outside;
    if (ragged(operand.along, operand.size))
      outside.push_back(along + " >= " + unsigned_text(extent(operand.along)));
    if (ragged(k_, tile_.k * tile_.slices)) outside.push_back("k >= " + unsigned_text(extent(k_)));
    if (!outside.empty()) {
      f.open("if (" + outside[0] + (outside.size() > 1 ? " || " + outside[1] : "") + ")");
      f.line("return 0.0;");
      f.close();
    }
    Body body(module_, f);
    body.set_var(operand.along, along);
    body.set_var(k_, "k");
    f.line("return " + body.element(operand.load->binding, operand.load->index) + ";",
           operand.load->node);
    f.close();
  }

  /// `fn finish(i0: u32, m: u32, n: u32, acc: f32)`: what becomes of an element of the product.
  void print_finish() {
    Writer& f = module_.functions;
    f.blank();
    f.open("fn finish(" + batch_parameters() + "m: u32, n: u32, acc: f32)");
    std::vector<std::string> outside;
    if (ragged(m_, tile_.m)) outside.push_back("m >= " + unsigned_text(extent(m_)));
    if (ragged(n_, tile_.n)) outside.push_back("n >= " + unsigned_text(extent(n_)));
    if (!outside.empty()) {
      f.open("if (" + outside[0] + (outside.size() > 1 ? " || " + outside[1] : "") + ")");
      f.line("return;");
      f.close();
    }
    Body body(module_, f);
    body.set_var(m_, "m");
    body.set_var(n_, "n");
    body.name(kernel_.matmul->acc, "acc");
    std::vector<ExprId> needed;
    for (const Store& s : kernel_.stores) {
      const std::vector<ExprId> ids = body.needs(s);
      needed.insert(needed.end(), ids.begin(), ids.end());
    }
    body.compute(needed);
    for (const Store& s : kernel_.stores) body.store(s);
    f.close();
  }

  // ---- the main function

  void print_main() {
    const NodeId node = expr(kernel_.matmul->acc).node;
    const std::int64_t m_tiles = (extent(m_) + tile_.m - 1) / tile_.m;
    const std::int64_t n_tiles = (extent(n_) + tile_.n - 1) / tile_.n;
    module_.share("lhs_tile", "vec4<f32>", tile_.slices * tile_.k * lhs_.row(), 16);
    module_.share("rhs_tile", "vec4<f32>", tile_.slices * tile_.k * rhs_.row(), 16);
    module_.workgroups(batch_ * m_tiles * n_tiles, static_cast<std::uint32_t>(tile_.threads()),
                       "tile");
    std::string m_tile;  // empty: there is one
    if (m_tiles > 1) {
      m_tile = "tile" + (n_tiles == 1 ? "" : " / " + unsigned_text(n_tiles));
      if (batch_ > 1) m_tile += " % " + unsigned_text(m_tiles);
    }
    out_.line("let m0 = " +
              (m_tile.empty() ? "0u" : "(" + m_tile + ") * " + unsigned_text(tile_.m)) + ";");
    out_.line("let n0 = " +
              (n_tiles == 1
                   ? "0u"
                   : "(tile % " + unsigned_text(n_tiles) + ") * " + unsigned_text(tile_.n)) +
              ";");
    if (batch_ > 1) {
      out_.line("let batch = tile / " + unsigned_text(m_tiles * n_tiles) + ";");
      Body(module_, out_).unravel("batch", 0, m_);
    }
    const std::int64_t across = tile_.n / tile_.columns;  // threads side by side
    const bool sliced = tile_.slices > 1;
    if (sliced) {
      out_.line("let slice = local / " + unsigned_text(tile_.slice_threads()) + ";");
      out_.line("let id = local % " + unsigned_text(tile_.slice_threads()) + ";");
      out_.line("let lhs_start = slice * " + unsigned_text(tile_.k * lhs_.row()) + ";");
      out_.line("let rhs_start = slice * " + unsigned_text(tile_.k * rhs_.row()) + ";");
    }
    out_.line("let x = " + id() + " % " + unsigned_text(across) + ";");
    out_.line("let y = " + id() + " / " + unsigned_text(across) + ";");
    for_rows([&](std::int64_t row) {
      for_quads(tile_.columns, [&](std::int64_t quad) {
        out_.line("var " + acc(row, quad) + ": vec4<f32>;", node);
      });
    });
    const std::int64_t stride = tile_.k * tile_.slices;
    out_.open("for (var step = 0u; step < " + unsigned_text((extent(k_) + stride - 1) / stride) +
                  "; step++)",
              node);
    out_.line("let k0 = step * " + unsigned_text(stride) +
              (sliced ? " + slice * " + unsigned_text(tile_.k) : "") + ";");
    print_fill(lhs_, "m0");
    print_fill(rhs_, "n0");
    out_.line("workgroupBarrier();");
    print_multiply(node);
    out_.line("workgroupBarrier();");
    out_.close();
    if (sliced) print_join(node);
    for_rows([&](std::int64_t row) {
      for_quads(tile_.columns, [&](std::int64_t quad) {
        for (int c = 0; c < 4; ++c) {
          const std::string m = "m0 + " + place("y", tile_.m, tile_.rows, row / 4, row % 4);
          const std::string n = "n0 + " + place("x", tile_.n, tile_.columns, quad, c);
          out_.line("finish(" + batch_arguments() + m + ", " + n + ", " + acc(row, quad) + "[" +
                    std::to_string(c) + "]);");
        }
      });
    });
  }

  template <class Body>
  void for_rows(Body body) const {
    for (std::int64_t row = 0; row < tile_.rows; ++row) body(row);
  }
  template <class Body>
  static void for_quads(std::int64_t size, Body body) {
    for (std::int64_t quad = 0; quad < size / 4; ++quad) body(quad);
  }

  static std::string acc(std::int64_t row, std::int64_t quad) {
    return "acc" + std::to_string(row) + "_" + std::to_string(quad);
  }

  /// Where element c of a thread's quad lies along its axis. A thread's quads are a part of the
  /// tile apart, so that neighbouring threads read neighbouring quads.
  static std::string place(const std::string& thread, std::int64_t tile, std::int64_t own,
                           std::int64_t quad, std::int64_t c) {
    return "4u * " + thread + plus(quad * (tile / (own / 4)) + c);
  }

  /// This thread's number in its slice.
  std::string id() const { return tile_.slices > 1 ? "id" : "local"; }
  /// `lhs_start + `, where a slice's tile begins.
  std::string start_of(const Operand& operand) const {
    return tile_.slices > 1 ? std::string(operand.name) + "_start + " : "";
  }

  /// The first slice adds what the others have accumulated, in order; they are done.
  void print_join(NodeId node) {
    for_rows([&](std::int64_t row) {
      for_quads(tile_.columns, [&](std::int64_t quad) {
        out_.line("lhs_tile[local] = " + acc(row, quad) + ";", node);
        out_.line("workgroupBarrier();");
        out_.open("for (var other = 1u; other < " + unsigned_text(tile_.slices) + "; other++)");
        out_.line(acc(row, quad) + " += lhs_tile[id + other * " +
                      unsigned_text(tile_.slice_threads()) + "];",
                  node);
        out_.close();
        out_.line("workgroupBarrier();");
      });
    });
    out_.open("if (slice > 0u)");
    out_.line("return;");
    out_.close();
  }

  /// Brings this step's part of an operand to its tile, a few quads a thread.
  void print_fill(const Operand& operand, const std::string& start) {
    const std::int64_t across = operand.size / 4, quads = across * tile_.k,
                       threads = tile_.slice_threads();
    const std::string tile = std::string(operand.name) + "_tile";
    const std::int64_t rounds = (quads + threads - 1) / threads;
    if (rounds > 1) {
      out_.open("for (var round = 0u; round < " + unsigned_text(rounds) + "; round++)");
      out_.line("let q = " + id() + " + round * " + unsigned_text(threads) + ";");
    } else {
      out_.open(quads < threads ? "if (" + id() + " < " + unsigned_text(quads) + ")" : "");
      out_.line("let q = " + id() + ";");
    }
    if (operand.k_contiguous) {
      out_.line("let k = q % " + unsigned_text(tile_.k) + ";");
      out_.line("let quad = q / " + unsigned_text(tile_.k) + ";");
    } else {
      out_.line("let quad = q % " + unsigned_text(across) + ";");
      out_.line("let k = q / " + unsigned_text(across) + ";");
    }
    out_.line("let at = " + start + " + 4u * quad;");
    std::string values;
    for (int c = 0; c < 4; ++c) {
      values += (c ? ", " : "") + std::string(operand.name) + "(" + batch_arguments() + "at" +
                plus(c) + ", k0 + k)";
    }
    out_.line(tile + "[" + start_of(operand) + "k * " + unsigned_text(operand.row()) +
                  " + quad] = vec4<f32>(" + values + ");",
              operand.load->node);
    out_.close();
  }

  void print_multiply(NodeId node) {
    constexpr std::int64_t kUnroll = 4;
    const std::int64_t rounds = tile_.k / kUnroll;
    out_.open("for (var part = 0u; part < " + unsigned_text(rounds) + "; part++)", node);
    out_.line("let lhs_at = " + start_of(lhs_) + "part * " + unsigned_text(kUnroll * lhs_.row()) +
              " + y;");
    out_.line("let rhs_at = " + start_of(rhs_) + "part * " + unsigned_text(kUnroll * rhs_.row()) +
              " + x;");
    for (std::int64_t k = 0; k < kUnroll; ++k) {
      const std::string suffix = std::to_string(k) + "_";
      for_quads(tile_.rows, [&](std::int64_t quad) {
        out_.line("let a" + suffix + std::to_string(quad) + " = lhs_tile[lhs_at" +
                      plus(k * lhs_.row() + quad * (tile_.m / tile_.rows)) + "];",
                  node);
      });
      for_quads(tile_.columns, [&](std::int64_t quad) {
        out_.line("let b" + suffix + std::to_string(quad) + " = rhs_tile[rhs_at" +
                      plus(k * rhs_.row() + quad * (tile_.n / tile_.columns)) + "];",
                  node);
      });
      for_rows([&](std::int64_t row) {
        for_quads(tile_.columns, [&](std::int64_t quad) {
          out_.line(acc(row, quad) + " = fma(vec4<f32>(a" + suffix + std::to_string(row / 4) + "[" +
                        std::to_string(row % 4) + "]), b" + suffix + std::to_string(quad) + ", " +
                        acc(row, quad) + ");",
                    node);
        });
      });
    }
    out_.close();
  }

  Module& module_;
  const Kernel& kernel_;
  Writer& out_;
  int m_ = 0, n_ = 0, k_ = 0;
  std::int64_t batch_ = 1;
  Tile tile_{};
  Operand lhs_{}, rhs_{};
};

}  // namespace

bool emit_matmul(Module& module) { return MatMulPrinter(module).print(); }

}  // namespace tensorgrad::wgsl
