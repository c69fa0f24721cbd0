// What a checkpoint says of the run it belongs to, beside the parameters, moments and step count
// that Training::save keeps: which example, with which settings, on which data, how far.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace tensorgrad::cli {

/// Where data come from. The hash tells whether they are the same data, wherever they lie now.
struct DataSource {
  std::string path;  ///< empty: the example makes its own data
  std::uint64_t hash = 0;
};

struct RunRecord {
  std::string example;
  nlohmann::ordered_json settings;  ///< Options::settings
  DataSource data;
  /// Steps done. Each step's data depend on the seed and the step alone (step_rng), so that this is
  /// all there is to know of the place in the data.
  std::int64_t step = 0;
};

/// The metadata of the file: `tensorgrad.example`, `tensorgrad.config`, `tensorgrad.data`.
std::map<std::string, std::string> to_metadata(const RunRecord& record);

/// Reads it back. Throws IoError if the file is no checkpoint of this example.
RunRecord read_record(const std::string& path, const std::string& example);

/// Throws IoError if no checkpoint can be put there: the folder is missing or read-only, or there
/// is something that should not be replaced. Leaves everything as it was.
void check_can_save(const std::string& path);

/// FNV-1a, for DataSource.
std::uint64_t hash_bytes(std::string_view bytes);

}  // namespace tensorgrad::cli
