// `tensorgrad inspect`: what it says of examples and files, and what its pictures look like.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <regex>

#include "cli/run_program.hpp"
#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::test {
namespace {

ProgramResult inspect(std::vector<std::string> args) {
  args.insert(args.begin(), "inspect");
  return run_program("tensorgrad", args);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// An environment variable with another value, for a while.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value, 1);
  }
  ~Environment() {
    if (old_) {
      setenv(name_, old_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

// ---- examples

TEST(Inspect, ShowsGraphKernelsBuffersAndMemory) {
  const ProgramResult result = inspect({"sin", "--device", "cpu"});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* part : {"== the graph after the passes", "f32[256, 64] = matmul(",
                           "sin.cpp:", "== the kernels of a step", "adam", "== the buffers",
                           "== the memory", "kernels a step"}) {
    EXPECT_TRUE(has(result.out, part)) << part << "\n" << result.out;
  }
  EXPECT_FALSE(has(result.out, "== what each kernel computes"));
}

TEST(Inspect, ShowsWhatIsAskedFor) {
  const std::string some =
      inspect({"addition", "--device=cpu", "--batch", "8", "--show", "kernels,memory"}).out;
  EXPECT_TRUE(has(some, "matmul")) << some;
  EXPECT_TRUE(has(some, "== the memory")) << some;
  EXPECT_FALSE(has(some, "== the graph")) << some;
  const std::string all = inspect({"sin", "--device", "cpu", "--show", "all"}).out;
  EXPECT_TRUE(has(all, "== what each kernel computes"));
  EXPECT_TRUE(has(all, "@compute @workgroup_size("));
}

TEST(Inspect, ShowsTheCostliestKernels) {
  const ProgramResult result = inspect({"sin", "--device", "cpu", "--show", "costs"});
  EXPECT_EQ(result.status, 0) << result.err;
  // Three products forward, two back to the inputs of layers and three to weights: 4,096 + 2 x 64
  // weights, batch 256; and biases, activations and the update.
  std::smatch found;
  ASSERT_TRUE(std::regex_search(result.out, found, std::regex("([0-9.]+) GFLOP"))) << result.out;
  const double products = 1e-9 * 2 * 256 * (3 * 4096 + 3 * 64 + 2 * 64 + 64);
  EXPECT_GT(std::stod(found[1]), products - 1e-3) << result.out;
  EXPECT_LT(std::stod(found[1]), 1.3 * products) << result.out;
  EXPECT_TRUE(has(result.out, "matmul")) << result.out;
}

TEST(Inspect, ShowsTheCodeOfKernelsWithMoreBuffersThanEveryDeviceHas) {
  const ProgramResult result = inspect({"chars", "--device", "webgpu", "--show", "wgsl"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has(result.out, "@compute")) << result.out;
}

TEST(Inspect, PlansForAGpuThatIsNotThere) {
  const Environment no_dawn("TENSORGRAD_DAWN", "/nonexistent/dawn");
  const ProgramResult result = inspect({"sin", "--device", "webgpu", "--show", "wgsl"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has(result.err, "there is no WebGPU device here")) << result.err;
  EXPECT_TRUE(has(result.out, "// kernel adam_update")) << result.out;
}

TEST(Inspect, RefusesWhatItCannotDo) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{}, "`tensorgrad inspect` needs EXAMPLE|FILE: "},
      {{"sine"}, "There is no example named \"sine\"; did you mean sin?"},
      {{"sin", "--show", "graph,soul"},
       "There is no section named \"soul\" to show; there are: traced, graph,"},
      {{"sin", "--draw", "soul"}, "--draw takes kernels, graph or memory, not \"soul\"."},
      {{"sin", "--dot", "x", "--draw", "memory"}, "The memory is drawn by --svg only"},
      {{"sin", "--svg", "-", "--show", "graph"}, "A picture on standard output leaves no room"},
      {{"./sin", "--svg", "x"}, "A file has no kernels to draw"},
  };
  for (const auto& [args, sentence] : mistakes) {
    const ProgramResult result = inspect(args);
    EXPECT_EQ(result.status, 2) << sentence;
    EXPECT_EQ(result.out, "") << sentence;
    EXPECT_EQ(result.err.rfind("tensorgrad: " + sentence, 0), 0u) << result.err;
  }
  const ProgramResult unwritable = inspect({"sin", "--device", "cpu", "--svg", "/nonexistent/x"});
  EXPECT_EQ(unwritable.status, 1);
  EXPECT_EQ(unwritable.err, "tensorgrad: Cannot write the picture /nonexistent/x.\n");
}

// ---- pictures

struct Rect {
  double x = 0, y = 0, width = 0, height = 0;
};

/// The numbers of an attribute that stands once in `element`.
double attribute(const std::string& element, const std::string& name) {
  const std::size_t at = element.find(" " + name + "=\"");
  EXPECT_NE(at, std::string::npos) << name << " in " << element;
  return std::strtod(element.c_str() + at + name.size() + 3, nullptr);
}

/// Every element of a kind, up to its '>'.
std::vector<std::string> elements(const std::string& svg, const std::string& kind) {
  std::vector<std::string> found;
  for (std::size_t at = 0; (at = svg.find("<" + kind + " ", at)) != std::string::npos; ++at) {
    found.push_back(svg.substr(at, svg.find('>', at) - at));
  }
  return found;
}

/// All rectangles but the background.
std::vector<Rect> rectangles(const std::string& svg) {
  std::vector<Rect> rects;
  for (const std::string& element : elements(svg, "rect")) {
    if (!has(element, " x=")) continue;
    rects.push_back({attribute(element, "x"), attribute(element, "y"), attribute(element, "width"),
                     attribute(element, "height")});
  }
  return rects;
}

/// Tags open and close in order, and no stray & or < is left.
void expect_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < xml.size(); ++at) {
    if (xml[at] == '&') {
      const std::string rest = xml.substr(at, 6);
      EXPECT_TRUE(rest.rfind("&lt;", 0) == 0 || rest.rfind("&gt;", 0) == 0 ||
                  rest.rfind("&amp;", 0) == 0 || rest == "&quot;")
          << rest;
    }
    if (xml[at] != '<') continue;
    const std::size_t end = xml.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    ASSERT_EQ(tag.find('<'), std::string::npos) << tag;
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ("/" + open.back(), name);
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
}

std::string drawn(const std::vector<std::string>& args) {
  std::vector<std::string> words = args;
  words.insert(words.end(), {"--device", "cpu", "--svg", "-"});
  const ProgramResult result = inspect(words);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out.rfind("<svg ", 0), 0u);
  return result.out;
}

