// The null device: accepts what the planner makes, refuses what breaks the rules, and says why.
#include "runtime/null/null.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "support/kernel_builder.hpp"
#include "support/op_cases.hpp"
#include "support/random_graph.hpp"
#include "tensorgrad/passes.hpp"

namespace tensorgrad::testing {
namespace {

/// relu(x + bias) over [4, 6], with a sum over the columns.
KernelBuilder sample() {
  KernelBuilder b("sample");
  const Index i = b.outer(4), j = b.inner(6);
  const int x = b.input(24), bias = b.input(6), y = b.output(24), sum = b.output(4);
  const ExprId v = b.op(OpKind::Relu, {b.op(OpKind::Add, {b.load(x, i * 6 + j), b.load(bias, j)})});
  b.store(y, i * 6 + j, v);
  b.store(sum, i, b.reduce(ReduceKind::Sum, v));
  return b;
}

std::string problem(const std::function<void(Kernel&)>& spoil, Target target = {}) {
  target.alignment = 4;
  auto plan = std::make_shared<Plan>();
  plan->target = target;
  plan->kernels = {sample().done()};
  for (const Binding& b : plan->kernels[0].bindings)
    plan->buffers.push_back({"buffer", BufferRole::Temp, b.elements * 4});
  spoil(plan->kernels[0]);
  const auto backend = open_null(target);
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
  for (const BufferSpec& spec : plan->buffers) buffers.push_back(backend->create_buffer(spec));
  try {
    backend->load(plan, buffers);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  }
  return "";
}

TEST(Null, AcceptsAKernelThatKeepsToTheRules) {
  EXPECT_EQ(problem([](Kernel&) {}), "");
}

TEST(Null, NamesWhatIsWrongWithAKernel) {
  EXPECT_EQ(problem([](Kernel& k) { k.bindings[0].elements = 25; }),
            "kernel sample: b0 does not lie inside buffer buffer");
  EXPECT_EQ(problem([](Kernel& k) { k.bindings[1].buffer = 9; }),
            "kernel sample: b1 names a buffer that the plan does not have");
  EXPECT_EQ(problem([](Kernel& k) { k.exprs[0].index = k.exprs[0].index + 1; }),
            "kernel sample: e0 runs from 1 to 24 in 24 elements");
  EXPECT_EQ(problem([](Kernel& k) { k.stores[1].index = k.stores[1].index * 2; }),
            "kernel sample: store 1 runs from 0 to 6 in 4 elements");
  EXPECT_EQ(problem([](Kernel& k) { k.exprs[0].inner = false; }),
            "kernel sample: e0 varies along a row but is not marked so");
  EXPECT_EQ(problem([](Kernel& k) {
              k.exprs[2].args = {0, 3};
            }),
            "kernel sample: e2 uses an expression that is not known yet");
  EXPECT_EQ(problem([](Kernel& k) { k.exprs[2].dtype = i32; }), "kernel sample: e2 mixes dtypes");
  EXPECT_EQ(problem([](Kernel& k) {
              k.bindings[2].written = false;
              k.bindings[2].read = true;
            }),
            "kernel sample: store 0 goes to b2, which is not marked as written");
  EXPECT_EQ(problem([](Kernel& k) {
              k.bindings[0].read = false;
              k.bindings[0].written = true;
            }),
            "kernel sample: e0 loads from b0, which is not marked as read");
  EXPECT_EQ(problem([](Kernel& k) { k.stores.clear(); }), "kernel sample: stores nothing");
  EXPECT_EQ(problem([](Kernel& k) { k.vars[1].extent = 5; }),
            "kernel sample: 6*i0 + i1 takes i1 to have another extent");
}

TEST(Null, RefusesMemoryThatIsReadAndWrittenThroughTwoBindings) {
  EXPECT_EQ(problem([](Kernel& k) { k.bindings[2].buffer = 0; }),
            "kernel sample: b2 and b0 overlap, and the first is written");
  // In place, through one binding, at the same element: allowed; at another: not.
  EXPECT_EQ(problem([](Kernel& k) {
              k.bindings[2].read = true;
              k.exprs[0].binding = 2;
            }),
            "");
  EXPECT_EQ(problem([](Kernel& k) {
              k.bindings[2].read = true;
              k.exprs[1].binding = 2;
            }),
            "kernel sample: e1 reads b2 elsewhere than where it is written");
}

TEST(Null, RefusesDataAsAnIndexWithoutAGuard) {
  const auto with_data = [](bool guarded) {
    return problem([&](Kernel& k) {
      k.bindings[1].dtype = i32;
      k.exprs[1].dtype = i32;
      const Index at = Index::data(1, 6);
      Expr load = k.exprs[0];
      load.index = at;
      if (guarded) load.guards = {{at, 0, 6, 1, true, -1}};
      k.exprs[2] = load;
    });
  };
  EXPECT_EQ(with_data(true), "");
  EXPECT_EQ(with_data(false), "kernel sample: e2 is not guarded though its index is data");
}

TEST(Null, HoldsKernelsToTheTarget) {
  Target small;
  small.name = "small";
  small.max_bindings = 3;
  EXPECT_EQ(problem([](Kernel&) {}, small), "kernel sample binds 4 buffers; small allows 3.");
  small.max_bindings = 8;
  small.max_binding_bytes = 64;
  EXPECT_EQ(problem([](Kernel&) {}, small), "kernel sample: b0 is larger than the target can bind");
}

TEST(Null, RunsNothingAndReadsZeros) {
  const auto backend = open_null();
  auto plan = std::make_shared<Plan>();
  plan->target = backend->target();
  plan->kernels = {sample().done()};
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
  for (const Binding& b : plan->kernels[0].bindings) {
    plan->buffers.push_back({"buffer", BufferRole::Temp, b.elements * 4});
    buffers.push_back(backend->create_buffer(plan->buffers.back()));
  }
  const auto program = backend->load(plan, buffers);
  const float ones[4] = {1, 1, 1, 1};
  backend->write(*buffers[0], 0, 4, f32, ones);
  backend->run(*program, Phases::All);
  float words[4] = {1, 1, 1, 1};
  read_now(*backend, {{buffers[0].get(), 0, 4, f32, words}});
  for (float w : words) EXPECT_EQ(w, 0.0f);
  EXPECT_EQ(backend->counters().dispatches, 1);
  EXPECT_EQ(backend->counters().buffer_bytes, (24 + 6 + 24 + 4) * 4);
  EXPECT_THROW(backend->write(*buffers[1], 4, 4, f32, ones), DeviceError);
}

TEST(Null, AcceptsEveryPlanOfThePlanner) {
  Target gpu;
  gpu.name = "gpu-like";
  gpu.whole_buffers = true;
  gpu.passes.parallelism = 64;
  Target wide;
  wide.name = "cpu-like";
  wide.max_bindings = 64;
  wide.alignment = 64;
  for (const Target& target : {gpu, wide}) {
    const auto backend = open_null(target);
    const auto accepts = [&](const Graph& graph) {
      auto planned = std::make_shared<Plan>(plan(run_passes(graph, target.passes), target));
      std::vector<std::shared_ptr<DeviceBuffer>> buffers;
      for (const BufferSpec& spec : planned->buffers)
        buffers.push_back(backend->create_buffer(spec));
      EXPECT_NO_THROW(backend->load(planned, buffers)) << target.name << "\n"
                                                       << planned->to_string();
    };
    for (const test::OpCase& op_case : test::op_cases()) accepts(*test::build_case(op_case).graph);
    for (std::uint64_t seed = 1; seed <= 100 && !HasFailure(); ++seed)
      accepts(*test::random_graph(seed).graph);
  }
}

}  // namespace
}  // namespace tensorgrad::testing
