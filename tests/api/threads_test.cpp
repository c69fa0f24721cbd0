// Several threads: calls on one training are serialised, and several trainings do not disturb each
// other. Results are compared bit for bit with those of one thread.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::test {
namespace {

struct Shared {
  nn::Linear l1{3, 8}, l2{8, 2};
  Tensor operator()(const Tensor& x) const { return l2(tanh(l1(x))); }
};

const std::vector<float> kX{0.1f, -0.4f, 0.7f,  1.0f, -1.2f, 0.3f,
                            0.0f, 0.5f,  -0.5f, 2.0f, 1.0f,  -2.0f};
const std::vector<float> kY{1, 0, 0, 1, 1, 1, 0, 0};

Training<Shared> make(const Device& device, std::uint64_t seed = 1) {
  return compile(
      Shared{},
      [](const Shared& m, const Inputs& in) { return mean(square(m(in["x"]) - in["y"])); },
      {.inputs = {{"x", {4, 3}}, {"y", {4, 2}}},
       .optimizer = Adam{.lr = 0.01},
       .seed = seed,
       .device = device});
}

float step(Training<Shared>& train) { return train.step({{"x", kX}, {"y", kY}}).loss; }

/// Runs `work(i)` on `count` threads at once; gives back what they threw.
template <class Work>
std::vector<std::string> on_threads(int count, Work work) {
  std::vector<std::thread> threads;
  std::vector<std::string> failures(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        work(i);
      } catch (const std::exception& error) {
        failures[static_cast<std::size_t>(i)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failures;
}

const std::vector<std::string> kNoFailures(4);

class Threads : public ::testing::TestWithParam<const char*> {
 protected:
  Device device() const { return Device::named(GetParam()); }

  /// The parameters after `steps` steps by one thread.
  ParamValues alone(int steps, std::uint64_t seed = 1) const {
    auto train = make(device(), seed);
    for (int i = 0; i < steps; ++i) step(train);
    return train.download_params();
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, Threads, ::testing::Values("reference", "cpu", "webgpu"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Threads, CallsOnOneTrainingAreSerialised) {
  auto train = make(device());
  auto predict = train.attach([](const Shared& m, const Inputs& in) { return m(in["x"]); },
                              {.inputs = {{"x", {4, 3}}}});
  std::atomic<int> whole = 0;
  // Steps of every kind, all with the same inputs, so that their order does not matter.
  const auto failures = on_threads(4, [&](int thread) {
    for (int i = 0; i < 5; ++i) {
      if (thread == 0) step(train);
      if (thread == 1) train.run({{"x", kX}, {"y", kY}});
      if (thread == 2) train.step_async({{"x", kX}, {"y", kY}}).get();
      if (thread == 3) train.run_steps(1, [](std::int64_t) { return Batch{{"x", kX}, {"y", kY}}; });
      whole += predict.run({{"x", kX}}).output.size() == 8 ? 1 : 0;
      whole += train.download_params().at("l1.W").size() == 24 ? 1 : 0;
      whole += train.download_param_grads().size() == 4 ? 1 : 0;
      whole += train.step_count() > i ? 1 : 0;
    }
  });
  EXPECT_EQ(failures, kNoFailures);
  EXPECT_EQ(whole, 4 * 5 * 4);
  EXPECT_EQ(train.step_count(), 20);
  EXPECT_EQ(train.download_params(), alone(20));
}

TEST_P(Threads, OneThreadStepsWhileOthersWriteAndRead) {
  auto train = make(device());
  const ParamValues start = train.download_params();
  const std::string path = ::testing::TempDir() + "/tensorgrad_threads_" + GetParam();
  const auto failures = on_threads(4, [&](int thread) {
    const std::string file = path + std::to_string(thread);
    for (int i = 0; i < 4; ++i) {
      if (thread == 0) step(train);
      if (thread == 1) train.upload_params(start);
      if (thread == 2) train.reset_optimizer_state();
      if (thread == 3) {
        train.save(file);
        make(device()).load(file);
      }
      train.set_lr(0.02);
      train.seed();
    }
    std::remove(file.c_str());
  });
  EXPECT_EQ(failures, kNoFailures);
  train.reset();
  for (int i = 0; i < 3; ++i) step(train);
  EXPECT_EQ(train.download_params(), alone(3));
}

TEST_P(Threads, EveryThreadTrainsOnItsOwn) {
  std::vector<ParamValues> got(4);
  const auto failures = on_threads(4, [&](int thread) {
    auto train = make(device(), static_cast<std::uint64_t>(thread));
    for (int i = 0; i < 10; ++i) step(train);
    got[static_cast<std::size_t>(thread)] = train.download_params();
  });
  EXPECT_EQ(failures, kNoFailures);
  for (std::uint64_t seed = 0; seed < 4; ++seed) EXPECT_EQ(got[seed], alone(10, seed)) << seed;
}

TEST_P(Threads, ALossIsFetchedByAnotherThreadThanTheOneThatAskedForIt) {
  auto train = make(device()), same = make(device());
  std::vector<PendingLoss> pending;
  std::vector<float> want;
  for (int i = 0; i < 4; ++i) {
    pending.push_back(train.step_async({{"x", kX}, {"y", kY}}));
    want.push_back(step(same));
  }
  std::vector<float> got(4);
  const auto failures = on_threads(4, [&](int thread) {
    const auto i = static_cast<std::size_t>(thread);
    while (!pending[i].ready()) {
    }
    got[i] = pending[i].get();
  });
  EXPECT_EQ(failures, kNoFailures);
  EXPECT_EQ(got, want);
}

TEST_P(Threads, ALossMayOutliveItsTraining) {
  std::optional<PendingLoss> pending;
  float want = 0;
  {
    auto train = make(device());
    pending = train.step_async({{"x", kX}, {"y", kY}});
  }
  {
    auto train = make(device());
    want = step(train);
  }
  EXPECT_EQ(pending->get(), want);
}

TEST(SeveralDevices, TrainAtOnce) {
  const char* const names[] = {"reference", "cpu", "webgpu", "cpu"};
  std::vector<float> losses(4);
  const auto failures = on_threads(4, [&](int thread) {
    auto train = make(Device::named(names[thread]));
    for (int i = 0; i < 10; ++i) losses[static_cast<std::size_t>(thread)] = step(train);
  });
  EXPECT_EQ(failures, kNoFailures);
  EXPECT_NEAR(losses[0], losses[1], 1e-5);
  EXPECT_NEAR(losses[0], losses[2], 1e-5);
  EXPECT_EQ(losses[1], losses[3]);
}

}  // namespace
}  // namespace tensorgrad::test