TEST(InspectPicture, OfKernelsHasABoxEachAndArrowsThatPointDown) {
  const std::string svg = drawn({"sin"});
  expect_well_formed(svg);
  for (const char* part : {"sin: 12 kernels a step", ">matmul_add_relu<", ">adam_update<", ">l1.W<",
                           ">x<", ">output output<", "kernel matmul_add_relu over"}) {
    EXPECT_TRUE(has(svg, part)) << part;
  }
  // Kernels, parameters, inputs and the output.
  const std::vector<Rect> rects = rectangles(svg);
  EXPECT_EQ(rects.size(), 12u + 6 + 2 + 1);
  const double width = attribute(svg, "width"), height = attribute(svg, "height");
  for (std::size_t i = 0; i < rects.size(); ++i) {
    const Rect& a = rects[i];
    EXPECT_GE(a.x, 0);
    EXPECT_GE(a.y, 0);
    EXPECT_LE(a.x + a.width, width);
    EXPECT_LE(a.y + a.height, height);
    for (std::size_t j = 0; j < i; ++j) {
      const Rect& b = rects[j];
      const bool apart = a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y ||
                         b.y + b.height <= a.y;
      EXPECT_TRUE(apart) << i << " and " << j << " overlap";
    }
  }
  int arrows = 0;
  for (const std::string& path : elements(svg, "path")) {
    if (!has(path, "marker-end")) continue;
    ++arrows;
    const std::regex place("(-?[0-9.]+),(-?[0-9.]+)");
    double last = -1;
    for (auto at = std::sregex_iterator(path.begin(), path.end(), place);
         at != std::sregex_iterator(); ++at) {
      const double y = std::stod((*at)[2]);
      EXPECT_GE(y, last) << path;
      last = y;
    }
  }
  EXPECT_GT(arrows, 20);
}

