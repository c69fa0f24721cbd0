// A GPT that learns a text character by character, and then writes: the whole of it.
//
//   example_char_gpt [STEPS [FILE]]        300 steps on a nursery rhyme unless said
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <tensorgrad/tensorgrad.hpp>
namespace tg = tensorgrad;

constexpr int B = 16, T = 32;  // windows a step, characters a window
constexpr int D = 64, H = 4, L = 2;

const char* kRhyme =
    "This is the farmer sowing his corn,\n"
    "That kept the cock that crowed in the morn,\n"
    "That waked the priest all shaven and shorn,\n"
    "That married the man all tattered and torn,\n"
    "That kissed the maiden all forlorn,\n"
    "That milked the cow with the crumpled horn,\n"
    "That tossed the dog,\n"
    "That worried the cat,\n"
    "That killed the rat,\n"
    "That ate the malt\n"
    "That lay in the house that Jack built.\n";

struct Gpt {
  tg::nn::Embedding letters;  // one row a character of the text
  tg::Tensor positions = tg::param({T, D});
  std::vector<tg::nn::TransformerBlock> blocks{L, tg::nn::TransformerBlock(D, H)};
  tg::nn::LayerNorm norm{D};
  tg::nn::Linear head;

  tg::Tensor operator()(tg::Tensor x) const {  // i32[.., T] to logits f32[.., T, V]
    tg::Tensor h = letters(x) + positions;
    for (const auto& block : blocks) h = block(h);
    return head(norm(h));
  }
};

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 300;
  std::string text = kRhyme;
  if (argc > 2) {
    std::ifstream file(argv[2]);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  if (text.size() <= T || steps < 1) {
    std::fprintf(stderr,
                 "usage: example_char_gpt [STEPS [FILE]]; the file has more than %d bytes\n", T);
    return 2;
  }

  // Characters become indices into the sorted list of those that occur.
  std::string alphabet = text;
  std::sort(alphabet.begin(), alphabet.end());
  alphabet.erase(std::unique(alphabet.begin(), alphabet.end()), alphabet.end());
  std::vector<std::int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<std::int32_t>(alphabet.find(c)));
  const auto V = static_cast<std::int64_t>(alphabet.size());

  auto train = tg::compile(
      Gpt{.letters = {V, D}, .head = {D, V}},
      [](const Gpt& m, const tg::Inputs& in) { return tg::cross_entropy(m(in["x"]), in["y"]); },
      {.inputs = {{"x", {{B, T}, tg::i32}}, {"y", {{B, T}, tg::i32}}},
       .optimizer = tg::AdamW{.lr = tg::lr::warmup_cosine(3e-3, 20, steps), .clip_norm = 1},
       .seed = 1});

  tg::Rng rng(7);
  for (int step = 1; step <= steps; ++step) {
    std::vector<std::int32_t> x, y;  // windows from anywhere, and what follows each character
    for (int b = 0; b < B; ++b) {
      const auto at = tokens.begin() + static_cast<long>(rng.next() % (tokens.size() - T));
      x.insert(x.end(), at, at + T);
      y.insert(y.end(), at + 1, at + T + 1);
    }
    const float loss = train.step({{"x", x}, {"y", y}}).loss;
    if (step == 1 || step % 50 == 0 || step == steps)
      std::printf("step %d: loss %.3f\n", step, loss);
  }

  // One character at a time: the logits after the last one say what may follow.
  auto next = train.attach([](const Gpt& m, const tg::Inputs& in) { return m(in["x"]); },
                           {.inputs = {{"x", {{1, T}, tg::i32}}}});
  std::vector<std::int32_t> written(tokens.begin(), tokens.begin() + 8);
  while (written.size() < 200) {
    const std::size_t seen = std::min<std::size_t>(written.size(), T);
    std::vector<std::int32_t> x(written.end() - static_cast<long>(seen), written.end());
    x.resize(T);  // attention looks back only: what comes after does not matter
    const std::vector<float> logits = next.run({{"x", x}}).output;
    const float* last = logits.data() + (seen - 1) * alphabet.size();

    constexpr double kTemperature = 0.5;
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t v = 0; v < V; ++v) {
      sum += std::exp(last[v] / kTemperature);
      weights.push_back(sum);
    }
    const double drawn = rng.uniform() * sum;
    const auto place = std::upper_bound(weights.begin(), weights.end() - 1, drawn);
    written.push_back(static_cast<std::int32_t>(place - weights.begin()));
  }
  std::printf("\n");
  for (const std::int32_t token : written) {
    std::putchar(alphabet[static_cast<std::size_t>(token)]);
  }
  std::printf("\n");
}
