#pragma once

#include <cstdint>

namespace tensorgrad {

/// How many groups of `b` hold `a` things.
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace tensorgrad
