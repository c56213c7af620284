#include "base/progress.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace attnctl {
namespace {

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col - 1U;
  return 79;
}

/// Writes to standard error. Ignores errors, because a failed progress bar must not stop the program.
void show(std::string_view text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

std::string time_text(double seconds) {
  const auto whole = static_cast<long long>(std::min(std::ceil(seconds), 359999.0));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace

Progress::Progress(ProgressMode mode, bool quiet)
    : enabled_(!quiet && (mode == ProgressMode::always ||
                          (mode == ProgressMode::automatic && ::isatty(STDERR_FILENO) == 1))),
      delay_(std::chrono::seconds(mode == ProgressMode::always ? 0 : 1)) {}

Progress::Progress(Callback callback)
    : enabled_(callback != nullptr), callback_(std::move(callback)), delay_(0) {}

void Progress::begin(const std::string& label, std::size_t total, const std::string& unit) {
  if (!enabled_) return;
  end();
  work_ = {escaped(label), total, unit};
  done_ = 0;
  begun_ = Clock::now();
  next_drawing_ = begun_ + delay_;
  draw_when_due();
}

void Progress::advance(std::size_t steps) {
  if (!enabled_) return;
  done_ += steps;
  draw_when_due();
}

void Progress::reach(std::size_t done) {
  if (done > done_) advance(done - done_);
}

void Progress::draw_when_due() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  const Clock::time_point now = Clock::now();
  if (now < next_drawing_) return;
  next_drawing_ = now + std::chrono::milliseconds(100);
  if (callback_) return callback_(work_, done_.load());
  const std::chrono::duration<double> passed = now - begun_;
  show("\r\x1b[K" + progress_line(work_, done_.load(), passed.count(), terminal_width()));
  shown_ = true;
}

void Progress::end() {
  const std::lock_guard lock(mutex_);
  if (shown_) show("\r\x1b[K");
  shown_ = false;
}

std::string progress_line(const ProgressWork& work, std::size_t done, double seconds, std::size_t width) {
  double share = 0;
  std::string counts = "  " + counted(done, work.unit);
  if (work.total > 0) {
    done = std::min(done, work.total);
    share = static_cast<double>(done) / static_cast<double>(work.total);
    counts = fmt::format("  {:.0f} %  {}/{}", std::min(std::floor(100 * share), 99.0), done,
                         counted(work.total, work.unit));
  }
  if (done > 0 && seconds > 0) {
    const double rate = static_cast<double>(done) / seconds;
    counts += rate < 10 ? fmt::format("  {:.2g}/s", rate) : fmt::format("  {:.0f}/s", rate);
  }
  if (share > 0) counts += fmt::format("  {} left", time_text(seconds * (1 - share) / share));
  std::string line = work.label;
  constexpr std::size_t kMinBar = 10;
  constexpr std::size_t kMaxBar = 40;
  const std::size_t taken = line.size() + counts.size() + 4;  // with two spaces and the brackets
  const std::size_t bar = std::min(kMaxBar, width - std::min(width, taken));
  if (bar >= kMinBar && work.total > 0) {
    const auto filled = static_cast<std::size_t>(share * static_cast<double>(bar));
    line += "  [" + std::string(filled, '#') + std::string(bar - filled, '-') + ']';
  }
  line += counts;
  return line.substr(0, width);
}

}  // namespace attnctl
