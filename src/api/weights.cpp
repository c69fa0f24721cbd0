#include "api/weights.hpp"

#include <algorithm>
#include <set>

#include "api/checkpoint.hpp"
#include "api/complaints.hpp"
#include "io/file_dtype.hpp"
#include "io/io_fail.hpp"

namespace tensorgrad {
namespace {

std::vector<std::string> split_at_stars(const std::string& pattern) {
  std::vector<std::string> parts{""};
  for (char c : pattern) {
    if (c == '*') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// What each star of the pattern stands for if it fits the whole name: as little as possible for
/// all but the last.
std::optional<std::vector<std::string>> match(const std::vector<std::string>& parts,
                                              const std::string& name) {
  const std::string& head = parts.front();
  const std::string& tail = parts.back();
  if (parts.size() == 1) {
    if (name != head) return std::nullopt;
    return std::vector<std::string>{};
  }
  if (name.size() < head.size() + tail.size() || name.compare(0, head.size(), head) != 0 ||
      name.compare(name.size() - tail.size(), tail.size(), tail) != 0) {
    return std::nullopt;
  }
  const std::size_t end = name.size() - tail.size();
  std::size_t at = head.size();
  std::vector<std::string> stars;
  for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
    const std::size_t found = name.find(parts[i], at);
    if (found == std::string::npos || found + parts[i].size() > end) return std::nullopt;
    stars.push_back(name.substr(at, found - at));
    at = found + parts[i].size();
  }
  stars.push_back(name.substr(at, end - at));
  return stars;
}

struct Rule {
  std::vector<std::string> from, to;  // split at their stars
};

std::string file_type(const FileTensor& tensor) { return io::describe(tensor.dtype, tensor.shape); }

bool holds_floats(FileDType dtype) { return !io::holds_integers(dtype); }

/// `l1.W (l1.weight in the file)`, or one name if both are the same.
std::string both_names(const WeightPlace& place) {
  return place.param +
         (place.name == place.param ? "" : " (" + io::quoted(place.name) + " in the file)");
}

}  // namespace

Rename::Rename(std::vector<Pair> pairs) {
  std::vector<Rule> rules;
  for (const auto& [from, to] : pairs) {
    rules.push_back({split_at_stars(from), split_at_stars(to)});
    if (rules.back().to.size() > rules.back().from.size()) {
      throw Error("Rename: \"" + to + "\" has more stars than \"" + from +
                  "\", which is to fill them.");
    }
  }
  fn_ = [rules = std::move(rules)](const std::string& given) {
    std::string name = given;
    for (const auto& [from, to] : rules) {
      const auto stars = match(from, name);
      if (!stars) continue;
      name = to.front();
      for (std::size_t i = 1; i < to.size(); ++i) name += (*stars)[i - 1] + to[i];
    }
    return name;
  };
}

Rename Rename::then(Rename next) const {
  return Rename([first = *this, second = std::move(next)](const std::string& name) {
    return second(first(name));
  });
}

bool ParamFilter::operator()(const std::string& name) const {
  if (fn_) return fn_(name);
  return std::any_of(patterns_.begin(), patterns_.end(), [&](const std::string& pattern) {
    return match(split_at_stars(pattern), name).has_value();
  });
}

FileNames pytorch_names(Rename first) {
  const Rename last_word{{"*.W", "*.weight"}, {"W", "weight"},   {"*.g", "*.weight"},
                         {"g", "weight"},     {"*.b", "*.bias"}, {"b", "bias"}};
  return {.rename = first.then(last_word), .linear_out_in = true};
}

std::vector<WeightPlace> place_weights(const std::vector<MaterializedParam>& params,
                                       const FileNames& names, const std::string& who) {
  std::vector<WeightPlace> places;
  for (const auto& [name, spec] : params) {
    const bool asked = names.transpose(name);
    if (asked && spec->shape.rank() != 2) {
      throw Error(who + ": " + name + " is " + spec->shape.to_string() +
                  ", but only a matrix can be transposed.");
    }
    const bool linear = names.linear_out_in && spec->layout == ParamLayout::InOut;
    places.push_back({name, spec->shape, names.rename(name), asked || linear});
  }
  // A pattern that fits nothing is a slip that a square matrix would hide.
  for (const std::string& pattern : names.transpose.patterns()) {
    const auto parts = split_at_stars(pattern);
    if (std::none_of(params.begin(), params.end(),
                     [&](const MaterializedParam& p) { return match(parts, p.name); })) {
      throw Error(who + ": no parameter fits \"" + pattern + "\", which is to be transposed.");
    }
  }
  return places;
}

std::vector<std::int64_t> file_shape(const WeightPlace& place) {
  std::vector<std::int64_t> shape;
  for (const Dim& dim : place.shape) shape.push_back(dim.size);
  if (place.transposed) std::reverse(shape.begin(), shape.end());
  return shape;
}

std::vector<WeightPlace> find_weights(const SafetensorsFile& file,
                                      const std::vector<WeightPlace>& places,
                                      const FileUploadOptions& options, UploadReport& report,
                                      const std::string& who) {
  const bool checkpoint = is_checkpoint(file.metadata());
  Complaints wrong;
  std::vector<WeightPlace> found;
  std::set<std::string> wanted;
  bool missing = false, extra = false, pytorch = false;
  for (WeightPlace place : places) {
    if (checkpoint) place.name = kParamPrefix + place.name;
    wanted.insert(place.name);
    if (!file.has(place.name)) {
      report.missing.push_back(place.param);
      if (options.partial) continue;
      missing = true;
      wrong.add("missing: " + both_names(place) + ", " + place.shape.to_string());
      continue;
    }
    const FileTensor& tensor = file.info(place.name);
    const std::vector<std::int64_t> shape = file_shape(place);
    if (tensor.shape != shape) {
      wrong.add("wrong shape: " + both_names(place) + " is " + place.shape.to_string() +
                " here and " + file_type(tensor) + " in the file" +
                (place.transposed ? ", where it should lie transposed" : ""));
    } else if (!holds_floats(tensor.dtype)) {
      wrong.add("wrong dtype: " + both_names(place) + " is f32 here and " + file_type(tensor) +
                " in the file");
    } else {
      found.push_back(std::move(place));
    }
  }
  for (const FileTensor& tensor : file.tensors()) {
    if (wanted.count(tensor.name)) continue;
    if (checkpoint && tensor.name.rfind(kStatePrefix, 0) == 0) continue;
    report.extra.push_back(tensor.name);
    if (options.ignore_extra) continue;
    extra = true;
    pytorch = pytorch || tensor.name.ends_with(".weight");
    wrong.add("not in the model: " + io::quoted(tensor.name) + ", " + file_type(tensor));
  }
  if (found.empty() && !places.empty() && wrong.empty()) {
    wrong.add("none of the model's " + std::to_string(places.size()) +
              " parameters is in the file");
    missing = true;
  }
  if (wrong.empty()) return found;
  std::string advice;
  if (who != kUploadParams) {
    // The options are not the caller's.
  } else if (missing && pytorch && !options.names.linear_out_in) {
    advice = "\nThe names look like PyTorch's: pass {.names = tg::pytorch_names()}.";
  } else if (missing && !options.partial) {
    advice = "\nIf the file may lack parameters, pass {.partial = true}.";
  } else if (extra) {
    advice = "\nIf the file may hold more, pass {.ignore_extra = true}.";
  }
  io::fail_at_path(file.path(), who + ": the file does not fit the model; nothing is changed." +
                                    wrong.text() + advice);
}

std::vector<float> read_weight(const SafetensorsFile& file, const WeightPlace& place) {
  std::vector<float> values = file.read_f32(place.name);
  if (!place.transposed) return values;
  return transposed(values, place.shape[1], place.shape[0]);
}

std::vector<float> transposed(std::span<const float> values, std::int64_t rows,
                              std::int64_t columns) {
  const auto r = static_cast<std::size_t>(rows), c = static_cast<std::size_t>(columns);
  std::vector<float> out(values.size());
  for (std::size_t i = 0; i < r; ++i) {
    for (std::size_t j = 0; j < c; ++j) out[j * r + i] = values[i * c + j];
  }
  return out;
}

}  // namespace tensorgrad