TEST(InspectPicture, OfTheGraphWritesConstantsIntoTheirUsers) {
  const std::string svg = drawn({"sin", "--draw", "graph"});
  expect_well_formed(svg);
  EXPECT_TRUE(has(svg, ">relu<")) << svg;
  EXPECT_TRUE(has(svg, ">mul 0.00390625<")) << svg;  // the mean over 256
  EXPECT_FALSE(has(svg, ">constant<"));
}

TEST(InspectPicture, OfMemoryNeverPutsTwoLivingBlocksInOnePlace) {
  for (const char* example : {"sin", "addition"}) {
    const std::string svg = drawn({example, "--draw", "memory", "--batch", "8"});
    expect_well_formed(svg);
    std::vector<Rect> blocks;
    for (const std::string& element : elements(svg, "rect")) {
      if (!has(element, "#b9a7dd")) continue;
      blocks.push_back({attribute(element, "x"), attribute(element, "y"),
                        attribute(element, "width"), attribute(element, "height")});
    }
    EXPECT_GT(blocks.size(), 5u);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const Rect &a = blocks[i], &b = blocks[j];
        const double across = std::min(a.x + a.width, b.x + b.width) - std::max(a.x, b.x);
        const double along = std::min(a.y + a.height, b.y + b.height) - std::max(a.y, b.y);
        EXPECT_FALSE(across > 0.5 && along > 0.5) << example << ": " << i << " and " << j;
      }
    }
  }
}

TEST(InspectPicture, GoesToAFileAndSaysSo) {
  const ScratchFolder folder;
  const std::string svg = folder / "a.svg", dot = folder / "a.dot";
  const ProgramResult result = inspect({"sin", "--device", "cpu", "--svg", svg, "--dot", dot});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out,
            "wrote " + dot + ": the kernels of sin\nwrote " + svg + ": the kernels of sin\n");
  EXPECT_EQ(detail::read_file(svg).rfind("<svg ", 0), 0u);
  EXPECT_EQ(detail::read_file(dot).rfind("digraph", 0), 0u);
}

TEST(InspectPicture, ForGraphvizHasEveryNode) {
  const std::string dot = inspect({"sin", "--device", "cpu", "--dot", "-", "--draw", "graph"}).out;
  EXPECT_EQ(dot.rfind("digraph tensorgrad {\n", 0), 0u);
  EXPECT_TRUE(has(dot, "[label=\"l2.W\\n%")) << dot;
  EXPECT_TRUE(has(dot, " -> ")) << dot;
  EXPECT_EQ(dot.substr(dot.size() - 2), "}\n");
}

// ---- files

struct Model {
  nn::Linear l{3, 2};
};

