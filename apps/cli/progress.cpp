#include "progress.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "terminal.hpp"

namespace tensorgrad::cli {

namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kQuietSeconds = 20;  // no longer without a line where there is no terminal
constexpr int kPlainLines = 10;       // of a whole training
constexpr int kBarWidth = 30;
constexpr std::size_t kFactsWidth = 46;  // loss 0.0001234  1234 steps/s  59 min 59 s left

}  // namespace

std::string rate_text(double rate) {
  return (rate >= 100 ? number(std::round(rate), 6) : number(rate, 3)) + " steps/s";
}

std::string bar(double fraction, int width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int total = width * 8;
  const int filled = std::clamp(static_cast<int>(std::lround(fraction * total)), 0, total);
  std::string text;
  for (int i = 0; i < filled / 8; ++i) text += "█";
  text += kEighths[filled % 8];
  text.append(static_cast<std::size_t>(width - (filled + 7) / 8), ' ');
  return text;
}

void Progress::update(std::int64_t step, double loss, double seconds) {
  const double now = shown_.seconds();
  const bool last = step == total_;
  const double rate = seconds > 0 ? static_cast<double>(step - first_) / seconds : 0;
  const double left = rate > 0 ? static_cast<double>(total_ - step) / rate : 0;
  std::string count = std::to_string(step) + "/" + std::to_string(total_);
  const std::string facts = "loss " + number(loss) + "  " + rate_text(rate) + "  " +
                            human_seconds(last ? seconds : left) + (last ? "" : " left");

  if (!is_terminal()) {
    const std::int64_t every = std::max<std::int64_t>(total_ / kPlainLines, 1);
    const bool first = last_shown_ < 0;
    if (!first && !last && step % every != 0 && now - last_shown_ < kQuietSeconds) return;
    std::printf("step %s  %s\n", count.c_str(), facts.c_str());
    std::fflush(stdout);
    last_shown_ = now;
    return;
  }

  if (!last && last_shown_ >= 0 && now - last_shown_ < kRedrawSeconds) return;
  last_shown_ = now;
  // Numbers change their length; the bar should stand still all the same.
  const std::size_t full = 2 * std::to_string(total_).size() + 1;
  count.insert(0, full - std::min(full, count.size()), ' ');
  // A line that wraps could not be rewritten: the bar takes what is left, or gives way.
  const std::size_t text = count.size() + std::max(facts.size(), kFactsWidth);
  const int space = terminal_width() - 1 - static_cast<int>(text) - 7;
  std::string line = "  " + count + "  ";
  if (space >= 4) {
    const double done =
        static_cast<double>(step) / static_cast<double>(std::max<std::int64_t>(total_, 1));
    line += styled(Style::Blue, bar(done, std::min(space, kBarWidth))) + "▏ ";
  }
  const int room = terminal_width() - 1 - static_cast<int>(count.size()) - 4;
  line += facts.substr(0, static_cast<std::size_t>(std::max(room, 0)));
  std::printf("\r%s\x1b[K", line.c_str());
  std::fflush(stdout);
  drawn_ = true;
}

void Progress::note(const std::string& line) {
  clear();
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void Progress::clear() {
  if (!drawn_) return;
  std::printf("\r\x1b[K");
  std::fflush(stdout);
  drawn_ = false;
  last_shown_ = -1;
}

}  // namespace tensorgrad::cli
