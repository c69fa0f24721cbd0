#include "inspect_svg.hpp"

#include <cstdio>

namespace tensorgrad::cli::svg {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string px(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string point(double x, double y) { return px(x) + "," + px(y); }

std::string head(double width, double height, const std::string& title) {
  const std::string w = px(width), h = px(height);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + w + "\" height=\"" + h +
         "\" viewBox=\"0 0 " + w + " " + h +
         "\" font-family=\"monospace\" font-size=\"11\">\n"
         "<rect width=\"" +
         w + "\" height=\"" + h + "\" fill=\"#ffffff\"/>\n" +
         text(kMargin, kMargin + 4, title, " font-size=\"13\"");
}

std::string text(double x, double y, const std::string& words, const std::string& more) {
  return "<text x=\"" + px(x) + "\" y=\"" + px(y) + "\"" + more + ">" + escaped(words) +
         "</text>\n";
}

std::string with_tooltip(const std::string& shape, const std::string& words) {
  const std::string name = shape.substr(1, shape.find(' ') - 1);
  return shape + (words.empty() ? "" : "<title>" + escaped(words) + "</title>") + "</" + name +
         ">\n";
}

}  // namespace tensorgrad::cli::svg
