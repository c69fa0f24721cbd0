// What is kept of the last steps, so that a NaN can be traced to the step and the op that made it
// after parameters have been updated with it: a copy of parameters and states every so many steps,
// and the inputs of the steps since. Steps are the same again bit for bit, so they can be repeated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tensorgrad/debug.hpp"
#include "tensorgrad/runtime.hpp"

namespace tensorgrad::debug {

using Kept = std::map<std::string, Value>;
using Places = std::map<std::string, Place>;
using InputWords = std::vector<std::uint32_t>;

class Watch {
 public:
  explicit Watch(std::int64_t every) : every_(every) {}

  /// A step is about to be taken; they are counted from 1.
  void before_step(Runtime& runtime, const Places& persistent, std::int64_t step);
  /// It was taken, with these inputs.
  void after_step(const InputWords& inputs);
  /// The steps so far cannot be repeated: somebody else has changed parameters or states.
  void forget();

  struct BadStep {
    std::int64_t step = 0;  ///< 0: there is none
    Kept before;            ///< parameters and states before it
    InputWords inputs;
  };
  /// Takes the steps since the copy again, by `take`, until the first that leaves anything that is
  /// not finite. Leaves parameters and states as it found them.
  BadStep replay(Runtime& runtime, const Places& persistent,
                 const std::function<void(const InputWords&)>& take) const;
  /// A sentence for a replay that found nothing.
  std::string nothing_found() const;

 private:
  std::int64_t every_;
  std::int64_t first_step_ = 0;  // the one after the copy
  Kept copy_;
  std::vector<InputWords> inputs_;  // of the steps since
  bool gone_bad_ = false;  // what would have been copied was not finite: no later step matters
};

}  // namespace tensorgrad::debug
