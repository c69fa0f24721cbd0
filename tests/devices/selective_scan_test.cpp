// The selective scan on every device: random sizes around its chunks and blocks, operands that are
// views, and rates of every size.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "support/op_cases.hpp"
#include "support/quick.hpp"
#include "support/run_plan.hpp"
#include "tensorgrad/device.hpp"
#include "tensorgrad/passes.hpp"
#include "tensorgrad/random.hpp"

namespace tensorgrad::test {
namespace {

class SelectiveScan : public ::testing::TestWithParam<const char*> {
 protected:
  Device device_ = Device::named(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Devices, SelectiveScan, ::testing::Values("cpu", "webgpu"),
                         [](const auto& info) { return std::string(info.param); });

struct Size {
  std::int64_t batch, length, channels, states;
};

/// y, the final state and all gradients. u is a transposed view; Δ, B and C are parts of one tensor
/// as a projection gives them, B and C neighbours or not.
OpCase scan_case(const Size& s, bool zoh, bool neighbours) {
  OpCase op_case;
  op_case.op = "selective_scan";
  op_case.variant = std::to_string(s.batch) + "x" + std::to_string(s.length) + "x" +
                    std::to_string(s.channels) + "x" + std::to_string(s.states);
  const std::int64_t width = s.channels + 2 * s.states + 1;
  op_case.inputs = {{{s.batch, s.channels, s.length}},
                    {{s.batch, s.length, width}},
                    {{s.channels, s.states}, -2, 1},
                    {{s.channels}},
                    {{s.batch, s.channels, s.states}}};
  op_case.build = [=](const Tensors& x) -> Outputs {
    const std::int64_t at_c = s.states + (neighbours ? 0 : 1);
    const ScanResult r =
        selective_scan(permute(x[0], {0, 2, 1}), narrow(x[1], -1, 2 * s.states + 1, s.channels),
                       x[2], narrow(x[1], -1, 0, s.states), narrow(x[1], -1, at_c, s.states), x[3],
                       {.discretization = zoh ? Discretization::Zoh : Discretization::Euler,
                        .initial_state = x[4]});
    return {{"y", r.y}, {"final_state", r.final_state}};
  };
  return op_case;
}

void check(Backend& backend, const Size& size, bool zoh, bool neighbours, double tolerance = 1e-5) {
  const OpCase op_case = scan_case(size, zoh, neighbours);
  SCOPED_TRACE(op_case.name() + (zoh ? " zoh" : " euler"));
  const CaseGraph made = build_case(op_case);
  EXPECT_EQ(device_difference(backend, *made.graph, made.feeds, tolerance), "");
}

TEST_P(SelectiveScan, AgreesWithTheReferenceAtTheEdgesOfChunksBlocksAndQuads) {
  const Size sizes[] = {{1, 1, 1, 1},   {2, 127, 3, 5},  {1, 128, 9, 4}, {1, 129, 2, 17},
                        {2, 257, 1, 3}, {1, 3, 129, 16}, {3, 9, 64, 8},  {1, 5, 300, 1}};
  bool zoh = true;
  for (const Size& size : sizes) check(*device_.backend(), size, zoh = !zoh, size.length % 2 == 0);
}

TEST_P(SelectiveScan, AgreesWithTheReferenceOnRandomSizes) {
  const int count = quick() ? 3 : 8;
  Rng rng(3);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(rng.uniform() * static_cast<double>(high - low + 1));
  };
  for (int i = 0; i < count; ++i) {
    Size size{draw(1, 3), draw(1, 600), 1, draw(1, 40)};
    const std::int64_t most = 30000 / (size.batch * size.length * size.states);
    size.channels = draw(1, std::clamp<std::int64_t>(most, 1, 200));
    check(*device_.backend(), size, i % 2 == 0, i % 3 == 0);
  }
}

TEST_P(SelectiveScan, AgreesWithTheReferenceOnLongSequences) {
  check(*device_.backend(), {1, 4999, 2, 3}, true, true);
  check(*device_.backend(), {1, 2500, 1, 9}, false, true);
}

TEST_P(SelectiveScan, AgreesWithTheReferenceOnManyStates) {
  check(*device_.backend(), {1, 20, 2, 256}, true, true);
  check(*device_.backend(), {2, 6, 3, 100}, false, true);
}

// One step of many channels, each with a rate and a step size of its own, so that every element
// must be right by itself: e^{Δa}, φ = (e^{Δa} − 1)/a and their slopes for Δa from 0 to far below.
TEST_P(SelectiveScan, IsAccurateForRatesOfEverySize) {
  reference::Values A_log, delta;
  for (double log_a = -90; log_a <= 9; log_a += 1.5) {
    for (double log_delta = -20; log_delta <= 4; log_delta += 0.75) {
      A_log.push_back(static_cast<float>(log_a));
      delta.push_back(static_cast<float>(std::exp(log_delta)));
    }
  }
  const auto channels = static_cast<std::int64_t>(delta.size());
  const InputSpec one{{1, 1, 1}, 1, 1, f32, {1}};
  OpCase op_case;
  op_case.op = "selective_scan";
  op_case.inputs = {{{channels, 1}, 0, 0, f32, A_log}, {{1, 1, channels}, 0, 0, f32, delta}, one};
  op_case.build = [&](const Tensors& x) -> Outputs {
    const Tensor ones = full({1, 1, channels}, 1), zero = zeros({1, 1, 1}),
                 none = zeros({channels});
    const ScanResult driven =
        selective_scan(ones, x[1], x[0], x[2], x[2], none, {.delta_softplus = false});
    const ScanResult left =
        selective_scan(ones, x[1], x[0], zero, x[2], none,
                       {.delta_softplus = false, .initial_state = full({1, channels, 1}, 1)});
    return {{"driven", driven.y}, {"left", left.y}};
  };
  Backend& backend = *device_.backend();
  // Of the two results together, and of each: their gradients may not hide one another.
  for (const char* seen : {"cot0", "cot1"}) {
    SCOPED_TRACE(seen);
    CaseGraph made = build_case(op_case);
    for (const char* cotangent : {"cot0", "cot1"}) {
      reference::Values& values = made.feeds[cotangent];
      std::fill(values.begin(), values.end(), std::string(seen) == cotangent ? 1.0 : 0.0);
    }
    const auto optimized = run_passes(*made.graph, backend.target().passes);
    const auto planned = std::make_shared<const Plan>(plan(optimized, backend.target()));
    const Results got = run_on_device(backend, planned, made.feeds),
                  want = reference_results(*made.graph, made.feeds);
    for (const char* name : {"output.out0", "output.out1", "output.grad0", "output.grad1"}) {
      for (std::size_t i = 0; i < A_log.size(); ++i) {
        const double x = delta[i] * std::exp(A_log[i]), expected = want.at(name)[i];
        // Δa is rounded, which changes e^{Δa} by a part of |Δa|.
        const double tolerance = 1e-6 * (2 + x) * std::abs(expected) + 1e-30;
        EXPECT_NEAR(got.at(name)[i], expected, tolerance)
            << name << " for A_log " << A_log[i] << " and delta " << delta[i];
      }
    }
  }
}

}  // namespace
}  // namespace tensorgrad::test
