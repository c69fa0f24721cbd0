// Four neighbours at once: memory is read and written by vec4 where strides allow, and what is
// computed of the four is written out once for each.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "codegen/wgsl/body.hpp"

namespace tensorgrad::wgsl {

class Quads {
 public:
  /// Along variable `var`.
  Quads(Module& module, int var) : module_(module), var_(var) {}

  /// Whether an element index at multiples of four along the variable is the start of a quad.
  bool starts(int binding, const Index& index) const;
  /// The number of the quad, as a map in which the variable counts quads.
  Index number(const Index& index) const;
  /// The quad of an array of quads; `body` writes the variable as the number of a quad.
  std::string element(Body& body, int binding, const Index& index) const;

  /// Makes arrays of quads of those that everything in the kernel touches by quads. `by_quads` says
  /// so of loads that the caller knows better; without an answer of its own a load is asked by
  /// `starts`. Gives how many there are.
  int claim(const std::function<std::optional<bool>(ExprId)>& by_quads = {});

  /// What the stores need, four times, and the stores. `place` sets the variables of a body, the
  /// quad's number first (lane -1) and then those of each lane; `guard`, if given, is the condition
  /// under which a lane exists; `known` names quads that were loaded before.
  void print(Writer& out, const std::function<void(Body&, int lane)>& place,
             const std::function<std::string(int lane)>& guard = {},
             const std::map<ExprId, std::string>& known = {});

 private:
  const Expr& expr(ExprId id) const { return module_.kernel.exprs[static_cast<std::size_t>(id)]; }
  std::int64_t extent(int v) const {
    return module_.kernel.vars[static_cast<std::size_t>(v)].extent;
  }

  Module& module_;
  int var_;
};

}  // namespace tensorgrad::wgsl
