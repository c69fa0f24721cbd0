// Kernels and programs through the WebGPU backend, against the plain evaluation of the same
// kernels.
#include "runtime/webgpu/backend.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <thread>

#include "support/kernel_builder.hpp"
#include "support/kernel_eval.hpp"
#include "support/sample_kernels.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::webgpu {
namespace {

using testing::HostBuffers;
using testing::KernelBuilder;

std::shared_ptr<WebGpuBackend> open(bool checked) {
  return std::make_shared<WebGpuBackend>(
      Gpu::open({.adapter = {}, .checked = checked, .cache_folder = {}}));
}

WebGpuBackend& backend() {
  static const std::shared_ptr<WebGpuBackend> opened = open(true);
  return *opened;
}

/// Without the device's own checks, as programs run that are not tests.
WebGpuBackend& unchecked() {
  static const std::shared_ptr<WebGpuBackend> opened = open(false);
  return *opened;
}

/// The dtype of each buffer of a kernel.
std::map<int, DType> dtypes(const Kernel& kernel) {
  std::map<int, DType> result;
  for (const tensorgrad::Binding& b : kernel.bindings) result[b.buffer] = b.dtype;
  return result;
}

std::vector<std::uint32_t> to_words(const std::vector<double>& values, DType dtype) {
  std::vector<std::uint32_t> words;
  for (double v : values) {
    words.push_back(dtype == DType::F32 ? std::bit_cast<std::uint32_t>(static_cast<float>(v))
                                        : static_cast<std::uint32_t>(static_cast<std::int32_t>(v)));
  }
  return words;
}

std::vector<double> from_words(const std::vector<std::uint32_t>& words, DType dtype) {
  std::vector<double> values;
  for (std::uint32_t w : words) {
    values.push_back(dtype == DType::F32 ? static_cast<double>(std::bit_cast<float>(w))
                                         : static_cast<double>(static_cast<std::int32_t>(w)));
  }
  return values;
}

/// A plan of kernels and its buffers on a device, filled from and read back to host buffers.
struct Session {
  Session(WebGpuBackend& device, std::vector<Kernel> kernels, const HostBuffers& host)
      : backend(device) {
    auto made = std::make_shared<Plan>();
    for (const Kernel& k : kernels) {
      for (const auto& [buffer, dtype] : dtypes(k)) types[buffer] = dtype;
    }
    for (const auto& [number, values] : host) {
      made->buffers.resize(std::max(made->buffers.size(), static_cast<std::size_t>(number) + 1));
      BufferSpec& spec = made->buffers[static_cast<std::size_t>(number)];
      spec.name = "buffer " + std::to_string(number);
      spec.bytes = static_cast<std::int64_t>(values.size()) * 4;
    }
    for (const BufferSpec& spec : made->buffers) buffers.push_back(backend.create_buffer(spec));
    made->kernels = std::move(kernels);
    plan = made;
    write(host);
    program = backend.load(plan, buffers);
  }

  void write(const HostBuffers& host) {
    for (const auto& [number, values] : host) {
      const std::vector<std::uint32_t> words = to_words(values, types[number]);
      backend.write(*buffers[static_cast<std::size_t>(number)], 0,
                    static_cast<std::int64_t>(words.size()), types[number], words.data());
    }
  }

  HostBuffers read() {
    std::vector<std::vector<std::uint32_t>> words;
    std::vector<ReadRequest> requests;
    words.reserve(buffers.size());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      words.emplace_back(static_cast<std::size_t>(plan->buffers[i].bytes / 4));
      requests.push_back({buffers[i].get(), 0, static_cast<std::int64_t>(words[i].size()),
                          types[static_cast<int>(i)], words[i].data()});
    }
    read_now(backend, requests);
    HostBuffers host;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      host[static_cast<int>(i)] = from_words(words[i], types[static_cast<int>(i)]);
    }
    return host;
  }

  WebGpuBackend& backend;
  std::map<int, DType> types;
  std::shared_ptr<const Plan> plan;
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
  std::unique_ptr<Program> program;
};

