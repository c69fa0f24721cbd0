// Published language models: a folder in Hugging Face form (config.json and safetensors, sharded or
// not) becomes a model of this library.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tensorgrad/decoder.hpp"
#include "tensorgrad/mamba.hpp"
#include "tensorgrad/weights.hpp"

namespace tensorgrad {

/// Every kind of language model that can be read. Each has `operator()`, ids i32[B, L] to logits
/// f32[B, L, vocabulary], and `decode` as Decoder wants it.
using LanguageModel = std::variant<nn::MambaLM, nn::Mamba2LM>;

/// A model as its folder describes it. The parameters stay in the folder until a program takes
/// them: `training.upload_params(loaded.folder, loaded.upload)`.
struct LoadedLanguageModel {
  std::string folder;
  std::string type;  ///< config.json's model_type
  LanguageModel model;
  std::int64_t vocabulary = 0;
  std::vector<std::int32_t> end_tokens;  ///< config.json's eos_token_id: what ends a text
  FileUploadOptions upload;              ///< how the files call the parameters

  /// A decoder of the model with its parameters; `options.params` must be empty.
  Decoder decoder(DecoderOptions options = {}) const;
};

/// Reads config.json and the headers of the safetensors files. Throws IoError that says what is
/// wrong or not supported; then nothing large has been allocated, whatever the files say.
LoadedLanguageModel load_language_model(const std::string& folder);

/// The values of all parameters, by their names here.
ParamValues read_params(const LoadedLanguageModel& loaded);

/// config.json's model_type, supported or not.
std::string model_type(const std::string& folder);
/// The types that load_language_model knows.
std::vector<std::string> language_model_types();

}  // namespace tensorgrad
