// Curves in the terminal: Braille characters, eight dots each, with axes. Plain text; colours are
// added where there is a terminal.
#pragma once

#include <string>
#include <vector>

#include "terminal.hpp"

namespace tensorgrad::cli {

struct Point {
  double x = 0, y = 0;
};

struct Series {
  std::string name;           ///< in the legend, if there is more than one
  std::vector<Point> points;  ///< in order of x; points that are not finite are left out
  Style colour = Style::Blue;
  /// Empty: a line, averaged where many points fall on one column. Otherwise points drawn with this
  /// character, thinned out so that a line below stays visible.
  std::string mark = {};
};

struct PlotOptions {
  std::string title = {};
  int width = 64, height = 12;  ///< characters, without axes
  bool log_y = false;           ///< falls back to linear if a value is not positive
};

/// Several lines, each ended. Empty if there is nothing to draw.
std::string plot(const std::vector<Series>& series, const PlotOptions& options);

/// A width for plots that fits the terminal.
int plot_width();

}  // namespace tensorgrad::cli
