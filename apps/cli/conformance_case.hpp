// What the parts of the conformance command share: a case that can be run, the arrays it computes
// and expects, and the report it fills.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tensorgrad/device.hpp"
#include "tensorgrad/feed.hpp"
#include "tensorgrad/safetensors.hpp"

namespace tensorgrad::conformance {

/// Numbers and their shape, as a file holds them: float or int32 (which bools are, too).
struct Array {
  std::vector<std::int64_t> shape;
  bool is_float = true;
  std::vector<float> floats = {};
  std::vector<std::int32_t> ints = {};

  static Array of(std::vector<std::int64_t> shape, std::vector<float> values);
  static Array of(const Value& value);
  /// A tensor of a file, as f32, or as i32 if that is what the file holds.
  static Array read(const SafetensorsFile& file, const std::string& name);
  static Array read_f32(const SafetensorsFile& file, const std::string& name);
  static Array read_i32(const SafetensorsFile& file, const std::string& name);

  std::size_t size() const { return is_float ? floats.size() : ints.size(); }
  std::vector<double> numbers() const;
  FeedValue feed() const { return is_float ? FeedValue(floats) : FeedValue(ints); }
};

/// [rows, columns] to [columns, rows]: between our matrices and PyTorch's.
std::vector<float> transpose(const std::vector<float>& values, std::int64_t rows,
                             std::int64_t columns);

/// `[3, 4]`.
std::string to_string(const std::vector<std::int64_t>& shape);

/// What an error is measured against.
enum class Scale {
  Tensor,   ///< max|got − want| / max|want|
  Element,  ///< max(|got − want| / |want|)
};

/// What came of one case: the tensors computed, by the names of the expected ones, and what is
/// wrong with them.
class Report {
 public:
  /// Keeps a computed tensor for --dump.
  void record(const std::string& name, Array got) {
    computed_.insert_or_assign(name, std::move(got));
  }
  /// Compares numbers with the expected ones. Where those are all zero (or so small that they are
  /// the rounding errors of a zero) the error is absolute and 1e-6 is allowed; a tolerance of 0
  /// means equal. Equal infinities, and NaN for NaN, are equal.
  void compare(const std::string& name, const std::vector<std::int64_t>& shape,
               const std::vector<double>& got, const std::vector<double>& want, double tolerance,
               Scale scale = Scale::Tensor);
  /// Records `got` and compares it with the tensor of that name in the file. `dumped_as` is the
  /// name for --dump and messages, if it is another one.
  void check(const SafetensorsFile& file, const std::string& name, Array got, double tolerance,
             const std::string& dumped_as = "");
  void fail(const std::string& reason) { failures_.push_back(reason); }

  bool passed() const { return failures_.empty(); }
  /// Everything that is wrong, in one line.
  std::string text() const;
  std::map<std::string, Array>& computed() { return computed_; }

 private:
  std::map<std::string, Array> computed_;
  std::vector<std::string> failures_;
};

/// One thing to run.
struct Case {
  std::string id;   ///< `add.0`, `gpt_adamw`, `mamba`
  std::string set;  ///< `core`; empty for what could not be read, which belongs to every set
  /// In no set unless asked for: see the help text.
  bool optional = false;
  std::function<void(const Device&, Report&)> run;
};

/// The cases of a list of op cases (a file like ops.json, beside it the .safetensors).
std::vector<Case> op_cases(const std::string& json_path);
/// The case of a training trajectory (a file like gpt_adamw.json, beside it the .safetensors).
Case training_case(const std::string& json_path);
/// The case of a folder with config.json, model.safetensors and expected.safetensors.
Case model_case(const std::string& folder);

}  // namespace tensorgrad::conformance
