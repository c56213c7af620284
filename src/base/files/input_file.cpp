#include "base/files/input_file.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/interrupt.hpp"

namespace attnctl {
namespace {

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "a special file";
}

std::string unread_input;  // bytes of standard input that read_some() returns before it reads more

/// Waits for bytes and reads them. Returns 0 at the end of the file. Throws Error(environment) if reading
/// fails, and Error(interrupted) after an interrupt.
std::size_t read_some(int descriptor, const std::string& name, std::span<char> buffer) {
  if (descriptor == STDIN_FILENO && !unread_input.empty()) {
    const std::size_t count = unread_input.copy(buffer.data(), buffer.size());
    unread_input.erase(0, count);
    return count;
  }
  for (;;) {
    throw_if_interrupted();
    // The signal may be sent to another thread, so poll() ends after 100 ms.
    pollfd waiting = {descriptor, POLLIN, 0};
    if (poll(&waiting, 1, 100) == 0) continue;
    const ssize_t count = waiting.revents != 0 ? read(descriptor, buffer.data(), buffer.size()) : -1;
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR && errno != EAGAIN) fail_with_errno(escaped(name), "read", errno);
  }
}

/// Calls read(buffer) until it returns 0. `name` must already be escaped. See read_descriptor().
template <typename Read>
std::string read_to_end(const std::string& name, std::size_t limit, const Read& read) {
  constexpr std::size_t kFirstSize = 64 << 10;
  std::string text;
  std::size_t filled = 0;
  for (;;) {
    if (filled == text.size()) text.resize(std::min(std::max(kFirstSize, 2 * text.size()), limit + 1));
    const std::size_t count = read(std::span(text).subspan(filled));
    if (count == 0) break;
    filled += count;
    if (filled > limit) refuse(name, "has more than {} bytes, the limit for this input", limit);
  }
  text.resize(filled);
  return text;
}

FileVersion version_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
          std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

[[noreturn]] void refuse_changed(const std::string& name) {
  refuse(name, "changed while it was read; run again");
}

/// Opens a file and sets `version`. Throws Error(absent) if the path is missing or is not
/// a regular file, and Error(environment) if opening fails. A FIFO without a writer does not block.
Descriptor open_regular_file(const std::filesystem::path& path, Status absent, FileVersion& version) {
  const std::string name = escaped(path.string());
  Descriptor file;
  do {
    file = Descriptor(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  } while (file.number() < 0 && errno == EINTR);
  if (file.number() < 0) {
    const int error = errno;
    const bool missing =
        error == ENOENT || error == ENOTDIR || error == ENXIO || error == ELOOP || error == ENAMETOOLONG;
    fail(missing ? absent : Status::environment, "{}: cannot open: {}", name,
         std::generic_category().message(error));
  }
  struct stat status = {};
  if (fstat(file.number(), &status) != 0) fail_with_errno(name, "read its size", errno);
  if (!S_ISREG(status.st_mode)) fail(absent, "{}: is {}; give a regular file", name, kind_of(status.st_mode));
  version = version_of(status);
  return file;
}

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

/// Maps zero pages from the faulting page to the end of the range that contains the page. Calls only mmap,
/// which is safe in a signal handler. Returns false if the address is not in a range or mmap fails.
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

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

void fail_with_errno(const std::string& name, std::string_view what, int error) {
  fail(error == ENOMEM ? Status::limit : Status::environment, "{}: cannot {}: {}", name, what,
       std::generic_category().message(error));
}

std::uint64_t size_of_file(const std::filesystem::path& path) {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error) fail_with_errno(escaped(path.string()), "read its size", error.value());
  return size;
}

FileVersion version_of_file(const std::filesystem::path& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) fail_with_errno(escaped(path.string()), "open", errno);
  return version_of(status);
}

void require_version(const std::filesystem::path& path, const FileVersion& version) {
  if (version_of_file(path) != version) refuse_changed(escaped(path.string()));
}

