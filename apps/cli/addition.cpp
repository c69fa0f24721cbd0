// `tensorgrad train addition`: a transformer of three layers learns to add two-digit numbers from
// 80 % of the 10,000 pairs and is asked about the rest.
#include <algorithm>
#include <cstdio>
#include <span>

#include "addition_data.hpp"
#include "example.hpp"
#include "run.hpp"
#include "terminal.hpp"

namespace tensorgrad::cli {

namespace {

using namespace addition;

constexpr int kLayers = 3, kDim = 128, kHeads = 4;
constexpr std::size_t kAskedAtOnce = 500;  // pairs of one forward run, and of one evaluation
constexpr int kEvaluations = 8;            // while training
constexpr int kShown = 8;                  // worked examples at the end

struct Adder {
  // As large as what the blocks add to them: with the usual 0.02, digits drown after the first
  // block and some seeds take thousands of steps to find them again.
  Tensor tokens = param({kVocabulary, kDim}, {.init = init::randn(1.0)});
  Tensor positions = param({kContext, kDim}, {.init = init::randn(0.3)});
  std::vector<nn::TransformerBlock> blocks =
      std::vector<nn::TransformerBlock>(kLayers, nn::TransformerBlock(kDim, kHeads));
  nn::LayerNorm norm{kDim};
  nn::Linear head{kDim, kVocabulary};

  /// Contexts i32[B, kContext] to logits of the answer's digits f32[B, kAnswer, kVocabulary].
  Tensor operator()(const Tensor& contexts) const {
    Tensor x = embedding(tokens, contexts) + positions;
    for (const nn::TransformerBlock& block : blocks) x = block(x);
    // What stands before the answer is given, not learned: only the last places are asked.
    return head(norm(narrow(x, 1, kPrompt - 1, kAnswer)));
  }
};

Tensor loss(const Adder& model, const Inputs& in) {
  return cross_entropy(model(in["contexts"]), in["answers"]);
}

TrainOptions defaults() {
  TrainOptions train;
  train.steps = 1200;
  train.batch = 64;
  train.lr = 1e-3;
  return train;
}

InputDecls inputs(std::int64_t batch) {
  return {{"contexts", {{batch, kContext}, i32}}, {"answers", {{batch, kAnswer}, i32}}};
}

LearningRate rate(const TrainOptions& train) {
  const std::int64_t warmup = std::max<std::int64_t>(train.decay_steps / 20, 1);
  return lr::warmup_cosine(train.lr, warmup, train.decay_steps - warmup, train.lr / 50);
}

Optimizer optimizer(const TrainOptions& train, const LearningRate& rate) {
  return make_optimizer(train, rate, {.beta2 = 0.98, .weight_decay = 0.1, .clip_norm = 1.0});
}

/// Asks the model for sums it has to spell digit by digit.
class Examiner {
 public:
  /// `at_once` pairs go through the model together.
  Examiner(Training<Adder>& training, std::size_t at_once)
      : at_once_(at_once),
        forward_(training.attach(
            [](const Adder& model, const Inputs& in) {
              return Outputs{{"digits", argmax(model(in["contexts"]), -1)}};
            },
            {.inputs = {{"contexts", {{at_once, kContext}, i32}}}})) {}

  /// The sums the model gives, −1 where it wrote something that is no number.
  std::vector<int> ask(const std::vector<Pair>& pairs) {
    std::vector<int> sums;
    for (std::size_t first = 0; first < pairs.size(); first += at_once_) {
      ask_some({pairs.data() + first, std::min(at_once_, pairs.size() - first)}, sums);
    }
    return sums;
  }

 private:
  /// Greedy: the most likely digit is written and read again to give the next. Attention is causal,
  /// so what stands in the places not yet written does not matter.
  void ask_some(std::span<const Pair> pairs, std::vector<int>& sums) {
    std::vector<std::int32_t> contexts(at_once_ * kContext, 0);
    std::vector<std::int32_t> answers(pairs.size() * kAnswer);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const Tokens tokens = encode(pairs[i]);
      std::copy_n(tokens.begin(), kPrompt, contexts.begin() + static_cast<long>(i * kContext));
    }
    for (std::size_t place = 0; place < kAnswer; ++place) {
      const auto digits = forward_.run({{"contexts", contexts}})["digits"].as<std::int32_t>();
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const std::int32_t digit = digits[i * kAnswer + place];
        answers[i * kAnswer + place] = digit;
        if (place + 1 < kAnswer) contexts[i * kContext + kPrompt + place] = digit;
      }
    }
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      sums.push_back(decode_answer(&answers[i * kAnswer]));
    }
  }

  std::size_t at_once_;
  Forward<Adder> forward_;
};

std::vector<Pair> first_of(const std::vector<Pair>& pairs, std::size_t count) {
  return {pairs.begin(), pairs.begin() + static_cast<long>(std::min(count, pairs.size()))};
}

