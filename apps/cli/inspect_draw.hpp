// A program as pictures.
#pragma once

#include <string>

#include "inspect_diagram.hpp"

namespace tensorgrad::cli {

/// Boxes and arrows, as SVG.
std::string to_svg(const Diagram& diagram);

/// The memory of a step, as SVG: kernels from left to right, bytes from the bottom up. What lives
/// all the time is a band; what lives between kernels is a block from the middle of its writer to
/// the middle of its last reader.
std::string memory_svg(const Plan& plan);

}  // namespace tensorgrad::cli
