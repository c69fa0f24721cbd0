// Fewer iteration variables: a tensor of any rank that is walked in order is one line of elements.
// Saves the divisions that recover variables from a thread's number, and lets a batch of matrices
// that lie one below the other be one tall matrix.
#include <algorithm>

#include "codegen/normalise.hpp"
#include "codegen/wgsl/generators.hpp"

namespace tensorgrad::wgsl {

namespace {

/// Whether an index map sees variables a and b only as a·extent + b.
bool steps_as_one(const Index& index, int a, int b, std::int64_t extent) {
  if (index.stride(a) != index.stride(b) * extent) return false;
  return std::all_of(index.terms().begin(), index.terms().end(), [&](const Index::Term& t) {
    return !t.atom->arg || steps_as_one(*t.atom->arg, a, b, extent);
  });
}

}  // namespace

Kernel collapse(const Kernel& original) {
  Kernel kernel = original;
  const auto extent = [&](int v) -> std::int64_t& {
    return kernel.vars[static_cast<std::size_t>(v)].extent;
  };
  const auto may_merge = [&](int a, int b) {
    if (kernel.is_inner(a) != kernel.is_inner(b)) return false;
    if (kernel.matmul && b == kernel.outer_count - 1) return false;  // n stays apart from m
    if (kernel.scatter && (a == kernel.scatter->row_var || b == kernel.scatter->row_var))
      return false;
    return true;
  };
  const auto substitute = [&](const auto& replacement) {
    for_each_index(kernel, [&](Index& index) { index = index.substitute(replacement); });
  };

  for (int b = static_cast<int>(kernel.vars.size()) - 1; b > 0; --b) {
    if (extent(b) == 1) continue;
    for (int a = b - 1; a >= 0; --a) {
      if (extent(a) == 1) continue;
      if (!may_merge(a, b)) break;
      bool same = true;
      for_each_index(
          kernel, [&](const Index& index) { same = same && steps_as_one(index, a, b, extent(b)); });
      if (!same) break;
      extent(b) *= extent(a);
      extent(a) = 1;
      substitute([&](int v) { return Index::var(v, extent(v)); });
    }
  }

  // A batch of single rows that are multiplied by the same matrix is a matrix.
  if (kernel.matmul) {
    const int m = kernel.outer_count - 2;
    const Index& rhs = kernel.exprs[static_cast<std::size_t>(kernel.matmul->rhs)].index;
    for (int a = m - 1; a >= 0 && extent(m) == 1; --a) {
      if (extent(a) == 1) continue;
      if (rhs.uses_var(a)) break;
      extent(m) = extent(a);
      extent(a) = 1;
      substitute(
          [&](int v) { return v == a ? Index::var(m, extent(m)) : Index::var(v, extent(v)); });
    }
  }
  return kernel;
}

}  // namespace tensorgrad::wgsl
