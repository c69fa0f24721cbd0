// Mamba and Mamba-2 as transformers configures and names them.
#include "models/families.hpp"

namespace tensorgrad::models {

namespace {

/// The number of layers. A file has a dozen tensors a layer, so a number that is no mistake is
/// smaller than theirs; a larger one would fill the memory before anything else is noticed.
std::int64_t layer_count(const Config& config, const SafetensorsFile& file) {
  const std::int64_t count = config.size("num_hidden_layers");
  if (count > static_cast<std::int64_t>(file.tensors().size()))
    config.refuse("num_hidden_layers",
                  "the files hold " + std::to_string(file.tensors().size()) + " tensors in all.");
  return count;
}

void check_activation(const Config& config) {
  if (config.has("hidden_act") && !config.is("hidden_act", "silu") &&
      !config.is("hidden_act", "swish"))
    config.refuse("hidden_act", "only \"silu\" is supported.");
}

/// `intermediate_size`, or `expand` times the width.
std::int64_t inner_size(const Config& config, std::int64_t dim) {
  if (config.has("intermediate_size")) return config.size("intermediate_size");
  const double inner = config.number("expand", 2) * static_cast<double>(dim);
  if (!(inner >= 1 && inner <= 1 << 24))
    config.refuse("expand", "should widen " + std::to_string(dim) + " to a size that can be.");
  return static_cast<std::int64_t>(inner);
}

template <class Mixer>
Family make(const Config& config, const SafetensorsFile& file, std::int64_t dim,
            const typename Mixer::Options& mixer, bool tied_by_default) {
  const bool tied = config.flag("tie_word_embeddings", tied_by_default);
  Family family{
      .model = nn::StateSpaceLM<Mixer>(
          config.size("vocab_size"), dim, layer_count(config, file),
          {.mixer = mixer, .tied = tied, .eps = config.number("layer_norm_epsilon", 1e-5)})};
  // Converted checkpoints of the first days say `embedding`.
  const bool early = file.has("backbone.embedding.weight");
  family.names =
      Rename{{"*", "backbone.*"},
             {"backbone.lm_head.*", "lm_head.*"},
             {"backbone.embeddings.*", early ? "backbone.embedding.*" : "backbone.embeddings.*"}};
  if (tied) family.spare = {"lm_head.weight"};
  return family;
}

}  // namespace

Family make_mamba(const Config& config, const SafetensorsFile& file) {
  check_activation(config);
  const std::int64_t dim = config.size("hidden_size");
  nn::MambaOptions mixer;
  mixer.inner = inner_size(config, dim);
  mixer.states = config.size("state_size", 16);
  mixer.taps = config.size("conv_kernel", 4);
  mixer.bias = config.flag("use_bias", false);
  mixer.conv_bias = config.flag("use_conv_bias", true);
  if (!config.is("time_step_rank", "auto") && config.has("time_step_rank"))
    mixer.dt_rank = config.size("time_step_rank");
  return make<nn::Mamba>(config, file, dim, mixer, true);
}

Family make_mamba2(const Config& config, const SafetensorsFile& file) {
  check_activation(config);
  if (!config.flag("rms_norm", true)) config.refuse("rms_norm", "only true is supported.");
  const std::int64_t dim = config.size("hidden_size");
  nn::Mamba2Options mixer;
  mixer.inner = inner_size(config, dim);
  mixer.head_dim = config.size("head_dim", 64);
  mixer.groups = config.size("n_groups", 8);
  mixer.states = config.size("state_size", 128);
  mixer.taps = config.size("conv_kernel", 4);
  mixer.bias = config.flag("use_bias", false);
  mixer.conv_bias = config.flag("use_conv_bias", true);
  mixer.eps = config.number("layer_norm_epsilon", 1e-5);
  const std::int64_t heads = config.size("num_heads", 128);
  if (heads * mixer.head_dim != mixer.inner)
    config.refuse("num_heads", "heads of " + std::to_string(mixer.head_dim) +
                                   " channels should make " + std::to_string(mixer.inner) +
                                   " channels.");
  if (heads % mixer.groups != 0)
    config.refuse("n_groups", "should divide the " + std::to_string(heads) + " heads.");
  if (config.has("time_step_limit")) {
    const std::vector<double> limit = config.numbers("time_step_limit");
    if (limit.size() != 2 || !(limit[0] <= limit[1]))
      config.refuse("time_step_limit", "should be a lowest and a highest time step.");
    mixer.dt_low = limit[0];
    mixer.dt_high = limit[1];
  }
  return make<nn::Mamba2>(config, file, dim, mixer, false);
}

}  // namespace tensorgrad::models
