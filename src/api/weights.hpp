// Between a model's parameters and the tensors of a file: who is who, checked as a whole.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensorgrad/module.hpp"
#include "tensorgrad/safetensors.hpp"
#include "tensorgrad/weights.hpp"

namespace tensorgrad {

inline constexpr const char* kUploadParams = "upload_params";

/// A parameter and where a file keeps it.
struct WeightPlace {
  std::string param;  ///< our name
  Shape shape;        ///< our shape
  std::string name;   ///< the file's name
  bool transposed = false;
};

/// The places of all parameters under `names`. `who` begins errors.
std::vector<WeightPlace> place_weights(const std::vector<MaterializedParam>& params,
                                       const FileNames& names, const std::string& who);

/// Those of `places` that the file has, with the tensors' names in the file as it is: a checkpoint
/// puts `param.` before them. Everything that does not fit is one IoError. `who` begins it; only
/// upload_params, whose caller chose the options, is told of others.
std::vector<WeightPlace> find_weights(const SafetensorsFile& file,
                                      const std::vector<WeightPlace>& places,
                                      const FileUploadOptions& options, UploadReport& report,
                                      const std::string& who = kUploadParams);

/// The values of a parameter, our way round.
std::vector<float> read_weight(const SafetensorsFile& file, const WeightPlace& place);

/// The shape a file gives the parameter.
std::vector<std::int64_t> file_shape(const WeightPlace& place);

/// [rows, columns] to [columns, rows].
std::vector<float> transposed(std::span<const float> values, std::int64_t rows,
                              std::int64_t columns);

}  // namespace tensorgrad
