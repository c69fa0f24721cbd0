// The examples that the program can train and take apart. A new one is a file with two functions
// and a line in examples.cpp; run.hpp has what all trainings share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "options.hpp"
#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::cli {

struct Example {
  std::string name;
  std::string summary;  ///< a phrase for lists
  int (*train)(const Arguments& args);
  /// Every stage of its training step for a target. `batch` 0: the default.
  CompiledIR (*compile)(const Target& target, std::int64_t batch);
};

const std::vector<Example>& examples();
/// Throws UsageError that lists the examples.
const Example& find_example(const std::string& name);
/// The rows of help that list the examples.
std::string list_examples();

// One file each: addition.cpp, chars.cpp, mnist.cpp, sin.cpp.
int train_chars(const Arguments& args);
CompiledIR compile_chars(const Target& target, std::int64_t batch);
int train_mnist(const Arguments& args);
CompiledIR compile_mnist(const Target& target, std::int64_t batch);
int train_sin(const Arguments& args);
CompiledIR compile_sin(const Target& target, std::int64_t batch);
int train_addition(const Arguments& args);
CompiledIR compile_addition(const Target& target, std::int64_t batch);

/// The stages of `compile`, without a device's runtime.
template <class Model, class Fn>
CompiledIR compile_stages(const Model& model, Fn loss, const InputDecls& decls,
                          const Optimizer& optimizer, const Target& target) {
  const auto forward = [&]() -> Outputs {
    Inputs inputs;
    for (const auto& [name, decl] : decls) {
      inputs.add(name, tensor_input(name, decl.shape, decl.dtype, {}));
    }
    Model traced = model;
    materialize_params(traced);
    return loss(static_cast<const Model&>(traced), inputs);
  };
  return compile_to_ir(forward, true, optimizer, target);
}

}  // namespace tensorgrad::cli
