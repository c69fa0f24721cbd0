#include "io/safetensors_header.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "io/file_dtype.hpp"
#include "io/io_fail.hpp"
#include "io/json_events.hpp"

namespace tensorgrad::io {
namespace {

// Bounds on what a header may make us keep; far beyond any real model.
constexpr std::size_t kMostEntries = 1'000'000;
constexpr std::size_t kMostDimensions = 32;

std::string range_text(std::uint64_t begin, std::uint64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + "]";
}

/// Walks `{"__metadata__": {key: string}, name: {"dtype": …, "shape": […], "data_offsets": [b,
/// e]}}`.
class HeaderReader : public JsonEvents {
 public:
  HeaderReader(std::uint64_t data_size, std::string_view path)
      : data_size_(data_size), path_(path) {}

  Header take() { return std::move(header_); }

  void object_begin() override {
    if (level_ == Level::Start) {
      level_ = Level::Top;
    } else if (level_ == Level::Top && name_ == "__metadata__") {
      if (seen_metadata_) fail_in_file(path_, "the header has \"__metadata__\" twice.");
      seen_metadata_ = true;
      level_ = Level::Metadata;
    } else if (level_ == Level::Top) {
      if (header_.tensors.size() == kMostEntries) fail_too_many("tensors");
      header_.tensors.emplace_back().tensor.name = name_;
      seen_dtype_ = seen_shape_ = seen_offsets_ = false;
      offsets_.clear();
      level_ = Level::Tensor;
    } else {
      unexpected("an object");
    }
  }

  void array_begin() override {
    if (level_ == Level::Tensor && field_ == "shape") {
      level_ = Level::Shape;
    } else if (level_ == Level::Tensor && field_ == "data_offsets") {
      level_ = Level::Offsets;
    } else {
      unexpected("an array");
    }
  }

  void end() override {
    switch (level_) {
      case Level::Shape:
      case Level::Offsets:
        level_ = Level::Tensor;
        break;
      case Level::Tensor:
        finish_tensor();
        level_ = Level::Top;
        break;
      case Level::Metadata:
        level_ = Level::Top;
        break;
      case Level::Top:
        level_ = Level::Start;
        break;
      case Level::Start:
        break;
    }
  }

  void key(std::string text) override {
    if (level_ == Level::Top) {
      name_ = std::move(text);
    } else if (level_ == Level::Metadata) {
      field_ = std::move(text);
    } else {
      field_ = std::move(text);
      bool* seen = field_ == "dtype"          ? &seen_dtype_
                   : field_ == "shape"        ? &seen_shape_
                   : field_ == "data_offsets" ? &seen_offsets_
                                              : nullptr;
      if (!seen) {
        fail("expected the fields dtype, shape and data_offsets, but there is " + quoted(field_) +
             ".");
      }
      if (*seen) fail("the field " + field_ + " is given twice.");
      *seen = true;
    }
  }

  void string(std::string text) override {
    if (level_ == Level::Metadata) {
      if (header_.metadata.size() == kMostEntries) fail_too_many("metadata entries");
      const auto [at, is_new] = header_.metadata.try_emplace(field_, std::move(text));
      if (!is_new) fail_in_file(path_, "the metadata has the key " + quoted(field_) + " twice.");
    } else if (level_ == Level::Tensor && field_ == "dtype") {
      const auto dtype = parse_file_dtype(text);
      if (!dtype)
        fail("unknown dtype " + quoted(text) + ": expected one of " + all_file_dtypes() + ".");
      current().tensor.dtype = *dtype;
    } else {
      unexpected("the string " + quoted(text));
    }
  }

  void whole_number(std::uint64_t value) override {
    if (level_ == Level::Shape) {
      auto& shape = current().tensor.shape;
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        unexpected(std::to_string(value));
      }
      if (shape.size() == kMostDimensions) {
        fail("the shape has more than " + std::to_string(kMostDimensions) + " dimensions.");
      }
      shape.push_back(static_cast<std::int64_t>(value));
    } else if (level_ == Level::Offsets) {
      if (offsets_.size() == 2)
        fail("data_offsets has more than two numbers: expected [begin, end].");
      offsets_.push_back(value);
    } else {
      unexpected(std::to_string(value));
    }
  }

  void other(std::string_view text) override { unexpected(printable(text, 40)); }

