// Rotary position embedding.
#include <cmath>

#include "ops/rule.hpp"

namespace tensorgrad {

// Pairs (x_i, x_{i+D/2}) turn by the angle (position + offset)·base^(−2i/D); positions run along
// the second to last axis. The offset is an operand, so that decoding can move on without
// recompiling.
Tensor rope(Operand x, RopeOptions options) {
  SiteScope scope(x.site());
  const Tensor tensor = float_tensor("rope", x);
  if (tensor.rank() < 2 || tensor.shape(-1) % 2 != 0) {
    fail_op("rope",
            "needs [..., time, dim] with an even dim, not " + tensor.type().to_string() + ".",
            x.site());
  }
  const std::int64_t time = tensor.shape(-2), half = tensor.shape(-1) / 2;
  Tensor position = iota({time, half}, 0, f32);
  if (options.offset) position = position + cast(*options.offset, f32);
  const double rate = -std::log(options.base) / static_cast<double>(half);
  const Tensor angle = position * exp(iota({time, half}, 1, f32) * rate);
  const Tensor c = cos(angle), s = sin(angle);
  const Tensor a = narrow(tensor, -1, 0, half), b = narrow(tensor, -1, half, half);
  return concat({a * c - b * s, b * c + a * s}, -1);
}

}  // namespace tensorgrad
