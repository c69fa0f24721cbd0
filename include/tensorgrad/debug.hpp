// Finding the op that went wrong: the one that a NaN or an infinity comes from, and the one that
// two devices disagree about. Both run a step op by op, which is slow and meant for that.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensorgrad/device.hpp"
#include "tensorgrad/graph.hpp"

namespace tensorgrad {

/// The values of every parameter, input and state of a graph, by name. An i32 is a whole number, a
/// bool 0 or 1.
using LeafValues = std::map<std::string, std::vector<double>>;

/// Random values for every leaf of a graph: integers that are used as indices are in range, states
/// are as they start.
LeafValues random_leaves(const Graph& graph, std::uint64_t seed);

/// What the elements of a tensor are like.
struct ValueSummary {
  TensorId tensor = -1;
  std::string name;  ///< `%41`, with the name of a leaf behind it: `%0 "l1.W"`
  TensorType type;
  std::int64_t finite = 0, nan = 0, positive_infinity = 0, negative_infinity = 0;
  double min = 0, max = 0;  ///< of the finite ones

  std::int64_t bad() const { return nan + positive_infinity + negative_infinity; }
  /// `%41 f32[64, 64] in [0, 0.93], 3 NaN`.
  std::string to_string() const;
};

/// The op that a NaN or an infinity in the results of a step comes from.
struct NonFinite {
  bool found = false;
  std::int64_t step = 0;  ///< counted from 1; 0 where it is not known
  std::string result;     ///< what is not finite in the end: `output "loss"`, `the gradient of "W"`
  std::string device;     ///< where the op was seen to make it
  NodeId node = -1;       ///< in the graph as it was traced
  OpKind op = OpKind::Constant;
  Site site;
  std::string param_path;  ///< of the parameter it works on, or of the last one before it
  ValueSummary output;
  std::vector<ValueSummary> inputs;
  std::string text;  ///< all of it for people; where nothing was found, it says so
};

/// Runs a graph op by op and names the first op that made a value which is not finite and reached a
/// result: outputs, else gradients, else what is written back. Elements are followed, not tensors:
/// an infinity that a softmax absorbs is not blamed, nor are those that constants and inputs hold
/// on purpose, unless nothing else explains the result. f32 values are rounded to f32 after every
/// op, so that what overflows on a device overflows on the reference interpreter too.
NonFinite find_nonfinite(const std::shared_ptr<const Graph>& graph, const LeafValues& leaves,
                         const Device& device = Device::reference());

struct CompareOptions {
  /// How far two values may be apart, relative to the largest magnitude in their tensor.
  double tolerance = 2e-5;
};

/// What `compare_devices` found.
struct DeviceComparison {
  enum class Level : std::uint8_t {
    Op,      ///< one op, run by itself
    Kernel,  ///< every op agrees, but not a kernel that fuses several
    Step,    ///< every kernel agrees when run by itself, but not the step as a whole
  };

  bool agree = true;
  std::string first, second;  ///< the devices' names
  int ops = 0, kernels = 0;   ///< how many were compared

  // The first difference, if they do not agree.
  Level level = Level::Op;
  std::string kernel;  ///< its name, at the level of kernels
  NodeId node = -1;    ///< in `graph`
  OpKind op = OpKind::Constant;
  Site site;
  ValueSummary output;  ///< as the first device has it
  std::vector<ValueSummary> inputs;
  std::int64_t element = 0;  ///< where they are furthest apart
  double first_value = 0, second_value = 0;
  double error = 0;  ///< |first − second| relative to the tensor's scale; the largest if they agree

  std::shared_ptr<const Graph> graph;  ///< what was run, after the passes for the second device
  std::string text;                    ///< all of it for people
};

/// Runs a graph op by op on two devices and names the first op that the second computes
/// differently. Every op gets the first device's inputs, so that an error is found where it is made
/// and not where it has grown. Then the kernels as they really run, with several ops in one, in the
/// same manner; then the whole step. The graph is one as traced; passes are run on it.
DeviceComparison compare_devices(const std::shared_ptr<const Graph>& graph,
                                 const LeafValues& leaves, const Device& first,
                                 const Device& second, const CompareOptions& options = {});

}  // namespace tensorgrad
