#include "runtime/webgpu/self_test.hpp"

#include <bit>
#include <string>
#include <vector>

#include "tensorgrad/error.hpp"

namespace tensorgrad::webgpu {
namespace {

constexpr std::uint32_t kCount = 100;  // not a multiple of the workgroup's size

const ShaderSource kCompute{
    .label = "self-test",
    .wgsl = R"(@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> b: array<u32>;
@group(0) @binding(2) var<uniform> p: vec4<u32>;
@compute @workgroup_size(32) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < p.x) { b[id.x] = a[id.x] * p.y + id.x; }
}
)",
    .bindings = {Access::Read, Access::ReadWrite, Access::Uniform},
};

const ShaderSource kMistake{
    .label = "self-test",
    .wgsl = "@compute @workgroup_size(1) fn main() {\n  let wrong: i32 = 1.5;\n}\n",
};

[[noreturn]] void fail(const Gpu& gpu, const std::string& what) {
  throw DeviceError("webgpu: the self-test on \"" + gpu.adapter().name + "\" failed: " + what +
                    ".");
}

void require(bool plausible, const char* name, std::uint64_t value) {
  if (plausible) return;
  throw DeviceError("webgpu: the library does not fit: its limit " + std::string(name) + " reads " +
                    std::to_string(value) + ", which cannot be.");
}

void check_compute(Gpu& gpu) {
  std::vector<std::uint32_t> input(kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) input[i] = 0x9e3779b9u * (i + 1);
  const std::uint32_t params[4] = {kCount, 3, 0, 0};

  const std::uint64_t alignment = gpu.limits().storage_offset_alignment;
  const Buffer a = gpu.create_buffer(kCount * 4, BufferKind::Storage, "self-test");
  const Buffer b = gpu.create_buffer(alignment + kCount * 4, BufferKind::Storage, "self-test");
  const Buffer p = gpu.create_buffer(sizeof params, BufferKind::Uniform, "self-test");
  gpu.write(a, 0, std::as_bytes(std::span(input)));
  gpu.write(p, 0, std::as_bytes(std::span(params)));

  const Pipeline pipeline = gpu.compile(kCompute);
  const Binding bindings[] = {{a}, {b, alignment}, {p}};
  const Dispatch dispatch{pipeline, gpu.bind(pipeline, bindings), (kCount + 31) / 32};
  gpu.submit({&dispatch, 1});

  std::vector<std::uint32_t> output(alignment / 4 + kCount);
  gpu.read(b, 0, std::as_writable_bytes(std::span(output)));
  for (std::uint32_t i = 0; i < output.size(); ++i) {
    const std::uint32_t first = static_cast<std::uint32_t>(alignment / 4);
    const std::uint32_t expected = i < first ? 0 : input[i - first] * 3 + (i - first);
    if (output[i] != expected) {
      fail(gpu, "word " + std::to_string(i) + " came out as " + std::to_string(output[i]) +
                    " instead of " + std::to_string(expected));
    }
  }
}

void check_mistake(Gpu& gpu) {
  try {
    gpu.compile(kMistake);
  } catch (const DeviceError& error) {
    const std::string text = error.what();
    if (text.find("line 2") == std::string::npos || text.find("let wrong") == std::string::npos) {
      fail(gpu, "a shader's mistake is reported without its line: " + text);
    }
    return;
  }
  fail(gpu, "a wrong shader compiled");
}

}  // namespace

void check_limits(const dawn::Limits& limits) {
  // The least that the standard allows, and most that a machine could mean.
  constexpr std::uint64_t kMuch = std::uint64_t{1} << 56;
  const auto within = [](std::uint64_t value, std::uint64_t low, std::uint64_t high) {
    return low <= value && value <= high;
  };
  require(within(limits.storage_buffers_per_stage, 4, 1u << 24), "storage buffers per stage",
          limits.storage_buffers_per_stage);
  require(within(limits.uniform_binding_bytes, 1u << 14, kMuch), "bytes of a uniform binding",
          limits.uniform_binding_bytes);
  require(within(limits.storage_binding_bytes, 1u << 27, kMuch), "bytes of a storage binding",
          limits.storage_binding_bytes);
  require(within(limits.buffer_bytes, 1u << 28, UINT64_MAX), "bytes of a buffer",
          limits.buffer_bytes);
  require(std::has_single_bit(limits.storage_offset_alignment) &&
              limits.storage_offset_alignment <= 4096,
          "alignment of a storage offset", limits.storage_offset_alignment);
  require(within(limits.workgroup_storage_bytes, 1u << 14, 1u << 26), "bytes of workgroup memory",
          limits.workgroup_storage_bytes);
  require(within(limits.invocations_per_workgroup, 128, 1u << 16), "invocations per workgroup",
          limits.invocations_per_workgroup);
  require(within(limits.workgroup_size[0], 128, 1u << 16), "workgroup size",
          limits.workgroup_size[0]);
  require(limits.workgroups_per_dimension >= 65535, "workgroups per dimension",
          limits.workgroups_per_dimension);
}

void self_test(Gpu& gpu) {
  check_compute(gpu);
  check_mistake(gpu);
}

}  // namespace tensorgrad::webgpu
