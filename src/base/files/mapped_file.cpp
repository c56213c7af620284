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
#include <utility>
#include <vector>

#include "base/checked.hpp"
#include "base/files/input_file.hpp"

namespace attnctl {
namespace {

/// An address range in which SIGBUS is handled. The signal handler reads the slots without a lock. A slot
/// with an empty range is free.
struct Slot {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<bool> faulted = false;
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

constexpr std::size_t kSlots = 4096;
std::array<Slot, kSlots> slots;
std::mutex slots_mutex;  // held while a slot is taken or freed; the signal handler does not lock it
std::uintptr_t page_size = 0;
struct sigaction previous_action;

/// Maps zero pages from the faulting page to the end of its range. Calls only mmap, which is safe in a signal
/// handler. Returns false if the address is not in a range.
bool fill_with_zeros(std::uintptr_t address) {
  for (Slot& slot : slots) {
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
    // The faulting instruction runs again, now with the previous signal handler.
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
         "cannot install the SIGBUS handler, which protects from files that are truncated while mapped");
  }
}

/// Handles SIGBUS in an address range: the first fault maps zeros from the faulting page to the end of the
/// range and sets faulted(). Construct this object after the mapping, and destroy it before unmapping.
class SigbusGuard {
 public:
  /// Throws Error(limit) if no free slot exists.
  explicit SigbusGuard(std::span<const std::byte> range) {
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
  ~SigbusGuard() {
    const std::lock_guard lock(slots_mutex);
    slots[slot_].end.store(0, std::memory_order_release);
  }
  SigbusGuard(const SigbusGuard&) = delete;
  SigbusGuard& operator=(const SigbusGuard&) = delete;

  [[nodiscard]] bool faulted() const { return slots[slot_].faulted.load(); }

 private:
  std::size_t slot_ = 0;
};

}  // namespace

struct MappedFile::State {
  State(const std::filesystem::path& path, Status absent)
      : name(path.string()), file(open_regular_file(path, absent)) {
    const auto length = checked_narrow<std::size_t>(file.length);
    if (!length) fail(Status::limit, "{}: {} bytes do not fit the address space", escaped(name), file.length);
    if (*length > 0) {
      void* const address = mmap(nullptr, *length, PROT_READ, MAP_PRIVATE, file.descriptor.number(), 0);
      if (address == MAP_FAILED) {
        fail(Status::environment, "{}: cannot map {} bytes: {}", escaped(name), *length, error_text(errno));
      }
      bytes = {static_cast<const std::byte*>(address), *length};
      try {
        guard.emplace(bytes);
      } catch (...) {
        munmap(address, *length);
        throw;
      }
    }
    const std::lock_guard lock(registry().mutex);
    registry().states.push_back(this);
  }

  ~State() {
    {
      const std::lock_guard lock(registry().mutex);
      std::erase(registry().states, this);
    }
    guard.reset();
    if (!bytes.empty()) munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
  }

  void check() const {
    struct stat status = {};
    if (fstat(file.descriptor.number(), &status) != 0) {
      fail(Status::environment, "{}: cannot examine: {}", escaped(name), error_text(errno));
    }
    const auto now = static_cast<std::uint64_t>(status.st_size);
    if (now != file.length) {
      fail(Status::bad_input,
           "{}: got {} bytes where there were {} when it was opened, need a file that stays", escaped(name),
           now, file.length);
    }
    if (guard && guard->faulted())
      fail(Status::environment, "{}: cannot read: Input/output error", escaped(name));
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::string name;
  RegularFile file;
  std::span<const std::byte> bytes;
  std::optional<SigbusGuard> guard;

  /// All states that exist. The registry is never destroyed, because a static mapped file may be destroyed
  /// after it.
  struct Registry {
    std::mutex mutex;
    std::vector<const State*> states;
  };
  static Registry& registry() {
    static Registry& instance = *new Registry;  // NOLINT(cppcoreguidelines-owning-memory)
    return instance;
  }
};

MappedFile::MappedFile(const std::filesystem::path& path, Status absent)
    : state_(std::make_unique<State>(path, absent)) {}
MappedFile::~MappedFile() = default;
MappedFile::MappedFile(MappedFile&&) noexcept = default;
MappedFile& MappedFile::operator=(MappedFile&&) noexcept = default;

std::span<const std::byte> MappedFile::bytes() const {
  return state_->bytes;
}
const std::string& MappedFile::path() const {
  return state_->name;
}
void MappedFile::check() const {
  state_->check();
}

void MappedFile::forget(std::span<const std::byte> part) const {
  if (part.empty()) return;
  // A page fault also maps neighbouring pages, so these are released too.
  constexpr std::uintptr_t kFaultAround = std::uintptr_t{1} << 16U;
  const auto first = reinterpret_cast<std::uintptr_t>(bytes().data());
  const auto address = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t begin = std::max(address / kFaultAround * kFaultAround, first);
  const std::uintptr_t end = std::min(
      (address + part.size() + kFaultAround - 1) / kFaultAround * kFaultAround, first + bytes().size());
  // Ignores failure: then the memory is not released.
  madvise(const_cast<std::byte*>(bytes().data()) + (begin - first), end - begin, MADV_DONTNEED);
}

void check_mapped_files() {
  const std::lock_guard lock(MappedFile::State::registry().mutex);
  for (const MappedFile::State* state : MappedFile::State::registry().states) state->check();
}

FileBytes::FileBytes(MappedFile file)
    : file_(std::move(file)),
      name_(std::make_unique<const std::string>(escaped(file_->path()))),
      bytes_(file_->bytes()) {}

FileBytes::FileBytes(std::string_view name, std::span<const std::byte> memory)
    : name_(std::make_unique<const std::string>(escaped(name))), bytes_(memory) {}

std::string_view FileBytes::text() const {
  return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
}

void FileBytes::forget(std::span<const std::byte> part) const {
  if (file_) file_->forget(part);
}

}  // namespace attnctl
