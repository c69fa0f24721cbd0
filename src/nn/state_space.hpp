// What Mamba and Mamba-2 have in common.
#pragma once

#include "tensorgrad/mamba.hpp"

namespace tensorgrad::nn {

/// The types of a Past.
struct PastShape {
  std::optional<Shape> window;  // none where the convolution has a single tap
  Shape state;
};
PastShape past_shape(std::int64_t batch, std::int64_t taps, std::int64_t channels, Shape state);

Past zero_past(const PastShape& shape);
Past declare_past(const std::string& name, const PastShape& shape);

/// The first values of what softplus makes time steps of.
Init time_step_bias(const TimeStepInit& init);

/// A Linear whose first weights are `scale` times the usual ones.
Linear scaled_linear(std::int64_t in, std::int64_t out, bool bias, double scale);

/// Throws unless each number is 1 or more.
void check_positive(const char* layer,
                    std::initializer_list<std::pair<const char*, std::int64_t>> sizes);

}  // namespace tensorgrad::nn
