// A Mamba learns a text byte by byte, reading windows in parallel; then it writes, byte after byte,
// with nothing but its state to remember the text by.
//
//   example_mamba [STEPS]        200 unless said
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tensorgrad/tensorgrad.hpp>
namespace tg = tensorgrad;

constexpr int B = 8, T = 48;  // windows a step, bytes a window

const std::string kText =
    "One for sorrow,\nTwo for mirth,\nThree for a funeral\nAnd four for birth.\n"
    "Five for heaven,\nSix for hell,\nSeven for the devil,\nHis own self.\n\n";

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 200;
  auto train = tg::compile(
      tg::nn::MambaLM(128, 48, 2),  // vocabulary, width, layers
      [](const tg::nn::MambaLM& m, const tg::Inputs& in) {
        return tg::cross_entropy(m(in["bytes"]), in["next"]);
      },
      {.inputs = {{"bytes", {{B, T}, tg::i32}}, {"next", {{B, T}, tg::i32}}},
       .optimizer = tg::AdamW{.lr = tg::lr::warmup_cosine(1e-2, 20, steps), .clip_norm = 1},
       .seed = 1});

  tg::Rng rng(7);
  float loss = 0;
  for (int step = 0; step < steps; ++step) {
    std::vector<std::int32_t> bytes, next;
    for (int b = 0; b < B; ++b) {
      const std::size_t start = rng.next() % kText.size();
      for (std::size_t t = start; t < start + T; ++t) {  // the text is a ring
        bytes.push_back(kText[t % kText.size()]);
        next.push_back(kText[(t + 1) % kText.size()]);
      }
    }
    loss = train.step({{"bytes", bytes}, {"next", next}}).loss;
  }
  std::printf("loss %g after %d steps on %s\n", loss, steps, train.device().name().c_str());

  // Shares the parameters; reads the prompt in parallel, then one byte at a time.
  tg::Decoder decoder(train.model(), {.device = train.device(), .params = train.params()});
  const std::string prompt = "One for sorrow,\n";
  std::vector<float> logits = decoder.read(std::vector<std::int32_t>(prompt.begin(), prompt.end()));
  std::string written = prompt;
  for (int i = 0; i < 100; ++i) {
    written += static_cast<char>(tg::choose_token(logits, {.temperature = 0}, rng));
    logits = decoder.read(written.back());
  }
  std::printf("%s\n%d kernels a byte\n", written.c_str(), decoder.ir().plan->kernel_count());
}
