// Training trajectories: a small model is built from the shapes of the initial parameters, trained
// on the batches of the file and compared step by step with what PyTorch computed.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "conformance_case.hpp"
#include "conformance_json.hpp"
#include "tensorgrad/compile.hpp"
#include "tensorgrad/nn.hpp"
#include "tensorgrad/ops.hpp"

namespace tensorgrad::conformance {

namespace {

using Shape64 = std::vector<std::int64_t>;

/// A parameter under its name here and in PyTorch, where a Linear's weight is [out, in].
struct ParamName {
  std::string ours, theirs;
  Shape64 shape;  // theirs
  bool transposed = false;
};

/// The parameters that a file has under `init.`, and how a model here calls them.
class ParamNames {
 public:
  explicit ParamNames(const SafetensorsFile& file) : file_(file) {
    for (const FileTensor& tensor : file.tensors()) {
      if (tensor.name.rfind(kPrefix, 0) == 0) shapes_[tensor.name.substr(5)] = tensor.shape;
    }
    if (shapes_.empty()) throw IoError(file.path() + " has no initial parameters (init.*).");
  }

  bool has(const std::string& theirs) const { return shapes_.count(theirs) > 0; }
  const std::map<std::string, Shape64>& shapes() const { return shapes_; }
  const std::vector<ParamName>& list() const { return list_; }

  /// The shape of a parameter that must have so many axes.
  const Shape64& shape(const std::string& theirs, std::size_t axes) const {
    const auto found = shapes_.find(theirs);
    if (found == shapes_.end()) {
      throw IoError("The parameter " + (kPrefix + theirs) + " is missing from " + file_.path() +
                    ".");
    }
    if (found->second.size() != axes) {
      throw IoError((kPrefix + theirs) + " of " + file_.path() + " has the shape " +
                    to_string(found->second) + ", but " + std::to_string(axes) +
                    " axes are expected.");
    }
    return found->second;
  }

  void add_linear(const std::string& ours, const std::string& theirs) {
    list_.push_back({ours + ".W", theirs + ".weight", shape(theirs + ".weight", 2), true});
    if (has(theirs + ".bias")) {
      list_.push_back({ours + ".b", theirs + ".bias", shape(theirs + ".bias", 1)});
    }
  }
  void add_norm(const std::string& ours, const std::string& theirs) {
    list_.push_back({ours + ".g", theirs + ".weight", shape(theirs + ".weight", 1)});
    list_.push_back({ours + ".b", theirs + ".bias", shape(theirs + ".bias", 1)});
  }
  void add_embedding(const std::string& ours, const std::string& theirs) {
    list_.push_back({ours + ".W", theirs + ".weight", shape(theirs + ".weight", 2)});
  }

  /// Every parameter of the file must have found its place.
  void check_complete() const {
    for (const auto& item : shapes_) {
      const std::string& theirs = item.first;
      const bool known = std::any_of(list_.begin(), list_.end(),
                                     [&](const ParamName& p) { return p.theirs == theirs; });
      if (!known) {
        throw Error("the parameter " + (kPrefix + theirs) + " of " + file_.path() +
                    " has no place in the model");
      }
    }
  }

  ParamValues initial() const {
    ParamValues values;
    for (const ParamName& p : list_) {
      std::vector<float> read = file_.read_f32(kPrefix + p.theirs);
      values[p.ours] = p.transposed ? transpose(read, p.shape[0], p.shape[1]) : std::move(read);
    }
    return values;
  }

  /// Values of a parameter here, in PyTorch's layout.
  static Array theirs(const ParamName& p, const std::vector<float>& ours) {
    return Array::of(p.shape, p.transposed ? transpose(ours, p.shape[1], p.shape[0]) : ours);
  }

