#include "base/interrupt.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <ctime>
#include <string_view>
#include <unistd.h>

#include "base/error.hpp"

namespace attnctl {
namespace {

// ending: the signal handler or end_out_of_memory() ends the process
enum class SignalState { none, received, ignored, ending };

static_assert(std::atomic<SignalState>::is_always_lock_free && std::atomic<char*>::is_always_lock_free,
              "the signal handler uses these");
std::atomic<SignalState> signal_state{SignalState::none};
std::atomic<int> final_status{-1};  // -1: not known yet
std::array<std::atomic<char*>, 64> temporary_paths{};
std::atomic<int> creations{0};      // number of CreationHolds
thread_local bool creates = false;  // this thread has one
constexpr int kMaxDepth = 2;        // a temporary file is in at most this number of temporary folders

/// Waits until no other thread creates a temporary file. signal_state must be `ending`.
void wait_for_creations() noexcept {
  constexpr timespec kStep{.tv_sec = 0, .tv_nsec = 100'000};
  constexpr int kMostSteps = 10'000;  // a second
  for (int step = 0; step < kMostSteps && creations > (creates ? 1 : 0); ++step) ::nanosleep(&kStep, nullptr);
}

[[noreturn]] void end_with(Status status, std::string_view line) noexcept {
  wait_for_creations();
  remove_temporaries();
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(static_cast<int>(status));
}

extern "C" void on_signal(int) {
  SignalState state = SignalState::none;
  if (signal_state.compare_exchange_strong(state, SignalState::received)) return;
  if (state == SignalState::received && signal_state.compare_exchange_strong(state, SignalState::ending))
    end_with(Status::interrupted, "attnctl: interrupted\n");
}

}  // namespace

void install_signal_handlers() {
  signal_state = SignalState::none;
  struct sigaction stop {};
  stop.sa_handler = on_signal;  // without SA_RESTART, so that a blocked write returns
  sigfillset(&stop.sa_mask);
  sigaction(SIGINT, &stop, nullptr);
  sigaction(SIGTERM, &stop, nullptr);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &stop, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

bool interrupted() noexcept {
  const bool received = signal_state.load(std::memory_order_relaxed) == SignalState::received;
  const bool stopped = StopScope::current != nullptr && StopScope::current->stop_requested();
  return (received || stopped) && InterruptHold::holds == 0;
}

void throw_if_interrupted() {
  if (interrupted()) fail(Status::interrupted, "interrupted");
}

void ignore_signals() noexcept {
  if (InterruptHold::holds > 0) return;
  SignalState state = signal_state.load();
  while (state != SignalState::ending && !signal_state.compare_exchange_weak(state, SignalState::ignored)) {
  }
  while (state == SignalState::ending) ::pause();  // the handler runs in another thread
}

void throw_or_ignore_signals() {
  if (InterruptHold::holds > 0) return;
  SignalState state = SignalState::none;
  if (!signal_state.compare_exchange_strong(state, SignalState::ignored) && state != SignalState::ignored)
    fail(Status::interrupted, "interrupted");
}

void end_out_of_memory() noexcept {
  if (const int status = final_status; status >= 0) ::_exit(status);
  while (signal_state.exchange(SignalState::ending) == SignalState::ending) ::pause();  // in another thread
  end_with(Status::limit, "attnctl: out of memory; select fewer layers or heads, or shorter inputs\n");
}

std::shared_ptr<void> remember_temporary(const std::string& path) {
  auto copy = std::make_unique<char[]>(path.size() + 1);
  std::memcpy(copy.get(), path.c_str(), path.size() + 1);
  for (std::atomic<char*>& slot : temporary_paths) {
    char* expected = nullptr;
    if (!slot.compare_exchange_strong(expected, copy.get())) continue;
    copy.release();  // NOLINT(bugprone-unused-return-value): the slot owns it now
    // The exchange takes the path out of the slot, so the signal handler never reads a freed path.
    return {&slot,
            [](std::atomic<char*>* used) { std::unique_ptr<char[]>(used->exchange(nullptr)).reset(); }};
  }
  return nullptr;
}

CreationHold::CreationHold() noexcept {
  creates = true;
  ++creations;
  if (signal_state != SignalState::ending) return;
  --creations;
  while (true) ::pause();
}

CreationHold::~CreationHold() {
  --creations;
  creates = false;
}

void remove_temporaries() noexcept {
  std::array<const char*, temporary_paths.size()> paths{};  // not freed, because the process is about to end
  for (std::size_t i = 0; i < paths.size(); ++i) paths[i] = temporary_paths[i].exchange(nullptr);
  for (int depth = kMaxDepth; depth >= 0; --depth) {
    for (const char* path : paths) {
      if (path != nullptr && ::unlink(path) != 0) ::rmdir(path);
    }
  }
}

void set_final_status(int status) noexcept {
  final_status = status;
}

void forget_temporaries() noexcept {
  for (std::atomic<char*>& slot : temporary_paths) slot = nullptr;
  creations = 0;  // those of other threads of the parent
}

}  // namespace attnctl
