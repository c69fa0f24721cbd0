// Every gradient of the op table against central differences, in double precision on the reference
// interpreter: single elements, then whole random directions, which reach every element.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "support/op_cases.hpp"

namespace tensorgrad::test {

namespace {

std::size_t at(TensorId id) { return static_cast<std::size_t>(id); }

std::vector<OpCase> smooth_cases() {
  std::vector<OpCase> cases;
  for (const OpCase& op_case : op_cases()) {
    const bool has_slope = op_case.smooth && !op_case.non_finite && !op_case.optimizer;
    // stop_gradient has a slope and was told not to say so.
    if (has_slope && op_case.op != "stop_gradient") cases.push_back(op_case);
  }
  return cases;
}

/// Σ cotangent·output over the f32 outputs of a case: the function whose gradient the graph has.
class Objective {
 public:
  Objective(const OpCase& op_case, std::map<std::string, Values> feeds)
      : graph_(build_case(op_case, false).graph), feeds_(std::move(feeds)), step_(op_case.step) {}

  double operator()(const std::map<std::string, Values>& feeds) const {
    const std::vector<Values> values = reference::Interpreter(*graph_).run(feeds);
    double sum = 0;
    for (const NamedTensor& output : graph_->outputs) {
      const auto cotangent = feeds.find("cot" + output.name.substr(3));
      if (cotangent == feeds.end()) continue;
      for (std::size_t i = 0; i < cotangent->second.size(); ++i) {
        sum += cotangent->second[i] * values[at(output.tensor)][i];
      }
    }
    return sum;
  }

  /// The slope along `direction` of one input.
  double slope(const std::string& input, const Values& direction) const {
    const auto moved = [&](double by) {
      auto feeds = feeds_;
      for (std::size_t i = 0; i < direction.size(); ++i) feeds[input][i] += by * direction[i];
      return (*this)(feeds);
    };
    return (moved(step_) - moved(-step_)) / (2 * step_);
  }

 private:
  std::shared_ptr<Graph> graph_;
  std::map<std::string, Values> feeds_;
  double step_;
};

}  // namespace

class Gradient : public ::testing::TestWithParam<OpCase> {};

TEST_P(Gradient, AgreesWithFiniteDifferences) {
  const OpCase& op_case = GetParam();
  const CaseGraph made = build_case(op_case);
  const std::vector<Values> values = reference::Interpreter(*made.graph).run(made.feeds);
  const Objective objective(op_case, made.feeds);
  Rng rng(1);

  for (std::size_t i = 0; i < op_case.inputs.size(); ++i) {
    if (op_case.inputs[i].dtype != f32) continue;
    const std::string input = "in" + std::to_string(i);
    const std::size_t size = made.feeds.at(input).size();
    const auto output =
        std::find_if(made.graph->outputs.begin(), made.graph->outputs.end(),
                     [&](const NamedTensor& o) { return o.name == "grad" + std::to_string(i); });
    const bool has_gradient = output != made.graph->outputs.end();
    const Values gradient = has_gradient ? values[at(output->tensor)] : Values(size, 0.0);

    double largest = 0;
    for (double g : gradient) largest = std::max(largest, std::abs(g));
    const double tolerance = 1e-6 * largest + 1e-9;
    constexpr std::size_t kElements = 24;
    const std::size_t stride = std::max<std::size_t>(1, size / kElements);
    for (std::size_t k = 0; k < size; k += stride) {
      Values direction(size, 0.0);
      direction[k] = 1;
      EXPECT_NEAR(gradient[k], objective.slope(input, direction), tolerance)
          << input << ", element " << k;
    }
    for (int repeat = 0; repeat < 2; ++repeat) {
      Values direction(size);
      double expected = 0, length = 0;
      for (std::size_t k = 0; k < size; ++k) {
        direction[k] = rng.normal();
        expected += gradient[k] * direction[k];
        length += std::abs(gradient[k] * direction[k]);
      }
      EXPECT_NEAR(expected, objective.slope(input, direction), 1e-6 * length + 1e-9)
          << input << ", a direction";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OpTable, Gradient, ::testing::ValuesIn(smooth_cases()),
                         [](const auto& info) {
                           return std::regex_replace(info.param.name(), std::regex("/"), "_");
                         });

}  // namespace tensorgrad::test
