// From a folder to a model: the type, its family, and a look whether files and model fit.
#include <algorithm>

#include "api/weights.hpp"
#include "io/io_fail.hpp"
#include "models/families.hpp"

namespace tensorgrad {

namespace {

constexpr const char* kWho = "load_language_model";

struct Type {
  const char* name;
  models::Family (*make)(const models::Config&, const SafetensorsFile&);
};
constexpr Type kTypes[] = {{"mamba", models::make_mamba}, {"mamba2", models::make_mamba2}};

std::vector<MaterializedParam> declared_params(const LanguageModel& model) {
  std::vector<MaterializedParam> params;
  std::visit(
      [&](const auto& m) {
        reflect::for_each_leaf<Tensor>(m, [&](const std::string& path, const Tensor& tensor) {
          params.push_back({path, tensor.spec()});
        });
      },
      model);
  return params;
}

std::string read_type(const models::Config& config) {
  if (!config.has("model_type"))
    io::fail_at_path(config.path(),
                     "The file names no model_type, so it is no model in Hugging "
                     "Face form.");
  return config.text("model_type");
}

/// The names of both sides, checked against each other and in shape.
FileUploadOptions fit(const models::Family& family, const SafetensorsFile& file) {
  FileUploadOptions upload;
  upload.names = pytorch_names(family.names);
  upload.ignore_extra = std::any_of(family.spare.begin(), family.spare.end(),
                                    [&](const std::string& name) { return file.has(name); });
  UploadReport report;
  const auto places = place_weights(declared_params(family.model), upload.names, kWho);
  find_weights(file, places, upload, report, kWho);
  for (const std::string& name : report.extra) {
    if (std::find(family.spare.begin(), family.spare.end(), name) == family.spare.end()) {
      io::fail_at_path(file.path(), std::string(kWho) + ": the tensor " + io::quoted(name) +
                                        " has no place in the model.");
    }
  }
  return upload;
}

}  // namespace

LoadedLanguageModel load_language_model(const std::string& folder) {
  const models::Config config(folder);
  const std::string name = read_type(config);
  const auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const Type& t) { return name == t.name; });
  if (type == std::end(kTypes)) {
    std::string known;
    for (const std::string& each : language_model_types())
      known += (known.empty() ? "" : ", ") + each;
    config.refuse("model_type", "the types that can be read are: " + known + ".");
  }
  const SafetensorsFile file = SafetensorsFile::open_model(folder);
  models::Family family = type->make(config, file);
  FileUploadOptions upload = fit(family, file);
  return {.folder = folder,
          .type = name,
          .model = std::move(family.model),
          .vocabulary = config.size("vocab_size"),
          .end_tokens = config.tokens("eos_token_id"),
          .upload = std::move(upload)};
}

Decoder LoadedLanguageModel::decoder(DecoderOptions options) const {
  Decoder made = std::visit([&](const auto& m) { return Decoder(m, std::move(options)); }, model);
  made.upload_params(folder, upload);
  return made;
}

ParamValues read_params(const LoadedLanguageModel& loaded) {
  const SafetensorsFile file = SafetensorsFile::open_model(loaded.folder);
  const auto places =
      place_weights(declared_params(loaded.model), loaded.upload.names, "read_params");
  UploadReport report;
  ParamValues values;
  for (const WeightPlace& place : find_weights(file, places, loaded.upload, report, "read_params"))
    values[place.param] = read_weight(file, place);
  return values;
}

std::string model_type(const std::string& folder) { return read_type(models::Config(folder)); }

std::vector<std::string> language_model_types() {
  std::vector<std::string> names;
  for (const Type& type : kTypes) names.emplace_back(type.name);
  return names;
}

}  // namespace tensorgrad
