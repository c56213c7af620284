#pragma once

#include <cstddef>
#include <string>

namespace attnctl {

/// Installs handlers for SIGINT, SIGTERM and SIGHUP that set a flag, and ignores SIGPIPE and SIGXFSZ, so that
/// a write returns an errno instead. A second signal removes the temporary files and folders and ends the
/// process with status 130. SIGHUP stays ignored if it was ignored before (nohup).
void install_signal_handlers();

/// Returns true after SIGINT, SIGTERM or SIGHUP was received, unless this thread has an InterruptHold.
[[nodiscard]] bool interrupted() noexcept;

void throw_if_interrupted();  // throws Error(interrupted); long loops call this function

/// Hides interrupts from this thread during its lifetime, so that finished results can still be written.
class InterruptHold {
 public:
  InterruptHold() noexcept;
  ~InterruptHold();
  InterruptHold(const InterruptHold&) = delete;
  InterruptHold& operator=(const InterruptHold&) = delete;
};

/// The paths of temporary files and folders. The signal handler removes them with remove_all(), which is
/// async-signal-safe. The other functions are thread-safe.
class Temporaries {
 public:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  /// Adds a path and returns its slot. Returns kNone if all slots are in use; then the signal handler does
  /// not remove this path.
  static std::size_t add(const std::string& path);
  static void forget(std::size_t slot);
  /// Removes every path that was added and not forgotten: first the files, then the empty folders.
  static void remove_all() noexcept;
};

}  // namespace attnctl
