// Parameters in files: which tensor of a safetensors file is which parameter of a model, and which
// way round its matrix lies.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tensorgrad {

/// From a parameter's name to its name in a file: pairs of patterns, or any function of the name.
///
/// A pattern stands for a whole name; each `*` in it for any text, which takes the place of the
/// same `*` on the right: `{{"blocks.*", "transformer.h.*"}, {"*.W", "*.weight"}}`. All pairs are
/// tried in order, each on what the one before gave.
class Rename {
 public:
  using Pair = std::pair<std::string, std::string>;
  Rename() = default;
  Rename(std::initializer_list<Pair> pairs) : Rename(std::vector<Pair>(pairs)) {}
  explicit Rename(std::vector<Pair> pairs);
  template <class F>
  requires std::is_invocable_r_v<std::string, F, const std::string&> Rename(F fn)
      : fn_(std::move(fn)) {}  // NOLINT: implicit on purpose

  std::string operator()(const std::string& name) const { return fn_ ? fn_(name) : name; }
  /// What this gives, renamed by `next`.
  Rename then(Rename next) const;

 private:
  std::function<std::string(const std::string&)> fn_;
};

/// Some of a model's parameters: patterns as in Rename, or any function of the name.
class ParamFilter {
 public:
  ParamFilter() = default;
  ParamFilter(std::initializer_list<std::string> patterns) : patterns_(patterns) {}
  template <class F>
  requires std::is_invocable_r_v<bool, F, const std::string&> ParamFilter(F fn)
      : fn_(std::move(fn)) {}  // NOLINT: implicit on purpose

  bool operator()(const std::string& name) const;
  const std::vector<std::string>& patterns() const { return patterns_; }

 private:
  std::vector<std::string> patterns_;
  std::function<bool(const std::string&)> fn_;
};

/// How a file calls a model's parameters and lays them out.
struct FileNames {
  Rename rename = {};          ///< From our names to the file's; the same unless said.
  ParamFilter transpose = {};  ///< Matrices whose two axes are swapped in the file.
  bool linear_out_in = false;  ///< The same for every parameter whose layout is InOut.
};

/// PyTorch's: `.W` and `.g` are `.weight`, `.b` is `.bias`, and the matrices of nn::Linear are
/// [out, in]; tables and convolutions lie as they do here. `first` renames before that.
FileNames pytorch_names(Rename first = {});

struct FileUploadOptions {
  bool partial = false;       ///< The file may lack parameters; those keep their values.
  bool ignore_extra = false;  ///< The file may hold tensors that the model does not have.
  FileNames names = {};
};

/// What upload_params left alone.
struct UploadReport {
  std::vector<std::string> missing;  ///< Parameters that the file lacks.
  std::vector<std::string> extra;    ///< Tensors of the file that the model does not have.
};

struct SaveParamsOptions {
  FileNames names = {};
  std::map<std::string, std::string> metadata = {};
  /// > 0: the path is a folder, which gets shards of at most this many bytes and their index.
  std::uint64_t shard_bytes = 0;
};

}  // namespace tensorgrad
