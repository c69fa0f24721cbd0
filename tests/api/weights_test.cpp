// Parameters from and to files: names, transposes, dtypes, shards, and every way a file may not
// fit. The fixtures were written by Python's safetensors package (tests/fixtures/
// make_pytorch_weights.py), with what the model computes from them.
#include "tensorgrad/weights.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "io/temporary_folder.hpp"
#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::test {
namespace {

const std::string kFixtures =
    std::string(TENSORGRAD_SOURCE_DIR) + "/tests/fixtures/pytorch_weights/";

// ---- names

TEST(Rename, ReplacesWhatTheStarsStandFor) {
  const Rename rename{{"blocks.*", "transformer.h.*"}, {"*.attn.*.W", "*.*_proj.kernel"}};
  EXPECT_EQ(rename("blocks.0.n1.g"), "transformer.h.0.n1.g");
  EXPECT_EQ(rename("blocks.11.attn.q.W"), "transformer.h.11.q_proj.kernel");
  EXPECT_EQ(rename("head.W"), "head.W");
  EXPECT_EQ(rename("xblocks.0"), "xblocks.0");
}

TEST(Rename, MatchesWholeNames) {
  EXPECT_EQ((Rename{{"W", "weight"}})("a.W"), "a.W");
  EXPECT_EQ((Rename{{"*W", "*weight"}})("a.W.W"), "a.W.weight");
  EXPECT_EQ((Rename{{"a*a", "*"}})("a"), "a");  // head and tail may not overlap
  EXPECT_EQ((Rename{{"*", "all.*"}})(""), "all.");
  EXPECT_EQ((Rename{{"a.*.b.*.c", "*-*"}})("a.1.b.2.b.3.c"), "1-2.b.3");
  EXPECT_EQ((Rename{{"a.*.b.*.c", "*"}})("a.1.b.c"), "a.1.b.c");
}

TEST(Rename, MayBeAFunctionAndFollowAnother) {
  const Rename twice =
      Rename([](const std::string& name) { return name + "!"; }).then({{"*!", "*?"}});
  EXPECT_EQ(twice("a"), "a?");
  EXPECT_EQ(Rename()("a"), "a");
}

TEST(Rename, RefusesAStarThatNothingFills) {
  try {
    const Rename bad{{"a.*", "*.*"}};
    ADD_FAILURE() << bad("a.b");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "Rename: \"*.*\" has more stars than \"a.*\", which is to fill them.");
  }
}

TEST(PytorchNames, RenameTheLastWordOnly) {
  const FileNames names = pytorch_names({{"blocks.*", "layers.*"}});
  EXPECT_EQ(names.rename("blocks.0.attn.q.W"), "layers.0.attn.q.weight");
  EXPECT_EQ(names.rename("norm.g"), "norm.weight");
  EXPECT_EQ(names.rename("norm.b"), "norm.bias");
  EXPECT_EQ(names.rename("b"), "bias");
  EXPECT_EQ(names.rename("b.W.other"), "b.W.other");
}

// ---- the model of the fixtures

struct Net {
  nn::Embedding embed{7, 6};
  nn::Linear fc{6, 6};
  nn::LayerNorm norm{6};
  nn::Linear head{6, 3};
  Tensor operator()(const Tensor& tokens) const { return head(norm(gelu(fc(embed(tokens))))); }
};

Forward<Net> net(const char* device = "cpu", std::uint64_t seed = 3) {
  return compile_forward(
      Net{}, [](const Net& m, const Inputs& in) { return m(in["tokens"]); },
      {.inputs = {{"tokens", {{5}, i32}}}, .seed = seed, .device = Device::named(device)});
}

std::vector<float> logits(Forward<Net>& forward) {
  const auto tokens = SafetensorsFile::open(kFixtures + "expected.safetensors").read_i32("tokens");
  return forward.run({{"tokens", tokens}}).output;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-5) << i;
}

