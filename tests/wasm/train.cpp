// Every stage of the library, printed: the same text and numbers alike on every platform.
// expected.txt is what it prints; check.sh compares.
#include <cmath>
#include <cstdio>
#include <string>
#include <tensorgrad/tensorgrad.hpp>
#include <vector>

namespace tg = tensorgrad;

namespace {

constexpr int kBatch = 32;

struct Mlp {
  tg::nn::Linear l1{1, 16}, l2{16, 16};
  tg::nn::LayerNorm norm{16};
  tg::nn::Linear l3{16, 1};
  tg::Tensor operator()(tg::Tensor x) const { return l3(norm(tg::gelu(l2(tg::tanh(l1(x)))))); }
};

tg::Tensor loss(const Mlp& m, const tg::Inputs& in) {
  return tg::mean(tg::square(m(in["x"]) - in["y"]));
}

tg::Training<Mlp> compile_on(const tg::Device& device) {
  return tg::compile(Mlp{}, loss,
                     {.inputs = {{"x", {kBatch, 1}}, {"y", {kBatch, 1}}},
                      .optimizer = tg::Adam{.lr = 0.01f},
                      .seed = 7,
                      .device = device});
}

float step(tg::Training<Mlp>& train, int number) {
  std::vector<float> x(kBatch), y(kBatch);
  for (int i = 0; i < kBatch; ++i) {
    x[i] = 6.0f * float((number * kBatch + i) * 7919 % 10007) / 10007.0f - 3.0f;
    y[i] = std::sin(x[i]);
  }
  return train.step({{"x", x}, {"y", y}}).loss;
}

// Thirty steps, then a checkpoint, and one more step of a second program that starts from it.
void train_on(const tg::Device& device) {
  const char* name = device.name().c_str();
  auto train = compile_on(device);
  for (int number = 0; number < 30; ++number) {
    const float now = step(train, number);
    if (number % 5 == 0) std::printf("%s step %d %.7f\n", name, number, now);
  }
  const std::string file = "tensorgrad_" + device.name() + ".safetensors";
  train.save(file);
  auto resumed = compile_on(device);
  resumed.load(file);
  std::remove(file.c_str());
  std::printf("%s step 30 %.7f resumed %.7f\n", name, step(train, 30), step(resumed, 30));
}

// One op a line: where a compiler is free to evaluate one operand or the other first, the order of
// the nodes is its choice.
tg::Tensor constants(const Mlp& m, const tg::Inputs& in) {
  tg::Tensor x = m.l1(in["x"]);
  x = x * 0.1f;
  x = x + 123456.7f;
  x = x * 1e-7f;
  x = x - 3e9f;
  x = x / 100000.0f;
  x = tg::exp(x);
  return tg::sum(x);
}

}  // namespace

int main() {
  const auto forward = tg::compile_forward(
      Mlp{}, constants, {.inputs = {{"x", {kBatch, 1}}}, .device = tg::Device::null()});
  std::printf("%s", forward.ir().optimized->to_string().c_str());
  for (const tg::EmittedKernel& kernel : tg::emit_kernels(*forward.ir().plan)) {
    std::printf("kernel %s\n", kernel.name.c_str());
  }
  for (const auto& [name, values] : compile_on(tg::Device::null()).download_params()) {
    std::printf("%s has %zu values\n", name.c_str(), values.size());
  }
  train_on(tg::Device::reference());
  train_on(tg::Device::cpu());
  for (const tg::Device::Info& info : tg::Device::list()) {
    if (info.name != "webgpu")
      std::printf("%s %s\n", info.name.c_str(), info.available ? "yes" : "no");
  }
}
