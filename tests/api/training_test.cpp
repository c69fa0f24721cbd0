// Training, attaching, captures and parameters, on every device that computes.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::test {
namespace {

struct Mlp {
  nn::Linear l1{1, 16}, l2{16, 16}, l3{16, 1};
  Tensor operator()(const Tensor& x) const { return l3(relu(l2(relu(l1(x))))); }
};

constexpr int kBatch = 32;

std::vector<float> xs(int step) {
  std::vector<float> x(kBatch);
  for (int i = 0; i < kBatch; ++i) {
    x[static_cast<std::size_t>(i)] =
        6.0f * static_cast<float>((step * kBatch + i) * 7919 % 10007) / 10007.0f - 3.0f;
  }
  return x;
}

std::vector<float> sines(const std::vector<float>& x) {
  std::vector<float> y;
  for (float v : x) y.push_back(std::sin(v));
  return y;
}

Tensor mlp_loss(const Mlp& m, const Inputs& in) { return mean(square(m(in["x"]) - in["y"])); }
Tensor predict(const Mlp& m, const Inputs& in) { return m(in["x"]); }

class OnDevice : public ::testing::TestWithParam<const char*> {
 protected:
  Device device() const { return Device::named(GetParam()); }

  Training<Mlp> sine(std::optional<Optimizer> optimizer = Adam{.lr = 0.01},
                     std::uint64_t seed = 42) const {
    return compile(Mlp{}, mlp_loss,
                   {.inputs = {{"x", {kBatch, 1}}, {"y", {kBatch, 1}}},
                    .optimizer = optimizer,
                    .seed = seed,
                    .device = device()});
  }

