#include "api/checkpoint.hpp"

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdio>
#include <locale>
#include <sstream>

#include "api/complaints.hpp"
#include "io/file_dtype.hpp"
#include "io/io_fail.hpp"

namespace tensorgrad {
namespace {

constexpr const char* kFormat = "tensorgrad.checkpoint";
constexpr const char* kStep = "tensorgrad.step";
constexpr const char* kSeed = "tensorgrad.seed";
constexpr const char* kRate = "tensorgrad.lr";
constexpr const char* kVersion = "1";

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  io::fail_at_path(path, "load: the file " + what);
}

bool read(const std::string& text, std::integral auto& value) {
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end;
}

/// Clang's library has no from_chars for these before version 20.
bool read(const std::string& text, double& value) {
  if (text.empty() || text[0] == '+') return false;
  std::istringstream stream(text);
  stream.imbue(std::locale::classic());
  stream >> std::noskipws >> value;
  return !stream.fail() && stream.peek() == std::istringstream::traits_type::eof();
}

/// All of `text` as a number: no sign but a minus, no spaces, nothing after it.
template <class T>
T parse(const std::string& text, const char* key, const std::string& path) {
  T value{};
  if (!read(text, value)) {
    refuse(path, std::string("has a bad ") + key + ": " + io::quoted(text) +
                     " is no number it can have.");
  }
  return value;
}

std::string take(Metadata& metadata, const char* key, const std::string& path) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) {
    refuse(path, std::string("is no checkpoint of tensorgrad: its metadata lack ") + key + ".");
  }
  std::string value = std::move(found->second);
  metadata.erase(found);
  return value;
}

}  // namespace

bool is_checkpoint(const Metadata& metadata) { return metadata.count(kFormat) > 0; }

Metadata with_header(Metadata metadata, const CheckpointHeader& header) {
  for (const char* key : {kFormat, kStep, kSeed, kRate}) {
    if (metadata.count(key)) {
      throw Error(std::string("save: the metadata key \"") + key + "\" is tensorgrad's own.");
    }
  }
  metadata[kFormat] = kVersion;
  metadata[kStep] = std::to_string(header.step);
  metadata[kSeed] = std::to_string(header.seed);
  if (header.rate) {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", *header.rate);
    metadata[kRate] = text;
  }
  return metadata;
}

CheckpointHeader take_header(Metadata& metadata, const std::string& path) {
  const std::string version = take(metadata, kFormat, path);
  if (version != kVersion) {
    refuse(path, "is a checkpoint of version " + io::quoted(version) +
                     ", but this tensorgrad reads version " + kVersion + ".");
  }
  CheckpointHeader header;
  header.step = parse<std::int64_t>(take(metadata, kStep, path), kStep, path);
  if (header.step < 0) refuse(path, std::string("has a negative ") + kStep + ".");
  header.seed = parse<std::uint64_t>(take(metadata, kSeed, path), kSeed, path);
  if (metadata.count(kRate)) {
    header.rate = parse<double>(take(metadata, kRate, path), kRate, path);
    if (!std::isfinite(*header.rate))
      refuse(path, std::string("has a ") + kRate + " that is not finite.");
  }
  return header;
}

void check_checkpoint_tensors(const SafetensorsFile& file,
                              const std::map<std::string, Place>& places) {
  Complaints wrong;
  for (const auto& [name, place] : places) {
    if (!file.has(name)) {
      wrong.add("missing: " + name + " " + place.type.to_string());
      continue;
    }
    const FileTensor& tensor = file.info(name);
    std::vector<std::int64_t> shape;
    for (const Dim& dim : place.type.shape) shape.push_back(dim.size);
    const FileDType dtype = place.type.dtype == f32 ? FileDType::F32 : FileDType::I32;
    if (tensor.shape != shape || tensor.dtype != dtype) {
      wrong.add("wrong type: " + name + " is " + place.type.to_string() + " here and " +
                io::describe(tensor.dtype, tensor.shape) + " in the file");
    }
  }
  for (const std::string& name : file.names()) {
    if (!places.count(name)) wrong.add("not in this program: " + io::quoted(name));
  }
  if (!wrong.empty()) {
    refuse(file.path(), "was saved from another model or optimizer." + wrong.text());
  }
}

}  // namespace tensorgrad
