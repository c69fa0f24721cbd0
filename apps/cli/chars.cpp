// `tensorgrad train chars FILE`: a language model learns a text, character by character, and writes
// more of it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "example.hpp"
#include "language_model.hpp"
#include "run.hpp"
#include "terminal.hpp"
#include "text_data.hpp"

namespace tensorgrad::cli {

namespace {

constexpr std::uint64_t kWindows = 1, kSamples = 2;  // streams of random numbers
constexpr int kEvaluations = 10;                     // while training, unless said
constexpr std::int64_t kQuickBatches = 8;            // of an evaluation on the way
constexpr std::int64_t kMostBatches = 100;           // of the last one
constexpr std::int64_t kShortSample = 72;            // characters on the way

struct CharsOptions {
  TrainOptions train;
  LanguageConfig model;
  std::string file, prompt;
  std::int64_t evaluate_every = 0;
  std::int64_t sample = 500;
  double temperature = 0.8;
};

CharsOptions defaults() {
  CharsOptions chars;
  chars.train.steps = 1000;
  chars.train.batch = 32;
  chars.train.lr = 2e-3;
  return chars;
}

LearningRate rate(const TrainOptions& train) {
  const std::int64_t warmup = std::max<std::int64_t>(train.decay_steps / 20, 1);
  return lr::warmup_cosine(train.lr, warmup, train.decay_steps - warmup, train.lr / 20);
}

Optimizer optimizer(const TrainOptions& train, const LearningRate& rate) {
  return make_optimizer(train, rate, {.beta2 = 0.99, .weight_decay = 0.1, .clip_norm = 1.0});
}

/// Windows as a model takes them.
struct Windows {
  std::vector<std::int32_t> tokens, next;
  void clear() {
    tokens.clear();
    next.clear();
  }
  void add(const CharText::Window& window) {
    tokens.insert(tokens.end(), window.tokens.begin(), window.tokens.end());
    next.insert(next.end(), window.next.begin(), window.next.end());
  }
};

/// The mean loss of up to `batches` batches of held-out windows, evenly spread.
double heldout_loss(LanguageModel& model, const CharText& text, std::int64_t batch,
                    std::int64_t batches) {
  const std::int64_t all = text.heldout_windows(), count = std::min(all, batch * batches);
  double sum = 0;
  Windows windows;
  for (std::int64_t first = 0; first < count; first += batch) {
    windows.clear();
    // The last batch is filled up with windows that do not count.
    for (std::int64_t i = first; i < first + batch; ++i) {
      windows.add(text.heldout_window(std::min(i, count - 1) * all / count));
    }
    const std::vector<float> losses = model.losses(windows.tokens, windows.next);
    for (std::int64_t i = first; i < std::min(first + batch, count); ++i) {
      sum += losses[static_cast<std::size_t>(i - first)];
    }
  }
  return sum / static_cast<double>(count);
}

/// Line ends made visible, so that it stays one line.
std::string on_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) line += c == '\n' ? "↵" : std::string(1, c == '\t' ? ' ' : c);
  return line;
}

std::string indented(const std::string& text) {
  std::string out = "  ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

/// Before the model: mistakes that can be seen without the text.
void check(const CharsOptions& chars) {
  check_language_config(chars.model);
  if (chars.file.empty()) {
    throw UsageError(
        "`tensorgrad train chars` needs FILE: a text to learn. See `tensorgrad train chars "
        "--help`.");
  }
}

bool parse(const Arguments& args, CharsOptions& chars, Options& options) {
  add_train_options(options, chars.train);
  options
      .optional_argument("FILE", "the text to learn; with --resume, the same again unless given",
                         &chars.file)
      .setting("--model", "KIND", "gpt, mamba or mamba2", &chars.model.kind, language_model_kinds())
      .setting("--layers", "N", "blocks of the model", &chars.model.layers)
      .setting("--width", "N", "numbers for each character", &chars.model.width)
      .setting("--heads", "N", "of attention, and of mamba2", &chars.model.heads)
      .setting("--states", "N", "of each channel, in mamba and mamba2", &chars.model.states)
      .setting("--context", "N", "characters of a window; more than that a gpt does not see",
               &chars.model.context)
      .option("--evaluate-every", "N",
              "steps between looks at the held-out text; a tenth of --steps"
              "\nunless given",
              &chars.evaluate_every)
      .option("--prompt", "TEXT", "what samples begin with; a line end unless given", &chars.prompt)
      .option("--sample", "N", "characters to write at the end", &chars.sample)
      .option("--temperature", "T", "of samples: under 1 likelier, over 1 wilder",
              &chars.temperature)
      .example("tensorgrad train chars book.txt", "a few minutes on two cores for a GPT")
      .example("tensorgrad train chars book.txt --steps 300 --layers 2 --width 64",
               "a smaller model, sooner done")
      .example("tensorgrad train chars book.txt --model mamba2 --states 32",
               "a state-space model instead")
      .example("tensorgrad train chars book.txt --save book.safetensors --curve book.svg",
               "keep checkpoints, and draw the losses")
      .example("tensorgrad train chars --resume book.safetensors --steps 3000",
               "go on, up to step 3000")
      .example("tensorgrad train chars --resume book.safetensors --prompt 'The ' --sample 2000",
               "no more training if all steps are done, but a longer text");
  if (!parse_training("chars", args, options, chars.train)) return false;
  if (chars.file.empty() && chars.train.resumed) chars.file = chars.train.resumed->data.path;
  check(chars);
  return true;
}

}  // namespace

