// Times the selective scan, forward and backward, and tells what backward keeps: memory for
// temporaries as a part of all states, [B, L, D, N].
//
//   bench_selective_scan [--device NAME] [BxLxDxN ...]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tensorgrad/tensorgrad.hpp>
#include <vector>
namespace tg = tensorgrad;

namespace {

struct Size {
  std::int64_t batch, length, channels, states;
};

struct Scan {
  tg::Tensor u, delta, A_log, B, C, D, weight;

  explicit Scan(const Size& s)
      : u(tg::param({s.batch, s.length, s.channels}, {.init = tg::init::randn(1)})),
        delta(tg::param({s.batch, s.length, s.channels}, {.init = tg::init::uniform(2)})),
        A_log(tg::param({s.channels, s.states}, {.init = tg::init::uniform(1)})),
        B(tg::param({s.batch, s.length, s.states}, {.init = tg::init::randn(1)})),
        C(tg::param({s.batch, s.length, s.states}, {.init = tg::init::randn(1)})),
        D(tg::param({s.channels}, {.init = tg::init::ones})),
        weight(tg::param({s.batch, s.length, s.channels},
                         {.init = tg::init::randn(1), .trainable = false})) {}

  tg::Tensor y(tg::Discretization discretization) const {
    return tg::selective_scan(u, delta, A_log, B, C, D, {.discretization = discretization}).y;
  }
  TENSORGRAD_MEMBERS(u, delta, A_log, B, C, D, weight)
};

/// Milliseconds a call of `step`, of which several are started before the last is waited for.
template <class Step>
double time_steps(Step step) {
  using Clock = std::chrono::steady_clock;
  const auto run = [&](int count) {
    const auto start = Clock::now();
    for (int i = 0; i + 1 < count; ++i) step(false);
    step(true);
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count() / count;
  };
  const double once = (run(1), run(2));
  const int count = std::clamp(static_cast<int>(300 / std::max(once, 0.01)), 2, 500);
  double best = run(count);
  for (int repeat = 0; repeat < 2; ++repeat) best = std::min(best, run(count));
  return best;
}

void report(const Size& s, tg::Discretization discretization, const tg::Device& device) {
  auto train = tg::compile(
      Scan(s),
      [=](const Scan& m, const tg::Inputs&) { return tg::mean(m.y(discretization) * m.weight); },
      {.device = device});
  auto forward =
      train.attach([=](const Scan& m, const tg::Inputs&) { return tg::mean(m.y(discretization)); });
  std::vector<tg::PendingLoss> pending;
  const double both = time_steps([&](bool wait) {
    pending.push_back(train.step_async({}));
    if (!wait) return;
    if (!std::isfinite(pending.back().get())) throw std::runtime_error("the loss is not finite");
    pending.clear();
  });
  const double only = time_steps([&](bool) { forward.run(); });
  const double states = static_cast<double>(s.batch * s.length * s.channels * s.states);
  const tg::MemoryReport memory = train.memory();
  std::printf("%4lld %6lld %5lld %4lld  %-5s %9.3f %9.3f %8.3f %7d  1/%.1f\n",
              static_cast<long long>(s.batch), static_cast<long long>(s.length),
              static_cast<long long>(s.channels), static_cast<long long>(s.states),
              discretization == tg::Discretization::Zoh ? "zoh" : "euler", only, both,
              both * 1e6 / states, memory.kernels, 4 * states / static_cast<double>(memory.temps));
}

}  // namespace

int main(int argc, char** argv) try {
  tg::Device device = tg::Device::best();
  std::vector<Size> sizes;
  for (int i = 1; i < argc; ++i) {
    long long b = 0, l = 0, d = 0, n = 0;
    if (std::strcmp(argv[i], "--device") == 0 && i + 1 < argc) {
      device = tg::Device::named(argv[++i]);
    } else if (std::sscanf(argv[i], "%lldx%lldx%lldx%lld", &b, &l, &d, &n) == 4) {
      sizes.push_back({b, l, d, n});
    } else {
      std::fprintf(stderr, "usage: %s [--device NAME] [BxLxDxN ...]\n", argv[0]);
      return 2;
    }
  }
  if (sizes.empty()) {
    sizes = {{8, 512, 512, 16}, {8, 2048, 512, 16}, {1, 16384, 512, 16}};
    if (device.name() != "webgpu" || device.is_software()) sizes = {{1, 512, 256, 16}};
  }
  std::printf("%s\n", device.description().c_str());
  std::printf(
      "   B      L     D    N         forward ms   both ms  ns/state  kernels  temporaries\n");
  for (const Size& size : sizes) {
    report(size, tg::Discretization::Zoh, device);
    report(size, tg::Discretization::Euler, device);
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