TEST(WeightsFromPython, GiveTheValuesThatPythonComputed) {
  const auto expected = SafetensorsFile::open(kFixtures + "expected.safetensors");
  for (const char* kind : {"f32", "f16", "bf16", "f64"}) {
    SCOPED_TRACE(kind);
    auto forward = net();
    const UploadReport report =
        forward.upload_params(kFixtures + kind + ".safetensors", {.names = pytorch_names()});
    EXPECT_TRUE(report.missing.empty());
    EXPECT_TRUE(report.extra.empty());
    expect_near(logits(forward), expected.read_f32(std::string("logits.") + kind));
  }
}

TEST(WeightsFromPython, GoToEveryDevice) {
  const auto want =
      SafetensorsFile::open(kFixtures + "expected.safetensors").read_f32("logits.f32");
  for (const char* device : {"reference", "webgpu"}) {
    auto forward = net(device);
    forward.upload_params(kFixtures + "f32.safetensors", {.names = pytorch_names()});
    expect_near(logits(forward), want);
  }
}

TEST(WeightsFromPython, MayLieInShards) {
  const auto want =
      SafetensorsFile::open(kFixtures + "expected.safetensors").read_f32("logits.f32");
  for (const std::string& path : {kFixtures, kFixtures + "model.safetensors.index.json"}) {
    auto forward = net();
    forward.upload_params(path, {.names = pytorch_names()});
    expect_near(logits(forward), want);
  }
}

TEST(WeightsFromPython, AreTakenByATrainingToo) {
  auto train = compile(Net{}, [](const Net& m, const Inputs& in) { return mean(m(in["tokens"])); },
                       {.inputs = {{"tokens", {{5}, i32}}}, .device = Device::cpu()});
  train.upload_params(kFixtures + "f32.safetensors", {.names = pytorch_names()});
  auto forward = train.attach([](const Net& m, const Inputs& in) { return m(in["tokens"]); },
                              {.inputs = {{"tokens", {{5}, i32}}}});
  expect_near(logits(forward),
              SafetensorsFile::open(kFixtures + "expected.safetensors").read_f32("logits.f32"));
}

// ---- round trips

TEST(SaveParams, WritesWhatUploadParamsReads) {
  const TemporaryFolder folder;
  auto first = net("cpu", 1), second = net("cpu", 2);
  first.save_params(folder / "own.safetensors", {.metadata = {{"note", "ours"}}});
  const auto own = SafetensorsFile::open(folder / "own.safetensors");
  EXPECT_EQ(own.info("fc.W").shape, (std::vector<std::int64_t>{6, 6}));
  EXPECT_EQ(own.info("head.W").shape, (std::vector<std::int64_t>{6, 3}));
  EXPECT_EQ(own.metadata().at("note"), "ours");
  second.upload_params(folder / "own.safetensors");
  EXPECT_EQ(second.download_params(), first.download_params());
}

TEST(SaveParams, WritesPytorchsNamesAndLayout) {
  const TemporaryFolder folder;
  auto forward = net();
  forward.upload_params(kFixtures + "f32.safetensors", {.names = pytorch_names()});
  forward.save_params(folder / "m", {.names = pytorch_names()});
  const auto ours = SafetensorsFile::open(folder / "m");
  const auto theirs = SafetensorsFile::open(kFixtures + "f32.safetensors");
  ASSERT_EQ(ours.tensors().size(), theirs.tensors().size());
  for (const FileTensor& tensor : theirs.tensors()) {
    EXPECT_EQ(ours.info(tensor.name).shape, tensor.shape) << tensor.name;
    EXPECT_EQ(ours.read_f32(tensor.name), theirs.read_f32(tensor.name)) << tensor.name;
  }
}

TEST(SaveParams, CutsIntoShards) {
  const TemporaryFolder folder;
  auto first = net("cpu", 1), second = net("cpu", 2);
  first.save_params(folder / "model", {.shard_bytes = 100});
  EXPECT_TRUE(std::filesystem::exists(folder / "model/model.safetensors.index.json"));
  second.upload_params(folder / "model");
  EXPECT_EQ(second.download_params(), first.download_params());
}

TEST(SaveParams, RefusesTwoParametersUnderOneName) {
  auto forward = net();
  try {
    forward.save_params("/nonexistent/m", {.names = {.rename = {{"*.b", "bias"}}}});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "save_params: fc.b and norm.b would both be called \"bias\" in the file.");
  }
}

