// Matrix products in tiles. A workgroup computes a tile of BM x BN elements of the output; in each
// step it brings BM x BK of the left and BK x BN of the right operand to workgroup memory, and each
// thread accumulates TM x TN elements in registers. While a step is multiplied, the next one's
// operands are already on their way from memory to registers. The rest of the kernel, the epilogue,
// is a function that is called for each quad of elements.
//
// Tiles lie in workgroup memory as quads, four elements along m or n at one k, so that a thread
// reads its operands as vectors; a thread writes whole quads, because two threads may not write
// parts of one vector. Memory is read by quads too where strides allow: along m or n, or along k,
// when a thread takes four rows and turns the 4 x 4 block. Any other strides will do: then quads
// are made of single elements, dealt to threads along the axis that is contiguous; and so are the
// results, where rows are no multiple of four.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "codegen/wgsl/body.hpp"
#include "codegen/wgsl/generators.hpp"
#include "codegen/wgsl/matmul_tile.hpp"
#include "codegen/wgsl/quads.hpp"

namespace tensorgrad::wgsl {

namespace {

/// How an operand comes from memory.
enum class Fetch : std::uint8_t {
  Elements,  ///< four single elements make a quad of the tile
  Quads,     ///< a quad along m or n is a quad of the tile
  Blocks,    ///< four quads along k, turned, are four quads of the tile
};

/// One operand: a load whose index is a sum of multiples of the variables.
struct Operand {
  const char* name = "";
  const Expr* load = nullptr;
  int along = 0;              // the variable that is not k: m or n
  std::int64_t size = 0;      // BM or BN
  bool k_contiguous = false;  // k steps by 1 through memory
  Fetch fetch = Fetch::Elements;
  bool dealt = false;  // a quad of the tile is one of each quarter, and not four neighbours

  /// Quads in a row of the tile. One more than needed, where threads write down a column: then they
  /// do not all meet in one bank.
  std::int64_t row() const { return size / 4 + (k_contiguous ? 1 : 0); }
  std::int64_t quads() const { return size / 4; }
  /// Along m or n: from one element of a quad to the next, and where a quad begins.
  std::int64_t spacing() const { return dealt ? quads() : 1; }
  std::string begin(const std::string& quad) const { return (dealt ? "" : "4u * ") + quad; }
  /// How far a step along a variable goes through memory: in quads or in elements.
  std::int64_t stride(int var) const {
    return load->index.stride(var) / (fetch == Fetch::Elements ? 1 : 4);
  }
  /// Quads that a thread holds of a piece.
  std::int64_t registers() const { return fetch == Fetch::Blocks ? 4 : 1; }
  /// Pieces of the tile that threads fetch.
  std::int64_t pieces(std::int64_t k) const {
    return fetch == Fetch::Blocks ? quads() * (k / 4) : quads() * k;
  }
};

std::string all_of(const std::vector<std::string>& conditions) {
  std::string text;
  for (const std::string& c : conditions) text += (text.empty() ? "" : " && ") + c;
  return text;
}

class MatMulPrinter {
 public:
  explicit MatMulPrinter(Module& module)
      : module_(module), kernel_(module.kernel), out_(module.main) {}