TEST(InspectFile, ShowsACheckpoint) {
  const ScratchFolder folder;
  const std::string path = folder / "run.safetensors";
  auto train = compile(
      Model{}, [](const Model& m, const Inputs& in) { return mean(square(m.l(in["x"]))); },
      {.inputs = {{"x", {4, 3}}}, .optimizer = Adam{}, .seed = 12, .device = Device::cpu()});
  train.upload_params({{"l.W", {1, 2, 3, -4.5f, NAN, INFINITY}}, {"l.b", {0.25f, 0.75f}}});
  train.save(path, {{"tensorgrad.example", "sin"},
                    {"tensorgrad.config", R"({"batch":64,"optimizer":"adamw"})"},
                    {"note\x1b[2J", "evil\x1b[31m \xc2\x9b and ü"}});
  const ProgramResult result = inspect({path});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_FALSE(has(result.out, "\x1b")) << "what a file says must not reach the terminal raw";
  for (const std::string& part :
       {path + ", a checkpoint of tensorgrad\n", std::string("sin: a small MLP learns the sine"),
        std::string("step        0\n"), std::string("seed        12\n"),
        std::string("batch 64, optimizer adamw\n"),
        std::string("parameters  8 in 2 tensors, 32 bytes, F32\n"),
        std::string("states      16 in 4 tensors"), std::string("state.optimizer.m.l.W"),
        std::string("note\\x1b[2J"), std::string("evil\\x1b[31m \\x9b and ü")}) {
    EXPECT_TRUE(has(result.out, part)) << part << "\n" << result.out;
  }
  EXPECT_TRUE(std::regex_search(
      result.out,
      std::regex("param\\.l\\.W +F32\\[3, 2\\] +-4\\.5 +0\\.375 +3  1 NaN, 1 infinite\n")))
      << result.out;
  EXPECT_TRUE(std::regex_search(result.out,
                                std::regex("param\\.l\\.b +F32\\[2\\] +0\\.25 +0\\.5 +0\\.75\n")))
      << result.out;
}

TEST(InspectFile, ShowsPlainSafetensorsAndShards) {
  const std::string fixtures =
      std::string(TENSORGRAD_SOURCE_DIR) + "/tests/fixtures/pytorch_weights";
  const ProgramResult half = inspect({fixtures + "/bf16.safetensors", "--show", "summary,tensors"});
  EXPECT_EQ(half.status, 0) << half.err;
  EXPECT_TRUE(has(half.out, "elements    117 in 7 tensors, 234 bytes, BF16\n")) << half.out;
  EXPECT_TRUE(has(half.out, "BF16[7, 6]")) << half.out;
  EXPECT_FALSE(has(half.out, "== the metadata")) << half.out;
  const ProgramResult shards = inspect({fixtures});
  EXPECT_EQ(shards.status, 0) << shards.err;
  EXPECT_TRUE(has(shards.out, "117 in 7 tensors, 468 bytes, F32")) << shards.out;
  EXPECT_TRUE(has(shards.out, "format  pt")) << shards.out;
}

TEST(InspectFile, RefusesWhatIsNone) {
  const ScratchFolder folder;
  const std::string path = folder / "x.safetensors";
  const ProgramResult missing = inspect({path});
  EXPECT_EQ(missing.status, 1);
  EXPECT_TRUE(has(missing.err, "No such file or directory")) << missing.err;
  std::ofstream(path) << "rubbish";
  const ProgramResult rubbish = inspect({path});
  EXPECT_EQ(rubbish.status, 1);
  EXPECT_TRUE(has(rubbish.err, "the file is truncated")) << rubbish.err;
  const ProgramResult section = inspect({path, "--show", "kernels"});
  EXPECT_EQ(section.status, 2);
  EXPECT_TRUE(has(section.err, "there are: summary, tensors, metadata, all")) << section.err;
}

TEST(InspectFile, SaysSoIfTheExampleIsUnknown) {
  const ScratchFolder folder;
  const std::string path = folder / "x.safetensors";
  write_safetensors(path, {}, {{"tensorgrad.example", "weather"}, {"tensorgrad.config", "[1"}});
  const ProgramResult result = inspect({path});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has(result.out, "weather, which is none of this program's")) << result.out;
  EXPECT_TRUE(has(result.out, "settings    [1\n")) << result.out;
}

}  // namespace
}  // namespace tensorgrad::test
