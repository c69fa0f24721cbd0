// Sanitizers find in a few random cases what they find in many, and take ten times as long.
#pragma once

#include <cstdlib>

namespace tensorgrad::test {

/// Whether to run fewer random cases. The presets of the sanitizers say so.
inline bool quick() { return std::getenv("TENSORGRAD_TEST_QUICK") != nullptr; }

}  // namespace tensorgrad::test
