// Folders in Hugging Face form, as published and with mistakes in them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "support/evaluate.hpp"
#include "tensorgrad/models.hpp"
#include "tensorgrad/safetensors.hpp"

namespace tensorgrad::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string fixture(const std::string& name) {
  return std::string(TENSORGRAD_SOURCE_DIR) + "/tests/fixtures/" + name;
}

/// A copy of a fixture's model to change.
class ModelFolder {
 public:
  explicit ModelFolder(const std::string& from) : from_(from) {
    std::ifstream(fixture(from) + "/config.json") >> config;
    for (const FileTensor& tensor : source_.tensors()) names.push_back(tensor.name);
  }

  Json config;
  std::vector<std::string> names;  // of the tensors to write
  std::map<std::string, std::string> renamed;

  std::string path() const { return (folder_ / "").string(); }
  void put(const std::string& file, const std::string& text) const {
    std::ofstream(folder_ / file) << text;
  }
  std::vector<FileTensor> tensors() const {
    std::vector<FileTensor> list;
    for (const std::string& name : names) {
      FileTensor tensor = source_.info(source_.has(name) ? name : "backbone.embeddings.weight");
      tensor.name = renamed.count(name) ? renamed.at(name) : name;
      list.push_back(tensor);
    }
    return list;
  }
  void write() const {
    put("config.json", config.dump());
    write_safetensors((folder_ / "model.safetensors").string(), tensors());
  }
  LoadedLanguageModel load() const {
    write();
    return load_language_model(path());
  }
  /// What loading says.
  std::string error() const {
    try {
      load();
    } catch (const IoError& error) {
      return error.what();
    } catch (const std::exception& other) {
      return std::string("another kind of error: ") + other.what();
    }
    return "no error";
  }

 private:
  std::string from_;
  ScratchFolder folder_;
  SafetensorsFile source_ = SafetensorsFile::open(fixture(from_) + "/model.safetensors");
};

// ---- what is there

TEST(LoadLanguageModel, ReadsTheFieldsOfMamba) {
  const LoadedLanguageModel loaded = load_language_model(fixture("mamba"));
  EXPECT_EQ(loaded.type, "mamba");
  EXPECT_EQ(loaded.vocabulary, 61);
  EXPECT_EQ(loaded.end_tokens, std::vector<std::int32_t>{0});
  const auto& model = std::get<nn::MambaLM>(loaded.model);
  ASSERT_EQ(model.layers.size(), 2u);
  EXPECT_FALSE(model.lm_head);
  EXPECT_EQ(model.layers[0].mixer.options.inner, 48);
  EXPECT_EQ(model.layers[0].mixer.options.dt_rank, 3);
  EXPECT_EQ(model.layers[0].mixer.options.discretization, Discretization::Euler);
}

TEST(LoadLanguageModel, ReadsTheFieldsOfMamba2) {
  const LoadedLanguageModel loaded = load_language_model(fixture("mamba2"));
  EXPECT_EQ(loaded.type, "mamba2");
  EXPECT_EQ(loaded.end_tokens, std::vector<std::int32_t>{2});
  const auto& model = std::get<nn::Mamba2LM>(loaded.model);
  EXPECT_TRUE(model.lm_head);
  EXPECT_EQ(model.layers[1].mixer.heads(), 8);
  EXPECT_EQ(model.layers[1].mixer.options.groups, 2);
  EXPECT_TRUE(std::isinf(model.layers[1].mixer.options.dt_high));
}