CompiledIR compile_chars(const Target& target, std::int64_t batch) {
  CharsOptions chars = defaults();
  chars.model.vocabulary = 65;  // an English text
  return language_model_stages(chars.model, batch > 0 ? batch : chars.train.batch,
                               optimizer(chars.train, chars.train.lr), target);
}

int train_chars(const Arguments& args) {
  CharsOptions chars = defaults();
  Options options(
      "tensorgrad train chars",
      "Trains a language model on a text, character by character, and lets it write more. The\n"
      "last tenth of the text is held out: the loss on it, in nats a character, says what was\n"
      "learned and not only remembered.\n\n"
      "The model gpt is a transformer (pre-norm, learned positions); mamba and mamba2 are\n"
      "state-space models, which write each character at the same cost however long the text. A\n"
      "character is a code point of UTF-8; a file that is not UTF-8 is taken byte by byte. Ctrl-C\n"
      "ends training early.");
  if (!parse(args, chars, options)) return 0;
  const TrainOptions& train = chars.train;

  const CharText text(chars.file, chars.model.context);
  chars.model.vocabulary = text.alphabet_size();
  const std::vector<std::int32_t> prompt =
      chars.prompt.empty() ? text.beginning() : text.encode(chars.prompt);

  TrainingRun run("chars", options, train,
                  {std::filesystem::absolute(chars.file).string(), text.hash()});
  const std::unique_ptr<LanguageModel> model =
      make_language_model(chars.model, train.batch, optimizer(train, rate(train)), train.seed,
                          Device::named(train.device));
  run.begin(model->trainee());
  std::printf("  data    %s characters, %s different ones%s; the last tenth is held out\n",
              with_commas(text.size()).c_str(), with_commas(text.alphabet_size()).c_str(),
              text.is_utf8() ? "" : " (not UTF-8: each byte is one)");
  std::fflush(stdout);

  Windows batch;
  const auto feed = [&](std::int64_t step) {
    Rng rng = step_rng(train.seed, kWindows, step);
    batch.clear();
    for (std::int64_t i = 0; i < train.batch; ++i) {
      const auto windows = static_cast<std::uint64_t>(text.training_windows());
      batch.add(text.training_window(static_cast<std::int64_t>(rng.next() % windows)));
    }
    return std::vector<FeedItem>{{"tokens", batch.tokens}, {"next", batch.next}};
  };
  const auto write = [&](std::int64_t step, std::int64_t count) {
    const auto tokens = continue_text(*model, prompt, count, chars.temperature,
                                      step_rng(train.seed, kSamples, step));
    const auto from = chars.prompt.empty() ? prompt.size() : 0;
    return printable(text.decode(std::span(tokens).subspan(from)));
  };
  const auto evaluate = [&](std::int64_t step) -> Evaluation {
    const double loss = heldout_loss(*model, text, train.batch, kQuickBatches);
    const std::string sample = on_one_line(write(step, kShortSample));
    return {"  step " + std::to_string(step) + ": held-out loss " + number(loss) + "\n    " +
                styled(Style::Dim, sample),
            {{"sample", sample}},
            loss};
  };
  const std::int64_t usual = std::max<std::int64_t>(train.steps / kEvaluations, 25);
  const LoopResult& result =
      run.train({.feed = feed,
                 .rate = rate(train),
                 .evaluate = evaluate,
                 .evaluate_every = chars.evaluate_every > 0 ? chars.evaluate_every : usual});

  const double loss =
      heldout_loss(*model, text, train.batch, run.interrupted() ? kQuickBatches : kMostBatches);
  std::printf("%s\n", indented(write(result.done(), chars.sample)).c_str());
  std::printf("\nheld-out loss: %.4f nats a character (perplexity %.3f)\n", loss, std::exp(loss));
  return run.end({}, loss);
}

}  // namespace tensorgrad::cli
