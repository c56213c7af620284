#pragma once

#include <cstddef>
#include <string>

namespace attnctl {

/// Installs handlers for SIGINT, SIGTERM and SIGHUP. The first of these signals sets a flag. The second one
/// calls Temporaries::remove_all() and ends the process with status 130. SIGHUP stays ignored if it was
/// ignored before (nohup). SIGPIPE and SIGXFSZ are ignored, so that a write fails with EPIPE or EFBIG instead
/// of ending the process.
void install_signal_handlers();

/// Returns true after SIGINT, SIGTERM or SIGHUP was received, unless this thread has an InterruptHold.
[[nodiscard]] bool interrupted() noexcept;

void throw_if_interrupted();  // throws Error(interrupted); long loops call this function

/// Hides interrupts from this thread during its lifetime, so that finished results can still be written. A
/// Pool::run() that this thread calls also hides them from its workers.
struct InterruptHold {
  InterruptHold() noexcept { ++holds; }
  ~InterruptHold() { --holds; }
  InterruptHold(const InterruptHold&) = delete;
  InterruptHold& operator=(const InterruptHold&) = delete;

  static inline thread_local int holds = 0;  // number of holds of this thread
};

/// The paths of at most 64 temporary files and folders. The signal handler removes the files and folders with
/// remove_all(), which is async-signal-safe. The other functions are thread-safe.
class Temporaries {
 public:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  /// Adds a path and returns its slot. Returns kNone if all slots are in use; then the signal handler does
  /// not remove this path.
  static std::size_t add(const std::string& path);
  static void forget(std::size_t slot);
  /// Removes the files that were added and not forgotten, then the folders that are empty, the inner first.
  static void remove_all() noexcept;
};

}  // namespace attnctl