  static float step(Training<Mlp>& train, int i) {
    const std::vector<float> x = xs(i), y = sines(x);
    return train.step({{"x", x}, {"y", y}}).loss;
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, OnDevice, ::testing::Values("reference", "cpu", "webgpu"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(OnDevice, TrainingLowersTheLoss) {
  auto train = sine();
  const float first = step(train, 0);
  float last = first;
  for (int i = 1; i < 60; ++i) last = step(train, i);
  EXPECT_LT(last, 0.2f * first);
  EXPECT_EQ(train.step_count(), 60);
}

TEST_P(OnDevice, ResetGivesTheFirstLossesAgain) {
  auto train = sine();
  std::vector<float> first, again;
  for (int i = 0; i < 5; ++i) first.push_back(step(train, i));
  train.reset();
  for (int i = 0; i < 5; ++i) again.push_back(step(train, i));
  EXPECT_EQ(first, again);
}

TEST_P(OnDevice, TheSeedDecidesTheFirstValues) {
  auto a = sine(Adam{}, 1), b = sine(Adam{}, 1), c = sine(Adam{}, 2);
  EXPECT_EQ(a.download_params(), b.download_params());
  EXPECT_NE(a.download_params(), c.download_params());
}

TEST_P(OnDevice, AnAttachedForwardSeesEveryStepWithoutCopies) {
  auto train = sine();
  auto forward = train.attach(predict, {.inputs = {{"x", {kBatch, 1}}}});
  EXPECT_EQ(forward.memory().params, 0) << "the parameters are shared";
  const auto loss_of = [&](const std::vector<float>& x) {
    const std::vector<float> y = forward.run({{"x", x}}).output, want = sines(x);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += std::pow(y[i] - want[i], 2);
    return sum / static_cast<double>(y.size());
  };
  for (int i = 0; i < 4; ++i) {
    const double seen = loss_of(xs(i));
    EXPECT_NEAR(step(train, i), seen, 1e-5);
  }
  EXPECT_EQ(forward.output_shape(), (Shape{kBatch, 1}));
}

TEST_P(OnDevice, AttachedAtAnotherBatchSize) {
  auto train = sine();
  auto forward = train.attach(predict, {.inputs = {{"x", {1, 1}}}});
  EXPECT_EQ(forward.run({{"x", std::vector{0.5f}}}).output.size(), 1u);
}

TEST_P(OnDevice, AForwardOutlivesTheTraining) {
  std::optional<Forward<Mlp>> forward;
  {
    auto train = sine();
    forward = train.attach(predict, {.inputs = {{"x", {1, 1}}}});
  }
  EXPECT_TRUE(std::isfinite(forward->run({{"x", std::vector{0.5f}}}).output[0]));
}

TEST_P(OnDevice, ParametersGoDownAndUp) {
  auto a = sine(Adam{}, 1), b = sine(Adam{}, 2);
  step(a, 0);
  const ParamValues values = a.download_params();
  EXPECT_EQ(values.size(), 6u);
  EXPECT_EQ(values.at("l2.W").size(), 256u);
  b.upload_params(values);
  EXPECT_EQ(b.download_params(), values);
  b.upload_params({{"l3.b", {7.0f}}}, {.partial = true});
  EXPECT_EQ(b.download_params().at("l3.b"), std::vector<float>{7.0f});
  EXPECT_EQ(b.download_params().at("l2.W"), values.at("l2.W"));
}

TEST_P(OnDevice, AsynchronousStepsAndRunStepsGiveTheSameLosses) {
  auto one = sine(), many = sine(), all = sine();
  std::vector<float> want, got;
  std::vector<PendingLoss> pending;
  for (int i = 0; i < 20; ++i) {
    want.push_back(step(one, i));
    const std::vector<float> x = xs(i), y = sines(x);
    pending.push_back(many.step_async({{"x", x}, {"y", y}}));
  }
  for (PendingLoss& p : pending) got.push_back(p.get());
  EXPECT_EQ(got, want);
  EXPECT_EQ(all.run_steps(20,
                          [](std::int64_t i) {
                            const std::vector<float> x = xs(static_cast<int>(i));
                            return Batch{{"x", x}, {"y", sines(x)}};
                          }),
            want);
}

TEST_P(OnDevice, ManyStepsGiveTheLossesOfSingleOnes) {
  // More than fit one part, and no multiple of it.
  constexpr int kSteps = 150;
  auto one = sine(), many = sine();
  std::vector<float> expected;
  for (int i = 0; i < kSteps; ++i) expected.push_back(step(one, i));
  const auto batch = [](std::int64_t i) {
    const std::vector<float> x = xs(static_cast<int>(i));
    return Batch{{"x", x}, {"y", sines(x)}};
  };
  EXPECT_EQ(many.run_steps(kSteps, batch), expected);
  EXPECT_EQ(many.step_count(), kSteps);
  EXPECT_EQ(many.run_steps(0, batch), std::vector<float>{});
  EXPECT_EQ(step(many, kSteps), step(one, kSteps));
}

TEST_P(OnDevice, ABadBatchAmongManyLeavesTheTrainingUsable) {
  auto train = sine();
  const auto batch = [](std::int64_t i) {
    const std::vector<float> x = xs(static_cast<int>(i));
    return i == 70 ? Batch{{"x", x}} : Batch{{"x", x}, {"y", sines(x)}};
  };
  EXPECT_THROW(train.run_steps(100, batch), ShapeError);
  // On the reference steps go one by one; elsewhere whole parts do.
  EXPECT_LE(train.step_count(), 70);
  const std::int64_t done = train.step_count();
  step(train, 0);
  EXPECT_EQ(train.step_count(), done + 1);
}

TEST_P(OnDevice, WithoutAnOptimizerAStepChangesNothing) {
  auto train = sine(std::nullopt);
  const ParamValues before = train.download_params();
  const float loss = step(train, 0);
  EXPECT_EQ(step(train, 0), loss);
  EXPECT_EQ(train.download_params(), before);
  const ParamValues grads = train.download_param_grads();
  EXPECT_EQ(grads.size(), 6u);
  // d loss / d b3 = mean of 2·(prediction − target): a difference quotient of the loss itself.
  ParamValues moved = before;
  moved["l3.b"][0] += 1e-2f;
  train.upload_params(moved);
  const float up = step(train, 0);
  moved["l3.b"][0] -= 2e-2f;
  train.upload_params(moved);
  const float down = step(train, 0);
  EXPECT_NEAR(grads.at("l3.b")[0], (up - down) / 2e-2f, 2e-3);
}

TEST_P(OnDevice, SetLrOverridesTheSchedule) {
  auto train = sine(SGD{.lr = lr::linear(1.0, 0.0, 10)});
  train.set_lr(0.0);
  const ParamValues before = train.download_params();
  step(train, 0);
  EXPECT_EQ(train.download_params(), before);
  train.set_lr(0.1);
  step(train, 1);
  EXPECT_NE(train.download_params(), before);
}

TEST_P(OnDevice, ResettingTheOptimizerKeepsTheParameters) {
  auto train = sine();
  for (int i = 0; i < 3; ++i) step(train, i);
  const ParamValues before = train.download_params();
  train.reset_optimizer_state();
  EXPECT_EQ(train.download_params(), before);
  EXPECT_EQ(train.step_count(), 0);
}

TEST_P(OnDevice, AResumedTrainingGivesTheSameLosses) {
  const std::string path =
      ::testing::TempDir() + "/tensorgrad_resume_" + GetParam() + ".safetensors";
  const Optimizer optimizers[] = {Adam{.lr = lr::cosine(0.05, 10)}, AdamW{.clip_norm = 0.1},
                                  SGD{.lr = 0.1, .momentum = 0.9}, SGD{}};
  for (const Optimizer& optimizer : optimizers) {
    auto train = sine(optimizer);
    for (int i = 0; i < 3; ++i) step(train, i);
    train.save(path, {{"note", "three steps"}});
    std::vector<float> want, got;
    for (int i = 3; i < 6; ++i) want.push_back(step(train, i));
    auto resumed = sine(optimizer, 7);
    EXPECT_EQ(resumed.load(path), (std::map<std::string, std::string>{{"note", "three steps"}}));
    EXPECT_EQ(resumed.step_count(), 3);
    EXPECT_EQ(resumed.seed(), 42u);
    for (int i = 3; i < 6; ++i) got.push_back(step(resumed, i));
    if (std::string(GetParam()) == "reference") {  // which keeps doubles, but saves floats
      for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], want[i], 1e-6);
    } else {
      EXPECT_EQ(got, want);
    }
  }
  auto other = sine(Adam{});
  const ParamValues before = other.download_params();
  EXPECT_THROW(other.load(path), IoError) << "saved without moments";
  EXPECT_THROW(other.load(path + ".missing"), IoError);
  EXPECT_EQ(other.download_params(), before);
  std::remove(path.c_str());
}

struct Frozen {
  Tensor base = param({4, 4}, {.init = init::xavier, .trainable = false});
  Tensor head = param({4, 1});
};

TEST_P(OnDevice, FrozenParametersStayAndHaveNoGradientNorMoments) {
  auto train =
      compile(Frozen{},
              [](const Frozen& m, const Inputs& in) {
                return mean(square(matmul(matmul(in["x"], m.base), m.head) - 1.0));
              },
              {.inputs = {{"x", {2, 4}}}, .optimizer = Adam{.lr = 0.1}, .device = device()});
  const ParamValues before = train.download_params();
  train.step({{"x", std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}}});
  const ParamValues after = train.download_params();
  EXPECT_EQ(after.at("base"), before.at("base"));
  EXPECT_NE(after.at("head"), before.at("head"));
  EXPECT_EQ(train.download_param_grads().count("base"), 0u);
  EXPECT_EQ(train.memory().moments, 2 * train.memory().gradients);
}

struct Decayed {
  Tensor w = param({8}, {.init = init::uniform(1.0)});
  Tensor gain = param({8}, {.init = init::ones});
  Tensor kept = param({8}, {.init = init::uniform(1.0), .decay = false});
};
Tensor no_gradient_loss(const Decayed& m, const Inputs&) {
  return mean((m.w + m.gain + m.kept) * 0.0);
}

TEST_P(OnDevice, WeightDecayFollowsFlagsAndFilter) {
  const auto shrunk = [&](DecayFilter filter) {
    auto train = compile(
        Decayed{}, no_gradient_loss,
        {.optimizer = AdamW{.lr = 0.1, .weight_decay = 0.5, .decay_filter = std::move(filter)},
         .device = device()});
    const ParamValues before = train.download_params();
    train.step({});
    const ParamValues after = train.download_params();
    std::map<std::string, double> ratio;
    for (const auto& [name, values] : before) ratio[name] = after.at(name)[3] / values[3];
    return ratio;
  };
  const auto flags = shrunk({});
  EXPECT_NEAR(flags.at("w"), 0.95, 1e-5);
  EXPECT_NEAR(flags.at("gain"), 1.0, 1e-6);
  EXPECT_NEAR(flags.at("kept"), 1.0, 1e-6);
  const auto filtered = shrunk([](const std::string& name) { return name == "gain"; });
  EXPECT_NEAR(filtered.at("w"), 1.0, 1e-6);
  EXPECT_NEAR(filtered.at("gain"), 0.95, 1e-5);
}

TEST_P(OnDevice, CapturesAreReadOnDemand) {
  auto train = compile(Mlp{},
                       [](const Mlp& m, const Inputs& in) {
                         const Tensor h = capture("hidden", relu(m.l1(in["x"])));
                         return mean(square(m.l3(relu(m.l2(h))) - in["y"]));
                       },
                       {.inputs = {{"x", {kBatch, 1}}, {"y", {kBatch, 1}}},
                        .optimizer = Adam{},
                        .device = device()});
  const std::vector<float> x = xs(0), y = sines(x);
  const ParamValues params = train.download_params();
  const StepResult result = train.step({{"x", x}, {"y", y}}, {.captures = true});
  ASSERT_TRUE(result.captures.has("hidden"));
  EXPECT_EQ(result.captures.shape("hidden"), (Shape{kBatch, 16}));
  EXPECT_EQ(result.captures.names(), std::vector<std::string>{"hidden"});
  const std::vector<float> hidden = result.captures.get("hidden");
  for (std::size_t i = 0; i < 5; ++i) {
    const float want = std::max(0.0f, x[i] * params.at("l1.W")[3] + params.at("l1.b")[3]);
    EXPECT_NEAR(hidden[i * 16 + 3], want, 1e-5);
  }
  EXPECT_TRUE(train.step({{"x", x}, {"y", y}}).captures.names().empty());
}

TEST_P(OnDevice, PerHeadCapturesOfAttention) {
  struct Model {
    nn::MultiHeadAttention attn{8, 2, {.capture = "attention"}};
  };
  auto forward =
      compile_forward(Model{}, [](const Model& m, const Inputs& in) { return m.attn(in["x"]); },
                      {.inputs = {{"x", {1, 5, 8}}}, .device = device()});
  std::vector<float> x(40);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  const RunResult result = forward.run({{"x", x}}, {.captures = true});
  const auto heads = result.captures.per_head("attention");
  ASSERT_EQ(heads.size(), 2u);
  for (const auto& head : heads) {
    ASSERT_EQ(head.size(), 25u);
    EXPECT_NEAR(head[0], 1.0f, 1e-6);  // the first position sees only itself
    EXPECT_EQ(head[1], 0.0f);
    EXPECT_NEAR(head[20] + head[21] + head[22] + head[23] + head[24], 1.0f, 1e-5);
  }
}

TEST_P(OnDevice, SeveralNamedOutputsOfAnyDtype) {
  struct Empty {};
  auto forward = compile_forward(
      Empty{},
      [](const Empty&, const Inputs& in) {
        const Tensor x = in["x"];
        return Outputs{
            {"ids", argmax(x, -1)}, {"positive", greater(x, 0.0)}, {"twice", x * 2.0}, {"same", x}};
      },
      {.inputs = {{"x", {2, 3}}}, .device = device()});
  const RunResult r = forward.run({{"x", std::vector<float>{1, 5, -2, -3, -9, -1}}});
  EXPECT_EQ(r["ids"].as<std::int32_t>(), (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(r["positive"].as<std::int32_t>(), (std::vector<std::int32_t>{1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(r["twice"].as<float>()[1], 10.0f);
  EXPECT_EQ(r["same"].as<float>()[5], -1.0f);
  EXPECT_TRUE(r.output.empty());
  EXPECT_THROW(r["other"], Error);
  EXPECT_THROW(r["ids"].as<float>(), Error);
}

TEST_P(OnDevice, StateLivesFromRunToRunAndWriteBacksTakeEffectTogether) {
  struct Empty {};
  auto forward = compile_forward(Empty{},
                                 [](const Empty&, const Inputs& in) {
                                   const Tensor a = state_input("a", {2}, f32, 1.0),
                                                b = state_input("b", {2}, f32, 10.0);
                                   write_back(a, b);  // a swap: each reads the other's old value
                                   write_back(b, a + in["x"]);
                                   return Outputs{{"a", a * 1.0}, {"b", b * 1.0}};
                                 },
                                 {.inputs = {{"x", {2}}}, .device = device()});
  const std::vector<float> x{1, 2};
  EXPECT_EQ(forward.run({{"x", x}})["a"].as<float>(), (std::vector<float>{1, 1}));
  RunResult r = forward.run({{"x", x}});
  EXPECT_EQ(r["a"].as<float>(), (std::vector<float>{10, 10}));
  EXPECT_EQ(r["b"].as<float>(), (std::vector<float>{2, 3}));
  r = forward.run({{"x", x}});
  EXPECT_EQ(r["a"].as<float>(), (std::vector<float>{2, 3}));
  EXPECT_EQ(r["b"].as<float>(), (std::vector<float>{11, 12}));
}

TEST_P(OnDevice, SharedParametersByHand) {
  auto train = sine();
  auto forward = compile_forward(
      Mlp{}, predict, {.inputs = {{"x", {2, 1}}}, .device = device(), .params = train.params()});
  step(train, 0);
  EXPECT_EQ(forward.download_params(), train.download_params());
}

TEST_P(OnDevice, MemoryAndKernelsAreWhatTheDeviceCreatesAndRuns) {
  const Device d = device();
  const Device::Counters before = d.counters();
  auto train = sine(AdamW{.clip_norm = 1.0});
  const MemoryReport memory = train.memory();
  const Device::Counters made = d.counters();
  EXPECT_EQ(made.buffers - before.buffers, memory.buffers);
  EXPECT_EQ(made.buffer_bytes - before.buffer_bytes, memory.total);
  step(train, 0);
  const Device::Counters ran = d.counters();
  EXPECT_EQ(ran.dispatches - made.dispatches, train.kernel_count());
  EXPECT_EQ(ran.submits - made.submits, 1);
  EXPECT_EQ(ran.buffers, made.buffers) << "a step creates nothing";
}

TEST_P(OnDevice, OnlyTheChosenDeviceRunsKernels) {
  std::map<std::string, std::int64_t> before;
  for (const char* name : {"reference", "cpu", "webgpu"})
    before[name] = Device::named(name).counters().dispatches;
  auto train = sine();
  step(train, 0);
  for (const char* name : {"reference", "cpu", "webgpu"}) {
    const std::int64_t ran = Device::named(name).counters().dispatches - before[name];
    EXPECT_EQ(ran, std::string(name) == GetParam() ? train.kernel_count() : 0) << name;
  }
}

TEST_P(OnDevice, CallsFromSeveralThreadsAreSerialised) {
  auto train = sine();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) step(train, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(train.step_count(), 15);
}

TEST(Devices, ASoftwareAdapterIsNeverTheBest) { EXPECT_FALSE(Device::best().is_software()); }

TEST(Devices, AreListedWithReasons) {
  const auto list = Device::list();
  ASSERT_EQ(list.size(), 4u);
  for (const auto& info : list) EXPECT_TRUE(info.available || !info.reason.empty()) << info.name;
  EXPECT_THROW(Device::named("abacus"), DeviceError);
}

TEST(Devices, AllAgreeOnATrainingRun) {
  std::map<std::string, std::vector<float>> losses;
  for (const char* name : {"reference", "cpu", "webgpu"}) {
    auto train = compile(Mlp{}, mlp_loss,
                         {.inputs = {{"x", {kBatch, 1}}, {"y", {kBatch, 1}}},
                          .optimizer = Adam{.lr = 0.01},
                          .seed = 3,
                          .device = Device::named(name)});
    for (int i = 0; i < 10; ++i) {
      const std::vector<float> x = xs(i), y = sines(x);
      losses[name].push_back(train.step({{"x", x}, {"y", y}}).loss);
    }
  }
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_NEAR(losses["cpu"][i], losses["reference"][i], 1e-5);
    EXPECT_NEAR(losses["webgpu"][i], losses["reference"][i], 1e-5);
  }
}

}  // namespace
}  // namespace tensorgrad::test
