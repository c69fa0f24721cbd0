#include "language_model.hpp"

#include <algorithm>

#include "example.hpp"

namespace tensorgrad::cli {

namespace {

// ---- the models

/// A decoder as in GPT-2: pre-norm blocks, learned positions.
struct CharGpt {
  Tensor table, positions;
  std::vector<nn::TransformerBlock> blocks;
  nn::LayerNorm norm;
  nn::Linear head;

  explicit CharGpt(const LanguageConfig& config)
      : table(param({config.vocabulary, config.width})),
        positions(param({config.context, config.width})),
        blocks(static_cast<std::size_t>(config.layers),
               nn::TransformerBlock(config.width, static_cast<int>(config.heads))),
        norm(config.width),
        head(config.width, config.vocabulary, {.bias = false}) {}

  Tensor operator()(const Tensor& ids) const {
    Tensor x = embedding(table, ids) + positions;
    for (const nn::TransformerBlock& block : blocks) x = block(x);
    return head(norm(x));
  }
  TENSORGRAD_MEMBERS(table, positions, blocks, norm, head)
};

CharGpt gpt_of(const LanguageConfig& config) { return CharGpt(config); }

nn::MambaLM mamba_of(const LanguageConfig& config) {
  return {config.vocabulary,
          config.width,
          config.layers,
          {.mixer = {.states = config.states}, .tied = false}};
}

nn::Mamba2LM mamba2_of(const LanguageConfig& config) {
  return {config.vocabulary,
          config.width,
          config.layers,
          {.mixer = {.head_dim = 2 * config.width / config.heads, .states = config.states},
           .tied = false}};
}

// ---- writing

/// Reads the last `context` tokens again for each new one.
template <class Net>
class WindowWriter {
 public:
  WindowWriter(Training<Net>& training, const LanguageConfig& config)
      : config_(config),
        logits_(training.attach([](const Net& net, const Inputs& in) { return net(in["tokens"]); },
                                {.inputs = {{"tokens", {{1, config.context}, i32}}}})) {}

  std::vector<float> begin(const LanguageModel::Tokens& prompt) {
    text_ = prompt;
    return logits();
  }
  std::vector<float> next(std::int32_t token) {
    text_.push_back(token);
    return logits();
  }

 private:
  /// A model sees only the past, so what stands after the last token does not matter.
  std::vector<float> logits() {
    const auto context = static_cast<std::size_t>(config_.context),
               seen = std::min(text_.size(), context);
    LanguageModel::Tokens window(text_.end() - static_cast<std::ptrdiff_t>(seen), text_.end());
    window.resize(context, 0);
    const std::vector<float> all = logits_.run({{"tokens", window}}).output;
    const auto row = all.begin() + static_cast<std::ptrdiff_t>(seen - 1) *
                                       static_cast<std::ptrdiff_t>(config_.vocabulary);
    return {row, row + static_cast<std::ptrdiff_t>(config_.vocabulary)};
  }

  LanguageConfig config_;
  Forward<Net> logits_;
  LanguageModel::Tokens text_;
};

/// Reads each token once.
template <class Net>
class RecurrentWriter {
 public:
  RecurrentWriter(Training<Net>& training, const LanguageConfig&)
      : decoder_(training.model(), {.device = training.device(), .params = training.params()}) {}

  std::vector<float> begin(const LanguageModel::Tokens& prompt) {
    decoder_.reset();
    return decoder_.read(prompt);
  }
  std::vector<float> next(std::int32_t token) { return decoder_.read(token); }

 private:
  Decoder decoder_;
};

template <class Net>
concept Recurrent = requires(const Net& net, const Tensor& ids) {
  net.decode(ids);
};

// ---- what is made of each

InputDecls inputs(std::int64_t batch, std::int64_t context) {
  return {{"tokens", {{batch, context}, i32}}, {"next", {{batch, context}, i32}}};
}

template <class Net>
Tensor loss(const Net& net, const Inputs& in) {
  return cross_entropy(net(in["tokens"]), in["next"]);
}

template <class Net>
class Compiled final : public LanguageModel {
 public:
  Compiled(const Net& net, const LanguageConfig& config, std::int64_t batch,
           const Optimizer& optimizer, std::uint64_t seed, const Device& device)
      : training_(compile(net, loss<Net>,
                          {.inputs = inputs(batch, config.context),
                           .optimizer = optimizer,
                           .seed = seed,
                           .device = device})),
        losses_(training_.attach(
            [](const Net& model, const Inputs& in) {
              const Tensor each =
                  cross_entropy(model(in["tokens"]), in["next"], {.reduction = Reduction::None});
              return mean(each, {.axes = -1});
            },
            {.inputs = inputs(batch, config.context)})),
        writer_(training_, config) {}

