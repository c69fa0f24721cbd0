// The workloads that `bench` measures. bench/pytorch.py has the same ones.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::cli {

/// The training step of some model, with a batch.
class Stepper {
 public:
  virtual ~Stepper() = default;
  virtual float step() = 0;  ///< waits for the loss
  virtual PendingLoss step_async() = 0;
  virtual std::vector<float> run_steps(std::int64_t n) = 0;
  virtual std::vector<KernelTime> profile() = 0;
  virtual const Plan& plan() const = 0;
};
using MakeStepper = std::function<std::unique_ptr<Stepper>(const Device&)>;

struct TrainingWorkload {
  std::string name, what;
  std::int64_t steps;  ///< in one measurement
  MakeStepper make;
  MakeStepper make_small;  ///< the same model, small enough to be computed on the reference
};
const std::vector<TrainingWorkload>& training_workloads();

/// Operands that live on the device.
struct Operands {
  std::vector<Tensor> x;
};

/// One op on random operands.
struct OpWorkload {
  std::string name, what;
  double flops = 0, bytes = 0;  ///< what it must do at least; flops 0: bound by memory
  Operands operands;
  std::function<Tensor(const Operands&)> forward;
  /// The result for operands, in double precision, at one place of the output.
  std::function<double(const std::vector<std::vector<float>>& operands, std::size_t at)> expected;
};
const std::vector<OpWorkload>& op_workloads();

}  // namespace tensorgrad::cli
