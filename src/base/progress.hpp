#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>

namespace attnctl {

enum class ProgressMode { automatic, always, never };

/// A progress bar on standard error. `automatic` shows the bar only on a terminal and only for work that
/// takes more than a second. `always` shows the bar at once, even if standard error is not a terminal.
/// `never` and `quiet` hide the bar.
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
  Clock::duration delay_;  // minimum time until the bar is first drawn
  std::string label_;
  std::size_t total_ = 0;
  std::atomic<std::size_t> done_{0};
  Clock::time_point begun_;

  std::mutex mutex_;  // held while the bar is drawn or cleared
  bool shown_ = false;
  Clock::time_point next_drawing_;
};

/// Formats the line of a progress bar, at most `width` columns wide:
/// "layers  [######----]  6/10  0.5/s  0:08 left". The rate and the remaining time are computed from
/// `seconds`, the time that the first `done` steps took. Both are left out if `done` is 0. The part in
/// brackets is left out if fewer than 10 columns are left between the brackets. The label must be ASCII.
[[nodiscard]] std::string progress_line(const std::string& label, std::size_t done, std::size_t total,
                                        double seconds, std::size_t width);

}  // namespace attnctl
