// What the heads of a transformer look at. A small one learns to add two-digit numbers; then its
// attention weights for one sum are captured and drawn, head by head. A row is a place that reads,
// a column a place it reads from; the darker, the more.
#include <array>
#include <cstdio>
#include <random>
#include <string>
#include <tensorgrad/tensorgrad.hpp>
#include <vector>
namespace tg = tensorgrad;

// 47 + 38 is written "47+38=580": the answer's digits from the units up, so that each needs only
// what stands before it. The model reads the first eight characters and predicts the last three.
constexpr const char* kAlphabet = "0123456789+=";
constexpr int kContext = 8, kAnswer = 3, kVocabulary = 12;
constexpr int kDim = 48, kHeads = 4, kLayers = 2, kBatch = 128, kSteps = 400;

struct Sum {
  std::array<std::int32_t, kContext> context;
  std::array<std::int32_t, kAnswer> answer;

  Sum(int a, int b) {
    const int c = a + b;
    answer = {c % 10, c / 10 % 10, c / 100};
    context = {a / 10, a % 10, 10, b / 10, b % 10, 11, answer[0], answer[1]};
  }
};

struct Adder {
  tg::Tensor tokens = tg::param({kVocabulary, kDim}, {.init = tg::init::randn(1.0)});
  tg::Tensor places = tg::param({kContext, kDim}, {.init = tg::init::randn(0.3)});
  std::vector<tg::nn::TransformerBlock> blocks;
  tg::nn::LayerNorm norm{kDim};
  tg::nn::Linear head{kDim, kVocabulary};

  Adder() {
    for (int i = 0; i < kLayers; ++i) {
      // The name under which this block's attention weights can be captured.
      blocks.push_back({kDim, kHeads, {.capture = "block " + std::to_string(i + 1)}});
    }
  }
  TENSORGRAD_MEMBERS(tokens, places, blocks, norm, head)

  /// i32[B, kContext] to the logits of the answer, f32[B, kAnswer, kVocabulary].
  tg::Tensor operator()(const tg::Tensor& context) const {
    tg::Tensor x = tg::embedding(tokens, context) + places;
    for (const auto& block : blocks) x = block(x);
    return head(norm(tg::narrow(x, 1, kContext - kAnswer, kAnswer)));
  }
};

/// The heads of one block side by side; `weights` is one [kContext, kContext] map a head.
void draw(const std::vector<std::vector<float>>& weights, const std::string& text) {
  static const char* const kShades[] = {"  ", "░░", "▒▒", "▓▓", "██"};
  for (std::size_t h = 0; h < weights.size(); ++h) std::printf("    head %-14zu", h + 1);
  std::printf("\n");
  for (std::size_t h = 0; h < weights.size(); ++h) {
    std::printf("    ");
    for (char c : text) std::printf("%c ", c);
    std::printf("   ");
  }
  for (std::size_t row = 0; row < kContext; ++row) {
    std::printf("\n");
    for (const std::vector<float>& head : weights) {
      std::printf("  %c ", text[row]);
      for (std::size_t column = 0; column < kContext; ++column) {
        const float weight = head[row * kContext + column];
        std::printf("%s", kShades[static_cast<std::size_t>(weight * 4.999f)]);
      }
      std::printf("   ");
    }
  }
  std::printf("\n\n");
}

int main() {
  auto train = tg::compile(
      Adder{},
      [](const Adder& model, const tg::Inputs& in) {
        return tg::cross_entropy(model(in["context"]), in["answer"]);
      },
      {.inputs = {{"context", {{kBatch, kContext}, tg::i32}},
                  {"answer", {{kBatch, kAnswer}, tg::i32}}},
       .optimizer =
           tg::AdamW{.lr = tg::lr::warmup_cosine(4e-3, 30, kSteps), .beta2 = 0.98, .clip_norm = 1},
       .seed = 1});

  std::mt19937 random(1);
  const auto number = [&] { return static_cast<int>(random() % 100); };
  std::vector<std::int32_t> context, answer;
  for (int step = 1; step <= kSteps; ++step) {
    context.clear();
    answer.clear();
    for (int i = 0; i < kBatch; ++i) {
      const Sum sum(number(), number());
      context.insert(context.end(), sum.context.begin(), sum.context.end());
      answer.insert(answer.end(), sum.answer.begin(), sum.answer.end());
    }
    const float loss = train.step({{"context", context}, {"answer", answer}}).loss;
    if (step % 100 == 0) std::printf("step %d: loss %.4f\n", step, static_cast<double>(loss));
  }

  auto ask = train.attach(
      [](const Adder& model, const tg::Inputs& in) {
        return tg::Outputs{{"digits", tg::argmax(model(in["context"]), -1)}};
      },
      {.inputs = {{"context", {{1, kContext}, tg::i32}}}});

  const Sum shown(47, 38);
  std::string text;
  for (std::int32_t token : shown.context) text += kAlphabet[token];
  const tg::RunResult result = ask.run({{"context", shown.context}}, {.captures = true});
  const auto digits = result["digits"].as<std::int32_t>();
  std::printf("\n47 + 38: after %s come, each from what stands before it, %d, %d and %d\n\n",
              text.substr(0, 6).c_str(), digits[0], digits[1], digits[2]);
  for (const std::string& name : result.captures.names()) {
    std::printf("%s\n", name.c_str());
    draw(result.captures.per_head(name), text);
  }
}
