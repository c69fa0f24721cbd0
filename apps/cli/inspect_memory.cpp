// The memory of a step as SVG.
#include <algorithm>

#include "inspect_draw.hpp"
#include "inspect_flow.hpp"
#include "inspect_svg.hpp"
#include "terminal.hpp"

namespace tensorgrad::cli {

namespace {

constexpr double kAllBytes = 480, kLabels = 190;    // of all bytes; of the names on the left
constexpr double kNarrowest = 560, kWidest = 1400;  // of all kernels
constexpr double kAxis = 36;                        // the axis

const char* fill_of(BufferRole role) {
  switch (role) {
    case BufferRole::Param:
      return "#cfe3f7";
    case BufferRole::Gradient:
      return "#f3dcc4";
    case BufferRole::Moment:
      return "#fdf3c8";
    case BufferRole::Input:
    case BufferRole::State:
    case BufferRole::Literal:
      return "#dff3f5";
    case BufferRole::Output:
      return "#d5f0d0";
    case BufferRole::Temp:
      return "#f4f4f4";
  }
  return "#ffffff";
}

std::string rectangle(double x, double y, double width, double height, const std::string& fill,
                      const std::string& tooltip) {
  return svg::with_tooltip("<rect x=\"" + svg::px(x) + "\" y=\"" + svg::px(y) + "\" width=\"" +
                               svg::px(width) + "\" height=\"" + svg::px(std::max(height, 0.5)) +
                               "\" fill=\"" + fill + "\" stroke=\"#999999\" stroke-width=\"0.5\">",
                           tooltip);
}

/// The most bytes of temporaries that are alive at once: what no plan could do without.
std::int64_t most_alive(const std::vector<StoredValue>& temps, std::size_t kernels, int bytes) {
  std::vector<std::int64_t> alive(kernels, 0);
  for (const StoredValue& value : temps) {
    for (int k = value.writer; k <= value.last_use(); ++k) {
      alive[static_cast<std::size_t>(k)] += value.elements * bytes;
    }
  }
  return alive.empty() ? 0 : *std::max_element(alive.begin(), alive.end());
}

}  // namespace

std::string memory_svg(const Plan& plan) {
  const auto kernels = static_cast<double>(std::max<std::size_t>(plan.kernels.size(), 1));
  const double width = std::clamp(kernels * 26, kNarrowest, kWidest);
  const double left = svg::kMargin + kLabels, top = svg::kMargin + svg::kTitleHeight;
  const int element = plan.target.element_bytes;
  std::int64_t total = 0, temps_bytes = 0;
  for (const BufferSpec& buffer : plan.buffers) {
    total += buffer.bytes;
    if (buffer.role == BufferRole::Temp) temps_bytes += buffer.bytes;
  }
  const double scale = kAllBytes / static_cast<double>(std::max<std::int64_t>(total, 1));
  const auto x_of = [&](double kernel) { return left + width * kernel / kernels; };

  std::vector<StoredValue> temps;
  for (StoredValue& value : stored_values(plan)) {
    const BufferRole role = plan.buffers[static_cast<std::size_t>(value.buffer)].role;
    if (role == BufferRole::Temp && value.writer >= 0) {
      temps.push_back(std::move(value));
    }
  }
  std::string text = svg::head(left + width + svg::kMargin, top + kAllBytes + kAxis + svg::kMargin,
                               human_bytes(total) + ", planned for " + plan.target.name +
                                   "; temporaries " + human_bytes(temps_bytes) + ", of which " +
                                   human_bytes(most_alive(temps, plan.kernels.size(), element)) +
                                   " are alive at once");

  double y = top + kAllBytes;
  std::vector<double> floors;  // of the buffers, in the picture
  for (const BufferSpec& buffer : plan.buffers) {
    const double height = static_cast<double>(buffer.bytes) * scale;
    floors.push_back(y);
    y -= height;
    const std::string label = buffer.name + "  " + human_bytes(buffer.bytes);
    text += rectangle(left, y, width, height, fill_of(buffer.role), label);
    if (height >= svg::kLine - 2) {
      text += svg::text(left - 6, y + height / 2 + 4, label, " text-anchor=\"end\"");
    }
  }
  for (const StoredValue& value : temps) {
    const double height = static_cast<double>(value.elements * element) * scale;
    const double floor = floors[static_cast<std::size_t>(value.buffer)] -
                         static_cast<double>(value.offset * element) * scale;
    // From the middle of the kernel that writes it: a kernel may write in place what it reads.
    const double x = x_of(value.writer + 0.5);
    const double end = x_of(value.last_use() + (value.readers.empty() ? 1 : 0.5));
    const std::string& writer = plan.kernels[static_cast<std::size_t>(value.writer)].name;
    text += rectangle(x, floor - height, end - x, height, "#b9a7dd",
                      value.type + "  " + human_bytes(value.elements * element) + ", kernel " +
                          std::to_string(value.writer) + " (" + writer + ") to " +
                          std::to_string(value.last_use()));
    const double letters = static_cast<double>(value.type.size()) * svg::kLetter;
    if (height >= svg::kLine && letters < end - x - 4) {
      text += svg::text((x + end) / 2, floor - height / 2 + 4, value.type,
                        " text-anchor=\"middle\" pointer-events=\"none\"");
    }
  }
  const int every = std::max(1, static_cast<int>(kernels * 30 / width));
  for (int k = 0; k < static_cast<int>(plan.kernels.size()); k += every) {
    text += svg::text((x_of(k) + x_of(k + 1)) / 2, top + kAllBytes + 14, std::to_string(k),
                      " text-anchor=\"middle\" fill=\"#666666\"");
  }
  text += svg::text(left + width / 2, top + kAllBytes + 30, "kernel", " text-anchor=\"middle\"");
  return text + "</svg>\n";
}

}  // namespace tensorgrad::cli
