#include <condition_variable>
#include <mutex>

#include "base/interrupt.hpp"
#include "report/writers.hpp"

namespace attnctl::report {

void write_in_order(Pool* pool, std::size_t chunks,
                    const std::function<void(std::size_t chunk, std::string& text)>& format,
                    const std::function<void(const std::string& text)>& write) {
  if (pool == nullptr || pool->size() == 1 || chunks <= 1) {
    std::string text;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      throw_if_interrupted();
      text.clear();
      format(chunk, text);
      write(text);
    }
    return;
  }
  std::mutex mutex;
  std::condition_variable turn;
  std::size_t next = 0;  // the chunk that is written next
  std::atomic<bool> failed = false;
  std::vector<std::string> texts(pool->size());
  pool->run(chunks, [&](std::size_t chunk, std::size_t worker) {
    if (failed) return;  // read without the mutex, because the mutex is held during slow writes
    std::string& text = texts[worker];
    text.clear();
    try {
      format(chunk, text);
      // This wait always ends: the pool starts tasks in ascending order, so all earlier chunks have been
      // started.
      std::unique_lock lock(mutex);
      turn.wait(lock, [&] { return failed || next == chunk; });
      if (failed) return;
      write(text);
      ++next;
      turn.notify_all();
    } catch (...) {
      const std::lock_guard lock(mutex);
      failed = true;
      turn.notify_all();
      throw;
    }
  });
}

}  // namespace attnctl::report