TEST(UploadParams, TakesTheParametersOfACheckpoint) {
  const TemporaryFolder folder;
  auto train = compile(
      Net{}, [](const Net& m, const Inputs& in) { return mean(m(in["tokens"])); },
      {.inputs = {{"tokens", {{5}, i32}}}, .optimizer = Adam{.lr = 0.1}, .device = Device::cpu()});
  train.step({{"tokens", std::vector<std::int32_t>{1, 2, 3, 4, 5}}});
  train.save(folder / "c", {{"mine", "x"}});
  auto forward = net();
  EXPECT_TRUE(forward.upload_params(folder / "c").extra.empty());
  EXPECT_EQ(forward.download_params(), train.download_params());
}

// ---- files that do not fit

class Misfit : public ::testing::Test {
 protected:
  /// A file with tensors of ones.
  std::string put(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& tensors,
                  FileDType dtype = FileDType::F32) {
    const std::vector<std::byte> bytes(4096, std::byte{1});
    std::vector<FileTensor> list;
    for (const auto& [name, shape] : tensors) {
      FileTensor tensor{name, dtype, shape, {}};
      tensor.bytes =
          std::span(bytes).first(static_cast<std::size_t>(tensor.elements()) * byte_size(dtype));
      list.push_back(tensor);
    }
    write_safetensors(folder_ / "m", list);
    return folder_ / "m";
  }

  std::string refusal(const std::string& path, const FileUploadOptions& options = {}) {
    const ParamValues before = forward_.download_params();
    std::string text;
    try {
      forward_.upload_params(path, options);
      ADD_FAILURE() << "expected an Error";
    } catch (const Error& error) {
      text = error.what();
    }
    EXPECT_EQ(forward_.download_params(), before);
    const std::string end = "\n  in file " + path;
    if (text.ends_with(end)) text.resize(text.size() - end.size());
    return text;
  }

  TemporaryFolder folder_;
  Forward<Net> forward_ = net();
};

TEST_F(Misfit, IsToldAsAWholeInBothNames) {
  const std::string path = put({{"embed.weight", {7, 6}},
                                {"fc.weight", {6, 6}},
                                {"fc.bias", {5}},
                                {"norm.weight", {6}},
                                {"head.weight", {6, 3}},
                                {"head.bias", {3}},
                                {"more\n.weight", {2, 0}}});
  EXPECT_EQ(
      refusal(path, {.names = pytorch_names()}),
      "upload_params: the file does not fit the model; nothing is changed.\n"
      "  wrong shape: fc.b (\"fc.bias\" in the file) is [6] here and F32[5] in the file\n"
      "  missing: norm.b (\"norm.bias\" in the file), [6]\n"
      "  wrong shape: head.W (\"head.weight\" in the file) is [6, 3] here and F32[6, 3] in the "
      "file, where it should lie transposed\n"
      "  not in the model: \"more\\x0a.weight\", F32[2, 0]\n"
      "If the file may lack parameters, pass {.partial = true}.");
}

TEST_F(Misfit, OfPytorchsNamesIsRecognised) {
  EXPECT_TRUE(
      refusal(kFixtures + "f32.safetensors")
          .ends_with("The names look like PyTorch's: pass {.names = tg::pytorch_names()}."));
}

TEST_F(Misfit, MayBeAllowedInEitherDirection) {
  const std::string path = put({{"fc.b", {6}}, {"other", {2}}});
  const FileUploadOptions both{.partial = true, .ignore_extra = true};
  EXPECT_TRUE(refusal(path, {.partial = true})
                  .ends_with("\n  not in the model: \"other\", F32[2]\n"
                             "If the file may hold more, pass {.ignore_extra = true}."));
  const ParamValues before = forward_.download_params();
  const UploadReport report = forward_.upload_params(path, both);
  EXPECT_EQ(report.missing,
            (std::vector<std::string>{"embed.W", "fc.W", "norm.g", "norm.b", "head.W", "head.b"}));
  EXPECT_EQ(report.extra, std::vector<std::string>{"other"});
  ParamValues after = forward_.download_params();
  EXPECT_NE(after.at("fc.b"), before.at("fc.b"));
  after["fc.b"] = before.at("fc.b");
  EXPECT_EQ(after, before);
}

