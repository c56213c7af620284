#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <utility>

namespace attnctl {

/// Installs handlers for SIGINT, SIGTERM and SIGHUP. The first of these signals sets a flag. The second one
/// calls remove_temporaries(), prints "attnctl: interrupted" and ends the process with status 130. After
/// ignore_signals(), signals have no effect. SIGHUP stays ignored if it was ignored before (nohup). SIGPIPE
/// and SIGXFSZ are ignored, so that a write fails with EPIPE or EFBIG instead of ending the process.
void install_signal_handlers();

/// Returns true after SIGINT, SIGTERM or SIGHUP was received, or if the StopScope of this thread has a token
/// on which a stop was requested, unless this thread has an InterruptHold.
[[nodiscard]] bool interrupted() noexcept;

void throw_if_interrupted();  // throws Error(interrupted); long loops call this function

/// Makes later signals have no effect, because the run ends: its output is complete, or its error is printed.
/// Does nothing if this thread has an InterruptHold.
void ignore_signals() noexcept;

/// Like ignore_signals(), but throws Error(interrupted) if a signal was received before. An output calls this
/// function directly before it replaces the old file, so that status 130 means that the old file remains.
void throw_or_ignore_signals();

void forget_temporaries() noexcept;  // for a child process, in which the files belong to its parent

/// Calls remove_temporaries(), prints that memory is short and ends the process with status 5, without any
/// allocation. The output keeps its old content, unless it was replaced before.
[[noreturn]] void end_out_of_memory() noexcept;

/// From now on, end_out_of_memory() ends the process with this status and without a message.
void set_final_status(int status) noexcept;

/// Hides interrupts from this thread during its lifetime, so that finished results can still be written, and
/// keeps signals in effect when it replaces a file that is not the last output of the run. A Pool::run() that
/// this thread calls also hides them from its workers.
struct InterruptHold {
  InterruptHold() noexcept { ++holds; }
  ~InterruptHold() { --holds; }
  InterruptHold(const InterruptHold&) = delete;
  InterruptHold& operator=(const InterruptHold&) = delete;

  static inline thread_local int holds = 0;  // number of holds of this thread
};

/// While it exists, a stop that is requested on its token interrupts the work of this thread, and of the
/// workers of each Pool::run() that this thread calls. So a program that uses the library can end one run.
class StopScope {
 public:
  explicit StopScope(std::stop_token token) noexcept
      : token_(std::move(token)), previous_(std::exchange(current, &token_)) {}
  ~StopScope() { current = previous_; }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  static inline thread_local const std::stop_token* current = nullptr;  // of this thread; null: none

 private:
  std::stop_token token_;
  const std::stop_token* previous_;
};

/// Remembers the path of a temporary file or folder until the result is destroyed. At most 64 paths are
/// remembered; the result for any other path is null. Thread-safe.
[[nodiscard]] std::shared_ptr<void> remember_temporary(const std::string& path);

/// A thread has one while it creates a remembered file or folder. A thread that ends the process because of
/// memory or a signal waits at most a second for the end of all of them, because it could not remove a file
/// that is created later. If the process is already ending, the constructor waits for its end.
class CreationHold {
 public:
  CreationHold() noexcept;
  ~CreationHold();
  CreationHold(const CreationHold&) = delete;
  CreationHold& operator=(const CreationHold&) = delete;
};

/// Removes the remembered files, then the remembered folders that are empty, the inner first. Is
/// async-signal-safe: the signal handler calls it.
void remove_temporaries() noexcept;

}  // namespace attnctl
