// Where the boxes of a diagram stand and how its arrows run: layer below layer, so that every arrow
// points down (Sugiyama's method).
#pragma once

#include <vector>

#include "inspect_diagram.hpp"

namespace tensorgrad::cli {

struct Spot {
  double x = 0, y = 0;
};

struct Layout {
  double width = 0, height = 0;
  std::vector<Spot> centres;              ///< of the boxes
  std::vector<std::vector<Spot>> routes;  ///< of the arrows: from border to border, downwards
};

struct BoxSize {
  double width = 0, height = 0;
};

/// `sizes` are those of the boxes. The arrows must not go in circles.
Layout lay_out(const Diagram& diagram, const std::vector<BoxSize>& sizes);

}  // namespace tensorgrad::cli