int count_right(const std::vector<Pair>& pairs, const std::vector<int>& sums) {
  int right = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) right += sums[i] == pairs[i].sum();
  return right;
}

double percent(int part, std::size_t whole) {
  return 100.0 * part / static_cast<double>(std::max<std::size_t>(whole, 1));
}

void print_worked(const Pair& pair, int sum) {
  const std::string given = sum < 0 ? "?" : std::to_string(sum);
  if (sum == pair.sum()) {
    std::printf("  %s %2d + %2d = %s\n", styled(Style::Green, "✓").c_str(), pair.a, pair.b,
                given.c_str());
  } else {
    std::printf("  %s %2d + %2d = %s, but it is %d\n", styled(Style::Red, "✗").c_str(), pair.a,
                pair.b, given.c_str(), pair.sum());
  }
}

/// The first held-out pairs as they come, the last of them replaced by mistakes if there are
/// others.
void print_examples(const std::vector<Pair>& pairs, const std::vector<int>& sums) {
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < pairs.size() && shown.size() < kShown; ++i) shown.push_back(i);
  std::size_t replaced = 0;
  for (std::size_t i = kShown; i < pairs.size() && replaced < 2; ++i) {
    if (sums[i] != pairs[i].sum()) shown[shown.size() - ++replaced] = i;
  }
  std::printf("worked examples, none of them seen in training%s:\n",
              replaced > 0 ? " (mistakes are sought out)" : "");
  for (const std::size_t i : shown) print_worked(pairs[i], sums[i]);
}

}  // namespace

CompiledIR compile_addition(const Target& target, std::int64_t batch) {
  const TrainOptions train = defaults();
  return compile_stages(Adder{}, loss, inputs(batch > 0 ? batch : train.batch),
                        optimizer(train, train.lr), target);
}

int train_addition(const Arguments& args) {
  TrainOptions train = defaults();
  std::int64_t asked = kHeldOut;
  Options options(
      "tensorgrad train addition",
      "Trains a transformer (3 layers, 4 heads, 128 wide) to add two numbers from 0 to 99,\n"
      "written as text: \"07+95=201\", the answer's digits from the units up. It learns from\n"
      "8,000 of the 10,000 pairs and is then asked for the 2,000 it has never seen. Ctrl-C ends\n"
      "training early and asks all the same.");
  add_train_options(options, train);
  options.option("--ask", "N", "pairs to ask for at the end, of the 2,000 held out", &asked)
      .example("tensorgrad train addition", "99 % right or more, in about a minute on two cores")
      .example("tensorgrad train addition --steps 300 --seed 7", "a shorter try, other numbers")
      .example("tensorgrad train addition --log run.jsonl", "keep losses and accuracies in a file");
  if (!parse_training("addition", args, options, train)) return 0;

  TrainingRun run("addition", options, train);
  auto training = compile(Adder{}, loss,
                          {.inputs = inputs(train.batch),
                           .optimizer = optimizer(train, rate(train)),
                           .seed = train.seed,
                           .device = Device::named(train.device)});
  const Split split = split_pairs(train.seed);
  Batches batches(split.training, train.seed + 1);
  const std::vector<Pair> held_out = first_of(split.held_out, static_cast<std::size_t>(asked));
  const std::vector<Pair> sample = first_of(held_out, kAskedAtOnce);
  Examiner examiner(training, sample.size());

  run.begin(trainee(training));
  std::printf(
      "  data    %s pairs to learn from, %s held out; 7 + 95 = 102 is written %s,\n"
      "          the answer's digits from the units up\n",
      with_commas(static_cast<std::int64_t>(split.training.size())).c_str(),
      with_commas(static_cast<std::int64_t>(split.held_out.size())).c_str(),
      text_of(encode({7, 95})).c_str());
  std::fflush(stdout);

  std::vector<std::int32_t> contexts, answers;
  const auto feed = [&](std::int64_t step) {
    batches.get(step, train.batch, contexts, answers);
    return std::vector<FeedItem>{{"contexts", contexts}, {"answers", answers}};
  };
  const auto evaluate = [&](std::int64_t step) -> Evaluation {
    const int right = count_right(sample, examiner.ask(sample));
    const double accuracy = percent(right, sample.size());
    return {"  step " + std::to_string(step) + ": " + number(accuracy, 3) + " % right of " +
                std::to_string(sample.size()) + " held-out pairs",
            {{"accuracy", accuracy / 100}}};
  };
  run.train({.feed = feed,
             .rate = rate(train),
             .evaluate = evaluate,
             .evaluate_every = std::max<std::int64_t>(train.steps / kEvaluations, 25)});

  const std::vector<int> sums = examiner.ask(held_out);
  const int right = count_right(held_out, sums);
  print_examples(held_out, sums);
  std::printf("held-out exact match: %.2f %% (%d of %zu)\n", percent(right, held_out.size()), right,
              held_out.size());
  return run.end({{"accuracy", percent(right, held_out.size()) / 100}});
}

}  // namespace tensorgrad::cli
