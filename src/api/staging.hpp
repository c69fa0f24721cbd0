// What a step reads of the host: the fed inputs, the optimizer's scalars and the keys of random
// streams, as they lie in the plan's buffer of inputs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/backend.hpp"
#include "tensorgrad/compile.hpp"
#include "tensorgrad/plan.hpp"

namespace tensorgrad {

class Staging {
 public:
  Staging() = default;
  explicit Staging(const Plan& plan);

  /// Everything that the step after `steps` reads. Allocates nothing.
  void fill(const Feed& feed, const std::optional<Optimizer>& optimizer, std::optional<double> rate,
            std::uint64_t seed, std::int64_t steps);
  std::vector<std::uint32_t>& words() { return words_; }
  const std::vector<std::uint32_t>& words() const { return words_; }

  /// The buffer of the plan that the words are for; -1 if the plan has no inputs.
  int buffer() const { return buffer_; }
  void write_to(Backend& backend, DeviceBuffer& buffer, std::int64_t element_bytes) const;

 private:
  void take(const Feed& feed);

  struct Input {
    std::string name;
    std::int64_t offset = 0, count = 0;
    TensorType type;
    bool fed = false;
  };
  std::vector<Input> inputs_;
  struct Key {
    int stream;
    std::int64_t offset;
  };
  std::vector<Key> keys_;
  std::int64_t scalars_ = -1;  // where the optimizer's begin
  int buffer_ = -1;
  std::vector<std::uint32_t> words_;
};

}  // namespace tensorgrad
