#include "language_model.hpp"

#include <algorithm>
#include <cmath>

#include "example.hpp"

namespace tensorgrad::cli {

namespace {

// ---- the models

/// A decoder as in GPT-2: pre-norm blocks, learned positions.
struct Gpt {
  Tensor table, positions;
  std::vector<nn::TransformerBlock> blocks;
  nn::LayerNorm norm;
  nn::Linear head;

  explicit Gpt(const LanguageConfig& config)
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
  Compiled(const LanguageConfig& config, std::int64_t batch, const Optimizer& optimizer,
           std::uint64_t seed, const Device& device)
      : config_(config),
        training_(compile(Net(config), loss<Net>,
                          {.inputs = inputs(batch, config.context),
                           .optimizer = optimizer,
                           .seed = seed,
                           .device = device})),
        losses_(training_.attach(
            [](const Net& net, const Inputs& in) {
              const Tensor each =
                  cross_entropy(net(in["tokens"]), in["next"], {.reduction = Reduction::None});
              return mean(each, {.axes = -1});
            },
            {.inputs = inputs(batch, config.context)})),
        logits_(training_.attach([](const Net& net, const Inputs& in) { return net(in["tokens"]); },
                                 {.inputs = {{"tokens", {{1, config.context}, i32}}}})) {}

  Trainee trainee() override { return cli::trainee(training_); }
  PendingLoss step(const Tokens& tokens, const Tokens& next) override {
    return training_.step_async({{"tokens", tokens}, {"next", next}});
  }
  std::vector<float> losses(const Tokens& tokens, const Tokens& next) override {
    return losses_.run({{"tokens", tokens}, {"next", next}}).output;
  }
  /// A model sees only the past, so what stands after the last token does not matter.
  std::vector<float> logits(std::span<const std::int32_t> tokens) override {
    Tokens window(static_cast<std::size_t>(config_.context), 0);
    std::copy(tokens.begin(), tokens.end(), window.begin());
    const std::vector<float> all = logits_.run({{"tokens", window}}).output;
    const auto row = all.begin() + static_cast<std::ptrdiff_t>(tokens.size() - 1) *
                                       static_cast<std::ptrdiff_t>(config_.vocabulary);
    return {row, row + static_cast<std::ptrdiff_t>(config_.vocabulary)};
  }

 private:
  LanguageConfig config_;
  Training<Net> training_;
  Forward<Net> losses_, logits_;
};

// ---- the list of them

struct Kind {
  const char* name;
  std::unique_ptr<LanguageModel> (*make)(const LanguageConfig&, std::int64_t batch,
                                         const Optimizer&, std::uint64_t seed, const Device&);
  CompiledIR (*stages)(const LanguageConfig&, std::int64_t batch, const Optimizer&, const Target&);
};

template <class Net>
Kind kind(const char* name) {
  return {name,
          [](const LanguageConfig& config, std::int64_t batch, const Optimizer& optimizer,
             std::uint64_t seed, const Device& device) -> std::unique_ptr<LanguageModel> {
            return std::make_unique<Compiled<Net>>(config, batch, optimizer, seed, device);
          },
          [](const LanguageConfig& config, std::int64_t batch, const Optimizer& optimizer,
             const Target& target) {
            return compile_stages(Net(config), loss<Net>, inputs(batch, config.context), optimizer,
                                  target);
          }};
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> table = {kind<Gpt>("gpt")};
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

std::unique_ptr<LanguageModel> make_language_model(const LanguageConfig& config, std::int64_t batch,
                                                   const Optimizer& optimizer, std::uint64_t seed,
                                                   const Device& device) {
  return find_kind(config.kind).make(config, batch, optimizer, seed, device);
}

CompiledIR language_model_stages(const LanguageConfig& config, std::int64_t batch,
                                 const Optimizer& optimizer, const Target& target) {
  return find_kind(config.kind).stages(config, batch, optimizer, target);
}

std::int32_t draw_token(std::span<const float> logits, double temperature, Rng& rng) {
  const float highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> weights;
  double sum = 0;
  for (const float logit : logits) {
    weights.push_back(std::exp((static_cast<double>(logit) - highest) / temperature));
    sum += weights.back();
  }
  double left = rng.uniform() * sum;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(weights.size()) - 1;
}

std::vector<std::int32_t> continue_text(LanguageModel& model, const LanguageConfig& config,
                                        std::vector<std::int32_t> prompt, std::int64_t count,
                                        double temperature, Rng rng) {
  const auto context = static_cast<std::size_t>(config.context);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t seen = std::min(prompt.size(), context);
    const std::span<const std::int32_t> recent(prompt.data() + prompt.size() - seen, seen);
    prompt.push_back(draw_token(model.logits(recent), temperature, rng));
  }
  return prompt;
}

}  // namespace tensorgrad::cli
