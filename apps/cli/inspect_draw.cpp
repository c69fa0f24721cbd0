// Diagrams as SVG.
#include "inspect_draw.hpp"

#include <algorithm>

#include "inspect_layout.hpp"
#include "inspect_svg.hpp"

namespace tensorgrad::cli {

namespace {

constexpr double kPadding = 8;

const char* fill_of(BoxKind kind) {
  switch (kind) {
    case BoxKind::Param:
      return "#cfe3f7";
    case BoxKind::Input:
      return "#dff3f5";
    case BoxKind::Work:
      return "#ffffff";
    case BoxKind::View:
      return "#f0f0f0";
    case BoxKind::Update:
      return "#fdf3c8";
    case BoxKind::Result:
      return "#d5f0d0";
  }
  return "#ffffff";
}

BoxSize size_of(const Box& box) {
  const std::size_t letters = std::max(box.title.size(), box.detail.size());
  return {static_cast<double>(letters) * svg::kLetter + 2 * kPadding,
          (box.detail.empty() ? 1 : 2) * svg::kLine + kPadding};
}

std::string drawn_box(const Box& box, const BoxSize& size, Spot centre) {
  const double left = centre.x - size.width / 2, top = centre.y - size.height / 2;
  const bool leaf = box.kind == BoxKind::Param || box.kind == BoxKind::Input;
  const std::string middle = " text-anchor=\"middle\" pointer-events=\"none\"";
  const std::string shape = "<rect x=\"" + svg::px(left) + "\" y=\"" + svg::px(top) +
                            "\" width=\"" + svg::px(size.width) + "\" height=\"" +
                            svg::px(size.height) + "\" rx=\"" + (leaf ? "10" : "3") + "\" fill=\"" +
                            fill_of(box.kind) + "\" stroke=\"#555555\">";
  std::string text = svg::with_tooltip(shape, box.tooltip) +
                     svg::text(centre.x, top + kPadding / 2 + 11, box.title, middle);
  if (!box.detail.empty()) {
    text += svg::text(centre.x, top + kPadding / 2 + svg::kLine + 11, box.detail,
                      middle + " fill=\"#666666\"");
  }
  return text;
}

/// Down through the points of a route, bending between layers only.
std::string drawn_arrow(const std::vector<Spot>& route, Spot shift, const std::string& label) {
  std::string path = "M" + svg::point(route[0].x + shift.x, route[0].y + shift.y);
  for (std::size_t i = 1; i < route.size(); ++i) {
    const Spot from{route[i - 1].x + shift.x, route[i - 1].y + shift.y};
    const Spot to{route[i].x + shift.x, route[i].y + shift.y};
    const double half = (from.y + to.y) / 2;
    path += from.x == to.x ? " L" + svg::point(to.x, to.y)
                           : " C" + svg::point(from.x, half) + " " + svg::point(to.x, half) + " " +
                                 svg::point(to.x, to.y);
  }
  return svg::with_tooltip(
      "<path d=\"" + path + "\" fill=\"none\" stroke=\"#888888\" marker-end=\"url(#tip)\">", label);
}

}  // namespace

std::string to_svg(const Diagram& diagram) {
  std::vector<BoxSize> sizes;
  for (const Box& box : diagram.boxes) sizes.push_back(size_of(box));
  const Layout layout = lay_out(diagram, sizes);
  const Spot shift{svg::kMargin, svg::kMargin + svg::kTitleHeight};
  const double title_width = static_cast<double>(diagram.title.size()) * 8;
  std::string text = svg::head(std::max(layout.width, title_width) + 2 * svg::kMargin,
                               layout.height + 2 * svg::kMargin + svg::kTitleHeight, diagram.title);
  text +=
      "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" "
      "markerHeight=\"7\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\" fill=\"#888888\"/></marker>"
      "</defs>\n";
  for (std::size_t i = 0; i < diagram.arrows.size(); ++i) {
    text += drawn_arrow(layout.routes[i], shift, diagram.arrows[i].label);
  }
  for (std::size_t i = 0; i < diagram.boxes.size(); ++i) {
    text += drawn_box(diagram.boxes[i], sizes[i],
                      {layout.centres[i].x + shift.x, layout.centres[i].y + shift.y});
  }
  return text + "</svg>\n";
}

}  // namespace tensorgrad::cli
