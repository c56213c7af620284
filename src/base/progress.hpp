#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

namespace attnctl {

enum class ProgressMode { automatic, always, never };

struct ProgressWork {
  std::string label;
  std::size_t total = 0;  // 0: unknown
  std::string unit;       // of `total`, in the singular
};

/// A progress bar on standard error. `automatic` shows the bar only on a terminal and only for work that
/// takes more than a second. `always` shows the bar at once, even if standard error is not a terminal.
/// `never` and `quiet` hide the bar. The bar is removed at the end of the work, so it shows at most 99 %.
/// With a callback, there is no bar: the callback receives the work and the number of steps done, at once and
/// then at most ten times per second. It is called from any thread of the run, by one thread at a time.
class Progress {
 public:
  using Callback = std::function<void(const ProgressWork& work, std::size_t done)>;

  Progress(ProgressMode mode, bool quiet);
  explicit Progress(Callback callback);  // an empty callback: no progress
  ~Progress() { end(); }

  /// `unit` names the steps, in the singular: "byte". A `total` of 0 is unknown.
  void begin(const std::string& label, std::size_t total, const std::string& unit);
  void advance(std::size_t steps = 1);  // safe from several threads
  void reach(std::size_t done);         // raises the count to `done`; from one thread at a time
  void end();                           // clears the line

 private:
  using Clock = std::chrono::steady_clock;
  void draw_when_due();

  bool enabled_;
  Callback callback_;
  Clock::duration delay_;  // minimum time until the bar is first drawn
  ProgressWork work_;
  std::atomic<std::size_t> done_{0};
  Clock::time_point begun_;

  std::mutex mutex_;  // held while the bar is drawn or cleared
  bool shown_ = false;
  Clock::time_point next_drawing_;
};

/// Formats the line of a progress bar, at most `width` columns wide:
/// "forward  [######----]  60 %  6/10 layers  0.5/s  0:08 left". The rate and the remaining time are computed
/// from `seconds`, the time that the first `done` steps took. Both are left out if `done` is 0. The part in
/// brackets is left out if fewer than 10 columns are left between the brackets. If the total is unknown, only
/// the count and the rate are shown. The label must be ASCII.
[[nodiscard]] std::string progress_line(const ProgressWork& work, std::size_t done, double seconds,
                                        std::size_t width);

}  // namespace attnctl
