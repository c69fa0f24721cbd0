// The programs that docs/pytorch.md and docs/files.md show, as they stand here: what is between
// `// snippet: name` and `// end` is compiled, run and compared with the documents.
// TENSORGRAD_UPDATE_GOLDEN=1 writes it into them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <sstream>

#include "docs/document.hpp"
#include "io/temporary_folder.hpp"
#include "tensorgrad/tensorgrad.hpp"

namespace tg = tensorgrad;

namespace tensorgrad::test {
namespace {

// ---- what is shown

/// The marked parts of this file, without their indentation.
std::map<std::string, std::string> snippets() {
  std::map<std::string, std::string> found;
  std::istringstream lines(source_file("tests/docs/snippets_test.cpp"));
  std::string name;
  std::size_t indent = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find_first_not_of(' ');
    const std::string words = at == std::string::npos ? "" : line.substr(at);
    if (words.rfind("// snippet: ", 0) == 0) {
      name = words.substr(std::string("// snippet: ").size());
      indent = at;
    } else if (words == "// end") {
      name.clear();
    } else if (!name.empty()) {
      found[name] += (words.empty() ? "" : line.substr(std::min(indent, at))) + "\n";
    }
  }
  return found;
}

/// Runs in a folder of its own, so that a snippet can use plain names of files.
class InAFolder : public ::testing::Test {
 protected:
  InAFolder() { std::filesystem::current_path(folder_.path()); }
  ~InAFolder() override { std::filesystem::current_path(before_); }

