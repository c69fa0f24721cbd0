#include "terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace tensorgrad::cli {

namespace {

volatile std::sig_atomic_t interrupt_noted = 0;

void set_handlers(void (*handler)(int)) {
  std::signal(SIGINT, handler);
  std::signal(SIGTERM, handler);
}

void note_interrupt(int number) {
  interrupt_noted = number;
  set_handlers(SIG_DFL);
}

bool has_colour() {
  static const bool answer = [] {
    const char* off = std::getenv("NO_COLOR");  // https://no-color.org
    return is_terminal() && !(off && *off);
  }();
  return answer;
}

template <class... Args>
std::string print(const char* format, Args... args) {
  char text[64];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

}  // namespace

bool is_terminal() {
  static const bool answer = [] {
    const char* kind = std::getenv("TERM");
    return isatty(STDOUT_FILENO) && kind && *kind && std::string_view(kind) != "dumb";
  }();
  return answer;
}

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

std::string styled(Style style, const std::string& text) {
  if (!has_colour() || text.empty()) return text;
  const char* code = "";
  switch (style) {
    case Style::Bold:
      code = "1";
      break;
    case Style::Dim:
      code = "2";
      break;
    case Style::Red:
      code = "31";
      break;
    case Style::Green:
      code = "32";
      break;
    case Style::Yellow:
      code = "33";
      break;
    case Style::Blue:
      code = "34";
      break;
  }
  return std::string("\x1b[") + code + "m" + text + "\x1b[0m";
}

InterruptScope::InterruptScope() {
  interrupt_noted = 0;
  set_handlers(note_interrupt);
}

InterruptScope::~InterruptScope() { set_handlers(SIG_DFL); }

int interrupt_signal() { return interrupt_noted; }

std::string with_commas(std::int64_t value) {
  std::string text = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t i = text.size(); i > first + 3;) {
    i -= 3;
    text.insert(i, ",");
  }
  return text;
}

std::string human_bytes(std::int64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (bytes < 1024) return print("%.0f bytes", value);
  if (bytes < 1024 * 1024) return print("%.1f KiB", value / 1024);
  if (bytes < 1024 * 1024 * 1024) return print("%.1f MiB", value / (1024 * 1024));
  return print("%.2f GiB", value / (1024.0 * 1024 * 1024));
}

std::string human_seconds(double seconds) {
  if (seconds < 10) return print("%.1f s", seconds);
  if (seconds < 99.5) return print("%.0f s", seconds);
  const auto whole = static_cast<long long>(std::lround(seconds));
  if (whole < 3600) return print("%lld min %02lld s", whole / 60, whole % 60);
  return print("%lld h %02lld min", whole / 3600, whole / 60 % 60);
}

std::string number(double value, int digits) { return print("%.*g", digits, value); }

}  // namespace tensorgrad::cli
