#include "base/files/mapped_file.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <optional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

namespace attnctl {
namespace {

/// A mapped file and its address range, in which SIGBUS is handled. The signal handler reads the range
/// without a lock. The range of an empty file is empty.
struct GuardSlot {
  const MappedFile* owner = nullptr;  // null if the slot is free
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<bool> faulted = false;
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

constexpr std::size_t kSlots = 4096;
std::array<GuardSlot, kSlots> slots;
std::mutex slots_mutex;  // guards the owners; the signal handler does not lock it
std::uintptr_t page_size = 0;
struct sigaction previous_action;

/// Maps zero pages from the faulting page to the end of its range. Calls only mmap, which is safe in a signal
/// handler. Returns false if the address is not in a range.
bool fill_with_zeros(std::uintptr_t address) {
  for (GuardSlot& slot : slots) {
    const std::uintptr_t end = slot.end.load(std::memory_order_acquire);
    if (address >= end || address < slot.begin.load(std::memory_order_relaxed)) continue;
    const std::uintptr_t page = address / page_size * page_size;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel reports the address as an integer
    void* const from = reinterpret_cast<void*>(page);
    slot.faulted.store(true);
    return mmap(from, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  }
  return false;
}

void on_sigbus(int signal, siginfo_t* info, void* /*context*/) {
  const int saved_errno = errno;
  const bool sent = info->si_code <= 0;  // sent by kill(), not raised by a fault
  if (sent || !fill_with_zeros(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    // The previous signal handler takes over: the faulting instruction runs again, or raise() repeats the
    // signal.
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
    fail(Status::environment,
         "cannot install a handler for SIGBUS, the signal for a file that shrinks while it is read");
  }
}

/// Takes a slot for a file. After this call, the first fault in the range maps zeros from the faulting page
/// to the end of the range and sets `faulted`. Returns nullopt if all slots are in use.
std::optional<std::size_t> take_slot(const MappedFile& owner, std::span<const std::byte> range) {
  const std::lock_guard lock(slots_mutex);
  const auto slot = std::ranges::find(slots, nullptr, &GuardSlot::owner);
  if (slot == slots.end()) return std::nullopt;
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data());
  slot->owner = &owner;
  slot->faulted = false;
  slot->begin = begin;
  slot->end.store(begin + range.size(), std::memory_order_release);
  return static_cast<std::size_t>(slot - slots.begin());
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, Status absent)
    : path_(path.string()), file_(open_regular_file(path, absent)) {
  static std::once_flag installed;
  std::call_once(installed, install_handler);
  if (const auto length = static_cast<std::size_t>(file_.length); length > 0) {
    void* const address = mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file_.descriptor.number(), 0);
    if (address == MAP_FAILED) fail_with_errno(escaped(path_), fmt::format("map {} bytes", length), errno);
    bytes_ = {static_cast<const std::byte*>(address), length};
  }
  const auto slot = take_slot(*this, bytes_);
  if (!slot) {
    unmap();
    fail(Status::limit, "{}: cannot map the file: {} files are mapped already", escaped(path_), kSlots);
  }
  slot_ = *slot;
}

MappedFile::~MappedFile() {
  {
    const std::lock_guard lock(slots_mutex);
    slots[slot_].end.store(0, std::memory_order_release);
    slots[slot_].owner = nullptr;
  }
  unmap();
}

void MappedFile::unmap() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::check() const {
  struct stat status = {};
  if (fstat(file_.descriptor.number(), &status) != 0) fail_with_errno(escaped(path_), "read its size", errno);
  const auto now = static_cast<std::uint64_t>(status.st_size);
  if (now != file_.length) {
    fail(Status::bad_input, "{}: the size of the file changed from {} to {} bytes during the run; run again",
         escaped(path_), file_.length, now);
  }
  if (slots[slot_].faulted) fail_with_errno(escaped(path_), "read", EIO);
}

void MappedFile::forget(std::span<const std::byte> part) const {
  if (part.empty()) return;
  // A page fault also maps neighbouring pages, so these are released too.
  constexpr std::uintptr_t kFaultAround = std::uintptr_t{1} << 16U;
  const auto first = reinterpret_cast<std::uintptr_t>(bytes_.data());
  const auto address = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t begin = std::max(address / kFaultAround * kFaultAround, first);
  const std::uintptr_t end = std::min(
      (address + part.size() + kFaultAround - 1) / kFaultAround * kFaultAround, first + bytes_.size());
  // Ignores failure: then the memory is not released.
  madvise(const_cast<std::byte*>(bytes_.data()) + (begin - first), end - begin, MADV_DONTNEED);
}

void check_mapped_files() {
  const std::lock_guard lock(slots_mutex);
  for (const GuardSlot& slot : slots) {
    if (slot.owner != nullptr) slot.owner->check();
  }
}

FileBytes::FileBytes(const std::filesystem::path& path, Status absent)
    : file_(std::make_unique<const MappedFile>(path, absent)),
      name_(std::make_unique<const std::string>(escaped(file_->path()))),
      bytes_(file_->bytes()) {}

FileBytes::FileBytes(std::string_view name, std::span<const std::byte> memory)
    : name_(std::make_unique<const std::string>(escaped(name))), bytes_(memory) {}

}  // namespace attnctl
