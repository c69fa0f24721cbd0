// The seam between training on characters and the model that learns them. A new kind of model is a
// struct with a call operator, tokens i32[B, T] to logits f32[B, T, V], and a line in
// language_model.cpp. One that has `decode` (see decoder.hpp) writes with it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "run.hpp"

namespace tensorgrad::cli {

struct LanguageConfig {
  std::string kind = "gpt";
  std::int64_t layers = 4, width = 128, heads = 4;
  std::int64_t states = 16;   ///< of each channel of a state-space model
  std::int64_t context = 64;  ///< T, the length of a window
  std::int64_t vocabulary = 0;
};

/// The kinds there are.
std::vector<std::string> language_model_kinds();

/// A compiled model, in training.
class LanguageModel {
 public:
  using Tokens = std::vector<std::int32_t>;

  virtual ~LanguageModel() = default;
  virtual Trainee trainee() = 0;
  /// The mean loss of each of `batch` windows, without learning from them.
  virtual std::vector<float> losses(const Tokens& tokens, const Tokens& next) = 0;
  /// Begins a text: logits of what could follow `prompt`.
  virtual std::vector<float> begin_text(const Tokens& prompt) = 0;
  /// Goes on with it: logits of what could follow one token more.
  virtual std::vector<float> next_text(std::int32_t token) = 0;
};

/// Throws UsageError if the configuration makes no model of its kind.
void check_language_config(const LanguageConfig& config);

std::unique_ptr<LanguageModel> make_language_model(const LanguageConfig& config, std::int64_t batch,
                                                   const Optimizer& optimizer, std::uint64_t seed,
                                                   const Device& device);

/// Every stage of its training step.
CompiledIR language_model_stages(const LanguageConfig& config, std::int64_t batch,
                                 const Optimizer& optimizer, const Target& target);

/// `prompt` and `count` more tokens, one after the other.
std::vector<std::int32_t> continue_text(LanguageModel& model, std::vector<std::int32_t> prompt,
                                        std::int64_t count, double temperature, Rng rng);

}  // namespace tensorgrad::cli
