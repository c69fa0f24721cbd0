// SafetensorsFile: mapped files seen as one set of named tensors.
#include <cstring>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "io/file_dtype.hpp"
#include "io/io_fail.hpp"
#include "io/mapped_file.hpp"
#include "io/safetensors_header.hpp"
#include "tensorgrad/safetensors.hpp"

namespace tensorgrad {

using io::MappedFile;
using io::PathKind;

struct SafetensorsFile::View {
  std::string path;
  std::vector<FileTensor> tensors;
  std::vector<const MappedFile*> file_of;  // of each tensor
  std::map<std::string, std::string> metadata;
  std::map<std::string_view, std::size_t> by_name;  // keys are the names in `tensors`
  std::vector<std::shared_ptr<const MappedFile>> files;

  /// Call once `tensors` is complete.
  void index_names() {
    for (std::size_t i = 0; i < tensors.size(); ++i) by_name.emplace(tensors[i].name, i);
  }

  std::size_t find(std::string_view name) const {
    const auto at = by_name.find(name);
    if (at == by_name.end()) {
      io::fail_in_file(path, "there is no tensor " + io::quoted(name) + " among the " +
                                 std::to_string(tensors.size()) + " of the file.");
    }
    return at->second;
  }
};

namespace {

constexpr std::size_t kPrefix = 8;  // the header's length, a little-endian u64

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The tensors of one file, with their bytes, and its metadata.
std::pair<std::vector<FileTensor>, std::map<std::string, std::string>> parse_file(
    const MappedFile& file) {
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() < kPrefix) {
    io::fail_in_file(file.path(), "the file is truncated: it has " + std::to_string(bytes.size()) +
                                      " bytes, expected at least 8 for the length of the header.");
  }
  std::uint64_t length;
  std::memcpy(&length, bytes.data(), kPrefix);
  if (length > io::kLargestHeader) {
    io::fail_in_file(file.path(), "the header is said to have " + std::to_string(length) +
                                      " bytes, expected at most " +
                                      std::to_string(io::kLargestHeader) + ".");
  }
  if (length > bytes.size() - kPrefix) {
    io::fail_in_file(file.path(), "the file is truncated: the header is said to have " +
                                      std::to_string(length) + " bytes, but only " +
                                      std::to_string(bytes.size() - kPrefix) +
                                      " follow its length.");
  }
  const auto header_size = static_cast<std::size_t>(length);
  const auto data = bytes.subspan(kPrefix + header_size);
  io::Header header =
      io::parse_header(text_of(bytes.subspan(kPrefix, header_size)), data.size(), file.path());