  bool print(const MatMulTile* wanted) {
    if (!fits()) return false;
    m_ = kernel_.outer_count - 2, n_ = kernel_.outer_count - 1, k_ = kernel_.outer_count;
    for (int v = 0; v < m_; ++v) batch_ *= extent(v);
    const std::optional<MatMulTile> tile =
        wanted ? *wanted
               : choose_tile({batch_, extent(m_), extent(n_), extent(k_), heavy_epilogue(),
                              in_blocks(expr(kernel_.matmul->rhs))},
                             module_.limits);
    if (!tile) return false;
    tile_ = *tile;
    lhs_ = operand("lhs", kernel_.matmul->lhs, m_, tile_.m);
    rhs_ = operand("rhs", kernel_.matmul->rhs, n_, tile_.n);
    use_quads();
    // With an address for each element, registers would run out.
    if (!wanted && lhs_.fetch == Fetch::Elements && lhs_.k_contiguous)
      tile_.unroll = std::min<std::int64_t>(tile_.unroll, 8);
    // Neighbouring threads then read, and write, neighbouring elements.
    lhs_.dealt = lhs_.fetch == Fetch::Elements && lhs_.load->index.stride(m_) == 1;
    rhs_.dealt = extent(n_) % 4 != 0;
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

  /// Whether what becomes of an element takes many instructions.
  bool heavy_epilogue() const {
    return std::any_of(kernel_.exprs.begin(), kernel_.exprs.end(), [](const Expr& e) {
      if (e.kind != Expr::Kind::Op) return false;
      switch (e.op) {
        case OpKind::Exp:
        case OpKind::Expm1:
        case OpKind::Log:
        case OpKind::Log1p:
        case OpKind::Sin:
        case OpKind::Cos:
        case OpKind::Tanh:
        case OpKind::Erf:
        case OpKind::Pow:
        case OpKind::Sigmoid:
        case OpKind::Softplus:
        case OpKind::Random:
          return true;
        default:
          return false;
      }
    });
  }

  // ---- quads

  /// Whether quads along k can be read.
  bool in_blocks(const Expr& load) const {
    return load.index.stride(k_) == 1 && Quads(module_, k_).starts(load.binding, load.index);
  }

  Operand operand(const char* name, ExprId id, int along, std::int64_t size) const {
    const Expr& load = expr(id);
    Operand o{name, &load, along, size, load.index.stride(k_) == 1, Fetch::Elements};
    if (tile_.k % 4 == 0 && in_blocks(load)) {
      o.fetch = Fetch::Blocks;
    } else if (Quads(module_, along).starts(load.binding, load.index)) {
      o.fetch = Fetch::Quads;
    }
    return o;
  }

  void use_quads() {
    Quads(module_, n_).claim([&](ExprId id) -> std::optional<bool> {
      if (id == kernel_.matmul->lhs) return lhs_.fetch != Fetch::Elements;
      if (id == kernel_.matmul->rhs) return rhs_.fetch != Fetch::Elements;
      return std::nullopt;
    });
    for (Operand* o : {&lhs_, &rhs_}) {
      if (!module_.has_quads(o->load->binding)) o->fetch = Fetch::Elements;
    }
  }

  // ---- the epilogue

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

  /// `fn finish(i0: u32, m: u32, quad: u32, acc: vec4<f32>)`: what becomes of a quad of the
  /// product; where quads are dealt it is `n`, the place of the first.
  void print_finish() {
    Writer& f = module_.functions;
    print_gather(f);
    f.open("fn finish(" + batch_parameters() + "m: u32, " + (rhs_.dealt ? "n" : "quad") +
           ": u32, acc: vec4<f32>" + (gathered_.empty() ? "" : ", gathered: Gathered") + ")");
    if (const std::string outside = this->outside(); !outside.empty()) {
      f.open("if (" + outside + ")");
      f.line("return;");
      f.close();
    }
    if (!rhs_.dealt) f.line("let n = 4u * quad;");
    const auto place = [&](Body& body, int lane) {
      body.set_var(m_, "m");
      if (lane < 0) return body.set_var(n_, "quad");
      body.set_var(n_, lane == 0 ? "n" : "(n" + plus(lane * rhs_.spacing()) + ")");
      body.name(kernel_.matmul->acc, "acc[" + std::to_string(lane) + "]");
    };
    const auto exists = [&](int lane) {
      return "n" + plus(lane * rhs_.spacing()) + " < " + unsigned_text(extent(n_));
    };
    Quads quads(module_, n_);
    if (rhs_.dealt) {
      quads.print(f, place, exists);
    } else {
      std::map<ExprId, std::string> known;
      for (ExprId id : gathered_) known[id] = "gathered.quad" + std::to_string(id);
      quads.print(f, place, {}, known);
    }
    f.close();
  }

  /// `fn gather(i0: u32, m: u32, quad: u32) -> Gathered`: what the epilogue reads for an element of
  /// its own. It is asked for several elements before any is written, because a result may take the
  /// place of what is read, and then the compiler waits for each.
  void print_gather(Writer& f) {
    if (rhs_.dealt) return;
    for (ExprId id = 0; id < static_cast<ExprId>(kernel_.exprs.size()); ++id) {
      const Expr& e = expr(id);
      if (e.kind == Expr::Kind::Load && !e.inner && module_.has_quads(e.binding) &&
          e.index.uses_var(m_) && e.index.uses_var(n_))
        gathered_.push_back(id);
    }
    if (gathered_.empty()) return;
    f.open("struct Gathered");
    for (ExprId id : gathered_) f.line("quad" + std::to_string(id) + ": vec4<f32>,");
    f.close();
    f.blank();
    f.open("fn gather(" + batch_parameters() + "m: u32, quad: u32) -> Gathered");
    f.line("var gathered: Gathered;");
    const std::string outside = this->outside();
    if (!outside.empty()) f.open("if (!(" + outside + "))");
    Quads quads(module_, n_);
    Body body(module_, f);
    body.set_var(m_, "m");
    body.set_var(n_, "quad");
    for (ExprId id : gathered_) {
      f.line("gathered.quad" + std::to_string(id) + " = " +
                 quads.element(body, expr(id).binding, expr(id).index) + ";",
             expr(id).node);
    }
    if (!outside.empty()) f.close();
    f.line("return gathered;");
    f.close();
    f.blank();
  }

  /// The condition under which a quad of the product does not exist, or nothing.
  std::string outside() const {
    std::string text;
    if (ragged(m_, tile_.m)) text = "m >= " + unsigned_text(extent(m_));
    if (ragged(n_, tile_.n) && !rhs_.dealt)
      text += (text.empty() ? "quad >= " : " || quad >= ") + unsigned_text(extent(n_) / 4);
    return text;
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
    print_places(lhs_, "m0");
    print_places(rhs_, "n0");
    const std::int64_t stride = tile_.k * tile_.slices, steps = (extent(k_) + stride - 1) / stride;
    out_.line("var k0 = " + std::string(sliced ? "slice * " + unsigned_text(tile_.k) : "0u") + ";");
    print_fetch(lhs_);
    print_fetch(rhs_);
    out_.open("for (var step = 0u; step < " + unsigned_text(steps) + "; step++)", node);
    print_put(lhs_);
    print_put(rhs_);
    out_.line("workgroupBarrier();");
    if (steps > 1) {
      out_.open("if (step < " + unsigned_text(steps - 1) + ")");
      out_.line("k0 += " + unsigned_text(stride) + ";");
      print_advance(lhs_);
      print_advance(rhs_);
      print_fetch(lhs_);
      print_fetch(rhs_);
      out_.close();
    }
    print_multiply(node);
    out_.line("workgroupBarrier();");
    out_.close();
    if (sliced) print_join(node);
    print_finishes();
  }

  void print_finishes() {
    const auto place = [&](std::int64_t row, std::int64_t quad) {
      const std::int64_t down = row / 4 * (tile_.m / tile_.rows),
                         right = quad * (tile_.n / tile_.columns);
      const std::string m =
          "m0 + " + lhs_.begin("y") + plus((lhs_.dealt ? 1 : 4) * down + row % 4 * lhs_.spacing());
      const std::string at = (rhs_.dealt ? "n0 + x" : "n0 / 4u + x") + plus(right);
      return batch_arguments() + m + ", " + at;
    };
    // Four rows at a time, so that registers suffice.
    for (std::int64_t first = 0; first < tile_.rows; first += 4) {
      const auto for_four = [&](const std::function<void(std::int64_t, std::int64_t)>& fn) {
        for (std::int64_t row = first; row < first + 4; ++row)
          for_quads(tile_.columns, [&](std::int64_t quad) { fn(row, quad); });
      };
      const auto name = [](std::int64_t row, std::int64_t quad) {
        return "gathered" + std::to_string(row) + "_" + std::to_string(quad);
      };
      if (!gathered_.empty()) {
        for_four([&](std::int64_t row, std::int64_t quad) {
          out_.line("let " + name(row, quad) + " = gather(" + place(row, quad) + ");");
        });
      }
      for_four([&](std::int64_t row, std::int64_t quad) {
        out_.line("finish(" + place(row, quad) + ", " + acc(row, quad) +
                  (gathered_.empty() ? "" : ", " + name(row, quad)) + ");");
      });
    }
  }

  template <class Fn>
  void for_rows(Fn fn) const {
    for (std::int64_t row = 0; row < tile_.rows; ++row) fn(row);
  }
  template <class Fn>
  static void for_quads(std::int64_t size, Fn fn) {
    for (std::int64_t quad = 0; quad < size / 4; ++quad) fn(quad);
  }

  static std::string acc(std::int64_t row, std::int64_t quad) {
    return "acc" + std::to_string(row) + "_" + std::to_string(quad);
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

  // ---- from memory to the tiles

  /// Calls fn(suffix, last) for each piece that a thread fetches: `lhs0`, `lhs1`; `guard` is the
  /// condition under which the thread has it, or empty.
  template <class Fn>
  void for_pieces(const Operand& o, Fn fn) const {
    const std::int64_t pieces = o.pieces(tile_.k), threads = tile_.slice_threads();
    for (std::int64_t round = 0; round * threads < pieces; ++round) {
      const std::string name = o.name + std::to_string(round);
      const bool all = (round + 1) * threads <= pieces;
      fn(round, name, all ? "" : name + "_piece < " + unsigned_text(pieces));
    }
  }

  /// A piece's quad along m or n, its k, and where in memory it is.
  void print_places(const Operand& o, const std::string& start) {
    const std::int64_t threads = tile_.slice_threads();
    const bool blocks = o.fetch == Fetch::Blocks;
    const std::int64_t ks = blocks ? tile_.k / 4 : tile_.k;
    // Blocks may be fewer than threads: the right operand's then go to the last threads first.
    const std::string first = &o == &rhs_ && o.pieces(tile_.k) < threads
                                  ? unsigned_text(threads - 1) + " - " + id()
                                  : id();
    for_pieces(o, [&](std::int64_t round, const std::string& name, const std::string&) {
      out_.line("let " + name + "_piece = " + first + plus(round * threads) + ";");
      const bool k_first = o.k_contiguous;
      const std::int64_t inner = k_first ? ks : o.quads();
      const std::string low = name + "_piece % " + unsigned_text(inner),
                        high = name + "_piece / " + unsigned_text(inner);
      out_.line("let " + name + "_quad = " + (k_first ? high : low) + ";");
      out_.line("let " + name + "_k = " + (blocks ? "4u * (" : "") + (k_first ? low : high) +
                (blocks ? ")" : "") + ";");
      for (std::int64_t r = 0; r < o.registers(); ++r)
        out_.line("var " + name + "_" + std::to_string(r) + ": vec4<f32>;", o.load->node);
      // Where the piece is at k0 = 0 (plus the slice's start): in quads or in elements.
      Body body(module_, out_);
      const std::string k =
          name + "_k" + (tile_.slices > 1 ? " + slice * " + unsigned_text(tile_.k) : "");
      // Beyond the operand's end the last is taken again: it makes results that nobody stores.
      const bool clamped = ragged(o.along, o.size);
      std::string at;
      if (o.fetch == Fetch::Quads) {
        const std::string quad = name + "_quad", first_quad = start + " / 4u";
        const std::string last = unsigned_text(extent(o.along) / 4 - 1) + " - " + first_quad;
        body.set_var(o.along, "(" + first_quad + " + " +
                                  (clamped ? "min(" + quad + ", " + last + ")" : quad) + ")");
        body.set_var(k_, "(" + k + ")");
        at = body.index(Quads(module_, o.along).number(origin(o)));
      } else {
        body.set_var(o.along,
                     clamped ? start : "(" + start + " + " + o.begin(name + "_quad") + ")");
        body.set_var(k_, blocks ? "((" + k + ") / 4u)" : "(" + k + ")");
        at = body.index(blocks ? Quads(module_, k_).number(origin(o)) : origin(o));
        for (int c = 0; c < 4 && clamped; ++c) {
          out_.line("let " + name + "_by" + std::to_string(c) + " = min(" +
                    o.begin(name + "_quad") + plus(c * o.spacing()) + ", " +
                    unsigned_text(extent(o.along) - 1) + " - " + start + ") * " +
                    unsigned_text(std::abs(o.stride(o.along))) + ";");
        }
      }
      out_.line("var " + name + "_at = " + at + ";");
    });
  }
  Index origin(const Operand& o) const {
    return o.load->index + module_.array(o.load->binding).start;
  }

  /// Moves on to the next step.
  void print_advance(const Operand& o) {
    const std::int64_t by =
        o.load->index.stride(k_) * tile_.k * tile_.slices / (o.fetch == Fetch::Elements ? 1 : 4);
    for_pieces(o, [&](std::int64_t, const std::string& name, const std::string&) {
      if (by < 0) {
        out_.line(name + "_at -= " + unsigned_text(-by) + ";");
      } else if (by > 0) {
        out_.line(name + "_at += " + unsigned_text(by) + ";");
      }
    });
  }

  /// Brings this thread's pieces from memory to registers, 0 outside of the operand.
  void print_fetch(const Operand& o) {
    const std::string array = module_.array(o.load->binding).array;
    const std::int64_t step = o.stride(o.along);
    // Element or row c of a piece.
    const auto value = [&](const std::string& name, int c) {
      std::string by = ragged(o.along, o.size) ? name + "_by" + std::to_string(c)
                                               : unsigned_text(c * o.spacing() * std::abs(step));
      if (o.fetch == Fetch::Quads || by == "0u") return array + "[" + name + "_at]";
      return array + "[" + name + "_at" + (step < 0 ? " - " : " + ") + by + "]";
    };
    for_pieces(o, [&](std::int64_t, const std::string& name, const std::string& has) {
      std::vector<std::string> inside;
      if (!has.empty()) inside.push_back(has);
      if (ragged(k_, tile_.k * tile_.slices))
        inside.push_back("k0 + " + name + "_k < " + unsigned_text(extent(k_)));
      std::vector<std::string> lines;
      if (o.fetch == Fetch::Elements) {
        for (int c = 0; c < 4; ++c)
          lines.push_back("_0[" + std::to_string(c) + "] = " + value(name, c));
      } else {
        for (int c = 0; c < (o.fetch == Fetch::Blocks ? 4 : 1); ++c)
          lines.push_back("_" + std::to_string(c) + " = " + value(name, c));
      }
      if (!inside.empty()) {
        for (std::int64_t c = 0; c < o.registers(); ++c)
          out_.line(name + "_" + std::to_string(c) + " = vec4<f32>();", o.load->node);
        out_.open("if (" + all_of(inside) + ")");
      }
      for (const std::string& line : lines) out_.line(name + line + ";", o.load->node);
      if (!inside.empty()) out_.close();
    });
  }

  /// From registers to the tile.
  void print_put(const Operand& o) {
    const std::string tile = std::string(o.name) + "_tile";
    for_pieces(o, [&](std::int64_t, const std::string& name, const std::string& has) {
      if (!has.empty()) out_.open("if (" + has + ")");
      const auto to = [&](std::int64_t c) {
        return tile + "[" + start_of(o) + "(" + name + "_k" + plus(c) + ") * " +
               unsigned_text(o.row()) + " + " + name + "_quad]";
      };
      if (o.fetch == Fetch::Blocks) {
        for (int c = 0; c < 4; ++c) {
          std::string values;
          for (int r = 0; r < 4; ++r) {
            values +=
                (r ? ", " : "") + name + "_" + std::to_string(r) + "[" + std::to_string(c) + "]";
          }
          out_.line(to(c) + " = vec4<f32>(" + values + ");", o.load->node);
        }
      } else {
        out_.line(to(0) + " = " + name + "_0;", o.load->node);
      }
      if (!has.empty()) out_.close();
    });
  }

  void print_multiply(NodeId node) {
    const std::int64_t unroll = std::min(tile_.unroll, tile_.k), rounds = tile_.k / unroll;
    if (rounds > 1) {
      out_.open("for (var part = 0u; part < " + unsigned_text(rounds) + "; part++)", node);
    } else {
      out_.open("", node);
    }
    const auto start = [&](const Operand& o, const char* thread) {
      return start_of(o) + (rounds > 1 ? "part * " + unsigned_text(unroll * o.row()) + " + " : "") +
             thread;
    };
    out_.line("let lhs_from = " + start(lhs_, "y") + ";");
    out_.line("let rhs_from = " + start(rhs_, "x") + ";");
    for (std::int64_t k = 0; k < unroll; ++k) {
      const std::string suffix = std::to_string(k) + "_";
      for_quads(tile_.rows, [&](std::int64_t quad) {
        out_.line("let a" + suffix + std::to_string(quad) + " = lhs_tile[lhs_from" +
                      plus(k * lhs_.row() + quad * (tile_.m / tile_.rows)) + "];",
                  node);
      });
      for_quads(tile_.columns, [&](std::int64_t quad) {
        out_.line("let b" + suffix + std::to_string(quad) + " = rhs_tile[rhs_from" +
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
  MatMulTile tile_{};
  Operand lhs_{}, rhs_{};
  std::vector<ExprId> gathered_;  // what the epilogue loads before it stores anything
};

}  // namespace

bool emit_matmul(Module& module, const MatMulTile* tile) {
  return MatMulPrinter(module).print(tile);
}

}  // namespace tensorgrad::wgsl
