// A kernel over variables that suit its index maps. A variable that maps divide (i / 12, i % 12) is
// cut in two, so that the quotients vanish; variables that all maps treat as one are joined. What
// is left is nearly always affine.
#pragma once

#include <vector>

#include "tensorgrad/kernel.hpp"

namespace tensorgrad {

/// More variables than this are never made.
inline constexpr int kMaxDims = 16;

struct Normalised {
  Kernel kernel;  ///< the same meaning, without hints
  std::vector<std::vector<int>>
      parts;  ///< with keep_vars: the new variables of each old one, slowest first
};

struct NormaliseOptions {
  /// Only pieces of one variable may be joined again, so that a range of it can still be named.
  bool keep_vars = false;
};

Normalised normalise(const Kernel& kernel, const NormaliseOptions& options = {});

/// Calls `fn(Index&)` for every index map of a kernel.
template <class K, class Fn>
void for_each_index(K& kernel, Fn fn) {
  for (auto& e : kernel.exprs) {
    fn(e.index);
    for (auto& g : e.guards) fn(g.index);
  }
  for (auto& s : kernel.stores) fn(s.index);
}

}  // namespace tensorgrad
