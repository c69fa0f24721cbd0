#include "api/staging.hpp"

#include <algorithm>
#include <cstring>

#include "tensorgrad/random.hpp"

namespace tensorgrad {
namespace {

[[noreturn]] void fail(std::string_view input, const std::string& what) {
  throw ShapeError("Input \"" + std::string(input) + "\" " + what);
}

}  // namespace

Staging::Staging(const Plan& plan) {
  for (const auto& [name, place] : plan.inputs) {
    buffer_ = place.buffer;
    if (name == kStepScalars) {
      scalars_ = place.offset;
    } else if (const int stream = random_stream(name); stream >= 0) {
      keys_.push_back({stream, place.offset});
    } else {
      inputs_.push_back({name, place.offset, place.type.shape.size(), place.type, false});
    }
  }
  if (buffer_ < 0) return;
  const std::int64_t bytes = plan.buffers[static_cast<std::size_t>(buffer_)].bytes;
  words_.resize(static_cast<std::size_t>(bytes / plan.target.element_bytes));
}

void Staging::fill(const Feed& feed, const std::optional<Optimizer>& optimizer,
                   std::optional<double> rate, std::uint64_t seed, std::int64_t steps) {
  take(feed);
  if (optimizer && scalars_ >= 0) {
    const auto scalars = step_scalars(*optimizer, steps + 1, rate);
    std::memcpy(words_.data() + scalars_, scalars.data(), sizeof scalars);
  }
  for (const Key& key : keys_) {
    const auto words = random_key(seed, key.stream, steps);
    std::memcpy(words_.data() + key.offset, words.data(), sizeof words);
  }
}

void Staging::take(const Feed& feed) {
  for (Input& input : inputs_) input.fed = false;
  for (const FeedItem& item : feed.items()) {
    const auto input = std::find_if(inputs_.begin(), inputs_.end(),
                                    [&](const Input& i) { return i.name == item.name; });
    if (input == inputs_.end()) {
      std::string known;
      for (const Input& i : inputs_) known += (known.empty() ? "" : ", ") + i.name;
      fail(item.name, "is not declared; declared are: " + known + ".");
    }
    if (input->fed) fail(item.name, "is given twice.");
    if (item.value.is_float() != (input->type.dtype == f32)) {
      fail(item.name, "is " + input->type.to_string() + ", but the values given are " +
                          (item.value.is_float() ? "float" : "int32") + ".");
    }
    if (item.value.count() != input->count) {
      fail(item.name, "is " + input->type.to_string() + " and needs " +
                          std::to_string(input->count) + " values, but " +
                          std::to_string(item.value.count()) + " are given.");
    }
    std::memcpy(words_.data() + input->offset, item.value.words(),
                static_cast<std::size_t>(input->count) * 4);
    input->fed = true;
  }
  for (const Input& input : inputs_) {
    if (!input.fed) fail(input.name, "(" + input.type.to_string() + ") is missing from the feed.");
  }
}

/// Words of several dtypes share the buffer; a device that keeps them as they are takes them in one
/// write, the reference interpreter converts each by its dtype.
void Staging::write_to(Backend& backend, DeviceBuffer& buffer, std::int64_t element_bytes) const {
  if (element_bytes == 4) {
    backend.write(buffer, 0, static_cast<std::int64_t>(words_.size()), i32, words_.data());
    return;
  }
  const auto write = [&](std::int64_t offset, std::int64_t count, DType dtype) {
    backend.write(buffer, offset, count, dtype, words_.data() + offset);
  };
  for (const Input& input : inputs_) write(input.offset, input.count, input.type.dtype);
  for (const Key& key : keys_) write(key.offset, 2, i32);
  if (scalars_ >= 0) write(scalars_, kStepScalarCount, f32);
}

}  // namespace tensorgrad