 private:
  enum class Level { Start, Top, Metadata, Tensor, Shape, Offsets };

  HeaderTensor& current() { return header_.tensors.back(); }

  [[noreturn]] void fail(const std::string& sentence) const {
    fail_in_tensor(path_, header_.tensors.back().tensor.name, sentence);
  }

  [[noreturn]] void fail_too_many(const std::string& things) const {
    fail_in_file(path_,
                 "the header has more than " + std::to_string(kMostEntries) + " " + things + ".");
  }

  [[noreturn]] void unexpected(const std::string& given) const {
    const std::string but = ", but found " + given + ".";
    switch (level_) {
      case Level::Start:
        fail_in_file(path_, "expected the header to be an object" + but);
      case Level::Top:
        if (name_ == "__metadata__") {
          fail_in_file(path_, "expected \"__metadata__\" to be an object of strings" + but);
        }
        fail_in_tensor(path_, name_, "expected an object with dtype, shape and data_offsets" + but);
      case Level::Metadata:
        fail_in_file(path_, "expected the metadata " + quoted(field_) + " to be a string" + but);
      case Level::Tensor:
        if (field_ == "dtype") fail("expected dtype to be a string" + but);
        if (field_ == "shape") fail("expected shape to be an array of whole numbers" + but);
        fail("expected data_offsets to be an array of two whole numbers" + but);
      case Level::Shape:
        fail("expected dimensions to be whole numbers from 0 to 2^63 - 1" + but);
      case Level::Offsets:
        fail("expected data_offsets to be whole numbers from 0 to 2^64 - 1" + but);
    }
    fail_in_file(path_, "the header is malformed" + but);
  }

  void finish_tensor() {
    auto& [tensor, begin, end] = current();
    if (!seen_dtype_) fail("the field dtype is missing.");
    if (!seen_shape_) fail("the field shape is missing.");
    if (!seen_offsets_) fail("the field data_offsets is missing.");
    if (offsets_.size() != 2) {
      fail("data_offsets has " + std::to_string(offsets_.size()) +
           " numbers: expected [begin, end].");
    }
    begin = offsets_[0];
    end = offsets_[1];
    const std::string given = "data_offsets " + range_text(begin, end);
    if (begin > end) fail(given + " end before they begin.");
    if (end > data_size_) {
      fail(given + " are out of range: the file has " + std::to_string(data_size_) +
           " bytes of data.");
    }
    const auto size = tensor_byte_size(tensor.dtype, tensor.shape);
    if (!size) {
      fail("the size of " + describe(tensor.dtype, tensor.shape) + " overflows: expected at most " +
           std::to_string(data_size_) + " bytes, the data of the file.");
    }
    if (end - begin != *size) {
      fail(given + " hold " + std::to_string(end - begin) + " bytes, but " +
           describe(tensor.dtype, tensor.shape) + " needs " + std::to_string(*size) + ".");
    }
  }

  std::uint64_t data_size_;
  std::string_view path_;
  Header header_;
  Level level_ = Level::Start;
  std::string name_;   // the last key at the top
  std::string field_;  // the last key one level below
  bool seen_metadata_ = false;
  bool seen_dtype_ = false, seen_shape_ = false, seen_offsets_ = false;
  std::vector<std::uint64_t> offsets_;
};

/// Walks `{"weight_map": {tensor: file}, …}`; what else is there is passed over.
class IndexReader : public JsonEvents {
 public:
  explicit IndexReader(std::string_view path) : path_(path) {}

  std::vector<std::pair<std::string, std::string>> take() {
    if (!seen_map_) fail_in_file(path_, "the index has no \"weight_map\".");
    return std::move(map_);
  }

  void object_begin() override {
    if (depth_ == 1 && key_ == "weight_map") {
      if (seen_map_) fail_in_file(path_, "the index has \"weight_map\" twice.");
      seen_map_ = in_map_ = true;
    } else if (depth_ > 0) {
      check_place("an object");
    }
    ++depth_;
  }
  void array_begin() override {
    check_place("an array");
    ++depth_;
  }
  void end() override {
    --depth_;
    if (depth_ == 1) in_map_ = false;
  }
  void key(std::string text) override {
    if (depth_ == 1 || in_map_) key_ = std::move(text);
  }
  void string(std::string text) override {
    if (!in_map_) return check_place("the string " + quoted(text));
    if (map_.size() == kMostEntries) {
      fail_in_file(path_, "the index has more than " + std::to_string(kMostEntries) + " tensors.");
    }
    map_.emplace_back(key_, std::move(text));
  }
  void whole_number(std::uint64_t value) override { check_place(std::to_string(value)); }
  void other(std::string_view text) override { check_place(printable(text, 40)); }

