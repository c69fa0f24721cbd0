#include "svg.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "tensorgrad/error.hpp"

namespace tensorgrad::cli {

namespace {

constexpr double kWidth = 720, kHeight = 420;
constexpr double kLeft = 72, kRight = 20, kTop = 48, kBottom = 52;  // margins around the plot
constexpr std::size_t kMostPoints = 1000;                           // of a line; more are averaged

const char* css_colour(Style style) {
  switch (style) {
    case Style::Red:
      return "#c8352b";
    case Style::Green:
      return "#2b8a3e";
    case Style::Yellow:
      return "#d9822b";
    case Style::Blue:
    case Style::Bold:
    case Style::Dim:
      break;
  }
  return "#2563ae";
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

/// One axis: values to places in the picture, and where its ticks are.
class Axis {
 public:
  Axis(std::vector<double> values, bool logarithmic, double from, double to)
      : log_(logarithmic), from_(from), to_(to) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    low_ = scaled(*low), high_ = scaled(*high);
    if (high_ - low_ <= 0) low_ -= 0.5, high_ += 0.5;
  }

  double place(double value) const {
    return from_ + (scaled(value) - low_) / (high_ - low_) * (to_ - from_);
  }

  /// Round numbers: 1, 2 or 5 times a power of ten, five or so of them.
  std::vector<double> ticks() const {
    std::vector<double> found;
    if (log_) {
      const bool few = high_ - low_ < 3;  // decades
      for (double decade = std::floor(low_); decade <= high_; ++decade) {
        for (const double factor : {1.0, 2.0, 5.0}) {
          const double value = factor * std::pow(10.0, decade);
          if ((few || factor == 1) && inside(value)) found.push_back(value);
        }
      }
      return found;
    }
    const double rough = (high_ - low_) / 5, power = std::pow(10.0, std::floor(std::log10(rough)));
    const double part = rough / power;
    const double step = (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10) * power;
    // By counting, so that 0.1 steps do not drift.
    for (double i = std::ceil(low_ / step); i * step <= high_; ++i) found.push_back(i * step);
    return found;
  }

 private:
  double scaled(double value) const { return log_ ? std::log10(value) : value; }
  bool inside(double value) const { return scaled(value) >= low_ && scaled(value) <= high_; }

  bool log_;
  double from_, to_, low_ = 0, high_ = 0;
};

/// Neighbours averaged until a line has no more points than can be seen.
std::vector<Point> thinned(const std::vector<Point>& points) {
  const std::size_t each = (points.size() + kMostPoints - 1) / kMostPoints;
  if (each <= 1) return points;
  std::vector<Point> fewer;
  for (std::size_t first = 0; first < points.size(); first += each) {
    const std::size_t count = std::min(each, points.size() - first);
    Point sum;
    for (std::size_t i = first; i < first + count; ++i) {
      sum.x += points[i].x;
      sum.y += points[i].y;
    }
    fewer.push_back({sum.x / static_cast<double>(count), sum.y / static_cast<double>(count)});
  }
  return fewer;
}

std::string text(double x, double y, const char* anchor, const std::string& words,
                 const std::string& more = "") {
  return "<text x=\"" + number(x, 5) + "\" y=\"" + number(y, 5) + "\" text-anchor=\"" + anchor +
         "\"" + more + ">" + escaped(words) + "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, const char* colour) {
  return "<line x1=\"" + number(x1, 5) + "\" y1=\"" + number(y1, 5) + "\" x2=\"" + number(x2, 5) +
         "\" y2=\"" + number(y2, 5) + "\" stroke=\"" + colour + "\"/>\n";
}

std::string draw(const Series& s, const Axis& x, const Axis& y) {
  const std::string colour = css_colour(s.colour);
  std::string places, dots;
  for (const Point& p : thinned(s.points)) {
    const std::string px = number(x.place(p.x), 5), py = number(y.place(p.y), 5);
    places += (places.empty() ? "" : " ") + px + "," + py;
    dots += "<circle cx=\"" + px + "\" cy=\"" + py + "\" r=\"3\" fill=\"" + colour + "\"/>\n";
  }
  const std::string path = "<polyline fill=\"none\" stroke=\"" + colour +
                           "\" stroke-width=\"1.5\" points=\"" + places + "\"/>\n";
  const bool dotted = !s.mark.empty() || s.points.size() == 1;
  return path + (dotted ? dots : "");
}

std::vector<Series> finite_part(std::vector<Series> series) {
  for (Series& s : series) {
    std::erase_if(s.points,
                  [](const Point& p) { return !std::isfinite(p.x) || !std::isfinite(p.y); });
  }
  std::erase_if(series, [](const Series& s) { return s.points.empty(); });
  return series;
}

}  // namespace

std::string loss_curve(const std::vector<Series>& all, const std::string& title) {
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"420\" "
      "viewBox=\"0 0 720 420\" font-family=\"sans-serif\" font-size=\"13\" "
      "fill=\"#333\">\n<rect width=\"720\" height=\"420\" fill=\"#fff\"/>\n";
  out += text(kLeft, 28, "start", title, " font-size=\"16\"");
  const std::vector<Series> series = finite_part(all);
  if (series.empty()) return out + text(kWidth / 2, kHeight / 2, "middle", "no steps") + "</svg>\n";

  std::vector<double> xs, ys;
  for (const Series& s : series) {
    for (const Point& p : s.points) xs.push_back(p.x), ys.push_back(p.y);
  }
  const auto [low, high] = std::minmax_element(ys.begin(), ys.end());
  const bool logarithmic = *low > 0 && *high > 10 * *low;
  const Axis x(xs, false, kLeft, kWidth - kRight), y(ys, logarithmic, kHeight - kBottom, kTop);

  for (const double tick : y.ticks()) {
    out += line(kLeft, y.place(tick), kWidth - kRight, y.place(tick), "#e3e3e3");
    out += text(kLeft - 8, y.place(tick) + 4, "end", number(tick));
  }
  for (const double tick : x.ticks()) {
    out += line(x.place(tick), kHeight - kBottom, x.place(tick), kHeight - kBottom + 5, "#999");
    out += text(x.place(tick), kHeight - kBottom + 20, "middle", number(tick, 7));
  }
  out += line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, "#999");
  out += text((kLeft + kWidth - kRight) / 2, kHeight - 12, "middle", "step");
  for (const Series& s : series) out += draw(s, x, y);

  double place = kWidth - kRight;
  for (auto s = series.rbegin(); s != series.rend() && series.size() > 1; ++s) {
    out += text(place, 28, "end", s->name,
                std::string(" fill=\"") + css_colour(s->colour) + "\" font-weight=\"bold\"");
    place -= 12 + 8 * static_cast<double>(s->name.size());
  }
  return out + "</svg>\n";
}

namespace {

[[noreturn]] void fail_writing(const std::string& path) {
  throw IoError("Cannot write " + path + ": " + std::strerror(errno) + ".");
}

}  // namespace

void write_svg(const std::string& path, const std::vector<Series>& series,
               const std::string& title) {
  std::ofstream file(path);
  file << loss_curve(series, title) << std::flush;
  if (!file) fail_writing(path);
}

void check_can_write(const std::string& path) {
  std::error_code ignored;
  const bool was_there = std::filesystem::exists(path, ignored);
  if (!std::ofstream(path, std::ios::app)) fail_writing(path);
  if (!was_there) std::filesystem::remove(path, ignored);
}

}  // namespace tensorgrad::cli
