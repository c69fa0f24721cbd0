// `tensorgrad inspect EXAMPLE`: what the compiler makes of an example's training step. Nothing
// runs.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "commands.hpp"
#include "example.hpp"
#include "terminal.hpp"

namespace tensorgrad::cli {

namespace {

void print_traced(const CompiledIR& ir) { std::printf("%s", ir.traced->to_string().c_str()); }

void print_graph(const CompiledIR& ir) { std::printf("%s", ir.optimized->to_string().c_str()); }

/// One line a kernel: what it does, over what, how often, from and to which buffers.
void print_kernels(const CompiledIR& ir) {
  const Plan& plan = *ir.plan;
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

void print_kernel_ir(const CompiledIR& ir) {
  for (const Kernel& kernel : ir.plan->kernels) std::printf("%s", kernel.to_string().c_str());
}

void print_buffers(const CompiledIR& ir) {
  for (std::size_t b = 0; b < ir.plan->buffers.size(); ++b) {
    const BufferSpec& buffer = ir.plan->buffers[b];
    std::printf("%4zu  %-10s %-32s %12s\n", b, to_string(buffer.role), buffer.name.c_str(),
                human_bytes(buffer.bytes).c_str());
  }
}

void print_memory(const CompiledIR& ir) {
  std::printf("%s", ir.plan->memory().to_string().c_str());
}

struct Section {
  const char* name;
  const char* title;
  bool usual;  // shown unless --show says
  void (*print)(const CompiledIR& ir);
};

constexpr std::array<Section, 6> kSections = {{
    {"traced", "the graph as traced, with gradients and update", false, print_traced},
    {"graph", "the graph after the passes", true, print_graph},
    {"kernels", "the kernels of a step: outer x inner size, buffers read -> written", true,
     print_kernels},
    {"kernel-ir", "what each kernel computes", false, print_kernel_ir},
    {"buffers", "the buffers", true, print_buffers},
    {"memory", "the memory", true, print_memory},
}};

std::vector<const Section*> chosen_sections(const std::string& list) {
  std::vector<const Section*> sections;
  if (list.empty()) {
    for (const Section& section : kSections) {
      if (section.usual) sections.push_back(&section);
    }
    return sections;
  }
  for (std::size_t start = 0; start <= list.size();) {
    const std::size_t comma = std::min(list.find(',', start), list.size());
    const std::string name = list.substr(start, comma - start);
    start = comma + 1;
    std::string known;
    const Section* found = nullptr;
    for (const Section& section : kSections) {
      if (name == section.name || name == "all") sections.push_back(found = &section);
      known += std::string(known.empty() ? "" : ", ") + section.name;
    }
    if (!found) {
      throw UsageError("There is no section named \"" + name + "\" to show; there are: " + known +
                       ", all. See `tensorgrad inspect --help`.");
    }
  }
  return sections;
}

}  // namespace

int run_inspect(const Arguments& args) {
  std::string name, device = "best", show;
  std::int64_t batch = 0;
  bool dot = false;
  std::string about =
      "Shows what the compiler makes of an example's training step for a device: the graph, the\n"
      "kernels, the buffers and the memory. Nothing is run.\n\nSections for --show:\n";
  for (const Section& section : kSections) about += help_row(section.name, 9, section.title);
  about += "\nExamples to inspect:\n" + list_examples();
  about.pop_back();

  Options options("tensorgrad inspect", about);
  options.argument("EXAMPLE", "the example to inspect, sin or addition", &name)
      .option("--device", "NAME", "the device to compile for", &device)
      .option("--batch", "N", "examples a step; the example's own unless given", &batch)
      .option("--show", "SECTIONS",
              "separated by commas, or all; graph,kernels,buffers,memory unless given", &show)
      .flag("--dot", "the graph as a picture for Graphviz, and nothing else", &dot)
      .example("tensorgrad inspect sin", "the whole of a small program")
      .example("tensorgrad inspect addition --show kernels", "what one step of a transformer runs")
      .example("tensorgrad inspect sin --dot | dot -Tsvg > sin.svg", "a picture");
  if (!options.parse(args)) return 0;

  const Example& example = find_example(name);
  const std::vector<const Section*> sections = chosen_sections(show);
  const CompiledIR ir = example.compile(Device::named(device).target(), batch);
  if (dot) {
    std::printf("%s", ir.optimized->to_dot().c_str());
    return 0;
  }
  for (const Section* section : sections) {
    std::printf("%s\n", styled(Style::Bold, std::string("== ") + section->title).c_str());
    section->print(ir);
    std::printf("\n");
  }
  return 0;
}

}  // namespace tensorgrad::cli
