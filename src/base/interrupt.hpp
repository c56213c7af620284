#pragma once

namespace attnctl {

/// Installs handlers of SIGINT, SIGTERM and SIGHUP that only set a flag, and ignores SIGPIPE and SIGXFSZ (the
/// write then fails with an errno). A second signal ends the process at once with status 130, after
/// removing open temporaries. SIGHUP stays ignored where it was (nohup).
void install_signal_handlers();

[[nodiscard]] bool interrupted() noexcept;

/// While one lives this thread is told of no interrupt, so that it can still write what was computed.
class InterruptHold {
 public:
  InterruptHold() noexcept;
  ~InterruptHold();
  InterruptHold(const InterruptHold&) = delete;
  InterruptHold& operator=(const InterruptHold&) = delete;
};

/// Throws Error(Status::interrupted) once a signal has asked the process to stop. Long loops call it.
void throw_if_interrupted();

}  // namespace attnctl
