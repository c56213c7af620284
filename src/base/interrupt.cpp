#include "base/interrupt.hpp"

#include <atomic>
#include <csignal>
#include <string_view>
#include <unistd.h>

#include "base/error.hpp"
#include "base/files/temporaries.hpp"

namespace attnctl {
namespace {

static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes this");
std::atomic<bool> asked_to_stop{false};

extern "C" void on_signal(int) {
  if (!asked_to_stop.exchange(true)) return;
  Temporaries::remove_all();
  constexpr std::string_view line = "attnctl: interrupted\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(static_cast<int>(Status::interrupted));
}

}  // namespace

void install_signal_handlers() {
  struct sigaction stop {};
  stop.sa_handler = on_signal;  // without SA_RESTART: a write that waits for a reader returns
  sigfillset(&stop.sa_mask);
  sigaction(SIGINT, &stop, nullptr);
  sigaction(SIGTERM, &stop, nullptr);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &stop, nullptr);  // ignored under nohup: leave it so
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
  sigaction(SIGXFSZ, &ignore, nullptr);
}

namespace {

thread_local int holds = 0;

}  // namespace

InterruptHold::InterruptHold() noexcept {
  ++holds;
}
InterruptHold::~InterruptHold() {
  --holds;
}

bool interrupted() noexcept {
  return asked_to_stop.load(std::memory_order_relaxed) && holds == 0;
}

void throw_if_interrupted() {
  if (interrupted()) fail(Status::interrupted, "interrupted");
}

}  // namespace attnctl
