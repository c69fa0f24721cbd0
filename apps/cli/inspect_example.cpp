// The report on an example's program, and its pictures.
#include <array>
#include <cstdio>
#include <fstream>

#include "inspect.hpp"
#include "inspect_draw.hpp"
#include "profile.hpp"
#include "terminal.hpp"

namespace tensorgrad::cli {

namespace {

struct Program {
  const Example& example;
  std::int64_t batch;
  CompiledIR ir;
};

/// What every WebGPU device has, as far as planning needs to know; see the standard's limits.
Target default_webgpu() {
  Target target;
  target.name = "webgpu";
  target.whole_buffers = true;
  target.max_bindings = 8;
  target.max_binding_bytes = std::int64_t{128} << 20;
  target.passes = gpu_passes();
  return target;
}

/// Nothing runs here, so a GPU that is not there can still be planned for.
Target target_of(const std::string& device) {
  try {
    return Device::named(device).target();
  } catch (const DeviceError&) {
    if (device != "webgpu") throw;
    std::fprintf(stderr,
                 "tensorgrad: there is no WebGPU device here; planning for the limits that each "
                 "has.\n");
    return default_webgpu();
  }
}

void print_traced(const Program& program) {
  std::printf("%s", program.ir.traced->to_string().c_str());
}

void print_graph(const Program& program) {
  std::printf("%s", program.ir.optimized->to_string().c_str());
}

/// One line a kernel: what it does, over what, how often, from and to which buffers.
void print_kernels(const Program& program) {
  const Plan& plan = *program.ir.plan;
  const auto names = [&](const Kernel& kernel, bool written) {
    std::vector<std::string> list;
    for (const Binding& binding : kernel.bindings) {
      const std::string& name = plan.buffers[static_cast<std::size_t>(binding.buffer)].name;
      const bool wanted = written ? binding.written : binding.read;
      if (wanted && std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
    }
    std::string text;
    for (const std::string& name : list) text += (text.empty() ? "" : ", ") + name;
    return text;
  };
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const Kernel& kernel = plan.kernels[k];
    std::string work = with_commas(kernel.outer_size());
    if (kernel.inner_size() > 1) work += " x " + with_commas(kernel.inner_size());
    std::printf("%4zu  %-44s %18s  %s -> %s\n", k, kernel.name.c_str(), work.c_str(),
                names(kernel, false).c_str(), names(kernel, true).c_str());
  }
}

void print_kernel_ir(const Program& program) {
  for (const Kernel& kernel : program.ir.plan->kernels)
    std::printf("%s", kernel.to_string().c_str());
}

/// A plan for another device has other kernels than WebGPU runs: then it is made anew.
void print_wgsl(const Program& program) {
  const bool planned = program.ir.plan->target.name == "webgpu";
  const CompiledIR other =
      planned ? CompiledIR{} : program.example.compile(default_webgpu(), program.batch);
  for (const EmittedKernel& kernel : emit_kernels(planned ? *program.ir.plan : *other.plan)) {
    std::printf("// %u x %u x %u workgroups\n%s\n", kernel.workgroups[0], kernel.workgroups[1],
                kernel.workgroups[2], kernel.wgsl.c_str());
  }
}

void print_buffers(const Program& program) {
  const Plan& plan = *program.ir.plan;
  for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
    const BufferSpec& buffer = plan.buffers[b];
    std::printf("%4zu  %-10s %-32s %12s\n", b, to_string(buffer.role), buffer.name.c_str(),
                human_bytes(buffer.bytes).c_str());
  }
}

void print_memory(const Program& program) {
  std::printf("%s", program.ir.plan->memory().to_string().c_str());
}

void print_costs(const Program& program) {
  std::printf("%s", cost_table(*program.ir.plan).c_str());
}

constexpr std::array<Section<Program>, 8> kExampleSections = {{
    {"traced", "the graph as traced, with gradients and update", false, print_traced},
    {"graph", "the graph after the passes", true, print_graph},
    {"kernels", "the kernels of a step: outer x inner size, buffers read -> written", true,
     print_kernels},
    {"costs", "the costliest kernels: what they compute and move at least", true, print_costs},
    {"kernel-ir", "what each kernel computes", false, print_kernel_ir},
    {"wgsl", "the kernels as WebGPU gets them", false, print_wgsl},
    {"buffers", "the buffers", true, print_buffers},
    {"memory", "the memory", true, print_memory},
}};

/// Writes a picture; `-` is standard output.
void put(const std::string& path, const std::string& picture, const std::string& what) {
  if (path == "-") {
    std::fputs(picture.c_str(), stdout);
    return;
  }
  std::ofstream file(path, std::ios::binary);
  file << picture;
  file.close();
  if (!file) throw IoError("Cannot write the picture " + path + ".");
  std::printf("wrote %s: %s\n", path.c_str(), what.c_str());
}

void draw(const Program& program, const InspectOptions& asked) {
  const Plan& plan = *program.ir.plan;
  const std::string what = "the " + asked.draw + " of " + program.example.name;
  if (asked.draw == "memory") return put(asked.svg, memory_svg(plan), what);
  Diagram diagram =
      asked.draw == "graph" ? graph_diagram(*program.ir.optimized) : kernel_diagram(plan);
  diagram.title = program.example.name + ": " + diagram.title;
  if (!asked.dot.empty()) put(asked.dot, to_dot(diagram), what);
  if (!asked.svg.empty()) put(asked.svg, to_svg(diagram), what);
}

}  // namespace

std::string example_sections() { return section_rows<Program>(kExampleSections); }

void inspect_example(const Example& example, const InspectOptions& asked) {
  const auto sections = chosen_sections<Program>(kExampleSections, asked.show);
  const Program program{example, asked.batch,
                        example.compile(target_of(asked.device), asked.batch)};
  const bool picture = !asked.svg.empty() || !asked.dot.empty();
  if (picture) draw(program, asked);
  if (picture && asked.show.empty()) return;
  for (const auto* section : sections) {
    std::printf("%s\n", styled(Style::Bold, std::string("== ") + section->title).c_str());
    section->print(program);
    std::printf("\n");
  }
}

}  // namespace tensorgrad::cli
