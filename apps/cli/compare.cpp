// `tensorgrad compare EXAMPLE`: a training step of an example, op by op on two devices.
#include <cstdio>

#include "commands.hpp"
#include "example.hpp"

namespace tensorgrad::cli {

int run_compare(const Arguments& args) {
  std::string name, devices = "reference,best";
  std::int64_t batch = 0;
  std::uint64_t seed = 1;
  CompareOptions compare;
  std::string about =
      "Takes one training step of an example on two devices, with random parameters and inputs,\n"
      "and names the first op that the second computes differently from the first. Every op gets\n"
      "the first device's inputs, so that an error is found where it is made. Then the kernels as\n"
      "they really run, which fuse several ops, are compared in the same way.\n"
      "The exit status is 1 if there is a difference.\n\nExamples to compare:\n" +
      list_examples();
  about.pop_back();
  Options options("tensorgrad compare", about);
  options.argument("EXAMPLE", "the example whose step is taken", &name)
      .option("--devices", "A,B", "the device to trust and the one to examine", &devices)
      .option("--batch", "N", "examples a step; the example's own unless given", &batch)
      .option("--seed", "N", "of parameters and inputs", &seed)
      .option("--tolerance", "T",
              "how far values may be apart, relative to the largest in their tensor",
              &compare.tolerance)
      .example("tensorgrad compare sin", "this machine's best device against the reference")
      .example("tensorgrad compare addition --devices cpu,webgpu --batch 8",
               "a transformer's step on the GPU against the CPU");
  if (!options.parse(args)) return 0;

  const std::size_t comma = devices.find(',');
  if (comma == std::string::npos || comma == 0 || comma + 1 == devices.size()) {
    throw UsageError("--devices takes two names, as in cpu,webgpu, not \"" + devices +
                     "\". See `tensorgrad compare --help`.");
  }
  const Example& example = find_example(name);
  const Device first = Device::named(devices.substr(0, comma)),
               second = Device::named(devices.substr(comma + 1));
  const CompiledIR ir = example.compile(second.target(), batch);
  const DeviceComparison result =
      compare_devices(ir.traced, random_leaves(*ir.traced, seed), first, second, compare);
  std::printf("%s\n", result.text.c_str());
  return result.agree ? 0 : 1;
}

}  // namespace tensorgrad::cli
