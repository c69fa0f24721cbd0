// Random numbers in compiled programs, on every device that computes.
#include <gtest/gtest.h>

#include <filesystem>

#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::test {
namespace {

struct Dropped {
  nn::Linear l1{4, 32}, l2{32, 2};
  Tensor operator()(const Tensor& x) const { return l2(dropout(relu(l1(x)), 0.4)); }
};

const std::vector<float>& input() {
  static const std::vector<float> x = [] {
    std::vector<float> values;
    for (int i = 0; i < 32; ++i) values.push_back(0.1f * static_cast<float>(i * 7 % 13) - 0.5f);
    return values;
  }();
  return x;
}

Training<Dropped> training(const Device& device, std::uint64_t seed = 3) {
  return compile(Dropped{},
                 [](const Dropped& m, const Inputs& in) { return mean(square(m(in["x"]) - 1.0)); },
                 {.inputs = {{"x", {8, 4}}}, .optimizer = Adam{}, .seed = seed, .device = device});
}

std::vector<float> losses(Training<Dropped>& train, int steps) {
  std::vector<float> result;
  for (int i = 0; i < steps; ++i) result.push_back(train.step({{"x", input()}}).loss);
  return result;
}

class RandomOn : public ::testing::TestWithParam<const char*> {
 protected:
  Device device_ = Device::named(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Devices, RandomOn, ::testing::Values("reference", "cpu", "webgpu"),
                         [](const auto& info) { return std::string(info.param); });

struct Nothing {};

/// Three runs of a forward program of a few random ops.
std::vector<std::vector<float>> draws(const Device& device) {
  auto program = compile_forward(
      Nothing{},
      [](const Nothing&, const Inputs&) -> Outputs {
        return {{"u", uniform({5, 67})}, {"v", uniform({300}, -2, 2)}, {"n", randn({100})}};
      },
      {.inputs = {}, .seed = 11, .device = device});
  std::vector<std::vector<float>> result;
  for (int run = 0; run < 3; ++run) {
    const RunResult r = program.run();
    for (const char* name : {"u", "v", "n"}) result.push_back(r[name].as<float>());
  }
  return result;
}

TEST_P(RandomOn, UniformHasTheSameBitsOnEveryDevice) {
  const auto got = draws(device_), want = draws(Device::reference());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (i % 3 == 2) {  // randn agrees to rounding
      for (std::size_t k = 0; k < got[i].size(); ++k) EXPECT_NEAR(got[i][k], want[i][k], 1e-5);
    } else {
      EXPECT_EQ(got[i], want[i]);
    }
  }
  EXPECT_NE(got[0], got[3]) << "every run draws anew";
}

TEST_P(RandomOn, TheSeedDecidesTheMasks) {
  auto a = training(device_), b = training(device_), c = training(device_, 4);
  const auto first = losses(a, 5);
  EXPECT_EQ(first, losses(b, 5));
  EXPECT_NE(first, losses(c, 5));
  a.reset();
  EXPECT_EQ(first, losses(a, 5));
}

TEST_P(RandomOn, AResumedTrainingDropsWhatItWouldHave) {
  const auto path = std::filesystem::temp_directory_path() /
                    (std::string("tensorgrad_random_") + GetParam() + ".safetensors");
  auto whole = training(device_), resumed = training(device_, 99);
  losses(whole, 3);
  whole.save(path.string());
  resumed.load(path.string());
  EXPECT_EQ(losses(whole, 4), losses(resumed, 4));
  std::filesystem::remove(path);
}

TEST_P(RandomOn, DropoutIsTheIdentityInAForward) {
  auto train = training(device_);
  auto forward = train.attach([](const Dropped& m, const Inputs& in) { return m(in["x"]); },
                              {.inputs = {{"x", {8, 4}}}});
  const auto first = forward.run({{"x", input()}}).output;
  EXPECT_EQ(first, forward.run({{"x", input()}}).output);
  for (const Node& node : forward.ir().traced->nodes()) EXPECT_NE(node.op, OpKind::Random);
}

TEST(Random, MasksAreMadeAgainInBackwardAndNeverStored) {
  const auto train = training(Device::null());
  const Plan& plan = *train.ir().plan;
  for (const Node& node : plan.graph->nodes()) {
    if (node.op == OpKind::Random || node.op == OpKind::LessEqual) {
      EXPECT_FALSE(plan.places.count(node.output())) << to_string(node.op);
    }
  }
  int kernels = 0;
  for (const Kernel& kernel : plan.kernels) {
    for (const Expr& e : kernel.exprs) {
      if (e.kind != Expr::Kind::Op || e.op != OpKind::Random) continue;
      ++kernels;
      break;
    }
  }
  EXPECT_GE(kernels, 2) << "forward and backward";
}

}  // namespace
}  // namespace tensorgrad::test