  Trainee trainee() override { return cli::trainee(training_); }
  std::vector<float> losses(const Tokens& tokens, const Tokens& next) override {
    return losses_.run({{"tokens", tokens}, {"next", next}}).output;
  }
  std::vector<float> begin_text(const Tokens& prompt) override { return writer_.begin(prompt); }
  std::vector<float> next_text(std::int32_t token) override { return writer_.next(token); }

 private:
  using Writer = std::conditional_t<Recurrent<Net>, RecurrentWriter<Net>, WindowWriter<Net>>;
  Training<Net> training_;
  Forward<Net> losses_;
  Writer writer_;
};

// ---- the list of them

struct Kind {
  const char* name;
  std::unique_ptr<LanguageModel> (*make)(const LanguageConfig&, std::int64_t batch,
                                         const Optimizer&, std::uint64_t seed, const Device&);
  CompiledIR (*stages)(const LanguageConfig&, std::int64_t batch, const Optimizer&, const Target&);
};

template <auto make_net>
Kind kind(const char* name) {
  using Net = decltype(make_net(LanguageConfig{}));
  return {name,
          [](const LanguageConfig& config, std::int64_t batch, const Optimizer& optimizer,
             std::uint64_t seed, const Device& device) -> std::unique_ptr<LanguageModel> {
            return std::make_unique<Compiled<Net>>(make_net(config), config, batch, optimizer, seed,
                                                   device);
          },
          [](const LanguageConfig& config, std::int64_t batch, const Optimizer& optimizer,
             const Target& target) {
            return compile_stages(make_net(config), loss<Net>, inputs(batch, config.context),
                                  optimizer, target);
          }};
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> table = {kind<gpt_of>("gpt"), kind<mamba_of>("mamba"),
                                          kind<mamba2_of>("mamba2")};
  return table;
}

const Kind& find_kind(const std::string& name) {
  for (const Kind& kind : kinds()) {
    if (kind.name == name) return kind;
  }
  throw InternalError("there is no language model " + name);
}

}  // namespace

std::vector<std::string> language_model_kinds() {
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) names.emplace_back(kind.name);
  return names;
}

void check_language_config(const LanguageConfig& config) {
  // Attention's heads divide the width; Mamba-2's divide its inner channels, twice as many.
  const std::int64_t divided = config.kind == "gpt"      ? config.width
                               : config.kind == "mamba2" ? 2 * config.width
                                                         : config.heads;
  if (divided % config.heads != 0) {
    throw UsageError("--width " + std::to_string(config.width) + " does not divide into --heads " +
                     std::to_string(config.heads) + ".");
  }
}

std::unique_ptr<LanguageModel> make_language_model(const LanguageConfig& config, std::int64_t batch,
                                                   const Optimizer& optimizer, std::uint64_t seed,
                                                   const Device& device) {
  return find_kind(config.kind).make(config, batch, optimizer, seed, device);
}

CompiledIR language_model_stages(const LanguageConfig& config, std::int64_t batch,
                                 const Optimizer& optimizer, const Target& target) {
  return find_kind(config.kind).stages(config, batch, optimizer, target);
}

std::vector<std::int32_t> continue_text(LanguageModel& model, std::vector<std::int32_t> prompt,
                                        std::int64_t count, double temperature, Rng rng) {
  std::vector<float> logits = model.begin_text(prompt);
  for (std::int64_t i = 0; i < count; ++i) {
    prompt.push_back(choose_token(logits, {.temperature = temperature}, rng));
    if (i + 1 < count) logits = model.next_text(prompt.back());
  }
  return prompt;
}

}  // namespace tensorgrad::cli
