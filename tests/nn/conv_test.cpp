// The convolution layers: parameters as PyTorch lays them out, and values against the definition,
// written as loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tensorgrad/tensorgrad.hpp>

#include "support/evaluate.hpp"

namespace tensorgrad::test {
namespace {

struct Net {
  nn::Conv1d line;
  nn::Conv2d image;
};

ParamValues first_params(const Net& net) {
  return compile_forward(
             net,
             [](const Net& m, const Inputs& in) {
               return Outputs{{"line", m.line(in["line"])}, {"image", m.image(in["image"])}};
             },
             {.inputs = {{"line", {1, 6, 16}}, {"image", {1, 6, 16, 16}}},
              .seed = 3,
              .device = Device::reference()})
      .download_params();
}

TEST(Conv, ParametersHavePyTorchsLayoutAndScale) {
  const ParamValues params =
      first_params({nn::Conv1d(6, 40, 5, {.groups = 2}), nn::Conv2d(6, 40, 3)});
  ASSERT_EQ(params.size(), 4u);
  const struct {
    const char* name;
    std::size_t count;
    double fan;
  } expected[] = {{"line.W", 40 * 3 * 5, 15},
                  {"line.b", 40, 15},
                  {"image.W", 40 * 6 * 9, 54},
                  {"image.b", 40, 54}};
  for (const auto& [name, count, fan] : expected) {
    ASSERT_TRUE(params.count(name)) << name;
    const std::vector<float>& values = params.at(name);
    EXPECT_EQ(values.size(), count) << name;
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    const double bound = 1 / std::sqrt(fan);
    // Uniform in ±bound: of 40 or more values one comes near each end.
    EXPECT_GE(*low, -bound) << name;
    EXPECT_LE(*high, bound) << name;
    EXPECT_LT(*low, -0.8 * bound) << name;
    EXPECT_GT(*high, 0.8 * bound) << name;
  }
}

TEST(Conv, ABiasCanBeLeftOut) {
  const ParamValues params =
      first_params({nn::Conv1d(6, 2, 3, {.bias = false}), nn::Conv2d(6, 2, 3, {.bias = false})});
  ASSERT_EQ(params.size(), 2u);
  EXPECT_TRUE(params.count("line.W"));
  EXPECT_TRUE(params.count("image.W"));
}

/// A small case of both layers; a Conv1d is a Conv2d whose images are one row high.
struct Case {
  std::int64_t in, out, size;
  nn::ConvOptions options;
};

/// y[n, o, i, j] = b[o] + Σ_{c, k, l} w[o, c, k, l]·x[n, g·C + c, i·s + k·d − p, j·s + l·d − p].
/// `rows` is the height of images and windows' vertical size is `tall`.
std::vector<double> convolve(const Case& c, const std::vector<float>& x, std::int64_t batch,
                             std::int64_t rows, std::int64_t columns, std::int64_t tall,
                             const std::vector<float>& w, const std::vector<float>& b) {
  const auto& [stride, padding, dilation, groups, bias] = c.options;
  const std::int64_t pad_rows = tall == 1 ? 0 : padding;
  const std::int64_t stride_rows = tall == 1 ? 1 : stride;
  const std::int64_t out_rows = (rows + 2 * pad_rows - (tall - 1) * dilation - 1) / stride_rows + 1;
  const std::int64_t out_columns =
      (columns + 2 * padding - (c.size - 1) * dilation - 1) / stride + 1;
  const std::int64_t channels = c.in / groups, outs = c.out / groups;
  std::vector<double> y;
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t o = 0; o < c.out; ++o) {
      for (std::int64_t i = 0; i < out_rows; ++i) {
        for (std::int64_t j = 0; j < out_columns; ++j) {
          double sum = bias ? b[static_cast<std::size_t>(o)] : 0;
          for (std::int64_t ch = 0; ch < channels; ++ch) {
            for (std::int64_t k = 0; k < tall; ++k) {
              for (std::int64_t l = 0; l < c.size; ++l) {
                const std::int64_t row = i * stride_rows + k * dilation - pad_rows;
                const std::int64_t column = j * stride + l * dilation - padding;
                if (row < 0 || row >= rows || column < 0 || column >= columns) continue;
                const std::int64_t from = o / outs * channels + ch;
                sum += static_cast<double>(w[static_cast<std::size_t>(
                           ((o * channels + ch) * tall + k) * c.size + l)]) *
                       x[static_cast<std::size_t>(((n * c.in + from) * rows + row) * columns +
                                                  column)];
              }
            }
          }
          y.push_back(sum);
        }
      }
    }
  }
  return y;
}