std::string read_file(const std::filesystem::path& path, std::size_t limit, Status absent) {
  FileVersion version;
  const Descriptor file = open_regular_file(path, absent, version);
  return read_descriptor(file.number(), path.string(), limit);
}

std::string read_descriptor(int descriptor, const std::string& name, std::size_t limit) {
  return read_to_end(escaped(name), limit,
                     [&](std::span<char> buffer) { return read_some(descriptor, name, buffer); });
}

std::string_view first_line_of_standard_input() {
  std::string bytes(std::size_t{64} << 10, '\0');
  std::size_t filled = 0;
  for (std::size_t count = 1; count > 0 && bytes.find('\n') == std::string::npos; filled += count)
    count = read_some(STDIN_FILENO, "standard input", std::span(bytes).subspan(filled));
  bytes.resize(filled);
  unread_input = std::move(bytes);
  std::string_view rest = unread_input;
  return take_line(rest);
}

struct InputStream::Unpacker {
  virtual ~Unpacker() = default;
  /// Unpacks bytes of `packed` into `space`, and removes the bytes that it used from the beginning of both.
  /// Sets at_end. Returns an error message; empty: no error.
  virtual std::string unpack(std::span<char>& space) = 0;

  std::array<char, std::size_t{64} << 10> buffer = {};
  std::span<char> packed;  // the bytes of `buffer` that are not unpacked yet
  bool at_end = false;     // the end of a gzip member or zstd frame was reached; a file can have several
};

