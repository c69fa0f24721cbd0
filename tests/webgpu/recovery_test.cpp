// What goes wrong on a device ends in an exception, and everything else goes on: a lost device,
// memory that is not there, on WebGPU and on the CPU.
#include <gtest/gtest.h>

#include <thread>

#include "runtime/host_memory.hpp"
#include "runtime/webgpu/backend.hpp"
#include "support/evaluate.hpp"
#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::test {
namespace {

struct Model {
  nn::Linear l1{2, 4}, l2{4, 1};
};

Training<Model> make(const Device& device) {
  return compile(
      Model{},
      [](const Model& m, const Inputs& in) {
        return mean(square(m.l2(relu(m.l1(in["x"]))) - 1.0));
      },
      {.inputs = {{"x", {3, 2}}}, .optimizer = SGD{.lr = 0.01}, .seed = 5, .device = device});
}

const std::vector<float> kX{1, 2, 3, 4, 5, 6};

float step(Training<Model>& train) { return train.step({{"x", kX}}).loss; }

void lose(const Device& device) {
  dynamic_cast<webgpu::WebGpuBackend&>(*device.backend()).gpu().simulate_loss();
}

template <class Action>
std::string device_error_of(Action action) {
  try {
    action();
  } catch (const DeviceError& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(LostDevice, EveryCallSaysSoAndANewDeviceWorks) {
  auto other = make(Device::cpu());
  const float first_loss = step(other);
  const Device device = Device::webgpu();
  auto lost = make(device);
  step(lost);
  PendingLoss pending = lost.step_async({{"x", kX}});
  lose(device);

  const auto expect_loss = [](const std::string& text) {
    expect_contains(text, {"webgpu: the device was lost", "Device::webgpu() opens another."});
  };
  try {
    pending.get();  // may have been done before
  } catch (const DeviceError& error) {
    expect_loss(error.what());
  }
  for (int i = 0; i < 2; ++i) {
    expect_loss(device_error_of([&] { step(lost); }));
    expect_loss(device_error_of([&] { lost.run({{"x", kX}}); }));
    expect_loss(device_error_of([&] { lost.step_async({{"x", kX}}).get(); }));
    expect_loss(device_error_of([&] { lost.download_params(); }));
    expect_loss(device_error_of([&] { lost.reset(); }));
    expect_loss(device_error_of([&] { make(device); }));
  }
  auto fresh = make(Device::webgpu());
  EXPECT_NE(fresh.device().backend(), device.backend());
  EXPECT_NEAR(step(fresh), first_loss, 1e-6) << "a new device";
  EXPECT_LT(step(other), first_loss) << "another one";
  EXPECT_THROW(step(lost), DeviceError) << "the old one stays lost";
}

TEST(LostDevice, EndsTheWaitsOfAllThreads) {
  const Device device = Device::webgpu();
  auto train = make(device);
  std::vector<std::thread> threads;
  std::atomic<int> lost = 0;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      try {
        for (;;) step(train);
      } catch (const DeviceError&) {
        ++lost;
      }
    });
  }
  while (train.step_count() < 5) std::this_thread::yield();
  lose(device);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost, 3);
  auto fresh = make(Device::webgpu());
  EXPECT_GT(step(fresh), 0);
}

// ---- memory

/// A program whose parameter takes this many bytes.
void compile_large(const Device& device, std::int64_t bytes) {
  struct Large {
    Tensor w;
  };
  compile_forward(Large{param({bytes / 4}, {.init = init::zeros})},
                  [](const Large& m, const Inputs&) { return sum(m.w); }, {.device = device});
}

class OutOfMemory : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Devices, OutOfMemory, ::testing::Values("reference", "cpu", "webgpu"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(OutOfMemory, NamesWhatWasAskedForAndOthersGoOn) {
  const Device device = Device::named(GetParam());
  auto train = make(device);
  const float first = step(train);
  const std::int64_t bytes = std::int64_t{1} << 44;  // 16 TiB
  const std::string text = device_error_of([&] { compile_large(device, bytes); });
  expect_contains(text, {"\"params\"", "needs", "bytes", GetParam()});
  EXPECT_LT(step(train), first);
  auto another = make(device);
  EXPECT_EQ(step(another), first);
}

TEST(OutOfMemory, ShapesThatCannotBeCountedAreRefused) {
  const std::int64_t large = std::int64_t{1} << 40;
  EXPECT_THROW((Shape{large, large}.size()), ShapeError);
  EXPECT_THROW((Shape{large, large, large, large}.size()), ShapeError);
  EXPECT_EQ((Shape{large}.size()), large);
}

TEST(OutOfMemory, WhatTheMachineHasIsAskedBeforeItIsPromised) {
  const std::int64_t available = available_memory();
  EXPECT_GT(available, 1 << 20);
  EXPECT_NO_THROW(check_memory("cpu", "a buffer", 1 << 20));
  EXPECT_EQ(
      device_error_of([] { check_memory("cpu", "the buffer \"x\"", INT64_MAX); })
          .rfind(
              "cpu: out of memory: the buffer \"x\" needs 9223372036854775807 bytes (8192.0 PiB), "
              "and ",
              0),
      0u);
  EXPECT_EQ(bytes_text(1), "1 byte");
  EXPECT_EQ(bytes_text(1023), "1023 bytes");
  EXPECT_EQ(bytes_text(1610612736), "1610612736 bytes (1.5 GiB)");
}

}  // namespace
}  // namespace tensorgrad::test