/// f32 may be off by `tolerance` times the largest magnitude in the buffer (or 1), integers not at
/// all.
void expect_near(const HostBuffers& got, const HostBuffers& expected, const Kernel& kernel,
                 double tolerance) {
  for (const auto& [buffer, dtype] : dtypes(kernel)) {
    const std::vector<double>&a = got.at(buffer), &b = expected.at(buffer);
    ASSERT_EQ(a.size(), b.size());
    double scale = 1;
    for (double v : b) {
      if (std::isfinite(v)) scale = std::max(scale, std::fabs(v));
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double allowed = dtype == DType::F32 ? tolerance * scale : 0;
      const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                        std::fabs(a[i] - b[i]) <= allowed;
      ASSERT_TRUE(same) << kernel.name << ": element " << i << " of buffer " << buffer << " is "
                        << a[i] << ", not " << b[i] << " (largest magnitude " << scale << ")\n"
                        << emit_wgsl(kernel, backend().limits()).source;
    }
  }
}

HostBuffers run_once(WebGpuBackend& device, const Kernel& kernel, const HostBuffers& host) {
  Session session(device, {kernel}, host);
  device.run(*session.program, Phases::All);
  return session.read();
}

constexpr double kTolerance = 2e-6;

void expect_right(const Kernel& kernel) {
  HostBuffers host = testing::sample_buffers(kernel);
  const HostBuffers got = run_once(backend(), kernel, host);
  testing::evaluate(kernel, host);
  expect_near(got, host, kernel, kTolerance);
}

// ---- kernels

HostBuffers zeros(int count, std::size_t n) {
  HostBuffers host;
  for (int i = 0; i < count; ++i) host[i].assign(n, 0);
  return host;
}

struct Sample {
  Kernel kernel;
};
std::ostream& operator<<(std::ostream& out, const Sample& sample) {
  return out << sample.kernel.name;
}

std::vector<Sample> samples() {
  std::vector<Sample> result;
  for (Kernel& kernel : testing::sample_kernels()) result.push_back({std::move(kernel)});
  return result;
}

class SampleKernel : public ::testing::TestWithParam<Sample> {};

TEST_P(SampleKernel, ComputesWhatItMeans) { expect_right(GetParam().kernel); }

// The same without the device's checks, every buffer lying between elements that would be noticed
// in a result and that a result must not overwrite.
TEST_P(SampleKernel, NeverLeavesItsBuffers) {
  constexpr std::int64_t kMargin = 64;
  Kernel kernel = GetParam().kernel;
  HostBuffers host = testing::sample_buffers(kernel);
  for (tensorgrad::Binding& b : kernel.bindings) b.offset += kMargin;
  for (const auto& [buffer, dtype] : dtypes(kernel)) {
    const double poison = dtype == DType::F32   ? std::numeric_limits<double>::quiet_NaN()
                          : dtype == DType::I32 ? 1e6
                                                : 1;
    std::vector<double>& data = host[buffer];
    data.insert(data.begin(), kMargin, poison);
    data.insert(data.end(), kMargin, poison);
  }
  const HostBuffers got = run_once(unchecked(), kernel, host);
  testing::evaluate(kernel, host);
  expect_near(got, host, kernel, kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Backend, SampleKernel, ::testing::ValuesIn(samples()),
                         [](const auto& info) { return info.param.kernel.name; });

// Too many elements for the evaluator: products whose tiles are the larger ones.
TEST(Backend, MultipliesInLargeTiles) {
  for (const testing::MatMulSample& s : {testing::MatMulSample{1030, 1030, 9, 4, false, true},
                                         testing::MatMulSample{100, 70, 19, 32, true, false}}) {
    const Kernel kernel = testing::matmul_kernel(s);
    HostBuffers host = testing::sample_buffers(kernel);
    const HostBuffers got = run_once(unchecked(), kernel, host);
    const auto at = [](const std::vector<double>& data, std::int64_t i) {
      return data[static_cast<std::size_t>(i)];
    };
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t m = 0; m < s.m; ++m) {
        for (std::int64_t n = 0; n < s.n; ++n) {
          double sum = 0;
          for (std::int64_t k = 0; k < s.k; ++k) {
            sum += at(host[0], b * s.m * s.k + (s.transpose_lhs ? k * s.m + m : m * s.k + k)) *
                   at(host[1], b * s.n * s.k + (s.transpose_rhs ? n * s.k + k : k * s.n + n));
          }
          ASSERT_NEAR(at(got.at(2), (b * s.m + m) * s.n + n), sum, 1e-4)
              << b << ", " << m << ", " << n;
        }
      }
    }
  }
}

