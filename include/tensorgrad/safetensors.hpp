// Reading and writing safetensors files: eight bytes of header length, a JSON header that names
// each tensor with its dtype, shape and place, then the bytes of all tensors without gaps. A reader
// trusts nothing in the file: whatever is wrong is an IoError that names the file, the tensor, the
// given and the expected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensorgrad/error.hpp"

namespace tensorgrad {

/// The element types a file may hold, spelled as in the format.
enum class FileDType {
  F64,
  F32,
  F16,
  BF16,
  F8_E4M3,
  F8_E5M2,
  I64,
  I32,
  I16,
  I8,
  U64,
  U32,
  U16,
  U8,
  BOOL
};

/// `BF16`: the format's own spelling.
const char* to_string(FileDType dtype);

/// Bytes of one element.
std::size_t byte_size(FileDType dtype);

/// One tensor of a file: what the header says of it and its little-endian row-major bytes, which
/// may lie at any alignment. The bytes belong to someone else: the SafetensorsFile or the caller.
struct FileTensor {
  std::string name;
  FileDType dtype = FileDType::F32;
  std::vector<std::int64_t> shape;  // empty for a scalar
  std::span<const std::byte> bytes;

  /// The product of the shape.
  std::int64_t elements() const;

  static FileTensor f32(std::string name, std::vector<std::int64_t> shape,
                        std::span<const float> values);
  static FileTensor i32(std::string name, std::vector<std::int64_t> shape,
                        std::span<const std::int32_t> values);
};

/// A read-only view of the tensors of one file, or of all the files of a sharded model. Files are
/// memory-mapped, so opening reads only headers. A copy is a cheap handle on the same mapping;
/// references and spans obtained from it live as long as any copy. Safe to use from many threads.
///
/// A file that another program cuts short after it was opened is noticed by `read_*`; touching
/// `bytes` of such a file directly is a bus error, as with any mapping. Replacing a file by rename
/// (as write_safetensors does) is harmless.
class SafetensorsFile {
 public:
  /// Opens one file and checks its whole header.
  static SafetensorsFile open(const std::string& path);

  /// Opens a model: a safetensors file, an index (`….json`, whose `weight_map` names the shard of
  /// each tensor; the shards lie beside it), or a folder that holds `model.safetensors` or
  /// `model.safetensors.index.json`. Only tensors in the weight map are shown; one that lies in
  /// two shards is an error.
  static SafetensorsFile open_model(const std::string& path);

  /// The same for a file already in memory (fetched, embedded); `label` stands for its path in
  /// errors.
  static SafetensorsFile from_bytes(std::vector<std::byte> bytes, std::string label);

  SafetensorsFile(const SafetensorsFile&) = default;  // and no move: a handle is never empty
  SafetensorsFile& operator=(const SafetensorsFile&) = default;

  /// What was opened: the path or label given to open, open_model or from_bytes.
  const std::string& path() const;

  /// All tensors in the order of the header, or of the weight map.
  const std::vector<FileTensor>& tensors() const;
  std::vector<std::string> names() const;

  bool has(std::string_view name) const;
  const FileTensor& info(std::string_view name) const;

  /// The `__metadata__` of the file; of a sharded model the union, the first shard winning.
  const std::map<std::string, std::string>& metadata() const;

  /// The tensor's elements as floats, from any dtype, rounded to nearest (a BOOL is 0 or 1).
  std::vector<float> read_f32(std::string_view name) const;
  void read_f32(std::string_view name, std::span<float> into) const;  // sizes must agree

  /// The tensor's elements as 32-bit integers, from any integer dtype or BOOL. A value that does
  /// not fit is an IoError.
  std::vector<std::int32_t> read_i32(std::string_view name) const;
  void read_i32(std::string_view name, std::span<std::int32_t> into) const;  // sizes must agree

 private:
  struct View;
  static SafetensorsFile open_sharded(const std::string& index_path, const std::string& given_path);
  explicit SafetensorsFile(std::shared_ptr<const View> view) : view_(std::move(view)) {}
  std::shared_ptr<const View> view_;
};

/// Writes a file tensor by tensor, so that a model need not lie in memory as a whole. Everything
/// goes to a temporary file in the same folder, which takes the place of `path` at commit: at any
/// moment `path` is the old file or the new one, whole. Without commit, nothing remains.
class SafetensorsWriter {
 public:
  /// Lays out the file and writes its header; `bytes` of the tensors are not looked at. Tensors lie
  /// in the given order; where dtypes of different width are mixed the wider ones come first (and
  /// in the given order among themselves), so that every tensor is aligned to its element.
  SafetensorsWriter(const std::string& path, std::span<const FileTensor> layout,
                    const std::map<std::string, std::string>& metadata = {});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// Writes all bytes of one tensor; tensors may come in any order.
  void write(std::string_view name, std::span<const std::byte> bytes);

  /// Flushes to the disk and renames to `path`. Every tensor must have been written.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes all tensors, in the order SafetensorsWriter gives them, and commits.
void write_safetensors(const std::string& path, std::span<const FileTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// Writes a model into a folder, as open_model reads it: `model.safetensors` if all tensors fit in
/// `shard_bytes`, else `model-00001-of-00003.safetensors` and so on, each of at most that many
/// bytes (a larger tensor has a shard of its own), and the index last, so that an unfinished model
/// is never taken for a whole one. The folder is made if need be; one that holds a model is
/// refused.
void write_safetensors_model(const std::string& folder, std::span<const FileTensor> tensors,
                             std::uint64_t shard_bytes,
                             const std::map<std::string, std::string>& metadata = {});

}  // namespace tensorgrad
