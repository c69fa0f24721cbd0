// `tensorgrad generate`: tokens after tokens.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "cli/cli_support.hpp"
#include "tensorgrad/safetensors.hpp"

namespace tensorgrad::test {
namespace {

const std::string kFixtures = std::string(TENSORGRAD_SOURCE_DIR) + "/tests/fixtures/";

std::string join(const std::vector<std::int32_t>& ids) {
  std::string text;
  for (const std::int32_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

/// The first row of the fixture and what transformers wrote after it.
struct Continuation {
  std::string prompt, rest;
};
Continuation expected(const std::string& model) {
  const SafetensorsFile file = SafetensorsFile::open(kFixtures + model + "/expected.safetensors");
  const std::vector<std::int32_t> all = file.read_i32("greedy");
  const auto given = file.info("input_ids").shape[1];
  return {join({all.begin(), all.begin() + given}), join({all.begin() + given, all.end()})};
}

class Generate : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Devices, Generate, ::testing::Values("reference", "cpu", "webgpu"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Generate, ContinuesAsTransformersDoes) {
  for (const char* model : {"mamba", "mamba2"}) {
    SCOPED_TRACE(model);
    const Continuation want = expected(model);
    const ProgramResult result = tensorgrad({"generate", kFixtures + model, "--ids", want.prompt,
                                             "--tokens", "24", "--device", GetParam()});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, want.rest + "\n");
    EXPECT_TRUE(contains(result.err, "read 19 tokens in ")) << result.err;
    EXPECT_TRUE(contains(result.err, "wrote 24 tokens in ")) << result.err;
    EXPECT_TRUE(contains(result.err, "tokens/s")) << result.err;
  }
}

ProgramResult generate(const std::vector<std::string>& more) {
  std::vector<std::string> args = {"generate", kFixtures + "mamba2", "--device", "cpu"};
  args.insert(args.end(), more.begin(), more.end());
  return tensorgrad(args);
}

TEST(GenerateCommand, TheSeedDecidesWhatIsDrawn) {
  const auto draw = [](const char* seed) {
    return generate({"--ids", "5 6, 7", "--tokens", "30", "--temperature", "1.5", "--seed", seed})
        .out;
  };
  const std::string first = draw("1");
  EXPECT_EQ(std::count(first.begin(), first.end(), ','), 29);
  EXPECT_EQ(draw("1"), first);
  EXPECT_NE(draw("2"), first);
}

TEST(GenerateCommand, TheLikeliestOneIsGreedy) {
  const std::string greedy = generate({"--ids", "5", "--tokens", "12"}).out;
  EXPECT_EQ(generate({"--ids", "5", "--tokens", "12", "--temperature", "2", "--top-k", "1"}).out,
            greedy);
  EXPECT_EQ(generate({"--ids", "5", "--tokens", "12", "--temperature", "0"}).out, greedy);
}

TEST(GenerateCommand, AnEndTokenStopsItOnRequest) {
  const ScratchFolder folder;
  std::filesystem::copy(kFixtures + "mamba2", folder / "model");
  const std::string greedy = generate({"--ids", "5", "--tokens", "12"}).out;
  std::vector<std::string> ids;
  for (std::size_t at = 0; at < greedy.size();) {
    const std::size_t end = greedy.find_first_of(",\n", at);
    ids.push_back(greedy.substr(at, end - at));
    at = end + 1;
  }
  ASSERT_EQ(ids.size(), 12u);
  // The first of all tokens ends the text: whatever it is, it is written and nothing after it.
  Json config = Json::parse(std::ifstream(folder / "model/config.json"));
  config["eos_token_id"] = {std::stoi(ids[0])};
  std::ofstream(folder / "model/config.json") << config;
  const std::vector<std::string> args = {"generate", folder / "model", "--device", "cpu", "--ids",
                                         "5",        "--tokens",       "12"};
  EXPECT_EQ(tensorgrad(args).out, greedy);
  std::vector<std::string> stopping = args;
  stopping.push_back("--stop-at-end");
  EXPECT_EQ(tensorgrad(stopping).out, ids[0] + "\n");
}

TEST(GenerateCommand, CtrlCEndsTheLine) {
  const ProgramResult result = run_on_terminal(
      "tensorgrad",
      {"generate", kFixtures + "mamba2", "--device", "cpu", "--ids", "1", "--tokens", "100000000"},
      ",");
  EXPECT_EQ(result.status, 130);
  EXPECT_TRUE(contains(result.out, "tokens/s")) << result.out.substr(0, 500);
}

TEST(GenerateCommand, MistakesGetASentence) {
  const std::vector<std::tuple<int, std::vector<std::string>, std::string>> mistakes = {
      {2, {"generate"}, "DIR"},
      {2, {"generate", kFixtures + "mamba2"}, "needs --ids"},
      {2, {"generate", kFixtures + "mamba2", "--ids", " , "}, "needs --ids"},
      {2, {"generate", kFixtures + "mamba2", "--ids", "1,x"}, "\"x\" is none"},
      {2, {"generate", kFixtures + "mamba2", "--ids", "1,-2"}, "\"-2\" is none"},
      {2, {"generate", kFixtures + "mamba2", "--ids", "99999999999"}, "is none"},
      {2, {"generate", kFixtures + "mamba2", "--ids", "61"}, "There is no token 61"},
      {2, {"generate", kFixtures + "mamba2", "--ids", "1", "--tokens", "0"}, "--tokens"},
      {2, {"generate", kFixtures + "mamba2", "--ids", "1", "--temperature", "warm"}, "\"warm\""},
      {2, {"generate", kFixtures + "mamba2", "--ids", "1", "--temperature", "-1"}, "\"-1\""},
      {1, {"generate", "/nowhere/at/all", "--ids", "1"}, "/nowhere/at/all/config.json"},
      {1, {"generate", kFixtures, "--ids", "1"}, "config.json"},
  };
  for (const auto& [status, args, part] : mistakes) {
    const ProgramResult result = tensorgrad(args);
    EXPECT_EQ(result.status, status) << part;
    EXPECT_EQ(result.out, "") << part;
    EXPECT_TRUE(contains(result.err, part)) << part << "\n" << result.err;
  }
}

}  // namespace
}  // namespace tensorgrad::test