TEST(LoadLanguageModel, MatricesAreTurnedAndTheOthersAreNot) {
  const ParamValues params = read_params(load_language_model(fixture("mamba")));
  const SafetensorsFile file = SafetensorsFile::open(fixture("mamba") + "/model.safetensors");
  const std::vector<float> theirs = file.read_f32("backbone.layers.1.mixer.in_proj.weight");
  const std::vector<float>& ours = params.at("layers.1.mixer.in_proj.W");  // [24, 96]
  EXPECT_EQ(ours[0 * 96 + 5], theirs[5 * 24 + 0]);
  EXPECT_EQ(ours[7 * 96 + 3], theirs[3 * 24 + 7]);
  EXPECT_EQ(params.at("embeddings.W"), file.read_f32("backbone.embeddings.weight"));
  EXPECT_EQ(params.at("layers.0.mixer.conv1d.W"),
            file.read_f32("backbone.layers.0.mixer.conv1d.weight"));
  EXPECT_EQ(params.at("layers.0.mixer.A_log"), file.read_f32("backbone.layers.0.mixer.A_log"));
  EXPECT_EQ(params.size(), file.tensors().size());
}

/// What is trained here can be written as it was read.
TEST(LoadLanguageModel, SavingGivesTheSameFileBack) {
  for (const char* name : {"mamba", "mamba2"}) {
    SCOPED_TRACE(name);
    const LoadedLanguageModel loaded = load_language_model(fixture(name));
    const ScratchFolder folder;
    std::visit(
        [&](const auto& model) {
          using Model = std::decay_t<decltype(model)>;
          auto forward =
              compile_forward(model, [](const Model& m, const Inputs& in) { return m(in["ids"]); },
                              {.inputs = {{"ids", {{1, 2}, i32}}}, .device = Device::reference()});
          forward.upload_params(loaded.folder, loaded.upload);
          forward.save_params((folder / "model.safetensors").string(),
                              {.names = loaded.upload.names});
        },
        loaded.model);
    const SafetensorsFile want = SafetensorsFile::open(fixture(name) + "/model.safetensors"),
                          got = SafetensorsFile::open((folder / "model.safetensors").string());
    EXPECT_EQ(got.tensors().size(), want.tensors().size());
    for (const FileTensor& tensor : want.tensors()) {
      ASSERT_TRUE(got.has(tensor.name)) << tensor.name;
      EXPECT_EQ(got.info(tensor.name).shape, tensor.shape) << tensor.name;
      EXPECT_EQ(got.read_f32(tensor.name), want.read_f32(tensor.name)) << tensor.name;
    }
  }
}

TEST(LoadLanguageModel, ReadsShards) {
  ModelFolder folder("mamba2");
  folder.put("config.json", folder.config.dump());
  write_safetensors_model(folder.path() + "shards", folder.tensors(), 20000);
  fs::copy_file(folder.path() + "config.json", folder.path() + "shards/config.json");
  EXPECT_FALSE(fs::exists(folder.path() + "shards/model.safetensors"));
  EXPECT_EQ(read_params(load_language_model(folder.path() + "shards")),
            read_params(load_language_model(fixture("mamba2"))));
}

TEST(LoadLanguageModel, ATiedHeadMayLieInTheFileAgain) {
  ModelFolder folder("mamba");
  folder.names.push_back("lm_head.weight");
  EXPECT_FALSE(std::get<nn::MambaLM>(folder.load().model).lm_head);
  folder.config["tie_word_embeddings"] = false;
  EXPECT_TRUE(std::get<nn::MambaLM>(folder.load().model).lm_head);
}

TEST(LoadLanguageModel, EarlyFilesSayEmbedding) {
  ModelFolder folder("mamba");
  folder.renamed["backbone.embeddings.weight"] = "backbone.embedding.weight";
  EXPECT_EQ(read_params(folder.load()), read_params(load_language_model(fixture("mamba"))));
}

