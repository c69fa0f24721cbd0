// Checkpoints: every optimizer resumes bit for bit, and what is wrong with a checkpoint is said
// before anything changes.
#include <gtest/gtest.h>

#include <cmath>

#include "io/temporary_folder.hpp"
#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::test {
namespace {

struct Resumed {
  nn::Linear l1{2, 8}, l2{8, 1};
};

Training<Resumed> mlp(const std::optional<Optimizer>& optimizer, std::uint64_t seed = 5,
                      const char* device = "cpu") {
  return compile(Resumed{},
                 [](const Resumed& m, const Inputs& in) {
                   const Tensor calls = state_input("calls", {}, i32);
                   write_back(calls, calls + 1);
                   return mean(square(m.l2(dropout(tanh(m.l1(in["x"])), 0.25)) - in["y"]));
                 },
                 {.inputs = {{"x", {4, 2}}, {"y", {4, 1}}},
                  .optimizer = optimizer,
                  .seed = seed,
                  .device = Device::named(device)});
}

float step(Training<Resumed>& train, int i) {
  std::vector<float> x, y;
  for (int k = 0; k < 8; ++k) x.push_back(std::sin(static_cast<float>(i * 8 + k)));
  for (int k = 0; k < 4; ++k) y.push_back(std::cos(static_cast<float>(i * 4 + k)));
  return train.step({{"x", x}, {"y", y}}).loss;
}

struct Case {
  const char* name;
  std::optional<Optimizer> optimizer;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      {"none", std::nullopt},
      {"adam", Adam{.lr = 0.05}},
      {"adam_clipped_cosine", Adam{.lr = lr::cosine(0.1, 12), .clip_norm = 0.05}},
      {"adamw", AdamW{.lr = 0.05, .weight_decay = 0.1}},
      {"adamw_warmup_clipped",
       AdamW{.lr = lr::warmup_cosine(0.1, 4, 8), .weight_decay = 0.1, .clip_norm = 0.05}},
      {"sgd", SGD{.lr = 0.1}},
      {"sgd_decay_steps", SGD{.lr = lr::step(0.2, 0.5, 3), .weight_decay = 0.1}},
      {"sgd_momentum", SGD{.lr = 0.05, .momentum = 0.9}},
      {"sgd_nesterov_clipped",
       SGD{.lr = lr::linear(0.1, 0.01, 10), .momentum = 0.9, .nesterov = true, .clip_norm = 0.1}},
      {"sgd_multi_step", SGD{.lr = lr::multi_step(0.1, 0.1, {2, 6}), .momentum = 0.5}},
      {"own_schedule", Adam{.lr = [](std::int64_t s) { return 0.1 / static_cast<double>(s); }}},
  };
  return list;
}

class EveryOptimizer : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Checkpoint, EveryOptimizer,
                         ::testing::Range<std::size_t>(0, cases().size()),
                         [](const auto& info) { return cases()[info.param].name; });

TEST_P(EveryOptimizer, ResumesBitForBit) {
  const Case& at = cases()[GetParam()];
  const TemporaryFolder folder;
  for (const char* device : {"cpu", "webgpu"}) {
    SCOPED_TRACE(device);
    auto train = mlp(at.optimizer, 5, device);
    for (int i = 0; i < 4; ++i) step(train, i);
    train.save(folder / "c");
    std::vector<float> want, got;
    for (int i = 4; i < 9; ++i) want.push_back(step(train, i));

    auto resumed = mlp(at.optimizer, 99, device);
    step(resumed, 0);  // a program in use, not a fresh one
    EXPECT_TRUE(resumed.load(folder / "c").empty());
    for (int i = 4; i < 9; ++i) got.push_back(step(resumed, i));
    EXPECT_EQ(got, want);
    EXPECT_EQ(resumed.download_params(), train.download_params());
    EXPECT_EQ(resumed.step_count(), 9);
    EXPECT_EQ(resumed.seed(), 5u);
  }
}

TEST(Checkpoint, KeepsTheRateOfSetLrExactly) {
  const TemporaryFolder folder;
  auto train = mlp(Adam{});
  train.set_lr(0.1 / 3);
  step(train, 0);
  train.save(folder / "c");
  auto resumed = mlp(Adam{});
  resumed.load(folder / "c");
  EXPECT_EQ(step(resumed, 1), step(train, 1));
  EXPECT_EQ(resumed.download_params(), train.download_params());
}

TEST(Checkpoint, CarriesTheCallersMetadata) {
  const TemporaryFolder folder;
  const std::map<std::string, std::string> mine = {{"tensorgrad.example", "sin"}, {"note", "ü\n"}};
  auto train = mlp(Adam{});
  train.save(folder / "c", mine);
  EXPECT_EQ(train.load(folder / "c"), mine);
  for (const char* key :
       {"tensorgrad.step", "tensorgrad.seed", "tensorgrad.lr", "tensorgrad.checkpoint"}) {
    EXPECT_THROW(train.save(folder / "c", {{key, "7"}}), Error) << key;
  }
}

