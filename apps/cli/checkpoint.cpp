#include "checkpoint.hpp"

#include <charconv>
#include <filesystem>

#include "tensorgrad/safetensors.hpp"

namespace tensorgrad::cli {

namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kExample = "tensorgrad.example";
constexpr const char* kConfig = "tensorgrad.config";
constexpr const char* kData = "tensorgrad.data";
constexpr const char* kLibrary = "tensorgrad.checkpoint";  // Training::save's own mark

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

bool parse_hex(const std::string& text, std::uint64_t& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value, 16);
  return result.ec == std::errc() && result.ptr == end;
}

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw IoError("Cannot go on from " + path + ": " + what);
}

Json parse(const std::string& path, const std::map<std::string, std::string>& metadata,
           const char* key) {
  const Json value = Json::parse(metadata.at(key), nullptr, false);
  if (!value.is_object()) fail(path, std::string(key) + " is not a JSON object.");
  return value;
}

}  // namespace

std::map<std::string, std::string> to_metadata(const RunRecord& record) {
  Json config = record.settings;
  if (!record.data.path.empty()) {
    config["data-path"] = record.data.path;
    config["data-hash"] = hex(record.data.hash);
  }
  // A path may hold bytes that are no UTF-8, which JSON cannot.
  const auto dump = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  return {{kExample, record.example},
          {kConfig, dump(config)},
          {kData, dump(Json{{"step", record.step}})}};
}

RunRecord read_record(const std::string& path, const std::string& example) {
  const auto metadata = SafetensorsFile::open(path).metadata();
  for (const char* key : {kExample, kConfig, kData}) {
    if (!metadata.count(key)) {
      fail(path, std::string("it has no ") + key + ", so no `tensorgrad train` has saved it.");
    }
  }
  RunRecord record;
  record.example = metadata.at(kExample);
  if (record.example != example) {
    fail(path, "it belongs to `train " + record.example + "`, not to `train " + example + "`.");
  }
  record.settings = parse(path, metadata, kConfig);
  if (record.settings.contains("data-path")) {
    const Json source = record.settings["data-path"];
    const Json hash = record.settings.value("data-hash", Json());
    if (!source.is_string() || !hash.is_string() ||
        !parse_hex(hash.get<std::string>(), record.data.hash)) {
      fail(path, std::string(kConfig) + " has no proper data-path and data-hash.");
    }
    record.data.path = source.get<std::string>();
  }
  const Json step = parse(path, metadata, kData).value("step", Json());
  if (!step.is_number_integer() || step.get<std::int64_t>() < 0) {
    fail(path, std::string(kData) + " has no proper step.");
  }
  record.step = step.get<std::int64_t>();
  return record;
}

void check_can_save(const std::string& path) {
  const auto refuse = [&](const std::string& what) {
    throw IoError("Cannot save to " + path + ": " + what);
  };
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status)) {
    if (fs::is_directory(status)) refuse("it is a folder.");
    if (!fs::is_regular_file(status)) refuse("it is no regular file.");
    // Root may write anywhere; a file that nobody may write is still meant to stay as it is.
    const fs::perms writable =
        fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
    if ((status.permissions() & writable) == fs::perms::none) refuse("it is read-only.");
    if (fs::file_size(path, error) > 0) {
      bool ours = false;
      try {
        ours = SafetensorsFile::open(path).metadata().count(kLibrary) > 0;
      } catch (const IoError&) {
        // not ours
      }
      if (!ours)
        refuse("there is a file that is no checkpoint. Remove it, or choose another name.");
    }
  }
  const fs::path folder = fs::absolute(path).parent_path();
  if (!fs::is_directory(folder, error)) refuse("there is no folder " + folder.string() + ".");
  const SafetensorsWriter without_commit(path, {});  // a temporary file beside it, removed again
}

std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const unsigned char c : bytes) hash = (hash ^ c) * 0x100000001b3ULL;
  return hash;
}

}  // namespace tensorgrad::cli
