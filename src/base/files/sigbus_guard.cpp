#include "base/files/sigbus_guard.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.hpp"

namespace attnctl {
namespace {

/// The handler reads slots without a lock, so they are atomics that never move. A free slot is empty.
struct Slot {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<bool> faulted = false;
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

constexpr std::size_t kSlots = 4096;
std::array<Slot, kSlots> slots;
std::mutex slots_mutex;  // of those who take and give back slots, not of the handler
std::uintptr_t page_size = 0;
struct sigaction previous_action;

/// Zero pages from the faulting one to the end of its range. Calls nothing but mmap, a bare system call.
bool fill_with_zeros(std::uintptr_t address) {
  for (Slot& slot : slots) {
    const std::uintptr_t end = slot.end.load(std::memory_order_acquire);
    if (address >= end || address < slot.begin.load(std::memory_order_relaxed)) continue;
    const std::uintptr_t page = address / page_size * page_size;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the address of a fault is what the kernel gives
    void* const from = reinterpret_cast<void*>(page);
    slot.faulted.store(true);
    return mmap(from, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  }
  return false;
}

void on_sigbus(int signal, siginfo_t* info, void* /*context*/) {
  const int saved_errno = errno;
  const bool sent = info->si_code <= 0;  // by a process, not by a fault
  if (sent || !fill_with_zeros(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    // Not ours: the faulting instruction runs again, now under the action that was there before.
    sigaction(signal, &previous_action, nullptr);
    if (sent) raise(signal);
  }
  errno = saved_errno;
}

void install_handler() {
  page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = on_sigbus;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGBUS, &action, &previous_action) != 0) {
    fail(Status::environment, "cannot handle SIGBUS, which protects from files that are cut while mapped");
  }
}

}  // namespace

SigbusGuard::SigbusGuard(std::span<const std::byte> range) : slot_(0) {
  static std::once_flag installed;
  std::call_once(installed, install_handler);
  const std::lock_guard lock(slots_mutex);
  while (slot_ < kSlots && slots[slot_].end.load() != 0) ++slot_;
  if (slot_ == kSlots) fail(Status::limit, "more than {} files mapped at once", kSlots);
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data());
  slots[slot_].faulted.store(false);
  slots[slot_].begin.store(begin);
  slots[slot_].end.store(begin + range.size(), std::memory_order_release);
}

SigbusGuard::~SigbusGuard() {
  const std::lock_guard lock(slots_mutex);
  slots[slot_].end.store(0, std::memory_order_release);
}

bool SigbusGuard::faulted() const {
  return slots[slot_].faulted.load();
}

}  // namespace attnctl