 private:
  /// A value that is not a shard's name may stand anywhere but here.
  void check_place(const std::string& given) const {
    if (depth_ == 0)
      fail_in_file(path_, "expected the index to be an object, but found " + given + ".");
    if (depth_ == 1 && key_ == "weight_map") {
      fail_in_file(path_, "expected \"weight_map\" to be an object, but found " + given + ".");
    }
    if (in_map_) {
      fail_in_tensor(path_, key_, "expected the name of a shard, but found " + given + ".");
    }
  }

  std::string_view path_;
  std::vector<std::pair<std::string, std::string>> map_;
  std::string key_;
  int depth_ = 0;
  bool seen_map_ = false, in_map_ = false;
};

void check_names_differ(std::vector<std::string_view> names, std::string_view path,
                        const std::string& what) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) fail_in_tensor(path, *twice, what + " names the same tensor twice.");
}

/// Sorted by place, each tensor must begin where the one before ended, and the last end with the
/// data.
void check_layout(const std::vector<HeaderTensor>& tensors, std::uint64_t data_size,
                  std::string_view path) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(tensors[a].begin, tensors[a].end) <
           std::pair(tensors[b].begin, tensors[b].end);
  });
  std::uint64_t covered = 0;
  const HeaderTensor* before = nullptr;
  for (std::size_t i : order) {
    const HeaderTensor& at = tensors[i];
    const std::string given = "data_offsets " + range_text(at.begin, at.end);
    if (at.begin < covered) {
      fail_in_tensor(path, at.tensor.name,
                     given + " overlap those of tensor " + quoted(before->tensor.name) + ", " +
                         range_text(before->begin, before->end) + ".");
    }
    if (at.begin > covered) {
      fail_in_tensor(path, at.tensor.name,
                     given + " leave a hole: expected them to begin at " + std::to_string(covered) +
                         (before ? ", where tensor " + quoted(before->tensor.name) + " ends."
                                 : ", the start of the data."));
    }
    covered = at.end;
    before = &at;
  }
  if (covered != data_size) {
    fail_in_file(path, "the file has " + std::to_string(data_size - covered) +
                           " trailing bytes: its tensors end at byte " + std::to_string(covered) +
                           " of the data, which has " + std::to_string(data_size) + ".");
  }
}

}  // namespace

Header parse_header(std::string_view text, std::uint64_t data_size, std::string_view path) {
  if (text.empty() || text.front() != '{') {
    fail_in_file(
        path, "expected the header to be an object that begins with '{', but it " +
                  (text.empty() ? "is empty." : "begins with " + quoted(text.substr(0, 1)) + "."));
  }
  HeaderReader reader(data_size, path);
  parse_json(text, reader, path, "the header");
  Header header = reader.take();

  std::vector<std::string_view> names;
  names.reserve(header.tensors.size());
  for (const HeaderTensor& at : header.tensors) names.push_back(at.tensor.name);
  check_names_differ(std::move(names), path, "the header");
  check_layout(header.tensors, data_size, path);
  return header;
}

std::vector<std::pair<std::string, std::string>> parse_index(std::string_view text,
                                                             std::string_view path) {
  IndexReader reader(path);
  parse_json(text, reader, path, "the index");
  auto map = reader.take();

  std::vector<std::string_view> names;
  names.reserve(map.size());
  for (const auto& [tensor, file] : map) {
    names.push_back(tensor);
    // A shard lies beside its index: a hostile index must not reach elsewhere.
    if (file.empty() || file == "." || file == ".." ||
        file.find_first_of("/\\") != std::string::npos || file.find('\0') != std::string::npos) {
      fail_in_tensor(
          path, tensor,
          "expected the name of a file beside the index, but found " + quoted(file) + ".");
    }
  }
  check_names_differ(std::move(names), path, "the weight_map");
  return map;
}

}  // namespace tensorgrad::io
