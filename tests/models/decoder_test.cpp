// Reading token by token, or piece by piece, is reading all at once.
#include "tensorgrad/decoder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tensorgrad/mamba.hpp"

namespace tensorgrad::test {
namespace {

constexpr std::int64_t kVocabulary = 13;
constexpr std::uint64_t kSeed = 4;

nn::MambaLM mamba() { return {kVocabulary, 8, 2, {.mixer = {.states = 4}}}; }
nn::Mamba2LM mamba2() {
  return {kVocabulary,
          8,
          2,
          {.mixer = {.head_dim = 4, .groups = 2, .states = 4, .chunk = 16}, .tied = false}};
}

std::vector<std::int32_t> tokens(std::int64_t count, std::uint64_t seed = 9) {
  Rng rng(seed);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::int32_t& id : ids)
    id = static_cast<std::int32_t>(rng.next() % static_cast<std::uint64_t>(kVocabulary));
  return ids;
}

/// What follows each token, read all at once: [batch, length, vocabulary].
template <class Model>
std::vector<float> parallel(const Model& model, const std::vector<std::int32_t>& ids,
                            const Device& device, const ParamValues& params,
                            std::int64_t batch = 1) {
  const auto length = static_cast<std::int64_t>(ids.size()) / batch;
  auto forward =
      compile_forward(model, [](const Model& m, const Inputs& in) { return m(in["ids"]); },
                      {.inputs = {{"ids", {{batch, length}, i32}}}, .device = device});
  forward.upload_params(params);
  return forward.run({{"ids", ids}}).output;
}

/// Parameters that make large logits, so that differences show.
template <class Model>
ParamValues params_of(const Model& model) {
  auto forward = compile_forward(
      model, [](const Model& m, const Inputs& in) { return m(in["ids"]); },
      {.inputs = {{"ids", {{1, 1}, i32}}}, .seed = kSeed, .device = Device::reference()});
  ParamValues params = forward.download_params();
  for (float& value : params.at("embeddings.W")) value *= 50;
  return params;
}

void expect_close(const std::vector<float>& got, const float* want, std::size_t count,
                  double tolerance) {
  ASSERT_EQ(got.size(), count);
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(double(want[i])));
  ASSERT_GT(largest, 0.1);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_LE(std::abs(double(got[i]) - want[i]), tolerance * largest) << i;
}

class Decoding : public ::testing::TestWithParam<const char*> {
 protected:
  Device device() const { return Device::named(GetParam()); }

