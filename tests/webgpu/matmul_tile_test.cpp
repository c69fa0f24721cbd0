// Every tile that a matrix product can get, on shapes around its edges, without the device's checks
// and between elements that a result must neither read nor overwrite.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "codegen/wgsl/print.hpp"
#include "runtime/webgpu/gpu.hpp"
#include "support/kernel_eval.hpp"
#include "support/sample_kernels.hpp"

namespace tensorgrad::webgpu {
namespace {

constexpr std::int64_t kMargin = 64;  // elements, and a multiple of what bindings may start at

/// The buffers after the kernel; all of it is f32.
testing::HostBuffers run(Gpu& gpu, const Kernel& kernel, const MatMulTile& tile,
                         const testing::HostBuffers& host) {
  const WgslLimits limits{.invocations = 256,
                          .workgroup_bytes = gpu.limits().workgroup_storage_bytes,
                          .workgroups = 65535,
                          .bindings = 8};
  const WgslKernel wgsl = emit_wgsl(kernel, limits, &tile);
  ShaderSource source{kernel.name, wgsl.source, wgsl.entry, {}};
  for (const WgslBinding& b : wgsl.bindings)
    source.bindings.push_back(b.writable ? Access::ReadWrite : Access::Read);
  std::map<int, Buffer> buffers;
  for (const auto& [number, values] : host) {
    const std::vector<float> floats(values.begin(), values.end());
    buffers[number] = gpu.create_buffer(floats.size() * 4);
    gpu.write(buffers[number], 0, std::as_bytes(std::span(floats)));
  }
  std::vector<Binding> bindings;
  for (const WgslBinding& b : wgsl.bindings) {
    bindings.push_back({buffers.at(b.buffer), static_cast<std::uint64_t>(b.offset) * 4,
                        static_cast<std::uint64_t>(b.elements) * 4});
  }
  const Pipeline pipeline = gpu.compile(source);
  const auto [x, y, z] = wgsl.grid;
  const Dispatch dispatch{pipeline, gpu.bind(pipeline, bindings), x, y, z};
  gpu.submit({&dispatch, 1});
  testing::HostBuffers result;
  for (const auto& [number, values] : host) {
    std::vector<float> floats(values.size());
    gpu.read(buffers[number], 0, std::as_writable_bytes(std::span(floats)));
    result[number].assign(floats.begin(), floats.end());
  }
  return result;
}

class Tiles : public ::testing::TestWithParam<MatMulTile> {
 protected:
  static void expect_right(Gpu& gpu, const MatMulTile& tile, const testing::MatMulSample& sample) {
    Kernel kernel = testing::matmul_kernel(sample);
    SCOPED_TRACE(kernel.name);
    testing::HostBuffers host = testing::sample_buffers(kernel);
    for (tensorgrad::Binding& b : kernel.bindings) b.offset += kMargin;
    for (auto& [number, data] : host) {
      data.insert(data.begin(), kMargin, std::numeric_limits<double>::quiet_NaN());
      data.insert(data.end(), kMargin, std::numeric_limits<double>::quiet_NaN());
    }
    const testing::HostBuffers got = run(gpu, kernel, tile, host);
    testing::evaluate(kernel, host);
    for (const auto& [number, expected] : host) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double value = got.at(number)[i];
        const bool same = std::isnan(expected[i])
                              ? std::isnan(value)
                              : std::abs(value - expected[i]) <= 1e-4 * (1 + std::abs(expected[i]));
        ASSERT_TRUE(same) << "element " << i << " of buffer " << number << " is " << value
                          << ", not " << expected[i];
      }
    }
  }
};

TEST_P(Tiles, AreRightAroundTheirEdges) {
  MatMulTile t = GetParam();
  Gpu checked = Gpu::open({.adapter = {}, .checked = true, .cache_folder = {}});
  Gpu unchecked = Gpu::open({.adapter = {}, .checked = false, .cache_folder = {}});
  // Not every device has room for the largest: there it is tried with shorter steps.
  while (t.bytes() > static_cast<std::int64_t>(checked.limits().workgroup_storage_bytes)) t.k /= 2;
  const std::int64_t step = t.k * t.slices;
  // {m, n, k, batch, transpose lhs, transpose rhs, shared lhs, shared rhs, epilogue}
  expect_right(unchecked, t, {t.m + 1, t.n - 1, step + 3, 1, false, false, false, false, true});
  expect_right(unchecked, t, {t.m - 4, t.n + 4, 2 * step + 4, 1, false, true});
  expect_right(unchecked, t, {t.m, t.n, step, 2, true, false, false, false, true});
  expect_right(checked, t, {t.m + 3, t.n + 8, step + 8, 1, true, true});
}

INSTANTIATE_TEST_SUITE_P(
    All, Tiles,
    ::testing::Values(MatMulTile{128, 128, 16, 8, 16, 1, 16}, MatMulTile{128, 64, 16, 8, 8, 1, 16},
                      MatMulTile{128, 192, 32, 8, 12, 1, 16}, MatMulTile{128, 128, 32, 8, 8, 1, 16},
                      MatMulTile{64, 64, 16, 8, 8, 2, 16}, MatMulTile{64, 64, 16, 8, 4, 1, 8},
                      MatMulTile{32, 32, 16, 4, 4, 2, 8}, MatMulTile{64, 16, 16, 4, 4, 4, 8}),
    [](const auto& info) {
      const MatMulTile& t = info.param;
      return std::to_string(t.m) + "x" + std::to_string(t.n) + "x" + std::to_string(t.k) + "_" +
             std::to_string(t.rows) + "x" + std::to_string(t.columns) + "_" +
             std::to_string(t.slices);
    });

}  // namespace
}  // namespace tensorgrad::webgpu
