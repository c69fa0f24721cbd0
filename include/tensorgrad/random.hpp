// How random numbers are keyed. Each random op of a graph is a stream with a hidden input of its
// own, `random.0`, `random.1`, … (i32[2]), which holds the key of this stream at this step. The
// numbers are a function of that key and the element's index alone (Threefry-2x32, 20 rounds), so
// that backward can make them again instead of keeping them, and so that every device makes the
// same ones. compile feeds the keys; who runs the stages by hand feeds random_key himself.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace tensorgrad {

/// The name of a stream's input.
inline std::string random_input(int stream) { return "random." + std::to_string(stream); }
/// The stream that an input of this name keys, or -1.
int random_stream(const std::string& input);

/// The key of a stream at a step.
std::array<std::int32_t, 2> random_key(std::uint64_t seed, int stream, std::int64_t step);

/// Threefry-2x32 with 20 rounds. An element's number is made of the first word of counter (index,
/// 0).
using Words = std::array<std::uint32_t, 2>;
Words threefry(Words counter, Words key);

}  // namespace tensorgrad
