// The stages of the compiler by hand: what `compile` does between a model and a device, one
// function a stage, with what each of them makes printed. Nothing here needs a GPU, and nothing is
// run.
#include <cstdio>
#include <memory>
#include <tensorgrad/tensorgrad.hpp>
namespace tg = tensorgrad;

struct Classifier {
  tg::nn::Linear hidden{4, 8}, out{8, 3};
  tg::Tensor operator()(tg::Tensor x) const { return out(tg::gelu(hidden(x))); }
};

int main() {
  constexpr int B = 16;

  // 1. Trace: inside of it every op appends a node to the graph. Parameters of a model become
  // leaves
  //    of this graph, named by their paths; what the function returns is the graph's output.
  std::vector<tg::MaterializedParam> params;
  const std::shared_ptr<tg::Graph> graph = tg::trace([&]() -> tg::Outputs {
    Classifier model;
    params = tg::materialize_params(model);
    const tg::Tensor x = tg::tensor_input("x", {B, 4});
    const tg::Tensor label = tg::tensor_input("label", {B}, tg::i32);
    return tg::cross_entropy(model(x), label);
  });
  std::printf("== trace\n%s\n", graph->to_string().c_str());
  std::printf("== parameters\n");
  for (const tg::MaterializedParam& param : params) {
    std::printf("%s %s\n", param.name.c_str(), param.spec->shape.to_string().c_str());
  }

  // 2. Gradients: the backward nodes go into the same graph.
  tg::append_grad(*graph);
  std::printf("\n== append_grad: %zu nodes now; the gradients are\n", graph->nodes().size());
  for (const tg::NamedTensor& gradient : graph->gradients) {
    std::printf("%%%d: %s is d loss / d %s\n", gradient.tensor,
                graph->type(gradient.tensor).to_string().c_str(), gradient.name.c_str());
  }

  // 3. The optimizer: moments are state of the graph, new values are written back at a step's end.
  tg::append_optimizer(*graph, tg::AdamW{.lr = 1e-3, .clip_norm = 1.0});
  std::printf("\n== append_optimizer: %zu nodes now, %zu values are written back\n",
              graph->nodes().size(), graph->write_backs.size());

  // 4. Passes: the same values from fewer nodes. Each pass can also be called alone.
  const std::shared_ptr<tg::Graph> smaller = tg::run_passes(*graph);
  std::printf("\n== run_passes: %zu nodes are left\n%s", smaller->nodes().size(),
              smaller->to_string().c_str());

  // 5. Plan: nodes fuse into kernels, tensors get places in buffers. A Target says what matters of
  // a
  //    device; Device::named("cpu").target() would give a real one.
  const tg::Plan plan = tg::plan(smaller, tg::Target{});
  std::printf("\n== plan: kernels and buffers\n%s", plan.to_string().c_str());
  std::printf("\n== memory\n%s", plan.memory().to_string().c_str());
}
