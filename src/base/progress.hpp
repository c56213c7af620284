#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>

namespace attnctl {

enum class ProgressMode { automatic, always, never };

/// A progress bar on standard error. `automatic` shows it only on a terminal and only for work that takes
/// more than a second. `always` shows it at once, even if standard error is not a terminal. `quiet` hides it.
class Progress {
 public:
  Progress(ProgressMode mode, bool quiet);
  ~Progress() { end(); }

  void begin(const std::string& label, std::size_t total);
  void advance(std::size_t steps = 1);  // safe from several threads
  void end();                           // clears the line

 private:
  using Clock = std::chrono::steady_clock;
  void draw_when_due();

  bool enabled_;
  Clock::duration delay_;  // time until the bar is first drawn
  std::string label_;
  std::size_t total_ = 0;
  std::atomic<std::size_t> done_{0};
  Clock::time_point begun_;

  std::mutex mutex_;  // guards the members below
  bool shown_ = false;
  Clock::time_point next_drawing_;
};

/// Formats the line of a progress bar, at most `width` columns wide:
/// "layers  [######----]  6/10  0.5/s  0:08 left". The rate and the remaining time are computed from
/// `seconds`, the time of the first `done` steps. The bar is left out if it would have fewer than 10
/// characters. The label must be ASCII.
[[nodiscard]] std::string progress_line(const std::string& label, std::size_t done, std::size_t total,
                                        double seconds, std::size_t width);

}  // namespace attnctl