TEST_F(Misfit, OfEverythingIsRefusedEvenThen) {
  EXPECT_NE(refusal(put({{"other", {2}}}), {.partial = true, .ignore_extra = true})
                .find("none of the model's 7 parameters is in the file"),
            std::string::npos);
}

TEST_F(Misfit, OfDtypesIsToldApartFromShapes) {
  const std::string path = put({{"fc.b", {6}}}, FileDType::I32);
  EXPECT_NE(
      refusal(path, {.partial = true}).find("wrong dtype: fc.b is f32 here and I32[6] in the file"),
      std::string::npos);
}

TEST_F(Misfit, OfTransposesIsNamed) {
  const std::string path = put({{"fc.b", {6}}});
  EXPECT_EQ(refusal(path, {.partial = true, .names = {.transpose = {"fc.V"}}}),
            "upload_params: no parameter fits \"fc.V\", which is to be transposed.");
  EXPECT_EQ(refusal(path, {.partial = true, .names = {.transpose = {"fc.*"}}}),
            "upload_params: fc.b is [6], but only a matrix can be transposed.");
}

TEST_F(Misfit, OfAThousandTensorsStaysReadable) {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> tensors;
  for (int i = 0; i < 1000; ++i) tensors.push_back({"t" + std::to_string(i), {1}});
  const std::string text = refusal(put(tensors));
  EXPECT_NE(text.find("\n  and 957 more\n"), std::string::npos) << text;
}

TEST_F(Misfit, OfAMissingFileIsTheSystemsError) {
  EXPECT_EQ(refusal(folder_ / "none"),
            "Cannot open the file for reading: No such file or directory (errno 2).");
}

TEST(UploadParams, TransposesWhatItIsToldTo) {
  struct Plain {
    Tensor a = param({2, 3}), b = param({2, 2});
  };
  const TemporaryFolder folder;
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {1, 2, 3, 4};
  const std::vector<FileTensor> tensors = {FileTensor::f32("x.a", {3, 2}, a),
                                           FileTensor::f32("x.b", {2, 2}, b)};
  write_safetensors(folder / "m", tensors);
  auto forward =
      compile_forward(Plain{}, [](const Plain& m, const Inputs&) { return matmul(m.b, m.a); },
                      {.device = Device::cpu()});
  forward.upload_params(folder / "m", {.names = {.rename = {{"*", "x.*"}}, .transpose = {"a"}}});
  EXPECT_EQ(forward.download_params(), (ParamValues{{"a", {1, 3, 5, 2, 4, 6}}, {"b", b}}));
  forward.upload_params(folder / "m",
                        {.names = {.rename = [](const std::string& name) { return "x." + name; },
                                   .transpose = [](const std::string&) { return true; }}});
  EXPECT_EQ(forward.download_params().at("b"), (std::vector<float>{1, 3, 2, 4}));
}

/// Tied weights: one tensor of the file for two parameters.
TEST(UploadParams, MayFillTwoParametersFromOneTensor) {
  struct Tied {
    nn::Embedding tokens{4, 2};
    nn::Linear head{2, 4, {.bias = false}};
  };
  const TemporaryFolder folder;
  const std::vector<float> table = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<FileTensor> tensors = {FileTensor::f32("wte.weight", {4, 2}, table)};
  write_safetensors(folder / "m", tensors);
  auto forward = compile_forward(
      Tied{}, [](const Tied& m, const Inputs& in) { return m.head(m.tokens(in["i"])); },
      {.inputs = {{"i", {{1}, i32}}}, .device = Device::cpu()});
  forward.upload_params(folder / "m",
                        {.names = pytorch_names({{"tokens.W", "wte.W"}, {"head.W", "wte.W"}})});
  EXPECT_EQ(forward.download_params(),
            (ParamValues{{"tokens.W", table}, {"head.W", {1, 3, 5, 7, 2, 4, 6, 8}}}));
}

}  // namespace
}  // namespace tensorgrad::test
