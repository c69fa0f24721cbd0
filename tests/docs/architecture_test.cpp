// docs/architecture.md shows what every stage prints for one small program. This test runs that
// program and compares.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>

#include "docs/document.hpp"
#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::test {
namespace {

struct Layer {
  Tensor W = param({3, 2}, {.init = init::uniform(0.5)});
  Tensor b = param({2}, {.init = init::zeros});
  Tensor operator()(const Tensor& x) const { return relu(matmul(x, W) + b); }
};

Outputs forward() {
  Layer layer;
  materialize_params(layer);
  const Tensor x = tensor_input("x", {4, 3}, f32, {}), y = tensor_input("y", {4, 2}, f32, {});
  return mean(square(layer(x) - y));
}

/// Line numbers of this file would change the document for nothing.
std::string without_sites(const std::string& text) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto site = line.find("   # ");
    if (site != std::string::npos) line.resize(site);
    while (!line.empty() && line.back() == ' ') line.pop_back();
    result += line + "\n";
  }
  return result;
}

std::map<std::string, std::string> stage_outputs() {
  std::map<std::string, std::string> out;
  const auto graph = trace(forward);
  out["traced"] = without_sites(graph->to_string());
  append_grad(*graph);
  out["gradient"] = without_sites(graph->to_string());
  append_optimizer(*graph, Adam{.lr = 0.01});
  Target target;
  target.name = "webgpu";
  target.whole_buffers = true;
  target.max_bindings = 8;
  target.passes.parallelism = 64;
  const auto optimized = run_passes(*graph, target.passes);
  out["optimized"] = without_sites(optimized->to_string());
  const Plan planned = plan(optimized, target);
  out["plan"] = planned.to_string();
  out["memory"] = planned.memory().to_string();
  out["wgsl"] = emit_kernels(planned).front().wgsl;
  auto train = compile(
      Layer{}, [](const Layer& m, const Inputs& in) { return mean(square(m(in["x"]) - in["y"])); },
      {.inputs = {{"x", {4, 3}}, {"y", {4, 2}}},
       .optimizer = Adam{.lr = 0.01},
       .seed = 1,
       .device = Device::cpu()});
  std::vector<float> x, y;
  for (int i = 0; i < 12; ++i) x.push_back(static_cast<float>(i % 5) * 0.25f);
  for (int i = 0; i < 8; ++i) y.push_back(static_cast<float>(i % 3) * 0.5f);
  std::string losses;
  for (int step = 0; step < 3; ++step) {
    char line[64];
    std::snprintf(line, sizeof line, "step %d: loss %.4f\n", step,
                  static_cast<double>(train.step({{"x", x}, {"y", y}}).loss));
    losses += line;
  }
  out["steps"] = losses;
  return out;
}

TEST(Architecture, ShowsWhatEveryStageReallyPrints) {
  check_document("docs/architecture.md", stage_outputs());
}

}  // namespace
}  // namespace tensorgrad::test
