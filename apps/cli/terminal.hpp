// What standard output is: a terminal that can be drawn on, or a file that gets plain text.
#pragma once

#include <cstdint>
#include <string>

namespace tensorgrad::cli {

/// Whether lines may be rewritten and coloured: standard output is a terminal that is not "dumb".
bool is_terminal();

/// Columns of the terminal, or 80.
int terminal_width();

enum class Style { Bold, Dim, Red, Green, Blue, Yellow };

/// `text` with the terminal's codes around it; `text` alone without a terminal or with NO_COLOR.
std::string styled(Style style, const std::string& text);

/// While it lives, the first Ctrl-C (or SIGTERM) is only noted; a second one ends the process as
/// usual.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

/// The signal that the last InterruptScope noted; 0: none.
int interrupt_signal();
/// Plus a signal's number: the exit status of what it ended, as shells say it.
inline constexpr int kSignalStatus = 128;

// ---- numbers for people

/// `1,234,567`.
std::string with_commas(std::int64_t value);
/// `12.3 MiB`.
std::string human_bytes(std::int64_t bytes);
/// `8.4 s`, `2 min 05 s`.
std::string human_seconds(double seconds);
/// As printf's `%g` with so many digits.
std::string number(double value, int digits = 4);

}  // namespace tensorgrad::cli
