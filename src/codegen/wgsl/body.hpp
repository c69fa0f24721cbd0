// Expressions, index maps, guards and stores as statements: what all generators share.
//
// A Body knows how each iteration variable is written at the place it prints to, and which
// expressions already have a name there. Index arithmetic is in u32: sums and products wrap, so
// negative terms are fine as long as the whole is not negative where it is used.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/wgsl/module.hpp"

namespace tensorgrad::wgsl {

class Body {
 public:
  Body(Module& module, Writer& out);

  const Kernel& kernel() const { return module_.kernel; }
  const Expr& expr(ExprId id) const { return module_.kernel.exprs[static_cast<std::size_t>(id)]; }
  Writer& out() { return out_; }

  /// How variable `id` is written from now on.
  void set_var(int id, const std::string& text) { vars_[static_cast<std::size_t>(id)] = text; }
  /// `let i0 = point / 64u;` and so on: variables [first, end) from their linear position.
  void unravel(const std::string& linear, int first, int end);
  /// Ends the names of variables and expressions that are printed from now on: `load3_1`.
  void set_suffix(const std::string& suffix) { suffix_ = suffix; }

  /// An index that has a name already, and need not be computed anew.
  void alias(const Index& index, const std::string& name) { aliases_[index.to_string()] = name; }
  /// The linear position that `unravel` takes apart.
  Index linear(int first, int end) const;

  /// What an expression is called from now on.
  void name(ExprId id, const std::string& text) { names_[static_cast<std::size_t>(id)] = text; }
  bool known(ExprId id) const { return !names_[static_cast<std::size_t>(id)].empty(); }
  /// The names at this place, to come back to when a scope ends.
  std::vector<std::string> names() const { return names_; }
  void restore(std::vector<std::string> names) { names_ = std::move(names); }

  /// An index as a u32 expression that can stand in a sum.
  std::string index(const Index& index);
  /// Whether all guards hold, as a bool expression.
  std::string condition(const std::vector<Guard>& guards);
  /// A known expression's name, or a constant's literal.
  std::string value(ExprId id);

  /// Prints what these need, in order, as far as `wanted` says so.
  void compute(const std::vector<ExprId>& ids, const std::function<bool(const Expr&)>& wanted);
  void compute(const std::vector<ExprId>& ids) {
    compute(ids, [](const Expr&) { return true; });
  }

  /// What a store needs.
  std::vector<ExprId> needs(const Store& store) const;
  void store(const Store& store);

  /// `array[index]`, an element of one of the kernel's bindings.
  std::string element(int binding, const Index& index);

 private:
  void print(ExprId id);
  std::string operation(const Expr& e);
  bool falls(ExprId id) const;
  std::string atom(const IndexAtom& atom);

  Module& module_;
  Writer& out_;
  std::vector<std::string> vars_;
  std::vector<std::string> names_;
  std::map<std::string, std::string> aliases_;
  std::string suffix_;
};

/// `f32`, `i32`, `bool`: the type of a value, not of its storage.
const char* value_type(DType dtype);

/// A constant. Infinities and NaN are calls of the prelude.
std::string literal(double value, DType dtype, std::set<std::string>& prelude);

/// A name that says what an expression is: `exp7`, `load3`.
std::string name_of(const Kernel& kernel, ExprId id);

/// The expressions that an expression uses directly, data in indices included.
std::vector<ExprId> uses(const Expr& e);

}  // namespace tensorgrad::wgsl
