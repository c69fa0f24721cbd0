// What a checkpoint says beside its tensors. The tensors are `param.NAME` and `state.NAME`; the
// metadata `tensorgrad.…` say where training stood.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "tensorgrad/plan.hpp"
#include "tensorgrad/safetensors.hpp"

namespace tensorgrad {

inline constexpr const char* kParamPrefix = "param.";
inline constexpr const char* kStatePrefix = "state.";

using Metadata = std::map<std::string, std::string>;

struct CheckpointHeader {
  std::int64_t step = 0;
  std::uint64_t seed = 0;
  std::optional<double> rate;  ///< set by set_lr
};

/// Whether a file says that it is a checkpoint.
bool is_checkpoint(const Metadata& metadata);

/// Adds the header to the caller's metadata, whose keys may not be those of the header.
Metadata with_header(Metadata metadata, const CheckpointHeader& header);

/// Takes the header out of a file's metadata and leaves the caller's. IoError naming `path` if it
/// is incomplete or nonsense.
CheckpointHeader take_header(Metadata& metadata, const std::string& path);

/// IoError unless the file has exactly these tensors.
void check_checkpoint_tensors(const SafetensorsFile& file,
                              const std::map<std::string, Place>& places);

}  // namespace tensorgrad
