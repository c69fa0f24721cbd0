// Model folders in Hugging Face form, with expected logits, loss, gradients and greedy tokens.
#include <filesystem>
#include <set>

#include "conformance_case.hpp"
#include "conformance_json.hpp"

namespace tensorgrad::conformance {

Case model_case(const std::string& folder) {
  static const std::set<std::string> kStateSpace = {"mamba", "mamba2"};
  const std::filesystem::path path(folder);
  const std::string config_path = (path / "config.json").string();
  const Json config = read_json(config_path);
  const std::string type = Attrs(config, config_path).text({"model_type"}, "");
  if (type.empty()) throw IoError(config_path + " names no model_type.");
  Case result;
  result.id = path.filename().string();
  const bool state_space = kStateSpace.count(type) > 0;
  result.set = state_space ? "state-space" : "inference";
  result.optional = !state_space;
  result.run = [type](const Device&, Report& report) {
    report.fail("model type " + type + " is not supported yet");
  };
  return result;
}

}  // namespace tensorgrad::conformance
