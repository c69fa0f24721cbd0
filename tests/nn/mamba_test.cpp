// The state-space layers: what their parameters are called, how they start, and that the past they
// are given is the past they would have read. Their values are checked against transformers' in
// tests/conformance.
#include "tensorgrad/mamba.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "support/evaluate.hpp"
#include "tensorgrad/compile.hpp"

namespace tensorgrad::test {
namespace {

using Shapes = std::map<std::string, std::string>;

template <class Model>
std::map<std::string, std::shared_ptr<const ParamSpec>> specs(const Model& model) {
  std::map<std::string, std::shared_ptr<const ParamSpec>> found;
  reflect::for_each_leaf<Tensor>(
      model, [&](const std::string& path, const Tensor& t) { found[path] = t.spec(); });
  return found;
}

template <class Model>
Shapes shapes(const Model& model) {
  Shapes found;
  for (const auto& [path, spec] : specs(model)) found[path] = spec->shape.to_string();
  return found;
}

std::vector<float> first_values(const ParamSpec& spec, std::uint64_t seed = 1) {
  Rng rng(seed);
  return spec.init.make(spec.shape, rng);
}

double softplus_of(double x) { return std::log1p(std::exp(x)); }

// ---- names and shapes

TEST(MambaLayer, ParametersAreCalledAsInPublishedFiles) {
  EXPECT_EQ(shapes(nn::MambaLM(61, 24, 1, {.mixer = {.states = 8, .dt_rank = 3}})),
            (Shapes{{"embeddings.W", "[61, 24]"},
                    {"layers.0.mixer.A_log", "[48, 8]"},
                    {"layers.0.mixer.D", "[48]"},
                    {"layers.0.mixer.conv1d.W", "[48, 1, 4]"},
                    {"layers.0.mixer.conv1d.b", "[48]"},
                    {"layers.0.mixer.dt_proj.W", "[3, 48]"},
                    {"layers.0.mixer.dt_proj.b", "[48]"},
                    {"layers.0.mixer.in_proj.W", "[24, 96]"},
                    {"layers.0.mixer.out_proj.W", "[48, 24]"},
                    {"layers.0.mixer.x_proj.W", "[48, 19]"},
                    {"layers.0.norm.g", "[24]"},
                    {"norm_f.g", "[24]"}}));
}

TEST(Mamba2Layer, ParametersAreCalledAsInPublishedFiles) {
  EXPECT_EQ(shapes(nn::Mamba2LM(
                61, 32, 1, {.mixer = {.head_dim = 8, .groups = 2, .states = 8}, .tied = false})),
            (Shapes{{"embeddings.W", "[61, 32]"},
                    {"layers.0.mixer.A_log", "[8]"},
                    {"layers.0.mixer.D", "[8]"},
                    {"layers.0.mixer.conv1d.W", "[96, 1, 4]"},
                    {"layers.0.mixer.conv1d.b", "[96]"},
                    {"layers.0.mixer.dt_bias", "[8]"},
                    {"layers.0.mixer.in_proj.W", "[32, 168]"},
                    {"layers.0.mixer.norm.g", "[64]"},
                    {"layers.0.mixer.out_proj.W", "[64, 32]"},
                    {"layers.0.norm.g", "[32]"},
                    {"lm_head.W", "[32, 61]"},
                    {"norm_f.g", "[32]"}}));
}

TEST(MambaLayer, BiasesAreAddedAndLeftOut) {
  const Shapes with = shapes(nn::Mamba(16, {.bias = true, .conv_bias = false}));
  EXPECT_EQ(with.count("in_proj.b"), 1u);
  EXPECT_EQ(with.count("out_proj.b"), 1u);
  EXPECT_EQ(with.count("conv1d.b"), 0u);
  EXPECT_EQ(with.count("x_proj.b"), 0u);
}

TEST(MambaLayer, SizesLeftOpenFollowTheWidth) {
  const nn::Mamba narrow_layer(24), wide(40);
  EXPECT_EQ(narrow_layer.options.inner, 48);
  EXPECT_EQ(narrow_layer.options.dt_rank, 2);  // ⌈24/16⌉
  EXPECT_EQ(wide.options.dt_rank, 3);
}

// ---- first values

TEST(MambaLayer, TimeStepsStartLogUniform) {
  const nn::Mamba layer(512, {.dt_init = {.min = 0.002, .max = 0.05}});
  const std::vector<float> bias = first_values(*layer.dt_proj.b->spec());
  ASSERT_EQ(bias.size(), 1024u);
  double sum = 0;
  int low_half = 0;
  for (const float b : bias) {
    const double step = softplus_of(b);
    EXPECT_GE(step, 0.002 * (1 - 1e-4));
    EXPECT_LE(step, 0.05 * (1 + 1e-4));
    sum += std::log(step);
    low_half += step < std::sqrt(0.002 * 0.05);
  }
  const double spread = std::log(0.05 / 0.002);
  // A mean of 1024 draws: within five of its standard deviations.
  EXPECT_NEAR(sum / 1024, std::log(0.002) + spread / 2, 5 * spread / std::sqrt(12.0 * 1024));
  EXPECT_NEAR(low_half, 512, 5 * 16);
}

TEST(MambaLayer, TimeStepsDoNotStartBelowTheFloor) {
  const nn::Mamba layer(64, {.dt_init = {.min = 1e-5, .max = 0.1, .floor = 0.01}});
  const std::vector<float> bias = first_values(*layer.dt_proj.b->spec());
  const auto lowest = *std::min_element(bias.begin(), bias.end());
  EXPECT_NEAR(softplus_of(lowest), 0.01, 1e-6);
  EXPECT_GT(std::count(bias.begin(), bias.end(), lowest), 50);  // three quarters of 128
}

TEST(MambaLayer, WeightsStartAsPublished) {
  const nn::Mamba layer(64, {.states = 5, .dt_rank = 9});
  const auto bound = [](const Tensor& t) {
    double most = 0;
    for (const float v : first_values(*t.spec())) most = std::max(most, std::abs(double(v)));
    return most;
  };
  EXPECT_NEAR(bound(layer.dt_proj.W), 1.0 / 3, 0.01);   // dt_rank^−½
  EXPECT_NEAR(bound(layer.conv1d.W), 0.5, 0.01);        // taps^−½
  EXPECT_NEAR(bound(layer.in_proj.W), 1.0 / 8, 0.001);  // dim^−½
  const std::vector<float> rates = first_values(*layer.A_log.spec());
  for (std::size_t i = 0; i < rates.size(); ++i)
    ASSERT_FLOAT_EQ(rates[i], std::log(static_cast<float>(i % 5 + 1)));
  for (const float d : first_values(*layer.D.spec())) EXPECT_EQ(d, 1);
}

TEST(Mamba2Layer, WeightsStartAsPublished) {
  const nn::Mamba2 layer(256, {.head_dim = 4});
  const std::vector<float> rates = first_values(*layer.A_log.spec());
  ASSERT_EQ(rates.size(), 128u);
  double sum = 0;
  for (const float r : rates) {
    EXPECT_GE(std::exp(r), 1 - 1e-5);
    EXPECT_LE(std::exp(r), 16 + 1e-4);
    sum += std::exp(static_cast<double>(r));
  }
  EXPECT_NEAR(sum / 128, 8.5, 5 * 15 / std::sqrt(12.0 * 128));
  for (const float b : first_values(*layer.dt_bias.spec())) {
    EXPECT_GE(softplus_of(b), 0.001 * (1 - 1e-4));
    EXPECT_LE(softplus_of(b), 0.1 * (1 + 1e-4));
  }
}

TEST(MambaLayer, DeepModelsAddLessEach) {
  const nn::MambaLM model(10, 32, 4);
  const auto largest = [](const Tensor& t) {
    const std::vector<float> values = first_values(*t.spec());
    return *std::max_element(values.begin(), values.end());
  };
  EXPECT_NEAR(largest(model.layers[0].mixer.out_proj.W), 1.0 / 8 / 2, 0.001);  // inner^−½ / √4
}

TEST(MambaLayer, DecayIsForMatricesOnly) {
  for (const auto& [name, spec] : specs(nn::MambaLM(10, 16, 1))) {
    const bool matrix = name.ends_with(".W");
    EXPECT_EQ(spec->decay, matrix) << name;
  }
  for (const auto& [name, spec] : specs(nn::Mamba2LM(10, 32, 1, {.mixer = {.head_dim = 8}}))) {
    EXPECT_EQ(spec->decay, name.ends_with(".W")) << name;
  }
}

// ---- reading in pieces

template <class Mixer>
void expect_pieces_make_the_whole(const Mixer& layer, std::int64_t dim) {
  constexpr std::int64_t kBatch = 2, kLength = 11;
  std::vector<float> x(static_cast<std::size_t>(kBatch * kLength * dim));
  Rng rng(5);
  for (float& value : x) value = static_cast<float>(rng.normal());
  auto program = compile_forward(
      layer,
      [](const Mixer& m, const Inputs& in) {
        const Tensor all = in["x"];
        nn::Past past = m.no_past(kBatch);
        std::vector<Tensor> parts;
        for (const auto& [from, length] : {std::pair{0, 4}, {4, 1}, {5, 1}, {6, 2}, {8, 3}})
          parts.push_back(m(narrow(all, 1, from, length), past));
        return Outputs{{"whole", m(all)}, {"pieces", concat(parts, 1)}};
      },
      {.inputs = {{"x", {kBatch, kLength, dim}}}, .seed = 3, .device = Device::reference()});
  const RunResult result = program.run({{"x", x}});
  const std::vector<float> whole = result["whole"].as<float>(),
                           pieces = result["pieces"].as<float>();
  ASSERT_EQ(whole.size(), x.size());
  for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(pieces[i], whole[i], 1e-6) << i;
}

TEST(MambaLayer, PiecesMakeTheWhole) {
  expect_pieces_make_the_whole(nn::Mamba(6, {.states = 3}), 6);
  expect_pieces_make_the_whole(nn::Mamba(6, {.states = 3, .discretization = Discretization::Zoh}),
                               6);
}

TEST(MambaLayer, AConvolutionOfOneTapHasNoWindow) {
  expect_pieces_make_the_whole(nn::Mamba(6, {.states = 3, .taps = 1}), 6);
  expect_pieces_make_the_whole(nn::Mamba2(8, {.head_dim = 4, .states = 3, .taps = 1}), 8);
}

TEST(Mamba2Layer, PiecesMakeTheWhole) {
  expect_pieces_make_the_whole(nn::Mamba2(8, {.head_dim = 4, .groups = 2, .states = 3}), 8);
  expect_pieces_make_the_whole(nn::Mamba2(8, {.head_dim = 4, .states = 3, .chunk = 3}), 8);
  expect_pieces_make_the_whole(
      nn::Mamba2(8, {.head_dim = 4, .states = 3, .dt_low = 0.01, .dt_high = 0.02}), 8);
}

// ---- mistakes

TEST(MambaLayer, SizesThatCannotBeAreRefused) {
  expect_contains(error_of([] { nn::Mamba layer(0); }), {"Mamba: the width must be 1 or more"});
  expect_contains(error_of([] { nn::Mamba layer(8, {.states = 0}); }), {"states", "not 0"});
  expect_contains(error_of([] { nn::Mamba2 layer(8, {.head_dim = 5}); }),
                  {"Mamba2: inner 16 does not divide into heads of 5 channels in 1 groups."});
  expect_contains(error_of([] { nn::Mamba2 layer(8, {.head_dim = 4, .groups = 3}); }),
                  {"in 3 groups"});
  expect_contains(error_of([] { nn::MambaLM model(10, 8, 0); }), {"the number of layers"});
  expect_contains(error_of<Error>([] { nn::Mamba layer(8, {.dt_init = {.min = 0.2}}); }),
                  {"TimeStepInit: min 0.2"});
}

TEST(MambaLayer, IdsAreABatchOfSequences) {
  const auto read = [](Shape shape, DType dtype) {
    return [=] {
      nn::Mamba2LM model(10, 8, 1, {.mixer = {.head_dim = 4}});
      materialize_params(model);
      model.decode(zeros(shape, dtype));
    };
  };
  expect_contains(error_of(read({5}, i32)), {"ids must be i32[batch, length], not i32[5]."});
  expect_contains(error_of(read({2, 5}, f32)), {"not f32[2, 5]."});
}

TEST(MambaLayer, ErrorsPointToTheCall) {
  const std::string text = error_of([] {
    const nn::Mamba layer(8);
    nn::Mamba traced = layer;
    materialize_params(traced);
    traced(zeros({2, 5, 9}));
  });
  expect_contains(text, {"[2, 5, 9]", site(__LINE__ - 2)});
}

}  // namespace
}  // namespace tensorgrad::test
