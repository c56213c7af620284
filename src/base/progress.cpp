#include "base/progress.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/progress_line.hpp"

namespace attnctl {
namespace {

using Clock = std::chrono::steady_clock;

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col - 1U;
  return 79;
}

/// What cannot be shown is not worth an error.
void show(std::string_view text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

struct Progress::State {
  bool enabled = false;
  Clock::duration patience{};  // before the first drawing
  std::string label;
  std::size_t total = 0;
  std::atomic<std::size_t> done{0};
  Clock::time_point begun;

  std::mutex mutex;  // of what follows
  bool shown = false;
  Clock::time_point next_drawing;

  void draw_when_due() {
    const std::unique_lock lock(mutex, std::try_to_lock);
    if (!lock) return;
    const Clock::time_point now = Clock::now();
    if (now < next_drawing) return;
    next_drawing = now + std::chrono::milliseconds(100);
    const std::chrono::duration<double> passed = now - begun;
    show("\r\x1b[K" + progress_line(label, done.load(), total, passed.count(), terminal_width()));
    shown = true;
  }

  void clear() {
    const std::lock_guard lock(mutex);
    if (shown) show("\r\x1b[K");
    shown = false;
  }
};

Progress::Progress(ProgressMode mode, bool quiet) : state_(std::make_unique<State>()) {
  const bool always = mode == ProgressMode::always;
  state_->enabled = !quiet && (always || (mode == ProgressMode::automatic && ::isatty(STDERR_FILENO) == 1));
  state_->patience = always ? Clock::duration::zero() : std::chrono::seconds(1);
}

Progress::~Progress() {
  end();
}

void Progress::begin(const std::string& label, std::size_t total) {
  if (!state_->enabled) return;
  end();
  state_->label = escaped(label);
  state_->total = total;
  state_->done = 0;
  state_->begun = Clock::now();
  state_->next_drawing = state_->begun + state_->patience;
  state_->draw_when_due();
}

void Progress::advance(std::size_t steps) {
  if (!state_->enabled) return;
  state_->done += steps;
  state_->draw_when_due();
}

void Progress::end() {
  if (state_->enabled) state_->clear();
}

}  // namespace attnctl
