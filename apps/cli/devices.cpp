// `tensorgrad devices`: what programs can run on here, and why something is missing.
#include <algorithm>
#include <cstdio>

#include "commands.hpp"
#include "tensorgrad/device.hpp"
#include "terminal.hpp"

namespace tensorgrad::cli {

int run_devices(const Arguments& args) {
  Options options(
      "tensorgrad devices",
      "Lists the devices that programs can run on, and the reason for each that cannot be used\n"
      "here. The best one, marked with *, is taken unless --device or the environment variable\n"
      "TENSORGRAD_DEVICE names another. A WebGPU adapter that computes on the CPU is never it.");
  if (!options.parse(args)) return 0;

  const std::string best = Device::best().name();
  for (const Device::Info& info : Device::list()) {
    std::string text = info.description;
    if (info.software) text += " (a software adapter: only used when asked for)";
    if (!info.available) text = styled(Style::Dim, "not available: ") + info.reason;
    const std::string mark = info.name == best ? styled(Style::Green, "*") : " ";
    std::printf("%s%s", mark.c_str(), help_row(info.name, 9, text).substr(1).c_str());
  }
  std::printf("\n* is used unless --device or TENSORGRAD_DEVICE names another.\n");
  return 0;
}

}  // namespace tensorgrad::cli
