// Curves as a picture: a standalone SVG file with axes, for reports and browsers.
#pragma once

#include <string>
#include <vector>

#include "plot.hpp"

namespace tensorgrad::cli {

/// The picture. The y axis is logarithmic if the values are positive and span more than a decade.
std::string loss_curve(const std::vector<Series>& series, const std::string& title);

/// Writes it to a file. Throws IoError.
void write_svg(const std::string& path, const std::vector<Series>& series,
               const std::string& title);

/// Throws IoError if no file can be written there. Leaves everything as it was.
void check_can_write(const std::string& path);

}  // namespace tensorgrad::cli
