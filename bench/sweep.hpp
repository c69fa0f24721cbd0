// Times variants of one kernel against one another on the GPU.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "codegen/wgsl/print.hpp"
#include "runtime/webgpu/gpu.hpp"

namespace tensorgrad {

inline WgslLimits limits_of(const webgpu::Gpu& gpu) {
  WgslLimits limits;
  limits.invocations = gpu.limits().invocations_per_workgroup;
  limits.workgroup_bytes = gpu.limits().workgroup_storage_bytes;
  limits.bindings = gpu.limits().storage_buffers_per_stage;
  return limits;
}

/// Nanoseconds of each. All have the same bindings.
inline std::vector<double> time_variants(webgpu::Gpu& gpu, const std::vector<WgslKernel>& variants,
                                         double flops) {
  std::vector<webgpu::ShaderSource> sources;
  for (const WgslKernel& variant : variants) {
    sources.push_back({variant.name, variant.source, variant.entry, {}});
    for (const WgslBinding& b : variant.bindings) {
      sources.back().bindings.push_back(b.writable ? webgpu::Access::ReadWrite
                                                   : webgpu::Access::Read);
    }
  }
  const std::vector<webgpu::Pipeline> pipelines = gpu.compile(sources);
  std::vector<webgpu::Buffer> buffers;
  for (const WgslBinding& b : variants[0].bindings)
    buffers.push_back(gpu.create_buffer(static_cast<std::uint64_t>((b.offset + b.elements) * 4)));
  webgpu::Commands commands;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    std::vector<webgpu::Binding> bindings;
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      const WgslBinding& binding = variants[i].bindings[b];
      bindings.push_back({buffers[b], static_cast<std::uint64_t>(binding.offset) * 4,
                          static_cast<std::uint64_t>(binding.elements) * 4});
    }
    const auto [x, y, z] = variants[i].grid;
    commands.push_back({pipelines[i], gpu.bind(pipelines[i], bindings), x, y, z});
  }
  // Many in a row, each waiting for the one before because it writes what that wrote: what a
  // kernel costs in a program. The first round only wakes the device.
  const auto count = static_cast<std::size_t>(std::clamp(2e12 / flops * 0.02, 4.0, 400.0));
  std::vector<double> best(variants.size(), 1e30);
  for (int round = 0; round < 4; ++round) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const webgpu::Commands many(count, commands[i]);
      const auto start = std::chrono::steady_clock::now();
      gpu.submit(many);
      gpu.wait_idle();
      const std::chrono::duration<double, std::nano> taken =
          std::chrono::steady_clock::now() - start;
      if (round > 0) best[i] = std::min(best[i], taken.count() / static_cast<double>(count));
    }
  }
  return best;
}

}  // namespace tensorgrad