struct InputStream::Gzip final : Unpacker {
  Gzip() {
    if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() override { inflateEnd(&stream); }
  std::string unpack(std::span<char>& space) override {
    // Zero bytes after a member are padding, such as that of a tape archive.
    while (at_end && !packed.empty() && packed.front() == 0) packed = packed.subspan(1);
    if (packed.empty()) return {};
    const auto size = static_cast<uInt>(std::min(space.size(), std::size_t{1} << 30));
    stream.next_in = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_in = static_cast<uInt>(packed.size());
    stream.next_out = reinterpret_cast<Bytef*>(space.data());
    stream.avail_out = size;
    const int result = inflate(&stream, Z_NO_FLUSH);
    packed = packed.last(stream.avail_in);
    space = space.subspan(size - stream.avail_out);
    at_end = result == Z_STREAM_END;
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (at_end) inflateReset(&stream);
    if (at_end || result == Z_OK) return {};
    return fmt::format("damaged: its gzip data are invalid ({})",
                       stream.msg != nullptr ? stream.msg : "no details");
  }
  z_stream stream = {};
};

struct InputStream::Zstd final : Unpacker {
  Zstd() {
    if (stream == nullptr) throw std::bad_alloc();
  }
  ~Zstd() override { ZSTD_freeDStream(stream); }
  std::string unpack(std::span<char>& space) override {
    ZSTD_inBuffer in = {packed.data(), packed.size(), 0};
    ZSTD_outBuffer out = {space.data(), space.size(), 0};
    const std::size_t result = ZSTD_decompressStream(stream, &out, &in);
    packed = packed.subspan(in.pos);
    space = space.subspan(out.pos);
    at_end = result == 0;
    if (ZSTD_isError(result) == 0) return {};
    const ZSTD_ErrorCode code = ZSTD_getErrorCode(result);
    if (code == ZSTD_error_memory_allocation) throw std::bad_alloc();
    if (code == ZSTD_error_frameParameter_windowTooLarge)
      return "its zstd window is larger than 128 MiB; compress the file again without --long";
    return fmt::format("damaged: its zstd data are invalid ({})", ZSTD_getErrorName(result));
  }
  ZSTD_DStream* stream = ZSTD_createDStream();
};

InputStream::InputStream(const std::filesystem::path& path) : number_(STDIN_FILENO) {
  if (path == "-") return;
  FileVersion version;
  own_ = open_regular_file(path, Status::environment, version);
  length_ = version.size;
  number_ = own_.number();
  name_ = escaped(path.string());
  const std::string extension = lower_case(path.extension().native());
  if (extension == ".gz") unpacker_ = std::make_shared<Gzip>();
  if (extension == ".zst") unpacker_ = std::make_shared<Zstd>();
}

/// Reads bytes of the file. Returns 0 at its end.
std::size_t InputStream::read_stored(std::span<char> buffer) {
  const std::size_t count = read_some(number_, name_, buffer);
  read_ += count;
  if (count == 0 && length_ && read_ < *length_)
    refuse(name_, "the file shrank to {} of {} bytes during the run", read_, *length_);
  return count;
}

/// Reads bytes of the text, which is unpacked from a compressed file. Returns 0 at its end.
std::size_t InputStream::read_piece(std::span<char> buffer) {
  if (!unpacker_) return read_stored(buffer);
  std::span<char>& packed = unpacker_->packed;
  std::span<char> space = buffer;
  while (space.size() == buffer.size()) {
    if (packed.empty()) {
      packed = std::span(unpacker_->buffer).first(read_stored(unpacker_->buffer));
      if (packed.empty() && unpacker_->at_end) break;
      if (packed.empty()) refuse(name_, "damaged: its compressed data end too early");
    }
    const std::string error = unpacker_->unpack(space);
    if (!error.empty()) refuse(name_, "{}", error);
  }
  unpacked_ += buffer.size() - space.size();
  return buffer.size() - space.size();
}

std::size_t InputStream::read(std::span<char> buffer) {
  std::size_t filled = 0;
  while (filled < buffer.size()) {
    const std::size_t count = read_piece(buffer.subspan(filled));
    if (count == 0) break;
    filled += count;
  }
  return filled;
}

std::string InputStream::read_all(std::size_t limit) {
  return read_to_end(name_, limit, [this](std::span<char> buffer) { return read_piece(buffer); });
}

MappedFile::MappedFile(const std::filesystem::path& path, Status absent)
    : path_(path.string()), name_(escaped(path_)) {
  file_ = open_regular_file(path, absent, version_);
  const std::uint64_t length = version_.size;
  static std::once_flag installed;
  std::call_once(installed, install_handler);
  const std::lock_guard lock(slots_mutex);
  const auto slot = std::ranges::find(slots, nullptr, &GuardSlot::owner);
  if (slot == slots.end())
    fail(Status::limit, "{}: cannot map the file: {} files are mapped already", name_, kSlots);
  if (length > 0) {
    void* const address = mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file_.number(), 0);
    if (address == MAP_FAILED) fail_with_errno(name_, fmt::format("map {} bytes", length), errno);
    bytes_ = {static_cast<const std::byte*>(address), length};
  }
  slot_ = static_cast<std::size_t>(slot - slots.begin());
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes_.data());
  slot->owner = this;
  slot->faulted = false;
  slot->begin = begin;
  // From now on, the first fault in the range maps zeros from the faulting page to the end of the range.
  slot->end.store(begin + bytes_.size(), std::memory_order_release);
}

MappedFile::~MappedFile() {
  if (file_.number() < 0) return;
  const std::lock_guard lock(slots_mutex);
  slots[slot_].end.store(0, std::memory_order_release);
  slots[slot_].owner = nullptr;
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::check() const {
  if (file_.number() < 0) return;  // bytes in memory
  struct stat status = {};
  if (fstat(file_.number(), &status) != 0) fail_with_errno(name_, "read its size", errno);
  if (version_of(status) != version_) refuse_changed(name_);
  if (slots[slot_].faulted) fail_with_errno(name_, "read", EIO);
}

void MappedFile::forget(std::span<const std::byte> part) const {
  if (part.empty() || file_.number() < 0) return;
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

}  // namespace attnctl
