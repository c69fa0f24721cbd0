// SafetensorsWriter: lays out a file, writes it piece by piece, and puts it in place at once.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "io/atomic_file.hpp"
#include "io/file_dtype.hpp"
#include "io/io_fail.hpp"
#include "io/json_events.hpp"
#include "io/safetensors_header.hpp"
#include "tensorgrad/safetensors.hpp"

namespace tensorgrad {
namespace {

constexpr std::size_t kAlignment = 8;  // of the data, in the file

struct Place {
  std::string name;
  std::string description;  // F32[2, 3]
  std::uint64_t begin = 0;  // in the file
  std::uint64_t size = 0;
  bool written = false;
};

struct Layout {
  std::string prefix_and_header;
  std::map<std::string, Place, std::less<>> places;
};

/// The little-endian length, then the header, padded with spaces so that the data is aligned.
std::string with_length(std::string header) {
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  std::string out;
  for (int shift = 0; shift < 64; shift += 8) {
    out += static_cast<char>(static_cast<std::uint64_t>(header.size()) >> shift & 0xff);
  }
  return out + header;
}

std::string metadata_json(const std::map<std::string, std::string>& metadata,
                          const std::string& path) {
  std::string out;
  for (const auto& [key, value] : metadata) {
    if (!out.empty()) out += ',';
    out += io::json_string(key, path, "the metadata key " + io::quoted(key));
    out += ':';
    out += io::json_string(value, path, "the metadata " + io::quoted(key));
  }
  return "{" + out + "}";
}

/// Checks and sizes the tensors before anything touches the disk.
Layout lay_out(const std::string& path, std::span<const FileTensor> tensors,
               const std::map<std::string, std::string>& metadata) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return byte_size(tensors[a].dtype) > byte_size(tensors[b].dtype);
  });

  std::string header = "{";
  if (!metadata.empty()) header += "\"__metadata__\":" + metadata_json(metadata, path);
  std::vector<Place> places;
  std::uint64_t offset = 0;
  for (std::size_t i : order) {
    const FileTensor& tensor = tensors[i];
    const std::string description = io::describe(tensor.dtype, tensor.shape);
    if (tensor.name == "__metadata__") {
      io::fail_in_tensor(path, tensor.name, "the format keeps this name for itself.");
    }
    const auto size = io::tensor_byte_size(tensor.dtype, tensor.shape);
    std::uint64_t end = 0;
    if (!size || __builtin_add_overflow(offset, *size, &end) || end > INT64_MAX) {
      io::fail_in_tensor(path, tensor.name,
                         description + " has a negative dimension or more than 2^63 - 1 bytes.");
    }
    if (header.size() > 1) header += ',';
    header += io::json_string(tensor.name, path, "the name " + io::quoted(tensor.name));
    header += ":{\"dtype\":\"";
    header += to_string(tensor.dtype);
    header += "\",\"shape\":" + description.substr(description.find('['));
    header += ",\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(end) + "]}";
    places.push_back({tensor.name, description, offset, *size, false});
    offset = end;
  }
  header += '}';

  Layout layout;
  layout.prefix_and_header = with_length(std::move(header));
  const auto written = std::string_view(layout.prefix_and_header).substr(8);
  if (written.size() > io::kLargestHeader) {
    io::fail_in_file(path, "the header would have " + std::to_string(written.size()) +
                               " bytes, expected at most " + std::to_string(io::kLargestHeader) +
                               ".");
  }
  io::parse_header(written, offset, path);  // names that repeat and the reader's other limits

  for (Place& place : places) {
    place.begin += layout.prefix_and_header.size();
    std::string name = place.name;
    layout.places.emplace(std::move(name), std::move(place));
  }
  return layout;
}

}  // namespace

struct SafetensorsWriter::State {
  std::string path;
  std::map<std::string, Place, std::less<>> places;
  std::optional<io::AtomicFile> file;  // until committed
};

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::span<const FileTensor> layout,
                                     const std::map<std::string, std::string>& metadata)
    : state_(std::make_unique<State>()) {
  Layout laid_out = lay_out(path, layout, metadata);
  state_->path = path;
  state_->places = std::move(laid_out.places);
  state_->file.emplace(path);
  state_->file->write_at(0, std::as_bytes(std::span(laid_out.prefix_and_header)));
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (!state_->file) io::fail_in_tensor(state_->path, name, "the file is already committed.");
  const auto at = state_->places.find(name);
  if (at == state_->places.end()) {
    io::fail_in_tensor(state_->path, name, "the tensor is not in the layout of the file.");
  }
  Place& place = at->second;
  if (bytes.size() != place.size) {
    io::fail_in_tensor(state_->path, name,
                       "got " + std::to_string(bytes.size()) + " bytes to write, but " +
                           place.description + " needs " + std::to_string(place.size) + ".");
  }
  state_->file->write_at(place.begin, bytes);
  place.written = true;
}

void SafetensorsWriter::commit() {
  if (!state_->file) io::fail_in_file(state_->path, "the file is already committed.");
  for (const auto& [name, place] : state_->places) {
    if (!place.written) {
      io::fail_in_tensor(state_->path, name, "the tensor was laid out but never written.");
    }
  }
  state_->file->commit();
  state_->file.reset();
}

void write_safetensors(const std::string& path, std::span<const FileTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  SafetensorsWriter writer(path, tensors, metadata);
  for (const FileTensor& tensor : tensors) writer.write(tensor.name, tensor.bytes);
  writer.commit();
}

}  // namespace tensorgrad