  std::vector<FileTensor> tensors;
  tensors.reserve(header.tensors.size());
  for (auto& [tensor, begin, end] : header.tensors) {
    tensor.bytes =
        data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    tensors.push_back(std::move(tensor));
  }
  return {std::move(tensors), std::move(header.metadata)};
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

template <class Value>
std::vector<Value> make_room(const FileTensor& tensor, const std::string& path) {
  try {
    return std::vector<Value>(static_cast<std::size_t>(tensor.elements()));
  } catch (const std::exception&) {  // bad_alloc or length_error
    io::fail_in_tensor(path, tensor.name,
                       io::describe(tensor.dtype, tensor.shape) + " does not fit in memory as " +
                           std::to_string(sizeof(Value) * 8) + "-bit values.");
  }
}

void check_room(const FileTensor& tensor, std::size_t room, const std::string& path) {
  if (room != static_cast<std::size_t>(tensor.elements())) {
    io::fail_in_tensor(
        path, tensor.name,
        io::describe(tensor.dtype, tensor.shape) + " has " + std::to_string(tensor.elements()) +
            " elements, but is to be read into room for " + std::to_string(room) + ".");
  }
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  auto view = std::make_shared<View>();
  view->path = path;
  view->files.push_back(MappedFile::open(path));
  std::tie(view->tensors, view->metadata) = parse_file(*view->files[0]);
  view->file_of.assign(view->tensors.size(), view->files[0].get());
  view->index_names();
  return SafetensorsFile(std::move(view));
}

SafetensorsFile SafetensorsFile::from_bytes(std::vector<std::byte> bytes, std::string label) {
  auto view = std::make_shared<View>();
  view->path = label;
  view->files.push_back(MappedFile::from_bytes(std::move(bytes), std::move(label)));
  std::tie(view->tensors, view->metadata) = parse_file(*view->files[0]);
  view->file_of.assign(view->tensors.size(), view->files[0].get());
  view->index_names();
  return SafetensorsFile(std::move(view));
}

SafetensorsFile SafetensorsFile::open_model(const std::string& path) {
  io::check_path(path);
  std::string index_path = path;
  if (io::path_kind(path) == PathKind::Folder) {
    const std::string folder = ends_with(path, "/") ? path : path + "/";
    if (io::path_kind(folder + "model.safetensors") == PathKind::File) {
      return open(folder + "model.safetensors");
    }
    index_path = folder + "model.safetensors.index.json";
    if (io::path_kind(index_path) != PathKind::File) {
      io::fail_in_file(path,
                       "expected the folder to hold model.safetensors or "
                       "model.safetensors.index.json, but it has neither.");
    }
  } else if (!ends_with(path, ".json")) {
    return open(path);
  }

  return open_sharded(index_path, path);
}

SafetensorsFile SafetensorsFile::open_sharded(const std::string& index_path,
                                              const std::string& given_path) {
  const auto index = MappedFile::open(index_path);
  if (index->bytes().size() > io::kLargestHeader) {
    io::fail_in_file(index_path, "the index has " + std::to_string(index->bytes().size()) +
                                     " bytes, expected at most " +
                                     std::to_string(io::kLargestHeader) + ".");
  }
  const auto weight_map = io::parse_index(text_of(index->bytes()), index_path);
  const std::size_t slash = index_path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : index_path.substr(0, slash + 1);

  auto view = std::make_shared<View>();
  view->path = given_path;
  std::map<std::string_view, SafetensorsFile> shards;  // keys are file names in `weight_map`
  for (const auto& [name, file] : weight_map) {
    auto shard = shards.find(file);
    if (shard == shards.end()) {
      if (io::path_kind(folder + file) == PathKind::Nothing) {
        io::fail_in_tensor(index_path, name,
                           "the index places the tensor in " + io::quoted(file) +
                               ", but there is no such file beside the index.");
      }
      shard = shards.emplace(file, open(folder + file)).first;
      view->files.push_back(shard->second.view_->files[0]);
      view->metadata.insert(shard->second.metadata().begin(), shard->second.metadata().end());
    }
    if (!shard->second.has(name)) {
      io::fail_in_tensor(index_path, name,
                         "the index places the tensor in " + io::quoted(file) +
                             ", but that file does not have it.");
    }
    view->tensors.push_back(shard->second.info(name));
    view->file_of.push_back(shard->second.view_->files[0].get());
  }
  view->index_names();

  // A tensor in two shards would have two values; which one was meant is not ours to guess.
  for (const auto& [file, shard] : shards) {
    for (const FileTensor& tensor : shard.tensors()) {
      const auto at = view->by_name.find(tensor.name);
      if (at == view->by_name.end() || weight_map[at->second].second == file) continue;
      io::fail_in_tensor(index_path, tensor.name,
                         "the index places the tensor in " +
                             io::quoted(weight_map[at->second].second) + ", but " +
                             io::quoted(file) + " has it too.");
    }
  }
  return SafetensorsFile(std::move(view));
}

const std::string& SafetensorsFile::path() const { return view_->path; }

const std::vector<FileTensor>& SafetensorsFile::tensors() const { return view_->tensors; }

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> out;
  out.reserve(view_->tensors.size());
  for (const FileTensor& tensor : view_->tensors) out.push_back(tensor.name);
  return out;
}

bool SafetensorsFile::has(std::string_view name) const { return view_->by_name.count(name) > 0; }

const FileTensor& SafetensorsFile::info(std::string_view name) const {
  return view_->tensors[view_->find(name)];
}

const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return view_->metadata;
}

std::vector<float> SafetensorsFile::read_f32(std::string_view name) const {
  const std::size_t at = view_->find(name);
  auto values = make_room<float>(view_->tensors[at], view_->file_of[at]->path());
  read_f32(name, values);
  return values;
}

void SafetensorsFile::read_f32(std::string_view name, std::span<float> into) const {
  const std::size_t at = view_->find(name);
  const FileTensor& tensor = view_->tensors[at];
  check_room(tensor, into.size(), view_->file_of[at]->path());
  view_->file_of[at]->check_still_whole();
  io::convert_to_f32(tensor.dtype, tensor.bytes, into);
}

std::vector<std::int32_t> SafetensorsFile::read_i32(std::string_view name) const {
  const std::size_t at = view_->find(name);
  auto values = make_room<std::int32_t>(view_->tensors[at], view_->file_of[at]->path());
  read_i32(name, values);
  return values;
}

void SafetensorsFile::read_i32(std::string_view name, std::span<std::int32_t> into) const {
  const std::size_t at = view_->find(name);
  const FileTensor& tensor = view_->tensors[at];
  const std::string& path = view_->file_of[at]->path();
  if (!io::holds_integers(tensor.dtype)) {
    io::fail_in_tensor(path, tensor.name,
                       "expected integers or BOOL, but the tensor is " +
                           io::describe(tensor.dtype, tensor.shape) + ".");
  }
  check_room(tensor, into.size(), path);
  view_->file_of[at]->check_still_whole();
  if (const auto misfit = io::convert_to_i32(tensor.dtype, tensor.bytes, into)) {
    io::fail_in_tensor(path, tensor.name,
                       "element " + std::to_string(misfit->index) + " of " +
                           io::describe(tensor.dtype, tensor.shape) + " is " + misfit->value +
                           ", expected a value from -2147483648 to 2147483647.");
  }
}

}  // namespace tensorgrad
