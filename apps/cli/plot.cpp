#include "plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

namespace tensorgrad::cli {

namespace {

constexpr int kDotsAcross = 2, kDotsDown = 4;  // of a Braille character
constexpr int kMarkSpacing = 3;                // columns between marks
constexpr std::size_t kLabelWidth = 9;

/// A character of the picture: Braille dots, or a mark in their place.
struct Cell {
  unsigned dots = 0;
  std::string mark;
  Style colour = Style::Blue;
};

struct Extent {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void include(double value) { low = std::min(low, value), high = std::max(high, value); }
  bool empty() const { return low > high; }
  /// Where `value` lies, from 0 to 1.
  double fraction(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
  double at(double fraction) const { return low + fraction * (high - low); }
};

bool is_finite(const Point& p) { return std::isfinite(p.x) && std::isfinite(p.y); }

class Canvas {
 public:
  Canvas(int width, int height)
      : width_(width), height_(height), cells_(static_cast<std::size_t>(width * height)) {}

  int dots_across() const { return width_ * kDotsAcross; }
  int dots_down() const { return height_ * kDotsDown; }
  Cell& cell(int column, int row) {
    return cells_[static_cast<std::size_t>(row * width_ + column)];
  }

  void dot(int x, int y, Style colour) {
    // The order of the dots' bits in Unicode: U+2800 + bits.
    static constexpr unsigned kBits[kDotsDown][kDotsAcross] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    Cell& at = cell(x / kDotsAcross, y / kDotsDown);
    at.dots |= kBits[y % kDotsDown][x % kDotsAcross];
    at.colour = colour;
  }

  /// Bresenham's line.
  void line(int x0, int y0, int x1, int y1, Style colour) {
    const int dx = std::abs(x1 - x0), dy = -std::abs(y1 - y0);
    const int step_x = x0 < x1 ? 1 : -1, step_y = y0 < y1 ? 1 : -1;
    int error = dx + dy;
    while (true) {
      dot(x0, y0, colour);
      if (x0 == x1 && y0 == y1) return;
      const int twice = 2 * error;
      if (twice >= dy) error += dy, x0 += step_x;
      if (twice <= dx) error += dx, y0 += step_y;
    }
  }

  std::string row_text(int row) {
    std::string text;
    for (int column = 0; column < width_; ++column) {
      const Cell& at = cell(column, row);
      if (!at.mark.empty()) {
        text += styled(at.colour, at.mark);
      } else if (at.dots != 0) {
        const std::array<char, 3> utf8 = {static_cast<char>(0xE2),
                                          static_cast<char>(0xA0 | (at.dots >> 6)),
                                          static_cast<char>(0x80 | (at.dots & 0x3F))};
        text += styled(at.colour, std::string(utf8.data(), utf8.size()));
      } else {
        text += ' ';
      }
    }
    return text;
  }

 private:
  int width_, height_;
  std::vector<Cell> cells_;
};

std::string right_aligned(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

class Plotter {
 public:
  Plotter(const std::vector<Series>& series, const PlotOptions& options)
      : series_(series), options_(options), canvas_(options.width, options.height) {
    for (const Series& s : series) {
      for (const Point& p : s.points) log_ = log_ && (!is_finite(p) || p.y > 0);
    }
    for (const Series& s : series) {
      for (const Point& p : s.points) {
        if (!is_finite(p)) continue;
        x_.include(p.x);
        y_.include(scaled(p.y));
      }
    }
  }

  std::string draw() {
    if (x_.empty()) return "";
    for (const Series& s : series_) {
      if (s.mark.empty()) draw_line(s);
    }
    for (const Series& s : series_) {
      if (!s.mark.empty()) draw_marks(s);
    }
    return text();
  }

 private:
  double scaled(double y) const { return log_ ? std::log10(y) : y; }
  double unscaled(double y) const { return log_ ? std::pow(10.0, y) : y; }

  int dot_x(double x) const {
    return static_cast<int>(std::lround(x_.fraction(x) * (canvas_.dots_across() - 1)));
  }
  int dot_y(double scaled_y) const {  // rows count from the top
    return static_cast<int>(std::lround((1 - y_.fraction(scaled_y)) * (canvas_.dots_down() - 1)));
  }

  void draw_line(const Series& s) {
    struct Column {
      double sum = 0;
      int count = 0;
    };
    std::vector<Column> columns(static_cast<std::size_t>(canvas_.dots_across()));
    for (const Point& p : s.points) {
      if (!is_finite(p)) continue;
      Column& column = columns[static_cast<std::size_t>(dot_x(p.x))];
      column.sum += scaled(p.y);
      ++column.count;
    }
    int last_x = -1, last_y = 0;
    for (int x = 0; x < canvas_.dots_across(); ++x) {
      const Column& column = columns[static_cast<std::size_t>(x)];
      if (column.count == 0) continue;
      const int y = dot_y(column.sum / column.count);
      if (last_x < 0) last_x = x, last_y = y;
      canvas_.line(last_x, last_y, x, y, s.colour);
      last_x = x, last_y = y;
    }
  }

  void draw_marks(const Series& s) {
    int next = 0;
    for (const Point& p : s.points) {
      if (!is_finite(p)) continue;
      const int column = dot_x(p.x) / kDotsAcross;
      if (column < next) continue;
      Cell& at = canvas_.cell(column, dot_y(scaled(p.y)) / kDotsDown);
      at.mark = s.mark;
      at.colour = s.colour;
      next = column + kMarkSpacing;
    }
  }

  std::string text() {
    std::string out = options_.title.empty() ? "" : options_.title + "\n";
    const int last = options_.height - 1;
    for (int row = 0; row <= last; ++row) {
      std::string label;
      if (row == 0 || row == last || row == last / 2) {
        const double fraction = last > 0 ? 1 - static_cast<double>(row) / last : 0.5;
        double value = unscaled(y_.at(fraction));
        if (!log_ && std::abs(value) < 0.005 * (y_.high - y_.low)) value = 0;
        label = number(value, 3);
      }
      out += right_aligned(label, kLabelWidth) + (label.empty() ? " │" : " ┤") +
             canvas_.row_text(row) + "\n";
    }
    out += std::string(kLabelWidth, ' ') + " └";
    for (int i = 0; i < options_.width; ++i) out += "─";
    const std::string left = number(x_.low), right = number(x_.high);
    const auto width = static_cast<std::size_t>(options_.width);
    out += "\n" + std::string(kLabelWidth + 2, ' ') + left +
           right_aligned(right, width - std::min(width, left.size())) + "\n";
    if (series_.size() > 1) out += std::string(kLabelWidth + 2, ' ') + legend() + "\n";
    return out;
  }

  std::string legend() const {
    std::string text;
    for (const Series& s : series_) {
      text += (text.empty() ? "" : "   ") + styled(s.colour, s.mark.empty() ? "⠤⠤" : s.mark) + " " +
              s.name;
    }
    return text;
  }

  const std::vector<Series>& series_;
  const PlotOptions& options_;
  Canvas canvas_;
  bool log_ = options_.log_y;
  Extent x_, y_;
};

}  // namespace

std::string plot(const std::vector<Series>& series, const PlotOptions& options) {
  return Plotter(series, options).draw();
}

int plot_width() {
  return std::clamp(terminal_width() - static_cast<int>(kLabelWidth) - 4, 10, 72);
}

}  // namespace tensorgrad::cli