// ---- what is wrong with a checkpoint

class BadCheckpoint : public ::testing::Test {
 protected:
  BadCheckpoint() {
    train_.save(folder_ / "good");
    const auto file = SafetensorsFile::open(folder_ / "good");
    metadata_ = file.metadata();
    for (const FileTensor& tensor : file.tensors()) {
      tensors_.push_back(tensor);
      bytes_.emplace_back(tensor.bytes.begin(), tensor.bytes.end());
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].bytes = bytes_[i];
  }

  FileTensor& tensor(const std::string& name) {
    return *std::find_if(tensors_.begin(), tensors_.end(),
                         [&](const FileTensor& t) { return t.name == name; });
  }

  /// Writes what the members hold, and gives the first line with which it is refused.
  std::string refusal() {
    write_safetensors(folder_ / "bad", tensors_, metadata_);
    step(train_, 0);
    const ParamValues before = train_.download_params();
    const std::int64_t steps = train_.step_count();
    std::string text;
    try {
      train_.load(folder_ / "bad");
      ADD_FAILURE() << "expected an IoError";
    } catch (const IoError& error) {
      text = error.what();
    }
    EXPECT_EQ(train_.download_params(), before);
    EXPECT_EQ(train_.step_count(), steps);
    const std::string end = "\n  in file " + folder_ / "bad";
    EXPECT_TRUE(text.ends_with(end)) << text;
    return text.substr(0, text.size() - end.size());
  }

  TemporaryFolder folder_;
  Training<Resumed> train_ = mlp(Adam{});
  std::map<std::string, std::string> metadata_;
  std::vector<FileTensor> tensors_;
  std::vector<std::vector<std::byte>> bytes_;
};

TEST_F(BadCheckpoint, LacksMetadata) {
  const auto whole = metadata_;
  for (const char* key : {"tensorgrad.checkpoint", "tensorgrad.step", "tensorgrad.seed"}) {
    metadata_ = whole;
    metadata_.erase(key);
    EXPECT_EQ(refusal(), std::string("load: the file is no checkpoint of tensorgrad: its metadata "
                                     "lack ") +
                             key + ".");
  }
}

TEST_F(BadCheckpoint, HasMetadataThatAreNoNumbers) {
  const auto whole = metadata_;
  const std::vector<std::pair<const char*, std::vector<std::string>>> bad = {
      {"tensorgrad.step",
       {"", "-1", "+1", " 1", "1 ", "1.5", "1e3", "0x10", "9223372036854775808", "many",
        std::string("1\0", 2)}},
      {"tensorgrad.seed", {"", "-1", "18446744073709551616", "five"}},
      {"tensorgrad.lr", {"", "fast", "0.1x", "1e999", "nan", "inf", "-inf"}},
  };
  for (const auto& [key, values] : bad) {
    for (const std::string& value : values) {
      metadata_ = whole;
      metadata_[key] = value;
      EXPECT_NE(refusal().find(key), std::string::npos) << value;
    }
  }
  metadata_ = whole;
  metadata_["tensorgrad.step"] = "1\x1b[2J";
  EXPECT_EQ(refusal(),
            "load: the file has a bad tensorgrad.step: \"1\\x1b[2J\" is no number it can have.");
}

TEST_F(BadCheckpoint, IsOfAnotherVersion) {
  metadata_["tensorgrad.checkpoint"] = "2";
  EXPECT_EQ(
      refusal(),
      "load: the file is a checkpoint of version \"2\", but this tensorgrad reads version 1.");
}

TEST_F(BadCheckpoint, HasOtherTensors) {
  tensor("param.l1.W").name = "param.l9.W";
  tensor("param.l1.b").shape = {2, 4};
  tensor("state.optimizer.m.l2.W").dtype = FileDType::I32;
  tensor("state.calls").dtype = FileDType::F32;
  EXPECT_EQ(refusal(),
            "load: the file was saved from another model or optimizer.\n"
            "  missing: param.l1.W f32[2, 8]\n"
            "  wrong type: param.l1.b is f32[8] here and F32[2, 4] in the file\n"
            "  wrong type: state.calls is i32[] here and F32[] in the file\n"
            "  wrong type: state.optimizer.m.l2.W is f32[8, 1] here and I32[8, 1] in the file\n"
            "  not in this program: \"param.l9.W\"");
}

TEST_F(BadCheckpoint, IsOfAnotherOptimizer) {
  auto sgd = mlp(SGD{.lr = 0.1});
  sgd.save(folder_ / "sgd");
  EXPECT_THROW(train_.load(folder_ / "sgd"), IoError);
  EXPECT_THROW(sgd.load(folder_ / "good"), IoError);
}

}  // namespace
}  // namespace tensorgrad::test
