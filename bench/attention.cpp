// Attention as one kernel against attention as products and a softmax: time, kernels and memory,
// forward alone and with the backward pass.
//
//   bench_attention [--device NAME] [--full] [--groups N] [BxHxTxD ...]
//
// A shape is batch x heads x time x head size; --full leaves out the causal mask; --groups N shares
// each of N key heads among the query heads.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/backend.hpp"
#include "tensorgrad/autograd.hpp"
#include "tensorgrad/random.hpp"
#include "tensorgrad/tensorgrad.hpp"

using namespace tensorgrad;

namespace {

struct Case {
  std::int64_t batch, heads, time, size;
  std::int64_t groups;
  bool causal;

  double forward_flops() const {
    return 4.0 * static_cast<double>(batch * heads * time * time * size) * (causal ? 0.5 : 1.0);
  }
  double flops(bool training) const { return forward_flops() * (training ? 3.5 : 1.0); }
};

/// Operands as models have them: [batch, time, heads, size] in memory. Gradients stay by head, as
/// the products that follow read them.
std::shared_ptr<Graph> make_graph(const Case& c, bool training) {
  std::vector<Tensor> inputs;
  const auto graph = trace([&]() -> Outputs {
    for (const auto& [name, heads] : {std::pair{"q", c.heads}, {"k", c.groups}, {"v", c.groups}})
      inputs.push_back(permute(tensor_input(name, {c.batch, c.time, heads, c.size}), {0, 2, 1, 3}));
    return attention(inputs[0], inputs[1], inputs[2], {.causal = c.causal});
  });
  if (!training) return graph;
  const Tensor output(graph.get(), graph->outputs.front().tensor);
  Tensor cotangent;
  trace_into(*graph, [&] { cotangent = tensor_input("g", output.shape()); });
  for (const Tensor& grad : append_vjp(*graph, {output}, {cotangent}, inputs))
    graph->outputs.push_back({"grad" + std::to_string(graph->outputs.size()), grad.id()});
  return graph;
}

/// A plan on a device, ready to run.
class Session {
 public:
  Session(Backend& backend, const Case& c, bool training, bool fused) : backend_(backend) {
    Target target = backend.target();
    target.passes.fused_attention = fused ? 0 : std::numeric_limits<std::int64_t>::max();
    plan_ = std::make_shared<const Plan>(
        plan(run_passes(*make_graph(c, training), target.passes), target));
    for (const BufferSpec& spec : plan_->buffers) buffers_.push_back(backend.create_buffer(spec));
    Rng rng(1);
    for (const auto& [name, place] : plan_->inputs) {
      std::vector<float> values(static_cast<std::size_t>(place.type.shape.size()));
      for (float& v : values) v = static_cast<float>(2 * rng.uniform() - 1);
      backend.write(*buffers_[static_cast<std::size_t>(place.buffer)], place.offset,
                    place.type.shape.size(), f32, values.data());
    }
    program_ = backend.load(plan_, buffers_);
    seconds(1);  // warm
  }

  /// Of one of `runs` runs that follow one another.
  double seconds(int runs) {
    const Place& out = plan_->outputs.begin()->second;
    float word = 0;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < runs; ++i) backend_.run(*program_, Phases::All);
    read_now(backend_,
             {{buffers_[static_cast<std::size_t>(out.buffer)].get(), out.offset, 1, f32, &word}});
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / runs;
  }
  const Plan& planned() const { return *plan_; }

 private:
  Backend& backend_;
  std::shared_ptr<const Plan> plan_;
  std::vector<std::shared_ptr<DeviceBuffer>> buffers_;
  std::unique_ptr<Program> program_;
};

void measure(Backend& backend, const Case& c, bool training) {
  Session fused(backend, c, training, true), expanded(backend, c, training, false);
  // As many runs as take some milliseconds, many times, the two in turn; the quickest counts.
  const double guess = std::max(1e-6, fused.seconds(1));
  const int runs = std::clamp(static_cast<int>(4e-3 / guess), 1, 200),
            rounds = std::clamp(static_cast<int>(2.0 / (guess * runs)), 5, 100);
  double best[2] = {1e9, 1e9};
  for (int round = 0; round < rounds; ++round) {
    best[0] = std::min(best[0], fused.seconds(runs));
    best[1] = std::min(best[1], expanded.seconds(runs));
  }
  for (int i = 0; i < 2; ++i) {
    const Plan& p = (i == 0 ? fused : expanded).planned();
    std::printf(
        "%3lld x %2lld x %5lld x %3lld  %-6s %-8s %-8s %9.3f ms %8.3f TFLOP/s %3d kernels %9.1f "
        "MiB\n",
        static_cast<long long>(c.batch), static_cast<long long>(c.heads),
        static_cast<long long>(c.time), static_cast<long long>(c.size),
        c.causal ? "causal" : "full", training ? "training" : "forward",
        i == 0 ? "fused" : "expanded", best[i] * 1e3, c.flops(training) / best[i] * 1e-12,
        p.kernel_count(), static_cast<double>(p.memory().total) / (1 << 20));
  }
  std::fflush(stdout);
}

int fail(const std::string& what) {
  std::fprintf(stderr,
               "bench_attention: %s\nusage: bench_attention [--device NAME] [--full] [--groups N] "
               "[BxHxTxD ...]\n",
               what.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string device = "best";
  bool causal = true;
  std::int64_t groups = 0;
  std::vector<Case> cases;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    long long b = 0, h = 0, t = 0, d = 0;
    char rest = 0;
    if (arg == "--full") {
      causal = false;
    } else if (arg == "--device" && i + 1 < argc) {
      device = argv[++i];
    } else if (arg == "--groups" && i + 1 < argc) {
      groups = std::atoll(argv[++i]);
      if (groups < 1) return fail("--groups takes a number from 1 on, not " + std::string(argv[i]));
    } else if (std::sscanf(argv[i], "%lldx%lldx%lldx%lld%c", &b, &h, &t, &d, &rest) == 4 &&
               std::min({b, h, t, d}) > 0) {
      cases.push_back({b, h, t, d, 0, true});
    } else {
      return fail("\"" + arg + "\" is no option and no shape such as 8x12x1024x64.");
    }
  }
  if (cases.empty()) {
    for (const std::int64_t size : {32, 64})
      for (const std::int64_t time : {12, 64, 256, 1024})
        cases.push_back({4, 4, time, size, 0, true});
  }
  const Device opened = Device::named(device);
  std::printf("%s\n", opened.description().c_str());
  for (Case& c : cases) {
    c.causal = causal;
    c.groups = groups > 0 ? groups : c.heads;
    for (const bool training : {false, true}) measure(*opened.backend(), c, training);
  }
  return 0;
} catch (const std::exception& error) {
  return fail(error.what());
}
