// The words of SVG that our pictures use. A picture is a standalone file: no fonts, scripts or
// network.
#pragma once

#include <string>

namespace tensorgrad::cli::svg {

inline constexpr double kMargin = 20, kTitleHeight = 26;
inline constexpr double kLetter = 6.7, kLine = 14;  ///< of text

/// Text with what XML would take for its own replaced.
std::string escaped(const std::string& text);
/// A length or place; a tenth of a pixel is enough.
std::string px(double value);
/// `x,y`.
std::string point(double x, double y);

/// Everything before the drawing: size, background, title. `</svg>` ends the file.
std::string head(double width, double height, const std::string& title);
/// `more` are further attributes.
std::string text(double x, double y, const std::string& words, const std::string& more = "");
/// What a browser shows when the mouse rests on `shape`, an element that is still open.
std::string with_tooltip(const std::string& shape, const std::string& words);

}  // namespace tensorgrad::cli::svg
