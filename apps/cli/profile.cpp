#include "profile.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "tensorgrad/error.hpp"

namespace tensorgrad::cli {

namespace {

constexpr std::size_t kShown = 14;

template <class... Args>
std::string line(const char* format, Args... args) {
  char text[200];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

}  // namespace

std::string profile_table(const std::vector<KernelTime>& times) {
  double all = 0;
  for (const KernelTime& time : times) all += time.seconds;
  std::string text = line("    kernels one by one: %.3f ms\n", 1e3 * all);
  const std::vector<KernelTotal> sums = totals(times);
  for (std::size_t i = 0; i < std::min(kShown, sums.size()); ++i) {
    const KernelTotal& total = sums[i];
    const double seconds = std::max(total.seconds, 1e-12);
    text += line("    %5.1f %%  %8.3f ms  x%-4d %-44s %8.2f TFLOP/s %7.0f GB/s\n",
                 all > 0 ? 100 * total.seconds / all : 0, 1e3 * total.seconds, total.count,
                 total.name.c_str(), 1e-12 * total.cost.flops / seconds,
                 1e-9 * static_cast<double>(total.cost.bytes) / seconds);
  }
  return text;
}

std::string cost_table(const Plan& plan) {
  // Without a device there is no time. A device does some tens of operations while it moves a byte.
  constexpr double kFlopsPerByte = 10;
  std::vector<KernelTime> times;
  for (const Kernel& kernel : plan.kernels) {
    const KernelCost cost = kernel_cost(kernel);
    const double work = std::max(cost.flops / kFlopsPerByte, static_cast<double>(cost.bytes));
    times.push_back({kernel.name, "", "", cost, work});
  }
  const std::vector<KernelTotal> sums = totals(times);
  double flops = 0, bytes = 0;
  for (const KernelTotal& total : sums) {
    flops += total.cost.flops;
    bytes += static_cast<double>(total.cost.bytes);
  }
  std::string text = line("%d kernels, %.3f GFLOP, %.1f MB moved at least\n", plan.kernel_count(),
                          1e-9 * flops, 1e-6 * bytes);
  text += line("%5s  %-44s %10s %10s\n", "count", "kernel", "GFLOP", "MB");
  for (std::size_t i = 0; i < std::min(kShown, sums.size()); ++i) {
    text += line("%5d  %-44s %10.3f %10.2f\n", sums[i].count, sums[i].name.c_str(),
                 1e-9 * sums[i].cost.flops, 1e-6 * static_cast<double>(sums[i].cost.bytes));
  }
  return text;
}

void write_trace(const std::string& path, const std::vector<KernelTime>& times) {
  std::ofstream file(path);
  file << chrome_trace(times);
  file.close();
  if (!file) throw IoError("Cannot write " + path + ".");
}

}  // namespace tensorgrad::cli