  /// Many tokens one by one, against all at once on the reference and on the device itself.
  template <class Model>
  void expect_steps_equal_parallel(const Model& model) {
    // A software GPU takes its time for each step; 200 are more than a chunk of the scan.
    const std::vector<std::int32_t> ids = tokens(device().name() == "cpu" ? 1500 : 200);
    const ParamValues params = params_of(model);
    const std::vector<float> exact = parallel(model, ids, Device::reference(), params);
    const std::vector<float> here = parallel(model, ids, device(), params);
    Decoder decoder(model, {.device = device()});
    decoder.upload_params(params);
    ASSERT_EQ(decoder.vocabulary(), kVocabulary);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      SCOPED_TRACE("token " + std::to_string(i));
      const std::vector<float> logits = decoder.read(ids[i]);
      expect_close(logits, &exact[i * kVocabulary], kVocabulary, 1e-4);
      expect_close(logits, &here[i * kVocabulary], kVocabulary, 1e-4);
    }
  }

  /// A prompt in pieces and a rest, then steps.
  template <class Model>
  void expect_pieces_equal_parallel(const Model& model) {
    const std::vector<std::int32_t> ids = tokens(60);
    const ParamValues params = params_of(model);
    const std::vector<float> exact = parallel(model, ids, Device::reference(), params);
    Decoder decoder(model, {.device = device(), .pieces = {5, 20}});
    decoder.upload_params(params);
    std::size_t at = 0;
    for (const std::size_t count : {53u, 1u, 6u}) {  // 20 + 20 + 5 + 5 + 1 + 1 + 1; 1; 5 + 1
      const std::vector<float> logits = decoder.read(std::span(ids).subspan(at, count));
      at += count;
      expect_close(logits, &exact[(at - 1) * kVocabulary], kVocabulary, 1e-4);
    }
    ASSERT_EQ(at, ids.size());
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, Decoding, ::testing::Values("reference", "cpu", "webgpu"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Decoding, MambaStepsEqualTheParallelForward) { expect_steps_equal_parallel(mamba()); }
TEST_P(Decoding, Mamba2StepsEqualTheParallelForward) { expect_steps_equal_parallel(mamba2()); }
TEST_P(Decoding, MambaReadsPromptsInPieces) { expect_pieces_equal_parallel(mamba()); }
TEST_P(Decoding, Mamba2ReadsPromptsInPieces) { expect_pieces_equal_parallel(mamba2()); }

TEST(Decoder, SequencesOfABatchDoNotMix) {
  constexpr std::int64_t kBatch = 3, kLength = 14;
  const std::vector<std::int32_t> ids = tokens(kBatch * kLength);
  const ParamValues params = params_of(mamba2());
  const std::vector<float> exact = parallel(mamba2(), ids, Device::reference(), params, kBatch);
  Decoder decoder(mamba2(), {.batch = kBatch, .device = Device::reference(), .pieces = {6}});
  decoder.upload_params(params);
  const std::vector<float> logits = decoder.read(ids);
  ASSERT_EQ(logits.size(), static_cast<std::size_t>(kBatch * kVocabulary));
  for (std::size_t row = 0; row < kBatch; ++row) {
    const std::vector<float> got(logits.begin() + static_cast<long>(row * kVocabulary),
                                 logits.begin() + static_cast<long>((row + 1) * kVocabulary));
    expect_close(got, &exact[((row + 1) * kLength - 1) * kVocabulary], kVocabulary, 1e-5);
  }
}

TEST(Decoder, ResetForgets) {
  Decoder decoder(mamba2(), {.device = Device::reference(), .pieces = {4}});
  const std::vector<std::int32_t> ids = tokens(9);
  const std::vector<float> first = decoder.read(ids);
  EXPECT_NE(decoder.read(ids), first);
  decoder.reset();
  EXPECT_EQ(decoder.read(ids), first);
}

TEST(Decoder, AStateCanBeComeBackTo) {
  // The CPU keeps states as it gives them; the reference keeps more digits.
  Decoder decoder(mamba(), {.device = Device::cpu(), .pieces = {}});
  const StateValues beginning = decoder.state();
  const std::vector<float> first = decoder.read(3);
  decoder.read(tokens(5));
  const StateValues kept = decoder.state();
  EXPECT_EQ(kept.count("layers.1.mixer.window"), 1u);
  const std::vector<float> one_way = decoder.read(1);
  EXPECT_NE(decoder.read(1), one_way);
  decoder.set_state(kept);
  EXPECT_EQ(decoder.read(1), one_way);
  decoder.set_state(beginning);
  EXPECT_EQ(decoder.read(3), first);
}

/// Of constant cost: the program that reads a token has the kernels and buffers of its model,
/// whatever was read, and nothing in it has the length of a sequence.
TEST(Decoder, ATokenCostsTheSameWhereverItStands) {
  Decoder decoder(mamba2(), {.device = Device::cpu(), .pieces = {16}});
  const int kernels = decoder.ir().plan->kernel_count();
  const std::int64_t bytes = decoder.ir().plan->memory().total;
  decoder.read(tokens(70));
  EXPECT_EQ(decoder.ir().plan->kernel_count(), kernels);
  EXPECT_EQ(decoder.ir().plan->memory().total, bytes);
  const Plan& plan = *decoder.ir().plan;
  std::int64_t states = 0;
  for (const auto& [name, place] : plan.states) states += place.type.shape.size();
  // Two layers of 4 heads·(4·4) and 3 rows of 16 + 2·2·4 channels.
  EXPECT_EQ(states, 2 * (4 * 4 * 4 + 3 * 32));
  for (const auto& [name, place] : plan.inputs) EXPECT_EQ(place.type.shape.size(), 1) << name;
}

TEST(Decoder, SharesTheParametersOfATraining) {
  const nn::Mamba2LM model = mamba2();
  auto training = compile(model,
                          [](const nn::Mamba2LM& m, const Inputs& in) {
                            return cross_entropy(m(in["ids"]), in["next"]);
                          },
                          {.inputs = {{"ids", {{1, 8}, i32}}, {"next", {{1, 8}, i32}}},
                           .optimizer = AdamW{.lr = 0.05},
                           .seed = kSeed,
                           .device = Device::cpu()});
  Decoder decoder(training.model(),
                  {.device = training.device(), .params = training.params(), .pieces = {4}});
  const std::vector<std::int32_t> ids = tokens(8), next = tokens(8, 10);
  for (int step = 0; step < 3; ++step) training.step({{"ids", ids}, {"next", next}});
  const std::vector<float> want =
      parallel(model, ids, Device::reference(), training.download_params());
  expect_close(decoder.read(ids), &want[7 * kVocabulary], kVocabulary, 1e-4);
}

TEST(Decoder, MistakesAreNamed) {
  Decoder decoder(mamba2(), {.batch = 2, .device = Device::reference()});
  const auto message = [&](const std::vector<std::int32_t>& ids) -> std::string {
    try {
      decoder.read(ids);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({}),
            "Decoder::read: 0 tokens are given for 2 sequences; each must get one or more, and "
            "all as many.");
  EXPECT_EQ(message({1, 2, 3}),
            "Decoder::read: 3 tokens are given for 2 sequences; each must get one or more, and "
            "all as many.");
  EXPECT_EQ(message({1, 13}),
            "Decoder::read: there is no token 13; the vocabulary has 13, counted from 0.");
  EXPECT_EQ(message({-1, 1}),
            "Decoder::read: there is no token -1; the vocabulary has 13, counted from 0.");
  EXPECT_THROW(Decoder(mamba2(), {.batch = 0, .device = Device::reference()}), Error);
  EXPECT_THROW(Decoder(mamba2(), {.device = Device::reference(), .pieces = {4, 0}}), Error);
}

}  // namespace
}  // namespace tensorgrad::test
