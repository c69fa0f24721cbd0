// write_safetensors_model: one file, or shards with the index that says which tensor lies where.
#include <cstdio>
#include <filesystem>
#include <set>

#include "io/atomic_file.hpp"
#include "io/file_dtype.hpp"
#include "io/io_fail.hpp"
#include "io/json_events.hpp"
#include "io/mapped_file.hpp"
#include "tensorgrad/safetensors.hpp"

namespace tensorgrad {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

/// Neighbours stay together: the tensors in order, cut where the next one would be too much.
std::vector<std::span<const FileTensor>> cut_into_shards(std::span<const FileTensor> tensors,
                                                         std::uint64_t shard_bytes) {
  std::vector<std::span<const FileTensor>> shards;
  std::size_t first = 0;
  std::uint64_t held = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t size = tensors[i].bytes.size();
    if (i > first && (size > shard_bytes || held > shard_bytes - size)) {
      shards.push_back(tensors.subspan(first, i - first));
      first = i;
      held = 0;
    }
    held += size;
  }
  shards.push_back(tensors.subspan(first));
  return shards;
}

std::string shard_name(std::size_t number, std::size_t count) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", number, count);
  return name;
}

void make_folder(const std::string& folder) {
  io::check_path(folder);
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (io::path_kind(folder) == io::PathKind::Folder) return;
  if (failed) io::fail_errno(folder, "make the folder", failed.value());
  io::fail_at_path(folder, "Expected the name of a folder to write into, but this is a file.");
}

}  // namespace

void write_safetensors_model(const std::string& folder, std::span<const FileTensor> tensors,
                             std::uint64_t shard_bytes,
                             const std::map<std::string, std::string>& metadata) {
  make_folder(folder);
  const std::string prefix = folder.empty() || folder.back() == '/' ? folder : folder + "/";
  for (const char* name : {kSingle, kIndex}) {
    if (io::path_kind(prefix + name) != io::PathKind::Nothing) {
      io::fail_in_file(folder, std::string("the folder holds ") + name +
                                   " already: expected a folder without a model.");
    }
  }
  const auto shards = cut_into_shards(tensors, shard_bytes);
  if (shards.size() == 1) return write_safetensors(prefix + kSingle, tensors, metadata);

  const std::string index_path = prefix + kIndex;
  std::uint64_t total = 0;
  std::string weight_map;
  std::set<std::string_view> seen;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    const std::string file = shard_name(s + 1, shards.size());
    for (const FileTensor& tensor : shards[s]) {
      if (!seen.insert(tensor.name).second) {
        io::fail_in_tensor(index_path, tensor.name, "the model names the same tensor twice.");
      }
      total += tensor.bytes.size();
      weight_map += weight_map.empty() ? "\n    " : ",\n    ";
      weight_map +=
          io::json_string(tensor.name, index_path, "the name " + io::quoted(tensor.name)) + ": \"" +
          file + "\"";
    }
  }
  for (std::size_t s = 0; s < shards.size(); ++s) {
    write_safetensors(prefix + shard_name(s + 1, shards.size()), shards[s], metadata);
  }
  const std::string index = "{\n  \"metadata\": {\"total_size\": " + std::to_string(total) +
                            "},\n  \"weight_map\": {" + weight_map + "\n  }\n}\n";
  io::AtomicFile file(index_path);
  file.write_at(0, std::as_bytes(std::span(index)));
  file.commit();
}

}  // namespace tensorgrad
