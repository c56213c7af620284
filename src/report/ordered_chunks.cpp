#include "report/ordered_chunks.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/interrupt.hpp"

namespace attnctl {
namespace {

/// Writes chunks one at a time, in order.
class Turnstile {
 public:
  explicit Turnstile(const WriteChunk& write) : write_(write) {}

  /// Waits until all earlier chunks are written, then writes this one. The wait ends, because the pool starts
  /// tasks in ascending order, so every earlier chunk has been started.
  void pass(std::size_t chunk, const std::string& text) {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return failed_ || next_ == chunk; });
    if (failed_) return;
    try {
      write_(text);
    } catch (...) {
      fail_locked();
      throw;
    }
    ++next_;
    turn_.notify_all();
  }

  /// Returns true after fail(). Does not lock the mutex, which is held during slow writes.
  [[nodiscard]] bool failed() const { return failed_; }

  /// Stops all writing and wakes the waiting workers so that they return.
  void fail() {
    const std::lock_guard lock(mutex_);
    fail_locked();
  }

 private:
  void fail_locked() {
    failed_ = true;
    turn_.notify_all();
  }

  const WriteChunk& write_;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::size_t next_ = 0;
  std::atomic<bool> failed_ = false;
};

void write_serially(std::size_t chunks, const FormatChunk& format, const WriteChunk& write) {
  std::string text;
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    throw_if_interrupted();
    text.clear();
    format(chunk, text);
    write(text);
  }
}

}  // namespace

void write_in_order(Pool* pool, std::size_t chunks, const FormatChunk& format, const WriteChunk& write) {
  if (pool == nullptr || pool->size() == 1 || chunks <= 1) return write_serially(chunks, format, write);
  Turnstile turnstile(write);
  std::vector<std::string> texts(pool->size());
  pool->run(chunks, [&](std::size_t chunk, std::size_t worker) {
    if (turnstile.failed()) return;
    std::string& text = texts[worker];
    text.clear();
    try {
      format(chunk, text);
    } catch (...) {
      turnstile.fail();
      throw;
    }
    turnstile.pass(chunk, text);
  });
}

}  // namespace attnctl