TEST(Backend, FoldsInfinitiesAndNan) {
  constexpr double inf = std::numeric_limits<double>::infinity(),
                   nan = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t columns : {3, 40}) {
    KernelBuilder b("extremes");
    const Index i = b.outer(5), j = b.inner(columns);
    const int x = b.input(5 * columns);
    const ExprId value = b.load(x, i * columns + j);
    for (ReduceKind kind :
         {ReduceKind::Max, ReduceKind::Min, ReduceKind::ArgMax, ReduceKind::ArgMin}) {
      const bool position = kind == ReduceKind::ArgMax || kind == ReduceKind::ArgMin;
      b.store(b.output(5, position ? i32 : f32), i, b.reduce(kind, value));
    }
    const Kernel kernel = b.done();
    HostBuffers host = testing::sample_buffers(kernel);
    const auto row = [&](std::int64_t r, double fill,
                         std::vector<std::pair<std::int64_t, double>> others) {
      for (std::int64_t c = 0; c < columns; ++c)
        host[0][static_cast<std::size_t>(r * columns + c)] = fill;
      for (const auto& [c, v] : others) host[0][static_cast<std::size_t>(r * columns + c)] = v;
    };
    row(0, -inf, {});  // a row that is wholly masked
    row(1, inf, {{1, 3}});
    row(2, 1, {{1, nan}, {2, inf}});
    row(3, 7, {});  // all equal: the first wins
    row(4, -inf, {{columns - 2, -0x1.8p127}, {columns - 1, -0x1.8p127}});
    const HostBuffers got = run_once(backend(), kernel, host);
    testing::evaluate(kernel, host);
    expect_near(got, host, kernel, 0);
  }
}

