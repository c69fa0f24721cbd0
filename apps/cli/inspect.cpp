// `tensorgrad inspect EXAMPLE|FILE`: what the compiler makes of an example's training step, or what
// is in a checkpoint. Nothing runs.
#include "inspect.hpp"

#include <filesystem>

#include "commands.hpp"

namespace tensorgrad::cli {

namespace {

const Example* example_named(const std::string& name) {
  for (const Example& example : examples()) {
    if (example.name == name) return &example;
  }
  return nullptr;
}

/// Whether a word that is no example's name is meant as one of a file.
bool names_a_file(const std::string& word) {
  std::error_code ignored;
  return std::filesystem::exists(word, ignored) || word.find_first_of("./") != std::string::npos;
}

void check_choices(const InspectOptions& asked) {
  if (asked.draw != "kernels" && asked.draw != "graph" && asked.draw != "memory") {
    throw UsageError("--draw takes kernels, graph or memory, not \"" + asked.draw +
                     "\". See `tensorgrad inspect --help`.");
  }
  if (asked.draw == "memory" && !asked.dot.empty()) {
    throw UsageError("The memory is drawn by --svg only; Graphviz draws boxes and arrows.");
  }
  if ((asked.svg == "-" || asked.dot == "-") && !asked.show.empty()) {
    throw UsageError("A picture on standard output leaves no room for --show: name a file.");
  }
}

}  // namespace

int run_inspect(const Arguments& args) {
  InspectOptions asked;
  const std::string about =
      "Takes something apart and runs nothing.\n\n"
      "An example: what the compiler makes of its training step for a device. Its graph becomes\n"
      "kernels, fused from the graph's nodes, and buffers that the kernels read and write. All of\n"
      "it can be listed, and drawn with --svg or --dot. Sections for --show:\n" +
      example_sections() +
      "\nA file: a checkpoint that `tensorgrad train` saved, or any model in safetensors form (a\n"
      "file, the index of its shards, or their folder). Sections for --show:\n" +
      file_sections() + "\nExamples to inspect:\n" + list_examples();

  Options options("tensorgrad inspect", about.substr(0, about.size() - 1));
  options
      .argument("EXAMPLE|FILE", "the example, or the file with a path or an ending", &asked.subject)
      .option("--show", "SECTIONS", "separated by commas, or all", &asked.show)
      .option("--device", "NAME", "the device to compile for", &asked.device)
      .option("--batch", "N", "examples a step; the example's own unless given", &asked.batch)
      .option("--svg", "FILE", "draw a picture for browsers; - is standard output", &asked.svg)
      .option("--dot", "FILE", "draw it for Graphviz instead", &asked.dot)
      .option("--draw", "WHAT",
              "what the picture shows: kernels and what goes between them, the graph's\n"
              "nodes, or memory over time",
              &asked.draw)
      .example("tensorgrad inspect sin", "the whole of a small program")
      .example("tensorgrad inspect addition --show kernels", "what one step of a transformer runs")
      .example("tensorgrad inspect sin --show wgsl --device webgpu",
               "the code of every kernel; no GPU is needed")
      .example("tensorgrad inspect sin --svg sin.svg", "a picture of the kernels, for a browser")
      .example("tensorgrad inspect addition --svg memory.svg --draw memory",
               "which temporary lives where and how long")
      .example("tensorgrad inspect run.safetensors", "shapes, ranges and settings in a checkpoint");
  if (!options.parse(args)) return 0;
  check_choices(asked);

  if (const Example* example = example_named(asked.subject)) {
    inspect_example(*example, asked);
  } else if (names_a_file(asked.subject)) {
    if (!asked.svg.empty() || !asked.dot.empty()) {
      throw UsageError("A file has no kernels to draw; --svg and --dot are for examples.");
    }
    inspect_file(asked);
  } else {
    find_example(asked.subject);  // throws, with the names there are
  }
  return 0;
}

}  // namespace tensorgrad::cli
