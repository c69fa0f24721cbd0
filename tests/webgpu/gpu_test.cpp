// The WebGPU layer on whatever adapter the machine has (SwiftShader will do). A missing adapter is
// a failure: run with VK_ICD_FILENAMES naming a driver, and TENSORGRAD_DAWN naming the library if
// it is not where the build put it.
#include "runtime/webgpu/gpu.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/webgpu/dawn_library.hpp"
#include "runtime/webgpu/self_test.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::webgpu {
namespace {

/// Sets an environment variable for a scope.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedEnvironment() {
    if (old_) {
      setenv(name_, old_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

Gpu open_checked() { return Gpu::open({.checked = true}); }
Gpu open_fast() { return Gpu::open({.checked = false}); }

/// b[i] = a[i] * factor + addend
ShaderSource affine(int factor, int addend = 0) {
  return {.label = "affine " + std::to_string(factor),
          .wgsl =
              "@group(0) @binding(0) var<storage, read> a: array<f32>;\n"
              "@group(0) @binding(1) var<storage, read_write> b: array<f32>;\n"
              "@compute @workgroup_size(64)\n"
              "fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
              "  if (id.x < arrayLength(&b)) { b[id.x] = a[id.x] * " +
              std::to_string(factor) + ".0 + " + std::to_string(addend) + ".0; }\n}\n",
          .bindings = {Access::Read, Access::ReadWrite}};
}

/// a[0] += 1, in place
ShaderSource increment() {
  return {.label = "increment",
          .wgsl =
              "@group(0) @binding(0) var<storage, read_write> a: array<u32>;\n"
              "@compute @workgroup_size(1) fn main() { a[0] += 1u; }\n",
          .bindings = {Access::ReadWrite}};
}

std::vector<float> iota(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

template <class T>
std::vector<T> read_all(Gpu& gpu, const Buffer& buffer) {
  std::vector<T> values(buffer.bytes() / sizeof(T));
  gpu.read(buffer, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

void write_all(Gpu& gpu, const Buffer& buffer, const std::vector<float>& values) {
  gpu.write(buffer, 0, std::as_bytes(std::span(values)));
}

Dispatch make_dispatch(Gpu& gpu, const Pipeline& pipeline, std::vector<Binding> bindings,
                       std::uint32_t x = 1) {
  return {pipeline, gpu.bind(pipeline, bindings), x};
}

template <class Exception, class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Exception& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// --- Finding a device ----------------------------------------------------------------------------

TEST(DawnLibrary, AWrongPathInTheEnvironmentIsNamed) {
  const ScopedEnvironment dawn("TENSORGRAD_DAWN", "/nowhere/libdawn.so");
  const std::string text = message_of<DeviceError>([] { load_dawn(); });
  EXPECT_HAS(text, "no library");
  EXPECT_HAS(text, "TENSORGRAD_DAWN");
  EXPECT_HAS(text, "/nowhere/libdawn.so");
  const AdapterList list = list_adapters();
  EXPECT_TRUE(list.adapters.empty());
  EXPECT_HAS(list.reason, "/nowhere/libdawn.so");
  EXPECT_THROW(Gpu::open(), DeviceError);
}

TEST(DawnLibrary, ALibraryThatIsNotDawnIsRefusedByTheMissingFunction) {
  const ScopedEnvironment dawn("TENSORGRAD_DAWN", "libm.so.6");
  EXPECT_HAS(message_of<DeviceError>([] { load_dawn(); }), "the library lacks wgpuCreateInstance");
}

TEST(DawnLibrary, LoadsOnce) { EXPECT_EQ(&load_dawn(), &load_dawn()); }

TEST(Adapters, AreListedWithoutAReason) {
  const AdapterList list = list_adapters();
  ASSERT_FALSE(list.adapters.empty()) << list.reason;
  EXPECT_EQ(list.reason, "");
  EXPECT_FALSE(list.adapters[0].name.empty());
  EXPECT_FALSE(list.adapters[0].backend.empty());
}

TEST(Adapters, SoftwareIsFlagged) {
  const AdapterList list = list_adapters();
  ASSERT_FALSE(list.adapters.empty()) << list.reason;
  for (const AdapterInfo& adapter : list.adapters) {
    const bool known_software = adapter.name.find("SwiftShader") != std::string::npos ||
                                adapter.name.find("llvmpipe") != std::string::npos;
    const bool known_hardware = adapter.vendor == "nvidia" || adapter.vendor == "amd";
    if (known_software || known_hardware) {
      EXPECT_EQ(adapter.is_software, known_software) << adapter.name;
    }
  }
}

TEST(Adapters, WithoutADriverTheReasonNamesTheSetting) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";  // a process that has seen no driver yet
  EXPECT_EXIT(
      {
        setenv("VK_ICD_FILENAMES", "/nowhere/icd.json", 1);
        setenv("VK_DRIVER_FILES", "/nowhere/icd.json", 1);
        std::cerr << list_adapters().adapters.size() << " adapters: " << list_adapters().reason;
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "0 adapters: no adapter: .*/nowhere/icd.json.*does not exist");
}

TEST(Gpu, AnUnknownAdapterNameIsAnsweredWithThoseThereAre) {
  const std::string name = open_checked().adapter().name;
  const std::string text =
      message_of<DeviceError>([] { Gpu::open({.adapter = "Voodoo 2", .checked = true}); });
  EXPECT_HAS(text, "Voodoo 2");
  EXPECT_HAS(text, name);
  EXPECT_EQ(Gpu::open({.adapter = name.substr(1, 5), .checked = true}).adapter().name, name);
}

TEST(Gpu, AsksForAllTheAdapterHas) {
  const Gpu gpu = open_checked();
  EXPECT_GE(gpu.limits().storage_buffers_per_stage, 8u);
  EXPECT_GE(gpu.limits().storage_binding_bytes, 128u << 20);
  EXPECT_GE(gpu.limits().buffer_bytes, 256u << 20);
  EXPECT_GE(gpu.limits().workgroup_storage_bytes, 16u << 10);
  EXPECT_GE(gpu.limits().invocations_per_workgroup, 256u);
  EXPECT_GE(gpu.limits().workgroups_per_dimension, 65535u);
  if (gpu.features().subgroups) {
    EXPECT_GE(gpu.adapter().subgroup_max_size, gpu.adapter().subgroup_min_size);
    EXPECT_GE(gpu.adapter().subgroup_min_size, 4u);
  }
  EXPECT_TRUE(gpu.checked());
  EXPECT_EQ(gpu.counters().buffers_created, 0u) << "the self-test must not show";
}

TEST(SelfTest, PassesCheckedAndFast) {
  Gpu checked = open_checked();
  EXPECT_NO_THROW(self_test(checked));
  Gpu fast = open_fast();
  EXPECT_NO_THROW(self_test(fast));
}

TEST(SelfTest, RefusesLimitsThatCannotBe) {
  dawn::Limits limits{};
  EXPECT_HAS(message_of<DeviceError>([&] { check_limits(limits); }), "does not fit");
}

TEST(Gpu, CheckedIsReadFromTheEnvironment) {
  {
    const ScopedEnvironment on("TENSORGRAD_WEBGPU_CHECKED", "1");
    EXPECT_TRUE(GpuOptions{}.checked);
  }
  const ScopedEnvironment off("TENSORGRAD_WEBGPU_CHECKED", "0");
  EXPECT_FALSE(GpuOptions{}.checked);
}

// --- Computing -----------------------------------------------------------------------------------

class BothModes : public ::testing::TestWithParam<bool> {
 protected:
  Gpu open() { return GetParam() ? open_checked() : open_fast(); }
};

INSTANTIATE_TEST_SUITE_P(Gpu, BothModes, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Checked" : "Fast"; });

TEST_P(BothModes, WritesComputesAndReads) {
  Gpu gpu = open();
  const std::vector<float> input = iota(1000);
  const Buffer a = gpu.create_buffer(4000);
  const Buffer b = gpu.create_buffer(4000);
  write_all(gpu, a, input);
  const Pipeline pipeline = gpu.compile(affine(3, 1));
  gpu.submit(Commands{make_dispatch(gpu, pipeline, {{a}, {b}}, 16)});
  const std::vector<float> output = read_all<float>(gpu, b);
  for (std::size_t i = 0; i < output.size(); ++i) ASSERT_EQ(output[i], input[i] * 3 + 1) << i;
}

TEST_P(BothModes, BuffersStartAsZeros) {
  Gpu gpu = open();
  {  // leave something behind in memory that may be used again
    const Buffer used = gpu.create_buffer(1 << 16);
    write_all(gpu, used, std::vector<float>(1 << 14, 7.0f));
    gpu.wait_idle();
  }
  const Buffer fresh = gpu.create_buffer(1 << 16);
  for (const float value : read_all<float>(gpu, fresh)) ASSERT_EQ(value, 0.0f);
}

TEST_P(BothModes, DispatchesOfOneSubmitSeeEachOther) {
  Gpu gpu = open();
  const Buffer counter = gpu.create_buffer(4);
  const Pipeline pipeline = gpu.compile(increment());
  const Commands commands(100, make_dispatch(gpu, pipeline, {{counter}}));
  gpu.submit(commands);
  EXPECT_EQ(read_all<std::uint32_t>(gpu, counter)[0], 100u);
}

TEST_P(BothModes, WritesAreOrderedWithSubmits) {
  Gpu gpu = open();
  const Buffer counter = gpu.create_buffer(4);
  const Dispatch add = make_dispatch(gpu, gpu.compile(increment()), {{counter}});
  std::vector<std::uint32_t> seen;
  for (const std::uint32_t start : {10u, 20u, 30u}) {
    gpu.write(counter, 0, std::as_bytes(std::span(&start, 1)));
    const ReadRange range{counter, 0, 4};
    gpu.submit({&add, 1}, {&range, 1}, [&](const ReadResult& result) {
      ASSERT_TRUE(result.ok()) << result.failure;
      seen.push_back(*reinterpret_cast<const std::uint32_t*>(result.bytes.data()));
    });
  }
  gpu.wait_idle();
  gpu.poll();
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{11, 21, 31}));
}

TEST_P(BothModes, UniformsAndOffsetsAreBound) {
  Gpu gpu = open();
  const std::uint64_t offset = gpu.limits().storage_offset_alignment;
  const Buffer a = gpu.create_buffer(offset + 16);
  const Buffer p = gpu.create_buffer(16, BufferKind::Uniform);
  const float scale[4] = {2, 3, 4, 5};
  gpu.write(p, 0, std::as_bytes(std::span(scale)));
  const ShaderSource source{
      .label = "fill",
      .wgsl =
          "@group(0) @binding(0) var<storage, read_write> a: array<f32>;\n"
          "@group(0) @binding(1) var<uniform> p: vec4<f32>;\n"
          "@compute @workgroup_size(4) fn main(@builtin(local_invocation_index) i: u32) {\n"
          "  a[i] = p[i];\n}\n",
      .bindings = {Access::ReadWrite, Access::Uniform}};
  const Pipeline pipeline = gpu.compile(source);
  gpu.submit(Commands{make_dispatch(gpu, pipeline, {{a, offset, 16}, {p}})});
  const std::vector<float> all = read_all<float>(gpu, a);
  EXPECT_EQ(std::vector<float>(all.end() - 4, all.end()), (std::vector<float>{2, 3, 4, 5}));
  EXPECT_EQ(all[0], 0.0f);
}

TEST_P(BothModes, CopiesAndClears) {
  Gpu gpu = open();
  const Buffer a = gpu.create_buffer(64);
  const Buffer b = gpu.create_buffer(64);
  write_all(gpu, a, iota(16));
  gpu.copy(a, 16, b, 32, 16);
  gpu.clear(a, 8);
  EXPECT_EQ(read_all<float>(gpu, a),
            (std::vector<float>{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(read_all<float>(gpu, b),
            (std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, 4, 5, 6, 7, 0, 0, 0, 0}));
}

TEST_P(BothModes, TooManyWorkgroupsAreRefusedByName) {
  Gpu gpu = open();
  const Buffer counter = gpu.create_buffer(4);
  const Pipeline pipeline = gpu.compile(increment());
  Dispatch dispatch = make_dispatch(gpu, pipeline, {{counter}});
  dispatch.y = gpu.limits().workgroups_per_dimension + 1;
  const std::string text = message_of<DeviceError>([&] { gpu.submit({&dispatch, 1}); });
  EXPECT_HAS(text, "increment");
  EXPECT_HAS(text, std::to_string(dispatch.y));
  EXPECT_HAS(text, std::to_string(gpu.limits().workgroups_per_dimension));
  dispatch.y = 1;
  gpu.submit({&dispatch, 1});
  EXPECT_EQ(read_all<std::uint32_t>(gpu, counter)[0], 1u);
}

TEST_P(BothModes, CountsWhatItDoes) {
  Gpu gpu = open();
  {
    const Buffer a = gpu.create_buffer(1024);
    const Buffer b = gpu.create_buffer(64);
    const Pipeline pipeline = gpu.compile(increment());
    gpu.submit(Commands(5, make_dispatch(gpu, pipeline, {{a}})));
    const GpuCounters counters = gpu.counters();
    EXPECT_EQ(counters.buffers_created, 2u);
    EXPECT_EQ(counters.buffer_bytes_created, 1088u);
    EXPECT_EQ(counters.buffers_alive, 2u);
    EXPECT_EQ(counters.dispatches, 5u);
    EXPECT_EQ(counters.submits, 1u);
    EXPECT_EQ(counters.pipelines_compiled, 1u);
  }
  EXPECT_EQ(gpu.counters().buffers_alive, 0u);
  EXPECT_EQ(gpu.counters().buffer_bytes_alive, 0u);
}

TEST(Gpu, HandlesOutliveTheGpu) {
  Buffer buffer;
  Dispatch dispatch;
  {
    Gpu gpu = open_fast();
    buffer = gpu.create_buffer(64);
    dispatch = make_dispatch(gpu, gpu.compile(increment()), {{buffer}});
  }
  EXPECT_EQ(buffer.bytes(), 64u);
  EXPECT_EQ(dispatch.pipeline.label(), "increment");
}

TEST(Gpu, MisuseIsCaughtWithoutDawnsValidation) {
  Gpu gpu = open_fast();
  Gpu other = open_fast();
  const Buffer a = gpu.create_buffer(1024);
  const std::vector<float> data(8);
  const auto bytes = std::as_bytes(std::span(data));
  EXPECT_THROW(gpu.create_buffer(0), InternalError);
  EXPECT_THROW(gpu.create_buffer(6), InternalError);
  EXPECT_THROW(gpu.write(a, 1000, bytes), InternalError);
  EXPECT_THROW(gpu.write(a, 2, bytes), InternalError);
  EXPECT_THROW(gpu.write(a, UINT64_MAX - 3, bytes), InternalError);
  EXPECT_THROW(gpu.write(Buffer{}, 0, bytes), InternalError);
  EXPECT_THROW(other.write(a, 0, bytes), InternalError);
  EXPECT_THROW(gpu.copy(a, 0, a, 512, 4), InternalError);
  const Pipeline two = gpu.compile(affine(2));
  EXPECT_THROW(gpu.bind(two, std::vector<Binding>{{a}}), InternalError);
  EXPECT_HAS(message_of<InternalError>([&] {
               gpu.bind(two, std::vector<Binding>{{a, 0, 256}, {a, 256, 256}});
             }),
             "read-only and writable");
  EXPECT_THROW(gpu.bind(two, std::vector<Binding>{{a, 4}, {a}}), InternalError);
  const Pipeline one = gpu.compile(increment());
  Dispatch wrong = make_dispatch(gpu, one, {{a}});
  wrong.pipeline = two;
  EXPECT_THROW(gpu.submit({&wrong, 1}), InternalError);
  EXPECT_THROW(gpu.submit(Commands(1)), InternalError);
  EXPECT_THROW(gpu.wait(1000), InternalError);
}

TEST(Gpu, WhatValidationRefusesIsThrownOnceAndTheDeviceGoesOn) {
  Gpu gpu = open_checked();
  const ShaderSource needs_400_bytes{
      .label = "needs 400 bytes",
      .wgsl =
          "@group(0) @binding(0) var<storage, read_write> a: array<f32, 100>;\n"
          "@compute @workgroup_size(1) fn main() { a[0] = 1.0; }\n",
      .bindings = {Access::ReadWrite}};
  const Pipeline pipeline = gpu.compile(needs_400_bytes);
  const Dispatch small = make_dispatch(gpu, pipeline, {{gpu.create_buffer(4)}});
  const Buffer enough = gpu.create_buffer(400);
  const Dispatch good = make_dispatch(gpu, pipeline, {{enough}});
  const ReadRange range{enough, 0, 4};
  bool called = false;
  const auto callback = [&](const ReadResult&) { called = true; };
  EXPECT_HAS(message_of<DeviceError>([&] {
               gpu.submit({&small, 1}, {&range, 1}, callback);
             }),
             "needs 400 bytes");
  EXPECT_NO_THROW(gpu.submit({&good, 1}));
  EXPECT_EQ(read_all<float>(gpu, enough)[0], 1.0f);
  EXPECT_FALSE(called) << "a read that was refused has no callback";
}

TEST(Gpu, ADeclarationThatDiffersFromTheShaderIsRefused) {
  Gpu gpu = open_checked();
  ShaderSource source = affine(2);
  source.bindings = {Access::ReadWrite, Access::ReadWrite};  // the shader says read
  EXPECT_HAS(message_of<DeviceError>([&] { gpu.compile(source); }), "affine 2");
  EXPECT_NO_THROW(gpu.compile(affine(2)));
  EXPECT_NO_THROW(gpu.poll());
}

// --- Shaders -------------------------------------------------------------------------------------

TEST_P(BothModes, AFailingShaderNamesLabelMessageAndLine) {
  Gpu gpu = open();
  ShaderSource source = affine(1);
  source.label = "layer_norm_7";
  const std::string good = "b[id.x] = a[id.x]";
  source.wgsl.replace(source.wgsl.find(good), good.size(), "b[id.x] = nonsense");
  const std::string text = message_of<DeviceError>([&] { gpu.compile(source); });
  EXPECT_HAS(text, "layer_norm_7");
  EXPECT_HAS(text, "unresolved value 'nonsense'");
  EXPECT_HAS(text, "at line 5, column ");
  EXPECT_HAS(text, ">    5 |   if (id.x < arrayLength(&b)) { b[id.x] = nonsense");
  EXPECT_HAS(text, "     4 | fn main(");
  EXPECT_HAS(text, "^^^^^^^^");
  // Nothing of it surfaces later.
  EXPECT_NO_THROW(gpu.poll());
  EXPECT_NO_THROW(gpu.compile(affine(1)));
}

TEST_P(BothModes, AMissingEntryPointIsNamed) {
  Gpu gpu = open();
  ShaderSource source = increment();
  source.entry = "mai";  // a prefix of the one there is
  EXPECT_HAS(message_of<DeviceError>([&] { gpu.compile(source); }), "no function \"mai\"");
}

TEST_P(BothModes, TooManyBindingsAreRefusedByName) {
  Gpu gpu = open();
  ShaderSource source = increment();
  source.bindings.assign(gpu.limits().storage_buffers_per_stage + 1, Access::ReadWrite);
  const std::string text = message_of<DeviceError>([&] { gpu.compile(source); });
  EXPECT_HAS(text, "increment");
  EXPECT_HAS(text, "binds " + std::to_string(source.bindings.size()) + " storage buffers");
  EXPECT_NO_THROW(gpu.poll());
}

TEST_P(BothModes, WorkgroupsBeyondTheLimitsAreRefusedByName) {
  Gpu gpu = open();
  ShaderSource source = increment();
  const std::string wrong =
      "@workgroup_size(" + std::to_string(gpu.limits().invocations_per_workgroup * 2) + ")";
  source.wgsl.replace(source.wgsl.find("@workgroup_size(1)"), 18, wrong);
  EXPECT_HAS(message_of<DeviceError>([&] { gpu.compile(source); }), "exceeds the maximum allowed");
}

TEST_P(BothModes, CompilesManyAtOnceInOrder) {
  Gpu gpu = open();
  std::vector<ShaderSource> sources;
  for (int i = 0; i < 16; ++i) sources.push_back(affine(i));
  const std::vector<Pipeline> pipelines = gpu.compile(sources);
  ASSERT_EQ(pipelines.size(), 16u);
  EXPECT_EQ(gpu.counters().pipelines_compiled, 16u);
  const Buffer a = gpu.create_buffer(4);
  write_all(gpu, a, {10.0f});
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(pipelines[i].label(), "affine " + std::to_string(i));
    const Buffer b = gpu.create_buffer(4);
    gpu.submit(Commands{make_dispatch(gpu, pipelines[i], {{a}, {b}})});
    EXPECT_EQ(read_all<float>(gpu, b)[0], 10.0f * static_cast<float>(i));
  }
}

TEST(Gpu, OneBadShaderAmongManyIsTheOneNamed) {
  Gpu gpu = open_fast();
  std::vector<ShaderSource> sources;
  for (int i = 0; i < 6; ++i) sources.push_back(affine(i));
  sources[3].wgsl += "oops\n";
  sources[3].label = "the bad one";
  EXPECT_HAS(message_of<DeviceError>([&] { gpu.compile(sources); }), "the bad one");
  sources.erase(sources.begin() + 3);
  EXPECT_EQ(gpu.compile(sources).size(), 5u);
}

TEST(Gpu, EqualSourcesAreCompiledOnce) {
  Gpu gpu = open_fast();
  const std::vector<ShaderSource> sources{affine(1), affine(2), affine(1)};
  const std::vector<Pipeline> first = gpu.compile(sources);
  EXPECT_TRUE(first[0] == first[2]);
  EXPECT_FALSE(first[0] == first[1]);
  EXPECT_TRUE(gpu.compile(affine(2)) == first[1]);
  EXPECT_EQ(gpu.counters().pipelines_compiled, 2u);
  EXPECT_EQ(gpu.counters().pipelines_shared, 2u);
}

// --- Reads ---------------------------------------------------------------------------------------

TEST_P(BothModes, PipelinedReadsCompleteInOrder) {
  Gpu gpu = open();
  const Buffer counter = gpu.create_buffer(8);
  const Commands step(3, make_dispatch(gpu, gpu.compile(increment()), {{counter}}));
  const std::vector<ReadRange> ranges{{counter, 0, 4}, {counter, 4, 4}};
  std::vector<std::uint32_t> seen;
  Ticket last = 0;
  constexpr std::uint32_t kSteps = 200;  // more than may be under way
  for (std::uint32_t i = 0; i < kSteps; ++i) {
    const Ticket ticket = gpu.submit(step, ranges, [&](const ReadResult& result) {
      ASSERT_TRUE(result.ok()) << result.failure;
      ASSERT_EQ(result.bytes.size(), 8u);
      const auto* words = reinterpret_cast<const std::uint32_t*>(result.bytes.data());
      seen.push_back(words[0]);
      EXPECT_EQ(words[1], 0u);
    });
    EXPECT_GT(ticket, last);
    last = ticket;
  }
  gpu.wait(last);
  EXPECT_TRUE(gpu.done(last));
  ASSERT_EQ(seen.size(), kSteps);
  for (std::uint32_t i = 0; i < kSteps; ++i) ASSERT_EQ(seen[i], 3 * (i + 1));
  EXPECT_EQ(gpu.counters().submits, kSteps);
  EXPECT_LE(gpu.counters().staging_bytes, 65u * 4096u) << "staging buffers are reused";
}

TEST(Gpu, LargeReadsGoThroughInPieces) {
  Gpu gpu = open_fast();
  const std::size_t count = 10'000'000;  // 40 MB: three pieces
  const std::vector<float> values = iota(count);
  const Buffer buffer = gpu.create_buffer(count * 4);
  write_all(gpu, buffer, values);
  EXPECT_EQ(read_all<float>(gpu, buffer), values);
  EXPECT_LE(gpu.counters().staging_bytes, 40u << 20);
}

TEST(Gpu, ACallbackMayUseTheGpu) {
  Gpu gpu = open_fast();
  std::optional<Buffer> buffer = gpu.create_buffer(4);
  const Dispatch add = make_dispatch(gpu, gpu.compile(increment()), {{*buffer}});
  const ReadRange range{*buffer, 0, 4};
  std::uint32_t value = 0;
  Ticket second = 0;
  const Ticket first = gpu.submit({&add, 1}, {&range, 1}, [&](const ReadResult&) {
    buffer.reset();
    second = gpu.submit({&add, 1}, {&range, 1}, [&](const ReadResult& result) {
      value = *reinterpret_cast<const std::uint32_t*>(result.bytes.data());
    });
  });
  gpu.wait(first);
  gpu.wait(second);
  EXPECT_EQ(value, 2u);
}

TEST(Gpu, ThreadsMayShareIt) {
  Gpu gpu = open_fast();
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&gpu, &good, t] {
      for (int round = 0; round < 5; ++round) {
        const Buffer a = gpu.create_buffer(400);
        const Buffer b = gpu.create_buffer(400);
        write_all(gpu, a, iota(100));
        const Pipeline pipeline = gpu.compile(affine(t + 1, round));
        gpu.submit(Commands{make_dispatch(gpu, pipeline, {{a}, {b}}, 2)});
        const std::vector<float> output = read_all<float>(gpu, b);
        if (output[99] == static_cast<float>(99 * (t + 1) + round)) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 20);
}

TEST(Gpu, ProfileTimesEachDispatch) {
  Gpu gpu = open_fast();
  const Buffer buffer = gpu.create_buffer(4);
  const Commands commands(3, make_dispatch(gpu, gpu.compile(increment()), {{buffer}}));
  if (!gpu.features().timestamp_query) {
    EXPECT_THROW(gpu.profile(commands), DeviceError);
    return;
  }
  const std::vector<double> times = gpu.profile(commands);
  ASSERT_EQ(times.size(), 3u);
  for (const double time : times) EXPECT_LT(time, 1e9);
  EXPECT_GT(times[0] + times[1] + times[2], 0.0);
  EXPECT_EQ(read_all<std::uint32_t>(gpu, buffer)[0], 3u);
}

// --- Failing -------------------------------------------------------------------------------------

TEST_P(BothModes, OutOfMemoryNamesTheBytesAndTheDeviceGoesOn) {
  Gpu gpu = open();
  const std::uint64_t tebibyte = std::uint64_t{1} << 40;
  const std::string text =
      message_of<DeviceError>([&] { gpu.create_buffer(tebibyte, BufferKind::Storage, "weights"); });
  EXPECT_HAS(text, "out of memory");
  EXPECT_HAS(text, "1099511627776 bytes");
  EXPECT_HAS(text, "weights");
  EXPECT_EQ(gpu.counters().buffers_created, 0u);
  const Buffer small = gpu.create_buffer(16);
  write_all(gpu, small, {1, 2, 3, 4});
  EXPECT_EQ(read_all<float>(gpu, small), (std::vector<float>{1, 2, 3, 4}));
}

TEST_P(BothModes, MemoryThatTheDriverRefusesIsOutOfMemoryToo) {
  Gpu gpu = open();
  if (!gpu.adapter().is_software) GTEST_SKIP() << "a real GPU may have the memory";
  // SwiftShader states a limit of 1 GiB and cannot give that much.
  const std::uint64_t bytes = gpu.limits().buffer_bytes;
  std::vector<Buffer> buffers;
  const std::string text = message_of<DeviceError>([&] {
    for (int i = 0; i < 8; ++i) buffers.push_back(gpu.create_buffer(bytes));
  });
  EXPECT_HAS(text, "out of memory");
  EXPECT_HAS(text, std::to_string(bytes) + " bytes");
  buffers.clear();
  const Buffer small = gpu.create_buffer(4);
  write_all(gpu, small, {5});
  EXPECT_EQ(read_all<float>(gpu, small), (std::vector<float>{5}));
}

TEST_P(BothModes, ALostDeviceThrowsEverywhereAndNeverHangs) {
  Gpu gpu = open();
  const Buffer buffer = gpu.create_buffer(64);
  const Dispatch add = make_dispatch(gpu, gpu.compile(increment()), {{buffer}});
  const ReadRange range{buffer, 0, 4};
  int called = 0;
  std::string failure;
  Ticket ticket = 0;
  for (int i = 0; i < 3; ++i) {
    ticket = gpu.submit({&add, 1}, {&range, 1}, [&](const ReadResult& result) {
      ++called;
      failure = result.failure;
    });
  }
  const auto start = std::chrono::steady_clock::now();
  gpu.simulate_loss();
  EXPECT_EQ(called, 3) << "reads under way end at once";
  EXPECT_HAS(failure, "lost");
  EXPECT_HAS(message_of<DeviceError>([&] { gpu.wait(ticket); }), "the device was lost");
  std::vector<float> into(16);
  EXPECT_THROW(gpu.read(buffer, 0, std::as_writable_bytes(std::span(into))), DeviceError);
  EXPECT_THROW(write_all(gpu, buffer, into), DeviceError);
  EXPECT_THROW(gpu.submit({&add, 1}), DeviceError);
  EXPECT_THROW(gpu.submit({&add, 1}, {&range, 1}, {}), DeviceError);
  EXPECT_THROW(gpu.create_buffer(4), DeviceError);
  EXPECT_THROW(gpu.compile(affine(9)), DeviceError);
  EXPECT_THROW(gpu.wait_idle(), DeviceError);
  EXPECT_THROW(gpu.poll(), DeviceError);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));

  Gpu second = open();
  const Buffer fresh = second.create_buffer(4);
  second.submit(Commands{make_dispatch(second, second.compile(increment()), {{fresh}})});
  EXPECT_EQ(read_all<std::uint32_t>(second, fresh)[0], 1u);
}

TEST(Gpu, ALossEndsAWaitOfAnotherThread) {
  Gpu gpu = open_fast();
  const Buffer buffer = gpu.create_buffer(4);
  const Commands many(500, make_dispatch(gpu, gpu.compile(increment()), {{buffer}}));
  const ReadRange range{buffer, 0, 4};
  Ticket ticket = 0;
  for (int i = 0; i < 20; ++i) ticket = gpu.submit(many, {&range, 1}, {});
  std::thread loser([&] { gpu.simulate_loss(); });
  try {
    gpu.wait(ticket);  // may still be done before the loss
  } catch (const DeviceError&) {
  }
  loser.join();
  EXPECT_THROW(gpu.poll(), DeviceError);
}

TEST(Gpu, ReadsThatAreNeverWaitedForEndWithTheDevice) {
  int called = 0;
  {
    Gpu gpu = open_fast();
    const Buffer buffer = gpu.create_buffer(4);
    const ReadRange range{buffer, 0, 4};
    gpu.submit({}, {&range, 1}, [&](const ReadResult&) { ++called; });
  }
  EXPECT_EQ(called, 1);
}

}  // namespace
}  // namespace tensorgrad::webgpu
