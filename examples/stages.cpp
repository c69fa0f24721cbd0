// The stages of the compiler by hand: what `compile` and `step` do between a model and a number,
// one function a stage, with what each of them makes printed. A program may stop after any of
// them; only the last needs a device.
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
  //    leaves of this graph, named by their paths; what the function returns is its outputs, the
  //    first of which is the loss.
  std::vector<tg::MaterializedParam> params;
  const std::shared_ptr<tg::Graph> graph = tg::trace([&]() -> tg::Outputs {
    Classifier model;
    params = tg::materialize_params(model);
    const tg::Tensor x = tg::tensor_input("x", {B, 4});
    const tg::Tensor label = tg::tensor_input("label", {B}, tg::i32);
    const tg::Tensor logits = model(x);
    return {{"loss", tg::cross_entropy(logits, label)}, {"guess", tg::argmax(logits, -1)}};
  });
  std::printf("== trace\n%s\n", graph->to_string().c_str());
  std::printf("== parameters\n");
  for (const tg::MaterializedParam& param : params) {
    std::printf("%s %s\n", param.name.c_str(), param.spec->shape.to_string().c_str());
  }

  // 2. A graph can be added to. State lives on the device from one run to the next; what is
  //    written back takes effect at a step's end.
  tg::trace_into(*graph, [] {
    const tg::Tensor steps = tg::state_input("steps", {}, tg::i32);
    tg::write_back(steps, steps + 1);
  });
  std::printf("\n== trace_into: %zu nodes now\n", graph->nodes().size());

  // 3. Gradients: the backward nodes go into the same graph.
  tg::append_grad(*graph);
  std::printf("\n== append_grad: %zu nodes now; the gradients are\n", graph->nodes().size());
  for (const tg::NamedTensor& gradient : graph->gradients) {
    std::printf("%%%d: %s is d loss / d %s\n", gradient.tensor,
                graph->type(gradient.tensor).to_string().c_str(), gradient.name.c_str());
  }

  // 4. The optimizer: moments are state of the graph, new values are written back.
  const tg::Optimizer optimizer = tg::AdamW{.lr = 0.05, .clip_norm = 1.0};
  tg::append_optimizer(*graph, optimizer);
  std::printf("\n== append_optimizer: %zu nodes now, %zu values are written back\n",
              graph->nodes().size(), graph->write_backs.size());

  // 5. Passes: the same values from fewer nodes. Each pass can also be called alone.
  const std::shared_ptr<tg::Graph> smaller = tg::run_passes(*graph);
  std::printf("\n== run_passes: %zu nodes are left\n%s", smaller->nodes().size(),
              smaller->to_string().c_str());

  // 6. Plan: nodes fuse into kernels, tensors get places in buffers. A Target says what matters
  //    of a device; tg::Target{} is a plain one, Device::cpu().target() a real one.
  const tg::Device device = tg::Device::cpu();
  const auto plan = std::make_shared<const tg::Plan>(tg::plan(smaller, device.target()));
  std::printf("\n== plan: kernels and buffers\n%s", plan->to_string().c_str());
  std::printf("\n== memory\n%s", plan->memory().to_string().c_str());

  // 7. Code: the same plan as WGSL, for a GPU that need not be here.
  const std::vector<tg::EmittedKernel> kernels =
      tg::emit_kernels(tg::plan(smaller, tg::Target{.whole_buffers = true}));
  std::printf("\n== emit_kernels: %zu kernels; %s is\n%s", kernels.size(),
              kernels.front().name.c_str(), kernels.front().wgsl.c_str());

  // 8. A runtime: buffers on a device. Parameters get their first values here, inputs at every
  //    step, and what a step makes is read from its place in the plan.
  const std::unique_ptr<tg::Runtime> runtime = tg::create_runtime(plan, device);
  tg::Rng rng(1);
  for (const tg::MaterializedParam& param : params) {
    runtime->write(param.name, param.spec->init.make(param.spec->shape, rng));
  }
  std::vector<float> x(B * 4);
  std::vector<std::int32_t> label(B);
  for (int i = 0; i < B; ++i) {  // the class is which of the first three numbers is the largest
    for (int k = 0; k < 4; ++k) x[i * 4 + k] = static_cast<float>(rng.normal());
    for (int k = 1; k < 3; ++k) {
      if (x[i * 4 + k] > x[i * 4 + label[i]]) label[i] = k;
    }
  }
  runtime->write("x", x);
  runtime->write("label", label);
  std::printf("\n== create_runtime, run\n");
  for (int step = 1; step <= 40; ++step) {
    runtime->write(tg::kStepScalars, tg::step_scalars(optimizer, step));
    runtime->run(tg::Phase::Gradient);  // loss and gradients; here gradients could be changed
    runtime->run(tg::Phase::Update);    // new parameters, moments and states
    if (step % 10 == 0) {
      std::printf("step %d: loss %.4f\n",
                  runtime->read(plan->states.at("steps")).as<std::int32_t>()[0],
                  static_cast<double>(runtime->read(plan->outputs.at("loss")).as<float>()[0]));
    }
  }
}