TEST(LoadLanguageModel, FieldsLeftOutHaveTheDefaultsOfTransformers) {
  ModelFolder folder("mamba");
  for (const char* name : {"conv_kernel", "hidden_act", "intermediate_size", "layer_norm_epsilon",
                           "tie_word_embeddings", "use_bias", "use_conv_bias", "eos_token_id"})
    folder.config.erase(name);
  EXPECT_EQ(read_params(folder.load()), read_params(load_language_model(fixture("mamba"))));
  EXPECT_TRUE(folder.load().end_tokens.empty());
  folder.config["time_step_rank"] = "auto";  // ⌈24/16⌉ = 2, but the file has 3
  expect_contains(folder.error(), {"layers.0.mixer.x_proj.W", "[48, 18]", "F32[19, 48]"});
}

TEST(LoadLanguageModel, ReadsTheNumbersThatJsonDoesNotHave) {
  ModelFolder folder("mamba2");
  for (const char* limit : {"[0.0, Infinity]", "[0.0, {\"__float__\": \"Infinity\"}]"}) {
    SCOPED_TRACE(limit);
    folder.write();
    std::string text = folder.config.dump();
    const std::string given = folder.config["time_step_limit"].dump();
    text.replace(text.find(given), given.size(), limit);
    folder.put("config.json", text);
    const auto loaded = load_language_model(folder.path());
    const auto& mixer = std::get<nn::Mamba2LM>(loaded.model).layers[0].mixer;
    EXPECT_EQ(mixer.options.dt_low, 0);
    EXPECT_TRUE(std::isinf(mixer.options.dt_high));
  }
  folder.config["time_step_limit"] = {0.01, 0.5};
  EXPECT_EQ(std::get<nn::Mamba2LM>(folder.load().model).layers[0].mixer.options.dt_high, 0.5);
}

TEST(LoadLanguageModel, SeveralTokensMayEndAText) {
  ModelFolder folder("mamba");
  folder.config["eos_token_id"] = {3, 5};
  EXPECT_EQ(folder.load().end_tokens, (std::vector<std::int32_t>{3, 5}));
}

TEST(ModelType, IsReadForModelsThatAreNotSupported) {
  ModelFolder folder("mamba");
  folder.config["model_type"] = "gpt_neox";
  folder.write();
  EXPECT_EQ(model_type(folder.path()), "gpt_neox");
  expect_contains(folder.error(),
                  {"\"model_type\" is \"gpt_neox\"", "mamba, mamba2", "config.json"});
}

// ---- what is wrong

TEST(LoadLanguageModel, MissingFilesAreNamed) {
  const ScratchFolder empty;
  const auto error = [&](const std::string& folder) -> std::string {
    try {
      load_language_model(folder);
    } catch (const IoError& e) {
      return e.what();
    }
    return "no error";
  };
  expect_contains(error((empty / "").string()), {"config.json", "No such file"});
  expect_contains(error("/nowhere/at/all"), {"/nowhere/at/all/config.json", "No such file"});
  fs::copy_file(fixture("mamba") + "/config.json", empty / "config.json");
  expect_contains(error((empty / "").string()), {"model.safetensors"});
}

TEST(LoadLanguageModel, BrokenConfigurationsAreNamed) {
  const ModelFolder folder("mamba");
  const auto error = [&](const std::string& text) -> std::string {
    folder.write();
    folder.put("config.json", text);
    try {
      load_language_model(folder.path());
    } catch (const IoError& e) {
      return e.what();
    }
    return "no error";
  };
  expect_contains(error(""), {"config.json", "not valid JSON"});
  expect_contains(error("{\"model_type\": "), {"not valid JSON"});
  expect_contains(error("[1, 2]"), {"should hold a JSON object, but holds array"});
  expect_contains(error("{}"), {"names no model_type"});
  expect_contains(error("{\"model_type\": 7}"), {"\"model_type\" is 7, but should be a text"});
  expect_contains(error("{\"model_type\": \"mamba\"}"), {"\"hidden_size\" is missing"});
  expect_contains(error(std::string(100000, '[')), {"not valid JSON"});
  expect_contains(error(std::string(20 << 20, ' ')), {"too large"});
}

