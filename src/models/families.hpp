// The families of language models: how each reads its configuration. A new one is a struct in nn,
// a function here, and a line in load.cpp.
#pragma once

#include "models/config.hpp"
#include "tensorgrad/models.hpp"
#include "tensorgrad/safetensors.hpp"

namespace tensorgrad::models {

/// What a configuration and the files' tensors make.
struct Family {
  LanguageModel model;
  Rename names = {};  ///< from our names to the files', before PyTorch's endings
  /// Tensors that some files hold beside the parameters, and that say nothing new.
  std::vector<std::string> spare = {};
};

Family make_mamba(const Config& config, const SafetensorsFile& file);
Family make_mamba2(const Config& config, const SafetensorsFile& file);

}  // namespace tensorgrad::models
