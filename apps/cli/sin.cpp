// `tensorgrad train sin`: an MLP of three layers learns the sine on [−3, 3], and draws it.
#include <cmath>
#include <cstdio>

#include "example.hpp"
#include "loop.hpp"
#include "plot.hpp"

namespace tensorgrad::cli {

namespace {

constexpr double kEdge = 3;            // the sine is learned on [−kEdge, kEdge]
constexpr std::int64_t kPoints = 601;  // of the evaluation: every hundredth

struct Mlp {
  nn::Linear l1{1, 64}, l2{64, 64}, l3{64, 1};
  Tensor operator()(const Tensor& x) const { return l3(relu(l2(relu(l1(x))))); }
};

Tensor loss(const Mlp& model, const Inputs& in) { return mean(square(model(in["x"]) - in["y"])); }

TrainOptions defaults() {
  TrainOptions train;
  train.steps = 1000;
  train.batch = 256;
  train.lr = 0.005;
  train.seed = 42;
  return train;
}

InputDecls inputs(std::int64_t batch) { return {{"x", {batch, 1}}, {"y", {batch, 1}}}; }

Adam optimizer(const TrainOptions& train) {
  // The rate falls, so that the last steps polish instead of jumping about.
  return {.lr = lr::cosine(train.lr, train.steps, train.lr / 100)};
}

double draw(Forward<Mlp>& predict) {
  std::vector<float> x;
  for (std::int64_t i = 0; i < kPoints; ++i) {
    x.push_back(static_cast<float>(-kEdge + 2 * kEdge * static_cast<double>(i) / (kPoints - 1)));
  }
  const std::vector<float> y = predict.run({{"x", x}}).output;
  Series truth{.name = "sin x", .points = {}, .colour = Style::Blue};
  Series learned{.name = "prediction", .points = {}, .colour = Style::Yellow, .mark = "o"};
  double error = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::sin(static_cast<double>(x[i]));
    truth.points.push_back({x[i], exact});
    learned.points.push_back({x[i], y[i]});
    error += (y[i] - exact) * (y[i] - exact);
  }
  const PlotOptions options{.width = plot_width(), .height = 15};
  std::printf("%s\n", plot({truth, learned}, options).c_str());
  return error / static_cast<double>(x.size());
}

}  // namespace

CompiledIR compile_sin(const Target& target, std::int64_t batch) {
  const TrainOptions train = defaults();
  return compile_stages(Mlp{}, loss, inputs(batch > 0 ? batch : train.batch), optimizer(train),
                        target);
}

int train_sin(const Arguments& args) {
  TrainOptions train = defaults();
  Options options(
      "tensorgrad train sin",
      "Trains an MLP (1-64-64-1, relu, Adam) on random points of the sine between -3 and 3,\n"
      "then draws what it learned over the true curve and prints the mean squared error.");
  add_train_options(options, train);
  options.example("tensorgrad train sin", "a second or two on a CPU; ends below 0.001")
      .example("tensorgrad train sin --steps 50 --lr 0.02", "fewer, larger steps")
      .example("tensorgrad train sin --device webgpu --log losses.jsonl",
               "on the GPU, with every loss in a file");
  if (!options.parse(args)) return 0;

  JsonLog log(train.log);
  print_title("sin");
  auto training = compile(Mlp{}, loss,
                          {.inputs = inputs(train.batch),
                           .optimizer = optimizer(train),
                           .seed = train.seed,
                           .device = Device::named(train.device)});
  auto predict = training.attach([](const Mlp& model, const Inputs& in) { return model(in["x"]); },
                                 {.inputs = {{"x", {kPoints, 1}}}});
  print_program(training.device(), training.ir());
  log_start(log, "sin", training.device(), train);

  Rng rng(train.seed);
  std::vector<float> x(static_cast<std::size_t>(train.batch)), y(x.size());
  Loop loop;
  loop.steps = train.steps;
  loop.log = &log;
  watch(training, train, loop);
  loop.start = [&](std::int64_t) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(kEdge * (2 * rng.uniform() - 1));
      y[i] = std::sin(x[i]);
    }
    return training.step_async({{"x", x}, {"y", y}});
  };
  const LoopResult result = run_loop(loop);
  print_training(result);
  const double error = draw(predict);
  std::printf("mean squared error on [-3, 3]: %.3g\n", error);
  log.event("end", {{"steps", static_cast<std::int64_t>(result.losses.size())},
                    {"seconds", result.seconds},
                    {"mse", error}});
  return 0;
}

}  // namespace tensorgrad::cli
