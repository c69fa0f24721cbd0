// The sine, learned by an MLP: the smallest whole program. Train, then share the parameters with a
// forward program and ask it. The documents show it as it stands here.
// clang-format off
#include <tensorgrad/tensorgrad.hpp>
#include <cmath>
#include <cstdio>
namespace tg = tensorgrad;

struct Mlp {                                   // a plain struct is a model
  tg::nn::Linear l1{1, 64}, l2{64, 64}, l3{64, 1};
  tg::Tensor operator()(tg::Tensor x) const {
    return l3(tg::relu(l2(tg::relu(l1(x)))));
  }
};

int main() {
  constexpr int B = 256;
  auto train = tg::compile(
      Mlp{},
      [](const Mlp& m, const tg::Inputs& in) {
        return tg::mean(tg::square(m(in["x"]) - in["y"]));
      },
      {.inputs = {{"x", {B, 1}}, {"y", {B, 1}}},
       .optimizer = tg::Adam{.lr = 0.005f},
       .seed = 42});

  std::vector<float> x(B), y(B);
  float loss = 0;
  for (int step = 0; step < 1000; ++step) {
    for (int i = 0; i < B; ++i) {
      x[i] = 6.0f * float((step * B + i) * 7919 % 10007) / 10007.0f - 3.0f;
      y[i] = std::sin(x[i]);
    }
    loss = train.step({{"x", x}, {"y", y}}).loss;
  }

  auto predict = train.attach(                 // shares the parameters, no copies
      [](const Mlp& m, const tg::Inputs& in) { return m(in["x"]); },
      {.inputs = {{"x", {1, 1}}}});
  std::vector<float> at_half = predict.run({{"x", std::vector{0.5f}}}).output;
  std::printf("loss %g, sin(0.5) ~ %g\n", loss, at_half[0]);
}
