#include "base/interrupt.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <string_view>
#include <unistd.h>

#include "base/error.hpp"

namespace attnctl {
namespace {

static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<char*>::is_always_lock_free,
              "the signal handler uses these");
std::atomic<bool> stop_requested{false};
std::array<std::atomic<char*>, 64> temporary_paths{};
constexpr int kMaxDepth = 2;  // a temporary file is in at most this number of temporary folders

extern "C" void on_signal(int) {
  if (!stop_requested.exchange(true)) return;
  remove_temporaries();
  constexpr std::string_view kLine = "attnctl: interrupted\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kLine.data(), kLine.size());
  ::_exit(static_cast<int>(Status::interrupted));
}

}  // namespace

void install_signal_handlers() {
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
  return stop_requested.load(std::memory_order_relaxed) && InterruptHold::holds == 0;
}

void throw_if_interrupted() {
  if (interrupted()) fail(Status::interrupted, "interrupted");
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

void remove_temporaries() noexcept {
  std::array<const char*, temporary_paths.size()> paths{};  // not freed, because the process is about to end
  for (std::size_t i = 0; i < paths.size(); ++i) paths[i] = temporary_paths[i].exchange(nullptr);
  for (int depth = kMaxDepth; depth >= 0; --depth) {
    for (const char* path : paths) {
      if (path != nullptr && ::unlink(path) != 0) ::rmdir(path);
    }
  }
}

}  // namespace attnctl