TEST(LoadLanguageModel, FieldsThatCannotBeAreRefused) {
  const std::vector<std::tuple<const char*, const char*, Json, const char*>> mistakes = {
      {"mamba", "hidden_size", 0, "should be a whole number from 1 to 16777216"},
      {"mamba", "hidden_size", -24, "\"hidden_size\" is -24"},
      {"mamba", "hidden_size", 24.5, "24.5"},
      {"mamba", "hidden_size", "24", "\"24\""},
      {"mamba", "hidden_size", nullptr, "\"hidden_size\" is missing"},
      {"mamba", "hidden_size", 1e300, "1e+300"},
      {"mamba", "vocab_size", 1 << 30, "1073741824"},
      {"mamba", "num_hidden_layers", 16000000, "the files hold 22 tensors"},
      {"mamba", "num_hidden_layers", Json::array(), "[]"},
      {"mamba", "state_size", true, "true"},
      {"mamba", "hidden_act", "gelu", "only \"silu\" is supported"},
      {"mamba", "hidden_act", 3, "only \"silu\" is supported"},
      {"mamba", "use_bias", "no", "should be true or false"},
      {"mamba", "layer_norm_epsilon", "small", "should be a number"},
      {"mamba", "time_step_rank", "most", "\"most\""},
      {"mamba", "eos_token_id", 1.5, "should be a token's number"},
      {"mamba", "eos_token_id", {{"a", 1}}, "should be a number or a list"},
      {"mamba2", "num_heads", 7, "heads of 8 channels should make 64 channels"},
      {"mamba2", "n_groups", 3, "should divide the 8 heads"},
      {"mamba2", "expand", -2, "\"expand\" is -2"},
      {"mamba2", "rms_norm", false, "only true is supported"},
      {"mamba2", "time_step_limit", {1}, "a lowest and a highest"},
      {"mamba2", "time_step_limit", {2, 1}, "a lowest and a highest"},
      {"mamba2", "time_step_limit", "wide", "\"wide\""},
  };
  for (const auto& [model, field, value, part] : mistakes) {
    SCOPED_TRACE(std::string(field) + " = " + value.dump());
    ModelFolder folder(model);
    folder.config[field] = value;
    expect_contains(folder.error(), {field, part, "config.json"});
  }
}

TEST(LoadLanguageModel, FilesThatDoNotFitTheConfigurationAreRefused) {
  ModelFolder folder("mamba");
  folder.config["state_size"] = 4;
  expect_contains(folder.error(), {"layers.0.mixer.A_log", "[48, 4]", "F32[48, 8]"});

  ModelFolder deeper("mamba");
  deeper.config["num_hidden_layers"] = 3;
  expect_contains(deeper.error(), {"missing", "backbone.layers.2.mixer.in_proj.weight"});

  ModelFolder shallower("mamba");
  shallower.config["num_hidden_layers"] = 1;
  expect_contains(shallower.error(), {"not in the model", "backbone.layers.1.norm.weight"});

  ModelFolder untied("mamba");
  untied.config["tie_word_embeddings"] = false;
  expect_contains(untied.error(), {"missing", "lm_head.weight"});

  ModelFolder strange("mamba");
  strange.names.push_back("lm_head.weight");
  strange.names.push_back("backbone.extra");
  expect_contains(strange.error(), {"backbone.extra", "has no place in the model"});

  ModelFolder huge("mamba");
  huge.config["vocab_size"] = 16000000;
  expect_contains(huge.error(), {"embeddings.W", "[16000000, 24]", "F32[61, 24]"});
}

TEST(LoadLanguageModel, TextOfTheFileIsShownSafely) {
  ModelFolder folder("mamba");
  folder.config["model_type"] = "\x1b[31m" + std::string(5000, 'x');
  const std::string error = folder.error();
  EXPECT_EQ(error.find('\x1b'), std::string::npos);
  EXPECT_LT(error.size(), 1000u);
}

}  // namespace
}  // namespace tensorgrad::test