  const std::filesystem::path before_ = std::filesystem::current_path();
  const TemporaryFolder folder_;
};
using PytorchDocument = InAFolder;
using FilesDocument = InAFolder;

// ---- docs/pytorch.md

struct Points {
  std::vector<float> x;
  std::vector<std::int32_t> label;
};

/// Points of four numbers; the class is which of the first three is the largest.
std::vector<Points> make_batches(int count, int size) {
  Rng rng(1);
  std::vector<Points> batches(static_cast<std::size_t>(count));
  for (Points& batch : batches) {
    for (int i = 0; i < size; ++i) {
      float point[4];
      for (float& value : point) value = static_cast<float>(rng.normal());
      batch.x.insert(batch.x.end(), point, point + 4);
      batch.label.push_back(static_cast<std::int32_t>(std::max_element(point, point + 3) - point));
    }
  }
  return batches;
}

// snippet: loop
struct Mlp {
  tg::nn::Linear l1{4, 32}, l2{32, 3};
  tg::Tensor operator()(tg::Tensor x) const { return l2(tg::gelu(l1(x))); }
};

float train_mlp(const std::vector<Points>& batches, std::vector<std::int32_t>& guess) {
  constexpr int B = 64;
  auto train =
      tg::compile(Mlp{},
                  [](const Mlp& model, const tg::Inputs& in) {
                    return tg::cross_entropy(model(in["x"]), in["label"]);
                  },
                  {.inputs = {{"x", {B, 4}}, {"label", {{B}, tg::i32}}},
                   .optimizer = tg::AdamW{.lr = 1e-2, .weight_decay = 0.01, .clip_norm = 1.0}});

  float loss = 0;
  for (const Points& batch : batches) {
    loss = train.step({{"x", batch.x}, {"label", batch.label}}).loss;
  }

  auto predict = train.attach(
      [](const Mlp& model, const tg::Inputs& in) {
        return tg::Outputs{{"guess", tg::argmax(model(in["x"]), -1)}};
      },
      {.inputs = {{"x", {B, 4}}}});
  guess = predict.run({{"x", batches.back().x}})["guess"].as<std::int32_t>();
  return loss;
}
// end

TEST_F(PytorchDocument, TrainingLoopLearns) {
  const std::vector<Points> batches = make_batches(300, 64);
  std::vector<std::int32_t> guess;
  EXPECT_LT(train_mlp(batches, guess), 0.2);
  int right = 0;
  for (std::size_t i = 0; i < 64; ++i) right += guess[i] == batches.back().label[i];
  EXPECT_GT(right, 58);
}

TEST_F(PytorchDocument, WeightsComeFromPytorch) {
  const std::string fixture =
      std::string(TENSORGRAD_SOURCE_DIR) + "/tests/fixtures/pytorch_weights/";
  std::filesystem::copy_file(fixture + "bf16.safetensors", "model.safetensors");
  const std::vector<std::int32_t> tokens = {0, 3, 6, 3, 1};
  // snippet: weights
  struct Net {
    tg::nn::Embedding embed{7, 6};
    tg::nn::Linear fc{6, 6};
    tg::nn::LayerNorm norm{6};
    tg::nn::Linear head{6, 3};
    tg::Tensor operator()(tg::Tensor tokens) const {
      return head(norm(tg::gelu(fc(embed(tokens)))));
    }
  };
  auto net = tg::compile_forward(
      Net{}, [](const Net& model, const tg::Inputs& in) { return model(in["tokens"]); },
      {.inputs = {{"tokens", {{5}, tg::i32}}}});
  net.upload_params("model.safetensors", {.names = tg::pytorch_names()});
  std::vector<float> logits = net.run({{"tokens", tokens}}).output;
  // end
  const auto want = SafetensorsFile::open(fixture + "expected.safetensors").read_f32("logits.bf16");
  ASSERT_EQ(logits.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(logits[i], want[i], 2e-5);
}

TEST(PytorchDocumentText, ShowsWhatIsCompiledHere) {
  check_document("docs/pytorch.md", snippets());
}

/// Names of ours in code of a document: `tg::name` and members after a dot that are called.
TEST(PytorchDocumentText, NamesOnlyWhatThereIs) {
  std::string headers;
  for (const auto& at : std::filesystem::directory_iterator(std::string(TENSORGRAD_SOURCE_DIR) +
                                                            "/include/tensorgrad")) {
    headers += source_file("include/tensorgrad/" + at.path().filename().string());
  }
  for (const char* document : {"docs/pytorch.md", "docs/files.md"}) {
    const std::string text = source_file(document);
    for (std::size_t at = 0; (at = text.find("tg::", at)) != std::string::npos;) {
      std::size_t end = at += 4;
      while (end < text.size() && (std::isalnum(text[end]) || text[end] == '_')) ++end;
      const std::string name = text.substr(at, end - at);
      EXPECT_NE(headers.find(name), std::string::npos) << document << ": tg::" << name;
    }
  }
}

// ---- docs/files.md

struct Block {
  nn::LayerNorm n1{2};
  nn::MultiHeadAttention attn{2, 1};
};

struct Small {
  std::vector<Block> blocks = std::vector<Block>(1);
  nn::Linear head{2, 3};
};

Training<Small> small() {
  return compile(Small{},
                 [](const Small& m, const Inputs& in) {
                   const Tensor x = in["x"];
                   return mean(square(m.head(x + m.blocks[0].attn(m.blocks[0].n1(x)))));
                 },
                 {.inputs = {{"x", {4, 2}}}, .optimizer = Adam{}, .device = Device::cpu()});
}

std::string misfit() {
  auto train = small();
  const TemporaryFolder folder;
  train.save_params(folder / "model.safetensors",
                    {.names = pytorch_names({{"head.*", "output.*"}})});
  try {
    train.upload_params(folder / "model.safetensors", {.names = pytorch_names()});
  } catch (const IoError& error) {
    std::string text = error.what();
    const std::string place = folder.path() + "/";
    text.erase(text.find(place), place.size());
    return text + "\n";
  }
  ADD_FAILURE() << "expected an IoError";
  return "";
}

TEST_F(FilesDocument, SnippetsWork) {
  auto train = small();
  train.save_params("theirs.safetensors",
                    {.names = pytorch_names({{"blocks.*", "transformer.h.*"},
                                             {"*.attn.q.*", "*.self_attn.q_proj.*"}})});
  train.save_params("pytorch.safetensors", {.names = pytorch_names()});
  train.save_params("odd.safetensors", {.names = {.rename = {{"*", "model/*"}}}});
  train.save_params("backbone.safetensors", {.names = {.rename = {{"head.*", "old_head.*"}}}});
  train.save_params("gpt2.safetensors",
                    {.names = {.rename = {{"head.W", "wte.weight"}}, .transpose = {"head.W"}}});
  train.step({{"x", std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}}});
  const ParamValues stepped = train.download_params();
  // snippet: own
  train.save_params("model.safetensors");
  train.upload_params("model.safetensors");
  // end
  EXPECT_EQ(train.download_params(), stepped);
  // snippet: partial
  tg::UploadReport report =
      train.upload_params("backbone.safetensors", {.partial = true, .ignore_extra = true});
  for (const std::string& name : report.missing) std::printf("%s is new\n", name.c_str());
  // end
  EXPECT_EQ(report.missing, (std::vector<std::string>{"head.W", "head.b"}));
  // snippet: pytorch
  train.upload_params("pytorch.safetensors", {.names = tg::pytorch_names()});
  // end
  const ParamValues first = train.download_params();
  EXPECT_NE(first, stepped);
  train.upload_params(stepped);
  // snippet: rename
  train.upload_params("theirs.safetensors",
                      {.names = tg::pytorch_names({{"blocks.*", "transformer.h.*"},
                                                   {"*.attn.q.*", "*.self_attn.q_proj.*"}})});
  // end
  EXPECT_EQ(train.download_params(), first);
  train.upload_params(stepped);
  // snippet: by hand
  train.upload_params("gpt2.safetensors",
                      {.names = {.rename = {{"head.W", "wte.weight"}}, .transpose = {"head.W"}}});
  train.upload_params(
      "odd.safetensors",
      {.names = {.rename = [](const std::string& name) { return "model/" + name; }}});
  // end
  EXPECT_EQ(train.download_params(), first);
  // snippet: shards
  train.save_params("folder", {.shard_bytes = 4'000'000'000});
  train.upload_params("folder");
  // end
  // snippet: checkpoint
  train.save("run.safetensors", {{"note", "before the long run"}});
  std::map<std::string, std::string> metadata = train.load("run.safetensors");
  // end
  EXPECT_EQ(metadata.at("note"), "before the long run");
  EXPECT_EQ(train.download_params(), first);
}

TEST(FilesDocumentText, ShowsWhatIsCompiledHere) {
  std::map<std::string, std::string> blocks = snippets();
  blocks["misfit"] = misfit();
  check_document("docs/files.md", blocks);
}

}  // namespace
}  // namespace tensorgrad::test
