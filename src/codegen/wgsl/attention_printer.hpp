// What the attention kernels are made of: products of tiles that go through workgroup memory, one
// after the other, with the results in registers. Operands lie in workgroup memory as quads, four
// rows or columns at one place of the contraction, as in matmul.cpp.
#pragma once

#include <functional>
#include <string>

#include "codegen/wgsl/attention_tile.hpp"
#include "codegen/wgsl/module.hpp"

namespace tensorgrad::wgsl {

/// Prints Attention, AttentionGradQ or AttentionGradKV.
void print_attention(Module& module, const AttentionTile& tile);
void print_attention_forward(Module& module, const AttentionTile& tile);
void print_attention_grad_q(Module& module, const AttentionTile& tile);
void print_attention_grad_kv(Module& module, const AttentionTile& tile);

/// A matrix in the registers of the workgroup: a thread's part is vectors of four columns,
/// `name<row>_<quad>`.
struct Fragment {
  std::string name;
  std::int64_t columns;  ///< of a thread

  std::string at(std::int64_t row, std::int64_t quad) const {
    return name + std::to_string(row) + "_" + std::to_string(quad);
  }
};

/// An operand [batch, heads, rows, width] as a function `load_<name>(<name>_head, row, quad)`: four
/// neighbours of a row, with zeros outside of the operand.
struct RowSource {
  std::string name;
  const StridedOperand* operand;
};

class AttentionPrinter {
 public:
  AttentionPrinter(Module& module, const AttentionTile& tile);

 protected:
  const SpecialHint& hint() const { return *module_.kernel.special; }
  NodeId node() const { return module_.kernel.nodes.front(); }
  Fragment scores(const std::string& name) const { return {name, tile_.columns}; }
  /// A result of `width` columns.
  Fragment result(const std::string& name, std::int64_t width) const;

  /// Decides the grid: a workgroup for each tile of `extent` rows of each of `heads` heads. Prints
  /// `b`, `head`, `first` (the tile's first row), `x` and `y`. With `last_first`, tiles are taken
  /// from the last on: what takes longest should begin first.
  void print_grid(std::int64_t heads, std::int64_t extent, bool last_first);
  /// Prints the function that loads an operand, which is asked for multiples of `tile` rows.
  RowSource source(const std::string& name, const StridedOperand& operand, std::int64_t tile);
  /// `let q_head = …;`: where head `head` begins.
  void print_head(const std::string& name, const StridedOperand& operand, const std::string& head);
  /// Opens the loop over the tiles of keys that rows of queries see, `key` being a tile's first.
  void print_key_loop();
  /// Prints, for tiles where some row does not see some key, `body(row, quad, seen)` for all
  /// scores.
  void print_seen(const std::function<void(std::int64_t, std::int64_t, const std::string&)>& body);
  /// Prints `attention_weight`: eˣ of four numbers.
  void print_weight();

  /// Four zeros each.
  void declare(const Fragment& fragment);
  /// `fragment = expression(row, quad);`
  void assign(const Fragment& fragment,
              const std::function<std::string(std::int64_t, std::int64_t)>& expression);
  /// acc += a·bᵀ: rows of `a` from `a_first`, rows of `b` from `b_first`.
  void multiply_rows(const Fragment& acc, const RowSource& a, const std::string& a_first,
                     const RowSource& b, const std::string& b_first);
  /// acc += scores·b: rows of `b` from `b_first`.
  void multiply_scores(const Fragment& acc, const Fragment& scores, const RowSource& b,
                       const std::string& b_first);
  /// `name<i>` has a value for each of four rows in each thread; after this the threads of a row
  /// all have `op(a, b)` of their values.
  void fold_rows(const std::string& name,
                 const std::function<std::string(const std::string&, const std::string&)>& op);
  /// Puts a result times `factor(row)` where it belongs.
  void store(const std::string& name, const StridedOperand& output, const Fragment& fragment,
             const std::function<std::string(std::int64_t)>& factor);

  /// `4u * y + 65u`: where row `row` of a thread is in the tile.
  std::string row_of(std::int64_t row) const;
  /// Where the four columns of a quad of scores are in the tile, a vec4<u32>.
  std::string columns_of(std::int64_t quad) const;

  Module& module_;
  Writer& out_;
  const AttentionTile tile_;
  const AttentionShape shape_;

 private:
  void fill_turned(const RowSource& source, const std::string& first, std::int64_t count,
                   const AttentionTile::Parts& parts, std::int64_t start, bool dealt);
  void fill_straight(const RowSource& source, const std::string& first, std::int64_t count,
                     std::int64_t quads, std::int64_t start);
  void multiply(const Fragment& acc, std::int64_t depth, std::int64_t lhs_stride,
                std::int64_t rhs_stride);
  void deal(std::int64_t items, const std::function<void()>& body);
};

}  // namespace tensorgrad::wgsl
