// A variational autoencoder. Pictures of a disc, 12 by 12 pixels, are squeezed through two numbers
// and drawn again from them. Nobody tells the network that a disc is two coordinates; it finds
// them. At the end its plane of two numbers is drawn: neighbours in it are neighbours in the
// picture.
#include <cmath>
#include <cstdio>
#include <random>
#include <tensorgrad/tensorgrad.hpp>
#include <vector>
namespace tg = tensorgrad;

constexpr int kSide = 12, kPixels = kSide * kSide, kHidden = 128, kLatent = 2, kBatch = 64;
constexpr int kGrid = 5, kSteps = 1000;

struct Vae {
  tg::nn::Linear e1{kPixels, kHidden}, mean{kHidden, kLatent}, log_variance{kHidden, kLatent};
  tg::nn::Linear d1{kLatent, kHidden}, d2{kHidden, kPixels};

  /// From a place in the plane to the logits of the pixels.
  tg::Tensor decode(tg::Tensor z) const { return d2(tg::relu(d1(z))); }
};

/// −log p(picture), bounded from above: what the picture costs when it is drawn from a place near
/// its mean, and what it costs to say that place. Both in nats a picture.
tg::Tensor loss(const Vae& model, const tg::Inputs& in) {
  const tg::Tensor picture = in["picture"];
  const tg::Tensor hidden = tg::relu(model.e1(picture));
  const tg::Tensor mean = model.mean(hidden), log_variance = model.log_variance(hidden);
  // The gradient passes through the noise: z is a function of mean and variance.
  const tg::Tensor z = mean + tg::exp(0.5 * log_variance) * tg::randn({kBatch, kLatent});
  const tg::Tensor drawing = tg::binary_cross_entropy_with_logits(
                                 model.decode(z), picture, {.reduction = tg::Reduction::Sum}) /
                             kBatch;
  const tg::Tensor place =
      -0.5 * tg::sum(1.0 + log_variance - tg::square(mean) - tg::exp(log_variance)) / kBatch;
  tg::capture("drawing", drawing);
  tg::capture("place", place);
  return drawing + place;
}

/// A disc somewhere, with a soft edge.
void add_disc(std::vector<float>& pixels, std::mt19937& random) {
  const auto anywhere = [&] { return 3.0f + static_cast<float>(random() % 1000) * 0.005f; };
  const float x = anywhere(), y = anywhere();
  for (int row = 0; row < kSide; ++row) {
    for (int column = 0; column < kSide; ++column) {
      const float distance =
          std::hypot(static_cast<float>(column) - x, static_cast<float>(row) - y);
      pixels.push_back(1.0f / (1.0f + std::exp(3.0f * (distance - 2.5f))));
    }
  }
}

/// Pictures side by side, two rows of pixels in one of characters.
void draw(const std::vector<float>& pixels, int first, int count) {
  for (int row = 0; row < kSide; row += 2) {
    for (int i = first; i < first + count; ++i) {
      for (int column = 0; column < kSide; ++column) {
        const std::size_t at = static_cast<std::size_t>(i * kPixels + row * kSide + column);
        const bool upper = pixels[at] > 0.5f, lower = pixels[at + kSide] > 0.5f;
        std::printf("%s", upper && lower ? "█" : upper ? "▀" : lower ? "▄" : "·");
      }
      std::printf("  ");
    }
    std::printf("\n");
  }
  std::printf("\n");
}

int main() {
  auto train = tg::compile(Vae{}, loss,
                           {.inputs = {{"picture", {kBatch, kPixels}}},
                            .optimizer = tg::Adam{.lr = tg::lr::cosine(3e-3, kSteps)},
                            .seed = 1});
  std::mt19937 random(1);
  std::vector<float> pictures;
  for (int step = 1; step <= kSteps; ++step) {
    pictures.clear();
    for (int i = 0; i < kBatch; ++i) add_disc(pictures, random);
    const tg::StepResult result =
        train.step({{"picture", pictures}}, {.captures = step % 500 == 0});
    if (step % 500 == 0) {
      std::printf("step %4d: loss %.2f = drawing %.2f + place %.2f\n", step,
                  static_cast<double>(result.loss),
                  static_cast<double>(result.captures.get("drawing")[0]),
                  static_cast<double>(result.captures.get("place")[0]));
    }
  }

  // Without noise: each picture from its mean.
  auto again = train.attach(
      [](const Vae& model, const tg::Inputs& in) {
        return tg::sigmoid(model.decode(model.mean(tg::relu(model.e1(in["picture"])))));
      },
      {.inputs = {{"picture", {kBatch, kPixels}}}});
  const std::vector<float> drawn = again.run({{"picture", pictures}}).output;
  double error = 0;
  for (std::size_t i = 0; i < drawn.size(); ++i) error += std::abs(drawn[i] - pictures[i]);
  std::printf("\npictures, and the same drawn from two numbers (a pixel is off by %.3f)\n\n",
              error / static_cast<double>(drawn.size()));
  draw(pictures, 0, kGrid);
  draw(drawn, 0, kGrid);

  auto decode = train.attach(
      [](const Vae& model, const tg::Inputs& in) { return tg::sigmoid(model.decode(in["z"])); },
      {.inputs = {{"z", {kGrid * kGrid, kLatent}}}});
  std::vector<float> plane;
  for (int row = 0; row < kGrid; ++row) {
    for (int column = 0; column < kGrid; ++column) {
      plane.push_back(0.7f * static_cast<float>(column - kGrid / 2));
      plane.push_back(0.7f * static_cast<float>(row - kGrid / 2));
    }
  }
  const std::vector<float> walk = decode.run({{"z", plane}}).output;
  std::printf("the plane of the two numbers, from -1.4 to 1.4\n\n");
  for (int row = 0; row < kGrid; ++row) draw(walk, row * kGrid, kGrid);
}
