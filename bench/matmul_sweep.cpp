// Tries every candidate tile on every class of matrix product that training meets, in one run, and
// prints a table from which codegen/wgsl/matmul_tile.cpp is filled.
//
//   bench_matmul_sweep [--chosen] [SHAPE...]
//
// A shape is 1024x1024x1024nn: M x N x K, operands as they are (n) or turned (t); 8*384x1536x2048tn
// is a batch of 8. --chosen times only the tile that a program gets.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "runtime/backend.hpp"
#include "sweep.hpp"
#include "tensorgrad/tensorgrad.hpp"

using namespace tensorgrad;

namespace {

struct Case {
  std::int64_t m, n, k;
  bool lhs_t, rhs_t;
  std::int64_t batch = 1;
  bool gelu = false;
};

std::string text(const Case& c) {
  return (c.batch > 1 ? std::to_string(c.batch) + "*" : "") + std::to_string(c.m) + "x" +
         std::to_string(c.n) + "x" + std::to_string(c.k) + (c.lhs_t ? "t" : "n") +
         (c.rhs_t ? "t" : "n") + (c.gelu ? "+gelu" : "");
}

std::string text(const MatMulTile& t) {
  char line[96];
  std::snprintf(line, sizeof line, "%lldx%lldx%lld %lldx%lld /%lld u%lld",
                static_cast<long long>(t.m), static_cast<long long>(t.n),
                static_cast<long long>(t.k), static_cast<long long>(t.rows),
                static_cast<long long>(t.columns), static_cast<long long>(t.slices),
                static_cast<long long>(t.unroll));
  return line;
}

Kernel kernel_of(const Case& c, const Target& target) {
  const auto graph = trace([&]() -> Outputs {
    const auto shape = [&](std::int64_t a, std::int64_t b) {
      return c.batch > 1 ? Shape{c.batch, a, b} : Shape{a, b};
    };
    const Tensor a = tensor_input("a", c.lhs_t ? shape(c.k, c.m) : shape(c.m, c.k));
    const Tensor b = param_input("b", c.rhs_t ? shape(c.n, c.k) : shape(c.k, c.n));
    const Tensor product =
        matmul(c.lhs_t ? swap_axes(a, -1, -2) : a, c.rhs_t ? swap_axes(b, -1, -2) : b);
    return c.gelu ? gelu(product) : product;
  });
  PassOptions passes = target.passes;
  passes.parallelism = 1;  // the product itself, not what splits it
  Target whole = target;
  whole.straight_product = std::numeric_limits<std::int64_t>::max();  // operands as they are
  return plan(run_passes(*graph, passes), whole).kernels.front();
}

std::vector<MatMulTile> candidates() {
  std::vector<MatMulTile> all;
  for (const std::int64_t k : {8, 16, 32}) {
    for (const std::int64_t unroll : {8, 16}) {
      if (unroll > k) continue;
      for (const auto& [m, n, rows, columns] : std::vector<std::array<std::int64_t, 4>>{
               {128, 128, 8, 8},  {256, 128, 16, 8}, {128, 256, 8, 16}, {128, 128, 16, 8},
               {128, 128, 8, 16}, {128, 96, 8, 12},  {96, 128, 12, 8},  {192, 128, 12, 8},
               {128, 192, 8, 12}, {256, 96, 16, 12}, {256, 64, 16, 8},  {64, 192, 8, 12},
               {192, 64, 12, 8},  {128, 64, 16, 4},  {128, 64, 8, 8},   {64, 128, 8, 8},
               {64, 64, 8, 8},    {128, 64, 8, 4},   {64, 64, 4, 4},    {64, 64, 8, 4},
               {64, 32, 4, 4},    {32, 64, 4, 4},    {32, 32, 4, 4}}) {
        for (const std::int64_t slices : {1, 2, 4}) {
          if (slices > 1 && (m * n > 64 * 64 || unroll == 8)) continue;
          all.push_back({m, n, k, rows, columns, slices, unroll});
        }
      }
    }
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Case> cases{{4096, 4096, 4096, false, false},
                          {2048, 2048, 2048, false, false},
                          {1024, 1024, 1024, false, false},
                          {1024, 1024, 1024, false, true},
                          {1024, 1024, 1024, true, false},
                          {512, 512, 512, false, false},
                          {16384, 384, 384, false, false},
                          {16384, 1536, 384, false, false},
                          {16384, 384, 1536, false, false},
                          {16384, 384, 1536, false, true},
                          {384, 1536, 2048, true, false, 8},
                          {4096, 768, 768, false, false},
                          {4096, 3072, 768, false, false},
                          {4096, 768, 3072, false, true},
                          {768, 3072, 1024, true, false, 4},
                          {4096, 50257, 768, false, false},
                          {3072, 128, 128, false, false},
                          {3072, 512, 128, false, false},
                          {3072, 128, 512, false, true},
                          {128, 512, 384, true, false, 8},
                          {1024, 128, 128, false, false},
                          {1024, 512, 128, false, false},
                          {128, 128, 128, true, false, 8},
                          {256, 64, 64, false, false},
                          {3072, 512, 128, false, false, 1, true},
                          {16384, 1536, 384, false, false, 1, true},
                          {4096, 3072, 768, false, false, 1, true},
                          {64, 64, 256, true, false}};
  bool chosen_only = false;
  if (argc > 1 && std::string(argv[1]) == "--chosen") {
    chosen_only = true;
    --argc, ++argv;
  }
  if (argc > 1) {
    cases.clear();
    for (int i = 1; i < argc; ++i) {
      long long batch = 1, m = 0, n = 0, k = 0;
      char lhs = 'n', rhs = 'n';
      const char* shape = argv[i];
      if (std::strchr(shape, '*')) {
        batch = std::atoll(shape);
        shape = std::strchr(shape, '*') + 1;
      }
      if (std::sscanf(shape, "%lldx%lldx%lld%c%c", &m, &n, &k, &lhs, &rhs) < 3 ||
          std::min({batch, m, n, k}) < 1) {
        std::fprintf(stderr, "%s is no shape; 64x64x64nn is one\n", argv[i]);
        return 2;
      }
      cases.push_back(
          {m, n, k, lhs == 't', rhs == 't', batch, std::strstr(shape, "+gelu") != nullptr});
    }
  }
  webgpu::Gpu gpu = webgpu::Gpu::open({});
  const WgslLimits limits = limits_of(gpu);
  const Target target = Device::webgpu().backend()->target();
  std::printf("%s\n", gpu.adapter().name.c_str());

  for (const Case& c : cases) {
    const Kernel kernel = kernel_of(c, target);
    const double flops = 2.0 * static_cast<double>(c.batch * c.m) * static_cast<double>(c.n * c.k);
    std::vector<MatMulTile> tiles;
    std::vector<WgslKernel> printed;
    const auto add = [&](const MatMulTile* tile) {
      printed.push_back(emit_wgsl(kernel, limits, tile));
      tiles.push_back(tile ? *tile : MatMulTile{});
    };
    add(nullptr);  // what is chosen today
    for (const MatMulTile& tile : chosen_only ? std::vector<MatMulTile>{} : candidates()) {
      const std::int64_t groups =
          c.batch * ((c.m + tile.m - 1) / tile.m) * ((c.n + tile.n - 1) / tile.n);
      const bool fits = tile.threads() <= limits.invocations &&
                        tile.bytes() <= static_cast<std::int64_t>(limits.workgroup_bytes) &&
                        tile.m <= std::max<std::int64_t>(32, 2 * c.m) &&
                        tile.n <= std::max<std::int64_t>(32, 2 * c.n);
      const bool pays = groups >= 48 || tile.m * tile.n <= 32 * 32;
      const bool slices = tile.slices == 1 || groups * tile.slice_threads() < 1 << 16;
      if (fits && pays && slices) add(&tile);
    }
    const std::vector<double> best = time_variants(gpu, printed, flops);
    std::vector<std::pair<double, std::size_t>> results;
    for (std::size_t i = 0; i < tiles.size(); ++i) results.push_back({best[i], i});
    const double today = results[0].first;
    std::sort(results.begin(), results.end());
    std::printf("%-24s today %8.1f us %6.2f TFLOP/s", text(c).c_str(), today * 1e-3,
                flops / today * 1e-3);
    for (std::size_t r = 0; r < std::min<std::size_t>(4, results.size()); ++r) {
      std::printf(" | %s %.2f",
                  results[r].second == 0 ? "today" : text(tiles[results[r].second]).c_str(),
                  flops / results[r].first * 1e-3);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}
