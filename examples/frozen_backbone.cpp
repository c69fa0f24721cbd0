// Transfer: what one task taught a network helps with another. A backbone and a head learn eight
// waves over the plane; the backbone's weights go to a file. Then a new head learns a ninth wave
// from 64 points, on top of the backbone from the file, which stays frozen: no gradient, no
// moments, no update. The same head on a backbone that learned nothing is the comparison.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <random>
#include <tensorgrad/tensorgrad.hpp>
#include <vector>
namespace tg = tensorgrad;

constexpr int kWaves = 8, kPoints = 256, kFewPoints = 64, kWidth = 64;

struct Backbone {
  tg::nn::Linear l1{2, kWidth}, l2{kWidth, kWidth}, l3{kWidth, kWidth};
  tg::Tensor operator()(const tg::Tensor& x) const {
    return tg::gelu(l3(tg::gelu(l2(tg::gelu(l1(x))))));
  }
};

struct Waves {
  Backbone body;
  tg::nn::Linear heads{kWidth, kWaves};
};

struct NinthWave {
  Backbone body = tg::frozen(Backbone{});  // every parameter with .trainable = false
  tg::nn::Linear head{kWidth, 1};
};

/// Wave `k` at a point; the ninth is k = 8.
float wave(int k, float x, float y) {
  const float angle = 0.7f * static_cast<float>(k);
  return std::sin(3.0f * (x * std::cos(angle) + y * std::sin(angle)) + angle);
}

struct Points {
  std::vector<float> x, y;  // [n, 2] and [n, waves]
  Points(int n, int first_wave, int waves, std::mt19937& random) {
    const auto coordinate = [&] { return static_cast<float>(random() % 2001) / 1000.0f - 1.0f; };
    for (int i = 0; i < n; ++i) {
      const float a = coordinate(), b = coordinate();
      x.insert(x.end(), {a, b});
      for (int k = 0; k < waves; ++k) y.push_back(wave(first_wave + k, a, b));
    }
  }
};

/// Learns the ninth wave from few points; gives the mean squared error on others.
double learn_ninth(const std::string& backbone_file) {
  auto train = tg::compile(NinthWave{},
                           [](const NinthWave& m, const tg::Inputs& in) {
                             return tg::mse_loss(m.head(m.body(in["x"])), in["y"]);
                           },
                           {.inputs = {{"x", {kFewPoints, 2}}, {"y", {kFewPoints, 1}}},
                            .optimizer = tg::Adam{.lr = 0.02},
                            .seed = 2});
  if (!backbone_file.empty()) {
    // The file has the old task's heads too, and lacks our new head.
    const tg::UploadReport report =
        train.upload_params(backbone_file, {.partial = true, .ignore_extra = true});
    std::printf("from the file, without");
    for (const std::string& name : report.missing) std::printf(" %s", name.c_str());
    std::printf("; moments: %lld bytes for the head alone\n",
                static_cast<long long>(train.memory().moments));
  }
  const tg::ParamValues before = train.download_params();
  std::mt19937 random(3);
  const Points few(kFewPoints, kWaves, 1, random);
  for (int step = 0; step < 400; ++step) train.step({{"x", few.x}, {"y", few.y}});
  for (const auto& [name, values] : train.download_params()) {
    const bool changed = values != before.at(name);
    if (changed != name.starts_with("head."))
      std::printf("%s is not as it should be\n", name.c_str());
  }

  const Points others(kPoints, kWaves, 1, random);
  auto test = train.attach(
      [](const NinthWave& m, const tg::Inputs& in) {
        return tg::mse_loss(m.head(m.body(in["x"])), in["y"]);
      },
      {.inputs = {{"x", {kPoints, 2}}, {"y", {kPoints, 1}}}});
  return static_cast<double>(test.run({{"x", others.x}, {"y", others.y}}).output[0]);
}

int main() {
  auto pretrain = tg::compile(Waves{},
                              [](const Waves& m, const tg::Inputs& in) {
                                return tg::mse_loss(m.heads(m.body(in["x"])), in["y"]);
                              },
                              {.inputs = {{"x", {kPoints, 2}}, {"y", {kPoints, kWaves}}},
                               .optimizer = tg::Adam{.lr = tg::lr::cosine(0.005, 600)},
                               .seed = 1});
  std::mt19937 random(1);
  float loss = 0;
  for (int step = 0; step < 600; ++step) {
    const Points points(kPoints, 0, kWaves, random);
    loss = pretrain.step({{"x", points.x}, {"y", points.y}}).loss;
  }
  std::printf("eight waves learned: loss %.4f\n", static_cast<double>(loss));

  const std::string name =
      "tensorgrad_waves_" + std::to_string(std::random_device{}()) + ".safetensors";
  const std::string file = (std::filesystem::temp_directory_path() / name).string();
  pretrain.save_params(file);
  const double pretrained = learn_ninth(file);
  std::filesystem::remove(file);
  const double random_body = learn_ninth("");
  std::printf(
      "the ninth wave from %d points: error %.4f on the learned backbone, %.4f on a random one\n",
      kFewPoints, pretrained, random_body);
}
