#include "codegen/wgsl/teams.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace tensorgrad::wgsl {

namespace {

std::int64_t floor_power(std::int64_t n) {
  return static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

std::int64_t ceil_power(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
}

int last_var(const Kernel& kernel, int first, int end) {
  for (int v = end - 1; v >= first; --v) {
    if (kernel.vars[static_cast<std::size_t>(v)].extent > 1) return v;
  }
  return -1;
}

/// How far an index moves in memory when a variable goes from 0 to 1.
std::int64_t step_of(const Index& index, int var) {
  if (var < 0) return 0;
  const auto at = [&](std::int64_t value) {
    return index.substitute([&](int v) { return Index(v == var ? value : 0); });
  };
  const Index difference = at(1) - at(0);
  return difference.is_constant() ? std::abs(difference.constant()) : 2;
}

/// How many different elements an index can name.
double elements_of(const Kernel& kernel, const Index& index) {
  double elements = 1;
  for (std::size_t v = 0; v < kernel.vars.size(); ++v) {
    if (index.uses_var(static_cast<int>(v))) elements *= static_cast<double>(kernel.vars[v].extent);
  }
  return elements;
}

/// Whether most of what is read and written lies along the rows, rather than across them.
bool lies_along_rows(const Kernel& kernel) {
  const int inner = last_var(kernel, kernel.outer_count, static_cast<int>(kernel.vars.size()));
  const int outer = last_var(kernel, 0, kernel.outer_count);
  double along = 0, across = 0;
  const auto weigh = [&](const Index& index) {
    const std::int64_t in_row = step_of(index, inner), between = step_of(index, outer);
    if (in_row == 1) along += elements_of(kernel, index);
    if (between == 1 && in_row != 1) across += elements_of(kernel, index);
  };
  for (const Expr& e : kernel.exprs) {
    if (e.kind == Expr::Kind::Load && e.inner) weigh(e.index);
  }
  for (const Store& s : kernel.stores) {
    if (s.inner) weigh(s.index);
  }
  return along >= across;
}

}  // namespace

Teams choose_teams(const Module& module) {
  constexpr std::int64_t kManyThreads = 1 << 17;  // enough for any device
  constexpr std::int64_t kSmallWorkgroup = 64;
  const std::int64_t rows = module.kernel.outer_size(), length = module.kernel.inner_size();
  // Few long rows take the largest workgroups there are, and so do very long ones: with fewer under
  // way at a time, what a pass reads is still in the cache when the next one does.
  const bool large = length >= 16384 || (rows <= 1024 && length >= 8192);
  const std::int64_t wanted = large ? 1024 : 256;
  const std::int64_t most = floor_power(std::min<std::int64_t>(wanted, module.limits.invocations));

  Teams teams;
  teams.along_row = lies_along_rows(module.kernel);
  if (teams.along_row) {
    teams.threads = length <= 4 ? 1 : std::min(most, floor_power(length));
    while (teams.threads > 1 && rows * teams.threads > kManyThreads &&
           length / teams.threads < 16) {
      teams.threads /= 2;
    }
    teams.rows = std::max<std::int64_t>(1, std::min(most, kSmallWorkgroup) / teams.threads);
  } else {
    // 16 rows side by side, if there are as many.
    const std::int64_t side = std::min({most, std::int64_t{16}, ceil_power(rows)});
    teams.threads = length <= 8 ? 1 : std::min(most / side, floor_power(length));
    while (teams.threads > 1 && rows * teams.threads > kManyThreads) teams.threads /= 2;
    teams.rows = std::max(side, std::min(most, kSmallWorkgroup) / teams.threads);
  }
  return teams;
}

}  // namespace tensorgrad::wgsl
