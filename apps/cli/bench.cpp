// `tensorgrad bench`: named workloads, checked first, then measured.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "bench_models.hpp"
#include "commands.hpp"
#include "profile.hpp"

namespace tensorgrad::cli {

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr double kWarmUp = 0.3;  // seconds

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Median and quartiles of repeated measurements, in milliseconds.
struct Spread {
  double median = 0, low = 0, high = 0;

  explicit Spread(std::vector<double> seconds) {
    std::sort(seconds.begin(), seconds.end());
    const auto at = [&](double part) {
      return 1e3 *
             seconds[static_cast<std::size_t>(part * static_cast<double>(seconds.size() - 1))];
    };
    median = at(0.5), low = at(0.25), high = at(0.75);
  }
  std::string text() const {
    char line[64];
    std::snprintf(line, sizeof line, "%9.3f  [%.3f, %.3f]", median, low, high);
    return line;
  }
};

struct Settings {
  std::string device = "best", only, json, profile;
  std::int64_t repeats = 7;
  bool list = false;
};

/// What this device reached on a plain copy and on the best product, to compare with.
struct Best {
  double bytes = 0, flops = 0;
};

bool chosen(const Settings& settings, const std::string& name) {
  if (settings.only.empty()) return true;
  std::string rest = settings.only;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string part = rest.substr(0, comma);
    if (name == part || (!part.empty() && part.back() == '*' &&
                         name.rfind(part.substr(0, part.size() - 1), 0) == 0)) {
      return true;
    }
    rest.erase(0, comma + 1);
  }
  return false;
}

// ---- single ops

Json measure(const OpWorkload& w, const Device& device, const Settings& settings, Best& best) {
  auto program =
      compile_forward(w.operands, [&](const Operands& o, const Inputs&) { return w.forward(o); },
                      {.inputs = {}, .seed = 3, .device = device});
  const std::vector<float> output = program.run().output;
  std::vector<std::vector<float>> operands;
  for (auto& [name, values] : program.download_params()) operands.push_back(values);
  double error = 0, largest = 1e-30;
  for (std::size_t k = 0; k < 97; ++k) {
    const std::size_t at = k * 7919 * 65537 % output.size();
    const double expected = w.expected(operands, at);
    error = std::max(error, std::abs(static_cast<double>(output[at]) - expected));
    largest = std::max(largest, std::abs(expected));
  }
  if (!(error / largest < 1e-4)) {
    throw Error("bench: " + w.name + " is wrong: it is off by " + std::to_string(error) +
                " where values go up to " + std::to_string(largest) + ".");
  }
  const auto run = [&] {
    double total = 0;
    for (const KernelTime& time : program.profile()) total += time.seconds;
    return total;
  };
  // A device that was idle runs slowly for a while.
  for (const auto start = Clock::now(); seconds_since(start) < kWarmUp;) run();
  std::vector<double> times;
  for (std::int64_t r = 0; r < settings.repeats; ++r) times.push_back(run());
  const Spread ms(times);
  const double flops = w.flops / ms.median * 1e3, bytes = w.bytes / ms.median * 1e3;
  best.flops = std::max(best.flops, flops);
  best.bytes = std::max(best.bytes, bytes);
  char rate[96];
  if (w.flops > 0) {
    std::snprintf(rate, sizeof rate, "%7.2f TFLOP/s  %3.0f %% of the best", flops * 1e-12,
                  100 * flops / best.flops);
  } else {
    std::snprintf(rate, sizeof rate, "%7.0f GB/s     %3.0f %% of a copy", bytes * 1e-9,
                  100 * bytes / best.bytes);
  }
  std::printf("%-34s %s  %s  error %.1e\n", w.name.c_str(), ms.text().c_str(), rate,
              error / largest);
  std::fflush(stdout);
  return {{"name", w.name},
          {"ms", ms.median},
          {"low", ms.low},
          {"high", ms.high},
          {"flops_per_s", flops},
          {"bytes_per_s", bytes},
          {"error", error / largest},
          {"kernels", program.kernel_count()}};
}

// ---- training steps

/// The losses of a few steps of the small twin, against the reference interpreter's.
double check(const TrainingWorkload& w, const Device& device) {
  const auto ours = w.make_small(device), reference = w.make_small(Device::reference());
  double error = 0;
  for (int step = 0; step < 3; ++step) {
    const double expected = reference->step();
    error = std::max(error, std::abs(static_cast<double>(ours->step()) - expected) /
                                std::max(1e-3, std::abs(expected)));
  }
  if (!(error < 1e-3)) {
    throw Error("bench: " + w.name + " is wrong: its losses are off by " + std::to_string(error) +
                " of the reference's.");
  }
  return error;
}

std::vector<double> repeat(const Settings& settings, std::int64_t steps,
                           const std::function<void()>& run) {
  for (const auto start = Clock::now(); seconds_since(start) < kWarmUp;) run();
  std::vector<double> seconds;
  for (std::int64_t r = 0; r < settings.repeats; ++r) {
    const auto start = Clock::now();
    run();
    seconds.push_back(seconds_since(start) / static_cast<double>(steps));
  }
  return seconds;
}