 private:
  static inline const std::string kPrefix = "init.";
  const SafetensorsFile& file_;
  std::map<std::string, Shape64> shapes_;
  std::vector<ParamName> list_;
};

// ---- the optimizer

LearningRate learning_rate(const Attrs& settings) {
  if (!settings.has({"schedule"})) {
    if (!settings.raw({"lr"}).is_number()) {
      throw Error("\"lr\" is no number, and there is no \"schedule\"");
    }
    return settings.number({"lr"});
  }
  Json json = settings.raw({"schedule"});
  if (json.is_string()) json = Json{{"kind", json}};
  const Attrs schedule(json, "the schedule");
  const std::string kind = schedule.text({"kind", "name"}, "");
  const auto peak = [&] {
    if (schedule.has({"peak", "lr", "rate"})) return schedule.number({"peak", "lr", "rate"});
    return settings.number({"lr"});
  };
  const auto steps = [&] { return schedule.integer({"decay_steps", "steps"}); };
  const auto final_rate = [&] { return schedule.number({"final", "end", "min"}, 0); };
  const auto warmup_steps = [&] { return schedule.integer({"warmup_steps", "warmup"}); };
  if (kind == "constant") return peak();
  if (kind == "warmup_cosine") {
    return lr::warmup_cosine(peak(), warmup_steps(), steps(), final_rate());
  }
  if (kind == "cosine") return lr::cosine(peak(), steps(), final_rate());
  if (kind == "warmup") return lr::warmup(peak(), warmup_steps(), peak());
  if (kind == "linear") {
    return lr::linear(schedule.number({"from", "peak"}), schedule.number({"to", "final"}, 0),
                      steps());
  }
  if (kind == "step") {
    return lr::step(peak(), schedule.number({"gamma"}), schedule.integer({"every", "step_size"}));
  }
  if (kind == "multi_step") {
    return lr::multi_step(peak(), schedule.number({"gamma"}), schedule.integers({"milestones"}));
  }
  throw Error("the schedule \"" + kind + "\" is not supported");
}

/// Which parameters decay: all, as in PyTorch, unless the settings say otherwise.
DecayFilter decay_filter(const Attrs& settings, const std::vector<ParamName>& params) {
  const std::string rule = settings.text({"decay"}, "all");
  std::map<std::string, bool> decays;
  for (const ParamName& p : params) {
    if (rule == "all" || rule == "all parameters") {
      decays[p.ours] = true;
    } else if (rule == "none") {
      decays[p.ours] = false;
    } else if (rule.find("2 or more axes") != std::string::npos) {
      decays[p.ours] = p.shape.size() >= 2;
    } else {
      throw Error("the decay rule \"" + rule + "\" is not supported");
    }
  }
  return [decays](const std::string& name) { return decays.at(name); };
}

Optimizer optimizer(const Attrs& settings, const std::vector<ParamName>& params) {
  const std::string name = settings.text({"optimizer"}, "");
  const LearningRate rate = learning_rate(settings);
  const double weight_decay =
      settings.number({"weight_decay"}, name == "adamw" ? 0.01 : 0.0);  // as in PyTorch
  const double clip = settings.number({"clip", "clip_norm", "max_norm"}, 0);
  const double eps = settings.number({"eps"}, 1e-8);
  std::vector<double> betas = {0.9, 0.999};
  if (settings.has({"betas"})) betas = settings.numbers({"betas"});
  if (betas.size() != 2) throw Error("\"betas\" should hold two numbers");
  if (name == "adam") {
    if (weight_decay != 0) throw Error("adam with weight_decay is not supported; adamw is");
    return Adam{.lr = rate, .beta1 = betas[0], .beta2 = betas[1], .eps = eps, .clip_norm = clip};
  }
  if (name == "adamw") {
    return AdamW{.lr = rate,
                 .beta1 = betas[0],
                 .beta2 = betas[1],
                 .eps = eps,
                 .weight_decay = weight_decay,
                 .clip_norm = clip,
                 .decay_filter = decay_filter(settings, params)};
  }
  if (name == "sgd") {
    if (settings.number({"dampening"}, 0) != 0) throw Error("sgd with dampening is not supported");
    return SGD{.lr = rate,
               .momentum = settings.number({"momentum"}, 0),
               .nesterov = settings.flag({"nesterov"}, false),
               .weight_decay = weight_decay,
               .clip_norm = clip,
               .decay_filter = decay_filter(settings, params)};
  }
  throw Error("the optimizer \"" + name + "\" is not supported");
}

// ---- a run

struct Trajectory {
  std::string id;
  const Attrs& settings;
  const SafetensorsFile& file;
  std::int64_t steps = 0;
};

/// `batch7.x`.
std::string batch_name(std::int64_t step, const std::string& input) {
  return "batch" + std::to_string(step) + "." + input;
}

double norm(const ParamValues& gradients) {
  double sum = 0;
  for (const auto& [name, values] : gradients) {
    for (float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return std::sqrt(sum);
}

/// One number a step, each compared by its own magnitude.
void check_series(const Trajectory& t, const std::string& name, const std::vector<float>& got,
                  const std::vector<double>& want, double tolerance, Report& report) {
  const Array array = Array::of({static_cast<std::int64_t>(got.size())}, got);
  report.record(t.id + "." + name, array);
  report.compare(t.id + "." + name, array.shape, array.numbers(), want, tolerance, Scale::Element);
}

void check_params(const Trajectory& t, const std::string& prefix, const ParamNames& names,
                  const ParamValues& values, double tolerance, Report& report) {
  for (const ParamName& p : names.list()) {
    const std::string name = prefix + "." + p.theirs;
    const auto found = values.find(p.ours);
    if (found == values.end()) {
      report.fail(t.id + "." + name + " was not computed");
      continue;
    }
    report.check(t.file, name, ParamNames::theirs(p, found->second), tolerance, t.id + "." + name);
  }
}

/// Trains `model` on inputs with these names and compares everything the file has.
template <class Model, class Loss>
void train(const Trajectory& t, const ParamNames& names, Model model, Loss loss,
           const std::vector<std::pair<std::string, DType>>& inputs, const Device& device,
           Report& report) {
  names.check_complete();
  CompileOptions options;
  options.device = device;
  options.optimizer = optimizer(t.settings, names.list());
  for (const auto& [name, dtype] : inputs) {
    options.inputs.push_back(
        {name, InputDecl(Shape(t.file.info(batch_name(0, name)).shape), dtype)});
  }
  auto training = compile(std::move(model), loss, options);
  training.upload_params(names.initial());

  std::vector<double> want_norms;
  if (t.settings.has({"grad_norms"})) want_norms = t.settings.numbers({"grad_norms"});
  std::vector<float> losses, norms;
  ParamValues first_gradients;
  for (std::int64_t step = 0; step < t.steps; ++step) {
    std::vector<Array> values;
    for (const auto& [name, dtype] : inputs) {
      const std::string tensor = batch_name(step, name);
      values.push_back(dtype == f32 ? Array::read_f32(t.file, tensor)
                                    : Array::read_i32(t.file, tensor));
    }
    std::vector<FeedItem> feed;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      feed.push_back({inputs[i].first, values[i].feed()});
    }
    losses.push_back(training.step(feed).loss);
    if (step > 0 && want_norms.empty()) continue;
    ParamValues gradients = training.download_param_grads();
    norms.push_back(static_cast<float>(norm(gradients)));
    if (step == 0) first_gradients = std::move(gradients);
  }

  const double loss_tolerance = t.settings.number({"tol_loss"}, 1e-4);
  const double gradient_tolerance = t.settings.number({"tol_grad"}, 1e-4);
  check_series(t, "losses", losses, t.settings.numbers({"losses"}), loss_tolerance, report);
  if (!want_norms.empty()) {
    check_series(t, "grad_norms", norms, want_norms, std::max(loss_tolerance, gradient_tolerance),
                 report);
  }
  check_params(t, "grad0", names, first_gradients, gradient_tolerance, report);
  check_params(t, "final", names, training.download_params(),
               t.settings.number({"tol_params"}, 1e-3), report);
}

// ---- the models

/// Linear layers with a relu between them.
struct Mlp {
  std::vector<nn::Linear> layers;

  Tensor operator()(Tensor x) const {
    for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i](i == 0 ? x : relu(x));
    return x;
  }
};

/// Whether `a` comes before `b` where runs of digits are read as numbers: `l2` before `l10`.
bool natural_less(const std::string& a, const std::string& b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      std::uint64_t x = 0, y = 0;
      while (i < a.size() && is_digit(a[i])) x = x * 10 + static_cast<unsigned>(a[i++] - '0');
      while (j < b.size() && is_digit(b[j])) y = y * 10 + static_cast<unsigned>(b[j++] - '0');
      if (x != y) return x < y;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

void train_mlp(const Trajectory& t, const Device& device, Report& report) {
  ParamNames names(t.file);
  std::vector<std::string> layers;
  const std::string suffix = ".weight";
  for (const auto& [name, shape] : names.shapes()) {
    if (name.size() > suffix.size() && name.ends_with(suffix)) {
      layers.push_back(name.substr(0, name.size() - suffix.size()));
    }
  }
  std::sort(layers.begin(), layers.end(), natural_less);
  Mlp model;
  for (const std::string& layer : layers) {
    const Shape64& weight = names.shape(layer + suffix, 2);
    names.add_linear("layers." + std::to_string(model.layers.size()), layer);
    model.layers.emplace_back(weight[1], weight[0], nn::LinearOptions{names.has(layer + ".bias")});
  }
  train(
      t, names, model, [](const Mlp& m, const Inputs& in) { return mse_loss(m(in["x"]), in["y"]); },
      {{"x", f32}, {"y", f32}}, device, report);
}

/// Pre-norm transformer; without a head, logits are products with the token embeddings.
struct Gpt {
  nn::Embedding tok, pos;
  std::vector<nn::TransformerBlock> blocks;
  nn::LayerNorm nf;
  std::optional<nn::Linear> head;

  Tensor operator()(const Tensor& tokens) const {  // [batch, time] → [batch, time, vocab]
    Tensor x = tok(tokens) + narrow(pos.W, 0, 0, tokens.shape(-1));
    for (const nn::TransformerBlock& block : blocks) x = block(x);
    x = nf(x);
    return head ? (*head)(x) : matmul(x, swap_axes(tok.W, 0, 1));
  }
};

void train_gpt(const Trajectory& t, const Device& device, Report& report) {
  ParamNames names(t.file);
  const Attrs dims(t.settings.raw({"dims"}), "\"dims\"");
  const Shape64 tok = names.shape("tok.weight", 2), pos = names.shape("pos.weight", 2);
  const std::int64_t vocab = tok[0], dim = tok[1];
  const std::int64_t layers = dims.integer({"layers"});
  const auto heads = static_cast<int>(dims.integer({"heads"}));
  const double eps = dims.number({"norm_eps", "layer_norm_eps"}, 1e-5);

  Gpt model{{vocab, dim}, {pos[0], dim}, {}, nn::LayerNorm(dim, eps), {}};
  names.add_embedding("tok", "tok");
  names.add_embedding("pos", "pos");
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string block = "blocks." + std::to_string(i) + ".";
    const std::int64_t hidden = names.shape(block + "up.weight", 2)[0];
    model.blocks.emplace_back(dim, heads, nn::TransformerOptions{.hidden = hidden});
    model.blocks.back().n1.eps = model.blocks.back().n2.eps = eps;
    names.add_norm(block + "n1", block + "n1");
    for (const char* part : {"q", "k", "v", "o"}) {
      names.add_linear(block + "attn." + part, block + part);
    }
    names.add_norm(block + "n2", block + "n2");
    names.add_linear(block + "up", block + "up");
    names.add_linear(block + "down", block + "down");
  }
  names.add_norm("nf", "nf");
  for (const char* head : {"head", "lm_head", "out", "unembed"}) {
    const std::string name = head;
    if (!names.has(name + ".weight")) continue;
    names.add_linear("head", name);
    model.head.emplace(dim, vocab, nn::LinearOptions{names.has(name + ".bias")});
    break;
  }
  train(
      t, names, model,
      [](const Gpt& m, const Inputs& in) { return cross_entropy(m(in["tokens"]), in["targets"]); },
      {{"tokens", i32}, {"targets", i32}}, device, report);
}

}  // namespace

Case training_case(const std::string& json_path) {
  const std::filesystem::path path(json_path);
  const Json json = read_json(json_path);
  const Attrs fields(json, json_path);
  Case result;
  result.id = path.stem().string();
  result.set = fields.text({"set"}, "core");
  result.run = [json, path, id = result.id](const Device& device, Report& report) {
    const Attrs settings(json, path.string());
    const SafetensorsFile file =
        SafetensorsFile::open(std::filesystem::path(path).replace_extension("safetensors"));
    const auto given = static_cast<std::int64_t>(settings.numbers({"losses"}).size());
    const Trajectory t{id, settings, file, settings.integer({"steps"}, given)};
    if (t.steps < 1) throw Error("there are no steps to run");
    const std::string kind = settings.text({"kind"}, "");
    if (kind == "mlp") {
      train_mlp(t, device, report);
    } else if (kind == "gpt") {
      train_gpt(t, device, report);
    } else {
      report.fail("the kind \"" + kind + "\" of training is not supported");
    }
  };
  return result;
}

}  // namespace tensorgrad::conformance