TEST(Backend, ConvertsInPlace) {
  KernelBuilder b("cast");
  const Index i = b.outer(10);
  const int x = b.input(10), y = b.output(10, i32), z = b.output(10, boolean);
  b.binding(y).buffer = b.binding(z).buffer = b.binding(x).buffer;
  b.binding(z).offset = 64;
  const ExprId value = b.load(x, i);
  b.store(y, i, b.op(OpKind::Cast, {value}, i32));
  b.store(z, i, b.op(OpKind::Less, {value, b.constant(25)}, boolean));
  Session session(backend(), {b.done()}, zeros(1, 74));
  std::vector<float> from(10);
  for (std::size_t k = 0; k < from.size(); ++k) from[k] = 10.5f * static_cast<float>(k);
  backend().write(*session.buffers[0], 0, 10, f32, from.data());
  backend().run(*session.program, Phases::All);
  std::vector<std::int32_t> whole(10), small(10);
  read_now(backend(), {{session.buffers[0].get(), 0, 10, i32, whole.data()},
                       {session.buffers[0].get(), 64, 10, boolean, small.data()}});
  EXPECT_EQ(whole, (std::vector<std::int32_t>{0, 10, 21, 31, 42, 52, 63, 73, 84, 94}));
  EXPECT_EQ(small, (std::vector<std::int32_t>{1, 1, 1, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Backend, RunsMoreWorkgroupsThanADimensionHolds) {
  KernelBuilder b("increment");
  const std::int64_t n = 64 * 200 + 5;
  const Index i = b.outer(n);
  const int x = b.input(n), y = b.output(n);
  b.store(y, i, b.op(OpKind::Add, {b.load(x, i), b.op(OpKind::Cast, {b.position(i)}, f32)}));
  const Kernel kernel = b.done();
  WgslLimits limits = backend().limits();
  for (std::uint32_t most : {5u, 14u, 15u, 201u}) {  // a grid of three, of two and of one dimension
    limits.workgroups = most;
    if (most == 5) limits.workgroups = 6;
    const WgslKernel printed = emit_wgsl(kernel, limits);
    for (std::uint32_t g : printed.grid) EXPECT_LE(g, limits.workgroups);
    Gpu& gpu = backend().gpu();
    const Pipeline pipeline = gpu.compile(
        ShaderSource{"increment", printed.source, "main", {Access::Read, Access::ReadWrite}});
    const std::vector<float> zeros(static_cast<std::size_t>(n));
    const Buffer in = gpu.create_buffer(zeros.size() * 4),
                 out = gpu.create_buffer(zeros.size() * 4);
    const Binding bindings[] = {{in}, {out}};
    const Dispatch dispatch{pipeline, gpu.bind(pipeline, bindings), printed.grid[0],
                            printed.grid[1], printed.grid[2]};
    gpu.submit({&dispatch, 1});
    std::vector<float> result(zeros.size());
    gpu.read(out, 0, std::as_writable_bytes(std::span(result)));
    for (std::size_t e = 0; e < result.size(); ++e)
      ASSERT_EQ(result[e], static_cast<float>(e)) << most;
  }
}

// ---- programs

/// y = x + 1 over n elements, from buffer `from` to buffer `to`.
Kernel increment(int from, int to, std::int64_t n, Phase phase = Phase::Gradient) {
  KernelBuilder b("increment");
  const Index i = b.outer(n);
  const int x = b.input(n), y = b.output(n);
  b.binding(x).buffer = from;
  b.binding(y).buffer = to;
  b.store(y, i, b.op(OpKind::Add, {b.load(x, i), b.constant(1)}));
  b.kernel().phase = phase;
  return b.done();
}

TEST(Backend, RunsKernelsInOrderAndPhasesApart) {
  Session session(backend(),
                  {increment(0, 1, 10), increment(1, 2, 10), increment(2, 0, 10, Phase::Update)},
                  zeros(3, 10));
  backend().run(*session.program, Phases::Gradient);
  HostBuffers host = session.read();
  EXPECT_EQ(host[0][9], 0);
  EXPECT_EQ(host[2][9], 2);
  backend().run(*session.program, Phases::Update);
  EXPECT_EQ(session.read()[0][9], 3);
  for (int i = 0; i < 5; ++i) backend().run(*session.program, Phases::All);
  EXPECT_EQ(session.read()[0][9], 18);
}

TEST(Backend, TakesWritesRunsAndReadsInTheOrderOfTheCalls) {
  Session session(backend(), {increment(0, 1, 4)}, zeros(2, 4));
  std::vector<float> read(3);
  int done = 0;
  const Completion count{[](void* context, std::exception_ptr error) {
                           EXPECT_EQ(error, nullptr);
                           ++*static_cast<int*>(context);
                         },
                         &done};
  for (int i = 0; i < 3; ++i) {
    const float value = 10.0f * static_cast<float>(i);
    backend().write(*session.buffers[0], 2, 1, f32, &value);
    backend().run(*session.program, Phases::All);
    backend().read({{session.buffers[1].get(), 2, 1, f32, &read[static_cast<std::size_t>(i)]}},
                   count);
  }
  while (done < 3) backend().poll();
  EXPECT_EQ(read, (std::vector<float>{1, 11, 21}));
}

TEST(Backend, ARunAndTheReadAfterItAreOneSubmit) {
  Session session(backend(), {increment(0, 1, 4), increment(1, 0, 4)}, zeros(2, 4));
  const DeviceCounters before = backend().counters();
  constexpr int kSteps = 4;
  float loss = 0;
  for (int i = 0; i < kSteps; ++i) {
    backend().run(*session.program, Phases::All);
    read_now(backend(), {{session.buffers[0].get(), 0, 1, f32, &loss}});
  }
  EXPECT_EQ(loss, 2 * kSteps);
  DeviceCounters after = backend().counters();
  EXPECT_EQ(after.submits - before.submits, kSteps);
  EXPECT_EQ(after.dispatches - before.dispatches, 2 * kSteps);
  backend().run(*session.program, Phases::All);  // nobody reads: it runs all the same
  after = backend().counters();
  EXPECT_EQ(after.submits - before.submits, kSteps + 1);
}

TEST(Backend, CountsWhatItCreates) {
  const DeviceCounters before = backend().counters();
  const auto a = backend().create_buffer({"a", BufferRole::Temp, 1000, false});
  const auto b = backend().create_buffer({"b", BufferRole::Temp, 24, false});
  const DeviceCounters after = backend().counters();
  EXPECT_EQ(after.buffers - before.buffers, 2);
  EXPECT_EQ(after.buffer_bytes - before.buffer_bytes, 1024);
  std::vector<float> values(250, 1.0f);
  read_now(backend(), {{a.get(), 0, 250, f32, values.data()}});
  EXPECT_EQ(values, std::vector<float>(250)) << "a buffer starts as zeros";
}

TEST(Backend, ReadsSeveralPartsAndLargeOnes) {
  constexpr std::int64_t kLarge = (20 << 20) / 4 + 3;  // more than one piece
  const auto small = backend().create_buffer({"small", BufferRole::Temp, 40, false});
  const auto large = backend().create_buffer({"large", BufferRole::Temp, kLarge * 4, false});
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(kLarge));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int32_t>(i * 7);
  backend().write(*large, 0, kLarge, i32, numbers.data());
  backend().write(*small, 0, 10, i32, numbers.data());
  std::vector<std::int32_t> parts(4), all(numbers.size());
  read_now(backend(), {{small.get(), 3, 2, i32, parts.data()},
                       {large.get(), 0, kLarge, i32, all.data()},
                       {small.get(), 8, 2, i32, parts.data() + 2}});
  EXPECT_EQ(parts, (std::vector<std::int32_t>{21, 28, 56, 63}));
  EXPECT_EQ(all, numbers);
  read_now(backend(), {});
}

TEST(Backend, GivesTheSameBitsEveryTime) {
  for (const Kernel& kernel : testing::sample_kernels()) {
    if (kernel.name != "softmax_2x1000" && kernel.name != "scatter_12x33_last") continue;
    const HostBuffers host = testing::sample_buffers(kernel),
                      first = run_once(backend(), kernel, host);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(run_once(backend(), kernel, host), first) << kernel.name;
  }
}

TEST(Backend, CompilesEqualKernelsOnce) {
  const std::uint64_t before = backend().gpu().counters().pipelines_compiled;
  std::vector<Kernel> layers;
  for (int i = 0; i < 6; ++i) layers.push_back(increment(i, i + 1, 77));
  Session session(backend(), layers, zeros(7, 77));
  EXPECT_EQ(backend().gpu().counters().pipelines_compiled - before, 1u);
  backend().run(*session.program, Phases::All);
  EXPECT_EQ(session.read()[6][76], 6);
}

TEST(Backend, MayBeCalledFromSeveralThreads) {
  constexpr int kThreads = 4, kRuns = 20;
  std::vector<std::unique_ptr<Session>> sessions;
  for (int t = 0; t < kThreads; ++t) {
    sessions.push_back(std::make_unique<Session>(
        backend(), std::vector<Kernel>{increment(0, 1, 8), increment(1, 0, 8)}, zeros(2, 8)));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Session& session = *sessions[static_cast<std::size_t>(t)];
      for (int r = 1; r <= kRuns; ++r) {
        backend().run(*session.program, Phases::All);
        struct Result {
          float value = 0;
          std::atomic<bool> done = false;
        } result;
        backend().read(
            {{session.buffers[0].get(), 5, 1, f32, &result.value}},
            {[](void* context, std::exception_ptr) { static_cast<Result*>(context)->done = true; },
             &result});
        while (!result.done) backend().poll();
        if (result.value != static_cast<float>(2 * r)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// ---- errors

TEST(Backend, SaysWhatItsTargetIs) {
  const Target& target = backend().target();
  EXPECT_EQ(target.name, "webgpu");
  EXPECT_TRUE(target.whole_buffers);
  EXPECT_GE(target.max_bindings, 8);
  EXPECT_GE(target.max_binding_bytes, 128 << 20);
  EXPECT_EQ(target.alignment % 256, 0);
  EXPECT_NE(backend().description().find("("), std::string::npos);
}

/// A graph of two nodes, for errors to name.
std::shared_ptr<const Graph> graph_for_errors() {
  auto graph = std::make_shared<Graph>();
  const NodeId input =
      graph->add(OpKind::TensorInput, {}, InputAttr{"x", {f32, {4}}}, {"/home/user/model.cpp", 7});
  graph->add(OpKind::Neg, {graph->node(input).output()}, NoAttrs{}, {"/home/user/model.cpp", 12});
  return graph;
}

std::string load_error(Kernel kernel) {
  auto plan = std::make_shared<Plan>();
  plan->graph = graph_for_errors();
  kernel.nodes = {1};
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
  for (const tensorgrad::Binding& b : kernel.bindings) {
    plan->buffers.push_back({"buffer", BufferRole::Temp, b.elements * 4, false});
    buffers.push_back(backend().create_buffer(plan->buffers.back()));
  }
  plan->kernels = {increment(0, 1, 4), std::move(kernel)};
  try {
    backend().load(plan, buffers);
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "";
}

TEST(Backend, AShaderThatFailsIsTracedToTheUsersLine) {
  KernelBuilder b("negate");
  const Index i = b.outer(4);
  const int x = b.input(4, boolean), y = b.output(4, boolean);
  const ExprId value = b.load(x, i);
  b.store(y, i, b.op(OpKind::Neg, {value}));  // there is no minus for bool
  const std::string error = load_error(b.done());
  for (const char* part : {"\"negate (kernel 1)\" does not compile", "let neg1 = -load0;",
                           "\n  in neg at model.cpp:12", "\n  computing neg at model.cpp:12"}) {
    EXPECT_NE(error.find(part), std::string::npos) << part << "\n" << error;
  }
}

TEST(Backend, AKernelWithTooManyBuffersIsNamed) {
  KernelBuilder b("many");
  const Index i = b.outer(4);
  ExprId sum = b.load(b.input(4), i);
  for (int k = 0; k < 40; ++k) sum = b.op(OpKind::Add, {sum, b.load(b.input(4), i)});
  b.store(b.output(4), i, sum);
  const std::string error = load_error(b.done());
  EXPECT_NE(error.find("the kernel \"many\" needs 42 buffers; the device allows "),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("computing neg at model.cpp:12"), std::string::npos) << error;
}

TEST(Backend, ABufferThatIsTooLargeIsNamed) {
  try {
    backend().create_buffer({"params", BufferRole::Param, std::int64_t{1} << 45, false});
    FAIL() << "32 TiB were accepted";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("the buffer \"params\" needs 35184372088832 bytes"),
              std::string::npos)
        << error.what();
  }
}

TEST(Backend, ALostDeviceThrowsAndIsReplaced) {
  const auto first = open_webgpu();
  EXPECT_EQ(open_webgpu(), first) << "one device for all";
  auto& device = dynamic_cast<WebGpuBackend&>(*first);
  Session session(device, {increment(0, 1, 4)}, zeros(2, 4));
  std::vector<float> value(4);
  struct Result {
    int calls = 0;
    std::exception_ptr error;
  } result;
  device.run(*session.program, Phases::All);
  device.read({{session.buffers[1].get(), 0, 4, f32, value.data()}},
              {[](void* context, std::exception_ptr error) {
                 auto* r = static_cast<Result*>(context);
                 ++r->calls;
                 r->error = error;
               },
               &result});
  device.gpu().simulate_loss();
  // The read under way ends, one way or the other; what comes after it throws.
  while (result.calls == 0) device.poll();
  EXPECT_EQ(result.calls, 1);
  const auto step = [&] {
    device.run(*session.program, Phases::All);
    read_now(device, {{session.buffers[1].get(), 0, 4, f32, value.data()}});
  };
  EXPECT_THROW(step(), DeviceError);
  EXPECT_THROW(device.write(*session.buffers[0], 0, 4, f32, value.data()), DeviceError);
  EXPECT_TRUE(device.is_lost());
  const auto second = open_webgpu();
  EXPECT_NE(second, first);
  EXPECT_FALSE(dynamic_cast<WebGpuBackend&>(*second).is_lost());
}

}  // namespace
}  // namespace tensorgrad::webgpu
