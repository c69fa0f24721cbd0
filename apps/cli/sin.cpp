// `tensorgrad train sin`: an MLP of three layers learns the sine on [−3, 3], and draws it.
#include <cmath>
#include <cstdio>

#include "example.hpp"
#include "plot.hpp"
#include "run.hpp"

namespace tensorgrad::cli {

namespace {

constexpr double kEdge = 3;            // the sine is learned on [−kEdge, kEdge]
constexpr std::int64_t kPoints = 601;  // of the evaluation: every hundredth
constexpr std::uint64_t kData = 1;     // the stream of random numbers that the points come from

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
  train.optimizer = "adam";
  return train;
}

InputDecls inputs(std::int64_t batch) { return {{"x", {batch, 1}}, {"y", {batch, 1}}}; }

LearningRate rate(const TrainOptions& train) {
  // It falls, so that the last steps polish instead of jumping about.
  return lr::cosine(train.lr, train.decay_steps, train.lr / 100);
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
  return compile_stages(Mlp{}, loss, inputs(batch > 0 ? batch : train.batch),
                        make_optimizer(train, train.lr), target);
}

int train_sin(const Arguments& args) {
  TrainOptions train = defaults();
  Options options(
      "tensorgrad train sin",
      "Trains an MLP (1-64-64-1, relu) on random points of the sine between -3 and 3, then draws\n"
      "what it learned over the true curve and prints the mean squared error.");
  add_train_options(options, train);
  options.example("tensorgrad train sin", "a second or two on a CPU; ends below 0.001")
      .example("tensorgrad train sin --steps 50 --lr 0.02", "fewer, larger steps")
      .example("tensorgrad train sin --device webgpu --log losses.jsonl",
               "on the GPU, with every loss in a file");
  if (!parse_training("sin", args, options, train)) return 0;

  TrainingRun run("sin", options, train);
  auto training = compile(Mlp{}, loss,
                          {.inputs = inputs(train.batch),
                           .optimizer = make_optimizer(train, rate(train)),
                           .seed = train.seed,
                           .device = Device::named(train.device)});
  auto predict = training.attach([](const Mlp& model, const Inputs& in) { return model(in["x"]); },
                                 {.inputs = {{"x", {kPoints, 1}}}});
  run.begin(trainee(training));

  std::vector<float> x(static_cast<std::size_t>(train.batch)), y(x.size());
  const auto feed = [&](std::int64_t step) {
    Rng rng = step_rng(train.seed, kData, step);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(kEdge * (2 * rng.uniform() - 1));
      y[i] = std::sin(x[i]);
    }
    return std::vector<FeedItem>{{"x", x}, {"y", y}};
  };
  run.train({.feed = feed, .rate = rate(train)});
  const double error = draw(predict);
  std::printf("mean squared error on [-3, 3]: %.3g\n", error);
  return run.end({{"mse", error}});
}

}  // namespace tensorgrad::cli
