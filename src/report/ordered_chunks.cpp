#include "report/ordered_chunks.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/interrupt.hpp"

namespace attnctl {
namespace {

/// Lets chunks through one at a time, in their order.
class Turnstile {
 public:
  explicit Turnstile(const WriteChunk& write) : write_(write) {}

  /// Waits until all earlier chunks are written, then writes this one. Every earlier chunk has been begun
  /// (the pool hands them out in ascending order), so the wait ends.
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

  /// Whether nothing more will be written. Without the lock, which is held while a reader takes its time.
  [[nodiscard]] bool failed() const { return failed_; }

  /// Nothing more will be written: whoever waits goes home.
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
