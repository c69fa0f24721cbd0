// Tries every candidate tile on the three kernels of attention, in one run, and prints a table from
// which codegen/wgsl/attention_tile.cpp is filled.
//
//   bench_attention_sweep [--full] [BxHxTxD ...]     batch x heads x time x head size
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "codegen/wgsl/attention_printer.hpp"
#include "runtime/backend.hpp"
#include "sweep.hpp"
#include "tensorgrad/autograd.hpp"
#include "tensorgrad/tensorgrad.hpp"

using namespace tensorgrad;

namespace {

struct Case {
  long long batch, heads, time, size;
};

/// The kernels of a forward and backward pass, on operands as models have them.
std::vector<Kernel> kernels_of(const Case& c, bool causal, Target target) {
  std::vector<Tensor> inputs;
  const auto graph = trace([&]() -> Outputs {
    const Tensor qkv = tensor_input("qkv", {c.batch, c.time, 3, c.heads, c.size});
    for (int part = 0; part < 3; ++part)
      inputs.push_back(permute(squeeze(narrow(qkv, 2, part, 1), 2), {0, 2, 1, 3}));
    return attention(inputs[0], inputs[1], inputs[2], {.causal = causal});
  });
  const Tensor output(graph.get(), graph->outputs.front().tensor);
  Tensor cotangent;
  trace_into(*graph, [&] { cotangent = tensor_input("g", output.shape()); });
  for (const Tensor& grad : append_vjp(*graph, {output}, {cotangent}, inputs))
    graph->outputs.push_back({"grad" + std::to_string(graph->outputs.size()), grad.id()});
  target.passes.fused_attention = 0;
  std::vector<Kernel> kernels;
  for (const Kernel& kernel : plan(run_passes(*graph, target.passes), target).kernels) {
    if (kernel.special) kernels.push_back(kernel);
  }
  return kernels;
}

std::vector<wgsl::AttentionTile> candidates(const Kernel& kernel, const WgslLimits& limits) {
  std::vector<wgsl::AttentionTile> tiles;
  for (const std::int64_t across : {4, 8, 16}) {
    for (const std::int64_t down : {4, 8, 16, 32}) {
      for (const std::int64_t rows : {4, 8}) {
        for (const std::int64_t columns : {4, 8}) {
          for (const std::int64_t deep : {8, 16, 32, 64}) {
            const wgsl::AttentionTile tile{across, down, rows, columns, deep};
            const bool fits = tile.threads() >= 32 && tile.threads() <= 256 &&
                              tile.threads() <= static_cast<std::int64_t>(limits.invocations) &&
                              16 * wgsl::attention_quads(*kernel.special, tile) <=
                                  static_cast<std::int64_t>(limits.workgroup_bytes);
            if (fits) tiles.push_back(tile);
          }
        }
      }
    }
  }
  return tiles;
}

std::string text(const wgsl::AttentionTile& t) {
  char line[96];
  std::snprintf(line, sizeof line, "%lldx%lld of %lldx%lld /%lld", static_cast<long long>(t.across),
                static_cast<long long>(t.down), static_cast<long long>(t.rows),
                static_cast<long long>(t.columns), static_cast<long long>(t.deep));
  return line;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Case> cases;
  bool causal = true;
  for (int i = 1; i < argc; ++i) {
    Case c{};
    if (std::string(argv[i]) == "--full") {
      causal = false;
    } else if (std::sscanf(argv[i], "%lldx%lldx%lldx%lld", &c.batch, &c.heads, &c.time, &c.size) ==
               4) {
      cases.push_back(c);
    } else {
      std::fprintf(stderr, "%s is no shape; 8x12x1024x64 is one\n", argv[i]);
      return 2;
    }
  }
  if (cases.empty()) cases = {{64, 6, 256, 64}, {4, 12, 1024, 64}};
  webgpu::Gpu gpu = webgpu::Gpu::open({});
  const WgslLimits limits = limits_of(gpu);
  const Target target = Device::webgpu().backend()->target();
  std::printf("%s\n", gpu.adapter().name.c_str());
  for (const Case& c : cases) {
    for (const Kernel& kernel : kernels_of(c, causal, target)) {
      const OpKind op = kernel.special->op;
      const double products = op == OpKind::Attention ? 2 : op == OpKind::AttentionGradQ ? 3 : 4;
      const double flops = products * 2 * static_cast<double>(c.batch * c.heads * c.time) *
                           static_cast<double>(c.time * c.size) * (causal ? 0.5 : 1);
      std::vector<wgsl::AttentionTile> tiles{wgsl::choose_attention_tile(*kernel.special, limits)};
      for (const wgsl::AttentionTile& tile : candidates(kernel, limits)) tiles.push_back(tile);
      std::vector<WgslKernel> printed;
      for (const wgsl::AttentionTile& tile : tiles) {
        wgsl::Module module(kernel, limits);
        wgsl::print_attention(module, tile);
        printed.push_back(module.finish());
      }
      const std::vector<double> taken = time_variants(gpu, printed, flops);
      std::vector<std::size_t> order(tiles.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::sort(order.begin(), order.end(), [&](auto a, auto b) { return taken[a] < taken[b]; });
      std::printf("%lldx%lldx%lldx%lld %-18s today %s %7.1f us %6.2f TFLOP/s\n", c.batch, c.heads,
                  c.time, c.size, kernel.name.c_str(), text(tiles[0]).c_str(), taken[0] * 1e-3,
                  flops / taken[0] * 1e-3);
      for (std::size_t r = 0; r < std::min<std::size_t>(8, order.size()); ++r) {
        std::printf("    %-22s %7.1f us %6.2f TFLOP/s\n", text(tiles[order[r]]).c_str(),
                    taken[order[r]] * 1e-3, flops / taken[order[r]] * 1e-3);
      }
      std::fflush(stdout);
    }
  }
}
