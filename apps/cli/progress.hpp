// How far training is. On a terminal one line that is rewritten in place: a bar, step, loss, rate
// and time left. Elsewhere a plain line now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tensorgrad::cli {

/// Seconds that passed while it was running.
class Stopwatch {
 public:
  void start() { since_ = Clock::now(), running_ = true; }
  void stop() { total_ = seconds(), running_ = false; }
  double seconds() const {
    return total_ + (running_ ? std::chrono::duration<double>(Clock::now() - since_).count() : 0);
  }

 private:
  using Clock = std::chrono::steady_clock;
  double total_ = 0;
  Clock::time_point since_;
  bool running_ = false;
};

class Progress {
 public:
  /// `first` steps are already done, of `total`.
  Progress(std::int64_t first, std::int64_t total) : first_(first), total_(total) {
    shown_.start();
  }
  /// Takes the line away if training ends early, by an error say.
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `seconds` is the time spent on the steps since `first`, without evaluations.
  void update(std::int64_t step, double loss, double seconds);
  /// A line that stays, above the bar.
  void note(const std::string& line);
  /// Removes the bar.
  void clear();

 private:
  std::int64_t first_, total_;
  Stopwatch shown_;         // since it was made
  double last_shown_ = -1;  // by that watch; negative: never
  bool drawn_ = false;
};

/// `12.3 steps/s`.
std::string rate_text(double rate);

/// `fraction` of `width` columns, in eighths of a column.
std::string bar(double fraction, int width);

}  // namespace tensorgrad::cli
