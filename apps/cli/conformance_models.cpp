// Model folders in Hugging Face form, with expected logits, loss, gradients and greedy tokens.
#include <algorithm>
#include <filesystem>
#include <set>

#include "conformance_case.hpp"
#include "conformance_json.hpp"
#include "tensorgrad/models.hpp"
#include "tensorgrad/ops.hpp"

namespace tensorgrad::conformance {

namespace {

constexpr double kLogitsTolerance = 1e-4;
constexpr double kLossTolerance = 1e-4;
constexpr double kGradientTolerance = 1e-4;

/// A model's folder at work.
struct ModelCase {
  std::string id;
  const LoadedLanguageModel& loaded;
  const SafetensorsFile& expected;
  const Device& device;
  Report& report;

  void check(const std::string& name, Array got, double tolerance) const {
    report.check(expected, name, std::move(got), tolerance, id + "." + name);
  }
};

/// Each token is asked for the next one; the labels are the ids themselves.
template <class Model>
Outputs logits_and_loss(const Model& model, const Inputs& in) {
  const Tensor ids = in["ids"], logits = model(ids);
  const std::int64_t asked = ids.shape(1) - 1;
  return {{"loss", cross_entropy(narrow(logits, 1, 0, asked), narrow(ids, 1, 1, asked))},
          {"logits", logits}};
}

/// The gradients under the files' names and in their layout.
template <class Model>
void check_gradients(const ModelCase& c, const Model& model, const ParamValues& gradients) {
  std::set<std::string> known;
  reflect::for_each_leaf<Tensor>(model, [&](const std::string& ours, const Tensor& declared) {
    const ParamSpec& spec = *declared.spec();
    const std::string name = "grad." + c.loaded.upload.names.rename(ours);
    known.insert(name);
    std::vector<std::int64_t> shape(spec.shape.begin(), spec.shape.end());
    std::vector<float> values = gradients.at(ours);
    if (spec.layout == ParamLayout::InOut) {
      values = transpose(values, shape[0], shape[1]);
      std::reverse(shape.begin(), shape.end());
    }
    c.check(name, Array::of(std::move(shape), std::move(values)), kGradientTolerance);
  });
  for (const std::string& name : c.expected.names()) {
    if (name.rfind("grad.", 0) == 0 && !known.count(name))
      c.report.fail(name + " is expected, but the model has no such parameter");
  }
}

template <class Model>
void check_parallel(const ModelCase& c, const Model& model, const Array& ids) {
  if (ids.shape.size() != 2 || ids.shape[1] < 2)
    throw Error("input_ids should be [batch, length] with a length of 2 or more, but is " +
                to_string(ids.shape));
  auto training =
      compile(model, logits_and_loss<Model>,
              {.inputs = {{"ids", InputDecl(Shape(ids.shape), i32)}}, .device = c.device});
  training.upload_params(c.loaded.folder, c.loaded.upload);
  const RunResult result = training.run({{"ids", ids.ints}});
  c.check("logits", Array::of(result["logits"]), kLogitsTolerance);
  if (c.expected.has("loss")) {
    // One number, whether the file calls it a scalar or a vector of one.
    c.check("loss", Array::of(c.expected.info("loss").shape, result["loss"].as<float>()),
            kLossTolerance);
  }
  check_gradients(c, model, training.download_param_grads());
}

/// The first row, continued by the likeliest token again and again.
void check_greedy(const ModelCase& c, const Array& ids) {
  const Array want = Array::read_i32(c.expected, "greedy");
  const std::int64_t given = ids.shape[1], total = want.shape.empty() ? 0 : want.shape.back();
  if (static_cast<std::int64_t>(want.size()) != total || total < given)
    throw Error("greedy should be [1, length] with " + std::to_string(given) +
                " tokens or more, but is " + to_string(want.shape));
  Array got = want;
  got.ints.assign(ids.ints.begin(), ids.ints.begin() + given);
  Decoder decoder = c.loaded.decoder({.device = c.device});
  Rng rng(0);  // greedy draws nothing
  std::vector<float> logits = decoder.read(got.ints);
  while (static_cast<std::int64_t>(got.ints.size()) < total) {
    got.ints.push_back(choose_token(logits, {}, rng));
    logits = decoder.read(got.ints.back());
  }
  c.check("greedy", std::move(got), 0);
}

void run_model(const std::string& folder, const std::string& id, const Device& device,
               Report& report) {
  const LoadedLanguageModel loaded = load_language_model(folder);
  const SafetensorsFile expected =
      SafetensorsFile::open((std::filesystem::path(folder) / "expected.safetensors").string());
  const ModelCase c{id, loaded, expected, device, report};
  const Array ids = Array::read_i32(expected, "input_ids");
  std::visit([&](const auto& model) { check_parallel(c, model, ids); }, loaded.model);
  if (expected.has("greedy")) check_greedy(c, ids);
}

}  // namespace

Case model_case(const std::string& folder) {
  static const std::set<std::string> kStateSpace = {"mamba", "mamba2"};
  Case result;
  result.id = std::filesystem::path(folder).filename().string();
  const bool state_space = kStateSpace.count(model_type(folder)) > 0;
  result.set = state_space ? "state-space" : "inference";
  result.optional = !state_space;
  result.run = [folder, id = result.id](const Device& device, Report& report) {
    run_model(folder, id, device, report);
  };
  return result;
}

}  // namespace tensorgrad::conformance