void expect_close(const std::vector<float>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << i;
}

TEST(Conv, ValuesAreTheDefinitions) {
  constexpr std::int64_t kBatch = 2, kRows = 7, kColumns = 9;
  const Case cases[] = {
      {3, 4, 3, {}},
      {1, 5, 5, {.stride = 2, .padding = 2}},
      {4, 6, 3, {.padding = 1, .dilation = 2, .groups = 2}},
      {3, 3, 2, {.stride = 3, .groups = 3, .bias = false}},
      {2, 2, 1, {}},
  };
  for (const Case& c : cases) {
    Rng rng(9);
    std::vector<float> line(static_cast<std::size_t>(kBatch * c.in * kColumns));
    std::vector<float> image(static_cast<std::size_t>(kBatch * c.in * kRows * kColumns));
    for (float& value : line) value = static_cast<float>(rng.normal());
    for (float& value : image) value = static_cast<float>(rng.normal());
    for (const Device& device : {Device::reference(), Device::cpu()}) {
      SCOPED_TRACE(device.name() + ", " + std::to_string(c.in) + " to " + std::to_string(c.out));
      auto forward = compile_forward(
          Net{nn::Conv1d(c.in, c.out, c.size, c.options),
              nn::Conv2d(c.in, c.out, c.size, c.options)},
          [](const Net& m, const Inputs& in) {
            return Outputs{{"line", m.line(in["line"])}, {"image", m.image(in["image"])}};
          },
          {.inputs = {{"line", {kBatch, c.in, kColumns}},
                      {"image", {kBatch, c.in, kRows, kColumns}}},
           .seed = 5,
           .device = device});
      ParamValues p = forward.download_params();
      const RunResult result = forward.run({{"line", line}, {"image", image}});
      expect_close(result["line"].as<float>(),
                   convolve(c, line, kBatch, 1, kColumns, 1, p["line.W"], p["line.b"]));
      expect_close(result["image"].as<float>(),
                   convolve(c, image, kBatch, kRows, kColumns, c.size, p["image.W"], p["image.b"]));
    }
  }
}

TEST(Conv, MistakesSpeak) {
  EXPECT_EQ(error_of([] { nn::Conv2d(3, 4, 3, {.groups = 2}); }),
            "Conv2d: 3 channels to 4, windows of 3 and 2 groups do not fit: all are 1 or more, and "
            "the groups divide both channels.");
  EXPECT_EQ(error_of([] { nn::Conv1d(1, 0, 3); }),
            "Conv1d: 1 channels to 0, windows of 3 and 1 groups do not fit: all are 1 or more, and "
            "the groups divide both channels.");
  EXPECT_EQ(error_of([] { nn::Conv1d(1, 1, 3, {.stride = 0}); }),
            "Conv1d: stride 0, dilation 1 and padding 0 are given; stride and dilation are 1 or "
            "more, padding 0 or more.");
  EXPECT_EQ(error_of([] { nn::Conv2d(1, 1, 3, {.padding = -1}); }),
            "Conv2d: stride 1, dilation 1 and padding -1 are given; stride and dilation are 1 or "
            "more, padding 0 or more.");
}

}  // namespace
}  // namespace tensorgrad::test
