// Results as the caller sees them.
#include "tensorgrad/feed.hpp"

#include <cstring>

namespace tensorgrad {

namespace {

template <class Map>
std::string names_of(const Map& map) {
  std::string text;
  for (const auto& [name, value] : map) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

template <class T>
std::vector<T> convert(const std::vector<std::uint32_t>& words) {
  std::vector<T> values(words.size());
  if (!words.empty()) std::memcpy(values.data(), words.data(), words.size() * sizeof(T));
  return values;
}

}  // namespace

template <>
std::vector<float> Value::as<float>() const {
  if (type_.dtype != DType::F32)
    throw Error("This value is " + type_.to_string() + ": read it with as<int32_t>().");
  return convert<float>(words_);
}

template <>
std::vector<std::int32_t> Value::as<std::int32_t>() const {
  if (type_.dtype == DType::F32)
    throw Error("This value is " + type_.to_string() + ": read it with as<float>().");
  return convert<std::int32_t>(words_);
}

std::vector<FeedItem> Batch::view() const {
  std::vector<FeedItem> view;
  for (const auto& [name, values] : items_) {
    view.push_back({name, std::visit([](const auto& v) { return FeedValue(v); }, values)});
  }
  return view;
}

const Value& Captures::at(const std::string& name) const {
  const auto found = values.find(name);
  if (found == values.end()) {
    throw Error("There is no capture named \"" + name + "\"; there are: " + names_of(values) +
                ". Register one with capture(\"" + name + "\", tensor) in the forward function.");
  }
  return found->second;
}

std::vector<std::string> Captures::names() const {
  std::vector<std::string> result;
  for (const auto& [name, value] : values) result.push_back(name);
  return result;
}

std::vector<std::vector<float>> Captures::per_head(const std::string& name) const {
  const Value& value = at(name);
  const Shape& shape = value.shape();
  if (shape.rank() < 3) {
    throw Error("per_head: capture \"" + name + "\" is " + shape.to_string() +
                "; it needs a heads axis before the last two.");
  }
  const std::int64_t heads = shape[shape.rank() - 3];
  const std::int64_t each = shape[shape.rank() - 2] * shape[shape.rank() - 1];
  const std::vector<float> all = value.as<float>();
  std::vector<std::vector<float>> result;
  for (std::int64_t h = 0; h < heads; ++h) {
    result.emplace_back(all.begin() + h * each, all.begin() + (h + 1) * each);
  }
  return result;
}

const Value& RunResult::operator[](const std::string& name) const {
  const auto found = outputs.find(name);
  if (found == outputs.end()) {
    throw Error("There is no output named \"" + name + "\"; there are: " + names_of(outputs) + ".");
  }
  return found->second;
}

}  // namespace tensorgrad
