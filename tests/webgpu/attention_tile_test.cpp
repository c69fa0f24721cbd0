// Attention kernels with every kind of tile, not only those that small shapes get.
#include <gtest/gtest.h>

#include <cmath>

#include "codegen/wgsl/attention_printer.hpp"
#include "runtime/webgpu/gpu.hpp"
#include "support/kernel_eval.hpp"
#include "support/sample_kernels.hpp"
#include "tensorgrad/autograd.hpp"
#include "tensorgrad/ops.hpp"
#include "tensorgrad/passes.hpp"
#include "tensorgrad/plan.hpp"

namespace tensorgrad::webgpu {
namespace {

using testing::HostBuffers;

Gpu& gpu() {
  static Gpu opened = Gpu::open({.adapter = {}, .checked = true, .cache_folder = {}});
  return opened;
}

/// The attention kernels of a forward and backward pass.
std::vector<Kernel> attention_kernels(std::int64_t queries, std::int64_t keys, std::int64_t dim,
                                      std::int64_t width, bool causal) {
  std::vector<Tensor> inputs;
  const auto graph = trace([&]() -> Outputs {
    inputs = {tensor_input("q", {1, 2, queries, dim}), tensor_input("k", {1, 1, keys, dim}),
              tensor_input("v", {1, 1, keys, width})};
    return attention(inputs[0], inputs[1], inputs[2], {.causal = causal});
  });
  const Tensor output(graph.get(), graph->outputs.front().tensor);
  Tensor cotangent;
  trace_into(*graph, [&] { cotangent = tensor_input("g", output.shape()); });
  for (const Tensor& grad : append_vjp(*graph, {output}, {cotangent}, inputs))
    graph->outputs.push_back({"grad" + std::to_string(graph->outputs.size()), grad.id()});
  Target target;
  target.whole_buffers = true;
  target.passes.fused_attention = 0;
  std::vector<Kernel> kernels;
  for (const Kernel& kernel : plan(run_passes(*graph, target.passes), target).kernels) {
    if (kernel.special) kernels.push_back(kernel);
  }
  return kernels;
}

HostBuffers run(const WgslKernel& printed, const HostBuffers& host) {
  std::map<int, Buffer> buffers;
  std::map<int, std::vector<float>> words;
  for (const auto& [number, values] : host) {
    words[number] = std::vector<float>(values.begin(), values.end());
    buffers[number] = gpu().create_buffer(4 * values.size(), BufferKind::Storage, "");
    gpu().write(buffers[number], 0, std::as_bytes(std::span(words[number])));
  }
  ShaderSource source{printed.name, printed.source, printed.entry, {}};
  std::vector<Binding> bindings;
  for (const WgslBinding& b : printed.bindings) {
    source.bindings.push_back(b.writable ? Access::ReadWrite : Access::Read);
    bindings.push_back({buffers[b.buffer], static_cast<std::uint64_t>(b.offset) * 4,
                        static_cast<std::uint64_t>(b.elements) * 4});
  }
  const Pipeline pipeline = gpu().compile(source);
  const auto [x, y, z] = printed.grid;
  const Dispatch dispatch{pipeline, gpu().bind(pipeline, bindings), x, y, z};
  gpu().submit({&dispatch, 1});
  HostBuffers result;
  for (auto& [number, values] : words) {
    gpu().read(buffers[number], 0, std::as_writable_bytes(std::span(values)));
    result[number] = std::vector<double>(values.begin(), values.end());
  }
  return result;
}

void expect_right(const Kernel& kernel, const wgsl::AttentionTile& tile, const WgslLimits& limits) {
  SCOPED_TRACE(kernel.name + " with " + std::to_string(tile.across) + " x " +
               std::to_string(tile.down) + " threads of " + std::to_string(tile.rows) + " x " +
               std::to_string(tile.columns) + ", " + std::to_string(tile.deep) + " deep");
  wgsl::Module module(kernel, limits);
  wgsl::print_attention(module, tile);
  HostBuffers want = testing::sample_buffers(kernel);
  const HostBuffers got = run(module.finish(), want);
  testing::evaluate(kernel, want);
  for (const tensorgrad::Binding& b : kernel.bindings) {
    double scale = 1;
    for (double v : want.at(b.buffer)) scale = std::max(scale, std::abs(v));
    for (std::size_t i = 0; i < want.at(b.buffer).size(); ++i) {
      ASSERT_NEAR(got.at(b.buffer)[i], want.at(b.buffer)[i], 1e-5 * scale)
          << "element " << i << " of buffer " << b.buffer;
    }
  }
}

// Compiling the largest takes seconds on a software adapter, so each stands for its like: threads
// with 8 x 8, 8 x 4 and 4 x 8 scores and with one to three quads of a result, 4, 8 and 16 threads
// side by side, contractions 8, 16 and 32 deep.
TEST(AttentionTile, TheLargestGiveWhatTheSmallestGive) {
  struct Sample {
    OpKind op;
    std::int64_t size;
    std::uint32_t bytes;
  };
  for (const Sample& sample : std::vector<Sample>{{OpKind::Attention, 64, 32768},
                                                  {OpKind::Attention, 128, 16384},
                                                  {OpKind::AttentionGradQ, 64, 32768},
                                                  {OpKind::AttentionGradKV, 16, 32768},
                                                  {OpKind::AttentionGradKV, 96, 16384}}) {
    WgslLimits limits;
    limits.workgroup_bytes = sample.bytes;
    for (const Kernel& kernel : attention_kernels(150, 140, sample.size, sample.size, true)) {
      if (kernel.special->op != sample.op) continue;
      expect_right(kernel, wgsl::attention_tiles(*kernel.special, limits).at(0), limits);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(AttentionTile, FitsTheLeastThatADeviceMayHave) {
  for (const std::int64_t size : {1, 8, 16, 20, 33, 64, 96, 128}) {
    for (const Kernel& kernel : attention_kernels(2000, 2000, size, size, false)) {
      const WgslKernel printed = emit_wgsl(kernel, WgslLimits{});
      EXPECT_LE(printed.workgroup_bytes, WgslLimits{}.workgroup_bytes);
      EXPECT_LE(printed.workgroup_size, WgslLimits{}.invocations);
    }
  }
}

}  // namespace
}  // namespace tensorgrad::webgpu