Json measure(const TrainingWorkload& w, const Device& device, const Settings& settings) {
  const double error = check(w, device);
  auto start = Clock::now();
  auto training = w.make(device);
  const double cold = seconds_since(start);
  training.reset();
  start = Clock::now();
  training = w.make(device);
  const double warm = seconds_since(start);
  const Plan& plan = training->plan();
  double bytes = 0, flops = 0;
  for (const Kernel& kernel : plan.kernels) {
    const KernelCost cost = kernel_cost(kernel);
    bytes += static_cast<double>(cost.bytes);
    flops += cost.flops;
  }
  const std::int64_t n = w.steps;
  const Spread read(repeat(settings, n, [&] {
    for (std::int64_t i = 0; i < n; ++i) training->step();
  }));
  const Spread pipelined(repeat(settings, n, [&] {
    std::vector<PendingLoss> pending;
    for (std::int64_t i = 0; i < n; ++i) {
      pending.push_back(training->step_async());
      if (pending.size() > 8) pending.front().get(), pending.erase(pending.begin());
    }
    for (PendingLoss& p : pending) p.get();
  }));
  const Spread many(repeat(settings, n, [&] { training->run_steps(n); }));
  std::printf("%-12s %s\n", w.name.c_str(), w.what.c_str());
  std::printf("    ms a step, loss read each  %s\n", read.text().c_str());
  std::printf("    ms a step, pipelined       %s\n", pipelined.text().c_str());
  std::printf("    ms a step, run_steps       %s\n", many.text().c_str());
  std::printf(
      "    %d kernels, %.1f MB moved at least, %.2f TFLOP/s, %.0f GB/s, %.1f MiB of memory; "
      "compiled in %.2f s, again in %.2f s; error %.1e\n",
      plan.kernel_count(), bytes * 1e-6, 1e-9 * flops / many.median, 1e-6 * bytes / many.median,
      static_cast<double>(plan.memory().total) / 1048576, cold, warm, error);
  if (!settings.profile.empty()) {
    const std::vector<KernelTime> times = training->profile();
    std::printf("%s", profile_table(times).c_str());
    write_trace(settings.profile + "." + w.name + ".json", times);
  }
  std::fflush(stdout);
  return {{"name", w.name},
          {"ms", pipelined.median},
          {"ms_read", read.median},
          {"ms_run_steps", many.median},
          {"low", pipelined.low},
          {"high", pipelined.high},
          {"kernels", plan.kernel_count()},
          {"bytes", bytes},
          {"flops", flops},
          {"memory", plan.memory().total},
          {"compile_cold_s", cold},
          {"compile_warm_s", warm},
          {"error", error}};
}

}  // namespace

int run_bench(const Arguments& args) {
  Settings settings;
  Options options(
      "tensorgrad bench",
      "Measures named workloads: single ops by the device's own clock, training steps by\n"
      "the wall clock. Each is checked against other values before it is timed. Times are\n"
      "medians with quartiles.");
  options.option("--device", "DEVICE", "best, cpu, webgpu or reference", &settings.device)
      .option("--only", "NAMES", "these workloads, separated by commas; matmul* is all of a kind",
              &settings.only)
      .option("--repeats", "N", "measurements of each", &settings.repeats)
      .option("--json", "FILE", "write the figures there", &settings.json)
      .option("--profile", "PREFIX",
              "show the costliest kernels and write PREFIX.WORKLOAD.json for chrome://tracing",
              &settings.profile)
      .flag("--list", "list the workloads and exit", &settings.list)
      .example("tensorgrad bench --only mlp,addition --device cpu", "two models on the CPU")
      .example("tensorgrad bench --only 'matmul*'", "the matrix products");
  if (!options.parse(args)) return 0;
  if (settings.list) {
    for (const OpWorkload& w : op_workloads())
      std::printf("%-34s %s\n", w.name.c_str(), w.what.c_str());
    for (const TrainingWorkload& w : training_workloads())
      std::printf("%-34s %s\n", w.name.c_str(), w.what.c_str());
    return 0;
  }
  const Device device = settings.device == "best" ? Device::best() : Device::named(settings.device);
  std::printf("device: %s\n", device.description().c_str());
  Json results = Json::array();
  Best best;
  int failures = 0, ran = 0;
  const auto attempt = [&](const std::string& name, const std::function<Json()>& run) {
    if (!chosen(settings, name)) return;
    ++ran;
    try {
      results.push_back(run());
    } catch (const std::exception& error) {
      ++failures;
      std::printf("%s failed: %s\n", name.c_str(), error.what());
    }
  };
  for (const OpWorkload& w : op_workloads())
    attempt(w.name, [&] { return measure(w, device, settings, best); });
  for (const TrainingWorkload& w : training_workloads())
    attempt(w.name, [&] { return measure(w, device, settings); });
  if (ran == 0)
    throw UsageError("bench: no workload is named " + settings.only + "; --list lists them.");
  if (!settings.json.empty()) {
    std::ofstream file(settings.json);
    file << Json{{"device", device.description()}, {"results", results}}.dump(1) << "\n";
    if (!file) throw IoError("bench: cannot write " + settings.json + ".");
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace tensorgrad::cli
