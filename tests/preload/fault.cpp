// A library for LD_PRELOAD that makes chosen calls of libc fail, so that tests see what a program does when
// memory or a disk is full, a close fails or a signal comes at a given byte. tests/support/fault.hpp
// documents its environment. It calls nothing that allocates.

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits>
#include <new>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <climits>

namespace {

constexpr char kTemporary[] = "/.attnctl-";

struct Named {
  const char* name;
  int value;
};
constexpr Named kErrors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},     {"EDQUOT", EDQUOT}, {"EROFS", EROFS},
                             {"EACCES", EACCES}, {"EPERM", EPERM}, {"EFBIG", EFBIG},   {"EMFILE", EMFILE},
                             {"EPIPE", EPIPE},   {"EXDEV", EXDEV}, {"EINVAL", EINVAL}, {"ENOMEM", ENOMEM},
                             {"EAGAIN", EAGAIN}};
constexpr Named kSignals[] = {{"KILL", SIGKILL}, {"INT", SIGINT}, {"TERM", SIGTERM}};

enum class Kind { none, error, signal, interrupted, short_transfer };

struct Fault {
  char call[16] = "";
  Kind kind = Kind::none;
  int value = 0;
  bool counts_calls = false;  // otherwise `after` counts bytes, if the call transfers some
  long long after = 0;
  long long end = std::numeric_limits<long long>::max();  // the calls from this number on succeed
  const char* path = nullptr;

  Fault() {
    const char* text = std::getenv("ATTNCTL_FAULT");
    path = std::getenv("ATTNCTL_FAULT_PATH");
    char name[16] = "";
    if (text == nullptr || std::sscanf(text, "%15[^:]:%15[^:]:%lld", call, name, &after) < 2) return;
    long long count = 0;
    counts_calls = std::sscanf(text, "%*[^:]:%*[^:]:#%lld:%lld", &after, &count) >= 1;
    if (count > 0) end = after + count;
    if (std::strcmp(name, "EINTR") == 0) kind = Kind::interrupted;
    if (std::strcmp(name, "SHORT") == 0) kind = Kind::short_transfer;
    for (const Named& error : kErrors) {
      if (std::strcmp(name, error.name) == 0) kind = Kind::error, value = error.value;
    }
    for (const Named& signal : kSignals) {
      if (std::strcmp(name, signal.name) == 0) kind = Kind::signal, value = signal.value;
    }
    if (kind != Kind::none) return;
    std::fprintf(stderr, "ATTNCTL_FAULT: cannot read %s\n", text);
    std::abort();
  }
};

const Fault& fault() {
  static const Fault chosen;
  return chosen;
}

std::atomic<long long> passed{0};  // bytes or calls that went through, or all calls

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool path_matches(const char* path) {
  return fault().path == nullptr || std::strstr(path, fault().path) != nullptr;
}

/// Regular files alone, so that messages to a terminal or pipe get through. A file without a name has the
/// path FOLDER/.attnctl-, like a temporary file with a name.
bool descriptor_matches(int descriptor) {
  struct stat found {};
  if (fstatat(descriptor, "", &found, AT_EMPTY_PATH) != 0 || !S_ISREG(found.st_mode)) return false;
  char link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  char path[PATH_MAX + sizeof kTemporary] = "";
  const ssize_t length = readlink(link, path, PATH_MAX);
  if (std::strstr(path, " (deleted)") != nullptr) std::strcpy(std::strrchr(path, '/'), kTemporary);
  return length >= 0 && path_matches(path);
}

bool chosen(const char* call) {
  return std::strcmp(fault().call, call) == 0;
}

/// Every other call is interrupted before it did anything.
bool interrupt_now() {
  static std::atomic<unsigned> calls{0};
  if (calls++ % 2 != 0) return false;
  errno = EINTR;
  return true;
}

// The first calls with each call stack, for the file of ATTNCTL_FAULT_CALLS.
std::array<std::atomic<std::size_t>, std::size_t{1} << 18U> stacks{};
std::array<std::atomic<long long>, std::size_t{1} << 16U> first_calls{};
std::atomic<std::size_t> stacks_found{0};
bool records_stacks = false;

void record_stack(long long number) {
  void* frames[24];
  const int depth = backtrace(frames, 24);
  std::size_t hash = 1;
  for (int i = 2; i < depth; ++i)
    hash = (hash ^ reinterpret_cast<std::size_t>(frames[i])) * 0x9E3779B97F4A7C15U;
  for (std::size_t slot = hash % stacks.size();; slot = (slot + 1) % stacks.size()) {
    std::size_t empty = 0;
    if (stacks[slot] == hash) return;
    if (!stacks[slot].compare_exchange_strong(empty, hash)) continue;
    const std::size_t found = stacks_found++;
    if (found < first_calls.size()) first_calls[found] = number;
    return;
  }
}

/// Whether a call that is not a transfer fails now.
bool fails_now() {
  const long long number = passed++;
  if (records_stacks) record_stack(number);
  if (number < fault().after || number >= fault().end) return false;
  if (fault().kind == Kind::interrupted) return interrupt_now();
  if (fault().kind == Kind::signal) {
    static std::atomic<bool> raised{false};  // a second signal would end the program at once
    if (!raised.exchange(true)) std::raise(fault().value);
    return false;
  }
  errno = fault().value;
  return true;
}

// Allocations before this library is ready succeed. (fault() may not be called then.)
std::atomic<bool> ready{false};

[[gnu::constructor]] void prepare() {
  (void)fault();
  void* frame = nullptr;
  backtrace(&frame, 1);  // the first call allocates
  records_stacks = std::getenv("ATTNCTL_FAULT_CALLS") != nullptr;
  ready = true;
}

/// Writes the number of the first call with each call stack, a line each.
[[gnu::destructor]] void write_calls() {
  ready = false;
  if (!records_stacks) return;
  records_stacks = false;
  std::FILE* const file = std::fopen(std::getenv("ATTNCTL_FAULT_CALLS"), "w");
  if (file == nullptr) return;
  for (std::size_t i = 0; i < std::min(stacks_found.load(), first_calls.size()); ++i)
    std::fprintf(file, "%lld\n", first_calls[i].load());
  std::fclose(file);
}

bool allocation_fails() {
  if (!ready || !chosen("malloc") || !fails_now()) return false;
  errno = ENOMEM;
  return true;
}

/// How many of `size` bytes are let through; -1 where the call fails with errno.
ssize_t allowed(std::size_t size) {
  const auto wanted = static_cast<long long>(size);
  const auto half = static_cast<ssize_t>(std::max(wanted / 2, std::min(wanted, 1LL)));
  if (fault().counts_calls && fault().kind == Kind::short_transfer)
    return fails_now() ? half : static_cast<ssize_t>(size);
  if (fault().counts_calls) return fails_now() ? -1 : static_cast<ssize_t>(size);
  if (fault().kind == Kind::interrupted) return interrupt_now() ? -1 : static_cast<ssize_t>(wanted);
  if (fault().kind == Kind::short_transfer) return half;
  const long long room = fault().after - passed.load();
  if (room <= 0 && fault().kind == Kind::signal) {
    std::raise(fault().value);
    return static_cast<ssize_t>(wanted);
  }
  if (room <= 0) {
    errno = fault().value;
    return -1;
  }
  const long long some = std::min(wanted, room);
  passed += some;
  return static_cast<ssize_t>(some);
}

}  // namespace

extern "C" {

// These four make the system call themselves, because the program may end while a lock of dlsym is held.
ssize_t write(int descriptor, const void* data, size_t size) {
  if (chosen("write") && descriptor_matches(descriptor)) {
    const ssize_t count = allowed(size);
    return count < 0 ? count : syscall(SYS_write, descriptor, data, static_cast<size_t>(count));
  }
  return syscall(SYS_write, descriptor, data, size);
}

ssize_t pwrite(int descriptor, const void* data, size_t size, off_t offset) {
  if (chosen("write") && descriptor_matches(descriptor)) {
    const ssize_t count = allowed(size);
    return count < 0 ? count : syscall(SYS_pwrite64, descriptor, data, static_cast<size_t>(count), offset);
  }
  return syscall(SYS_pwrite64, descriptor, data, size, offset);
}

ssize_t read(int descriptor, void* data, size_t size) {
  if (chosen("read") && descriptor_matches(descriptor)) {
    const ssize_t count = allowed(size);
    return count < 0 ? count : syscall(SYS_read, descriptor, data, static_cast<size_t>(count));
  }
  return syscall(SYS_read, descriptor, data, size);
}

ssize_t pread(int descriptor, void* data, size_t size, off_t offset) {
  if (chosen("read") && descriptor_matches(descriptor)) {
    const ssize_t count = allowed(size);
    return count < 0 ? count : syscall(SYS_pread64, descriptor, data, static_cast<size_t>(count), offset);
  }
  return syscall(SYS_pread64, descriptor, data, size, offset);
}

char* getenv(const char* name) noexcept {
  static auto* const real = next<char*(const char*)>("getenv");
  char* const value = real(name);
  const bool is_set = value != nullptr && *value != '\0';
  if (is_set || std::strcmp(name, "OPENBLAS_CORETYPE") != 0) return value;
  static char fallback[] = "Prescott";
  const char* const wanted = real("ATTNCTL_FAULT");
  Dl_info caller{};
  const bool in_openblas = dladdr(__builtin_return_address(0), &caller) != 0 && caller.dli_fname != nullptr &&
                           std::strstr(caller.dli_fname, "openblas") != nullptr;
  return in_openblas && wanted != nullptr && std::strcmp(wanted, "unknown_cpu") == 0 ? fallback : value;
}

int fsync(int descriptor) {
  static auto* const real = next<int(int)>("fsync");
  if (chosen("fsync") && descriptor_matches(descriptor) && fails_now()) return -1;
  return real(descriptor);
}

int close(int descriptor) {
  static auto* const real = next<int(int)>("close");
  const bool for_writing = (fcntl(descriptor, F_GETFL) & O_ACCMODE) != O_RDONLY;
  if (chosen("close") && for_writing && descriptor_matches(descriptor) && fails_now()) {
    const int error = errno;
    real(descriptor);  // as Linux does: the descriptor is gone, whatever close says
    errno = error;
    return -1;
  }
  return real(descriptor);
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("rename");
  if (chosen("rename") && path_matches(to) && fails_now()) return -1;
  return real(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  static auto* const real = next<int(int, const char*, int, const char*, unsigned)>("renameat2");
  if (chosen("exchange") && path_matches(to) && fails_now()) return -1;
  return real(from_folder, from, to_folder, to, flags);
}

int ftruncate(int descriptor, off_t size) noexcept {
  static auto* const real = next<int(int, off_t)>("ftruncate");
  return chosen("ftruncate") && fails_now() ? -1 : real(descriptor, size);
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  static auto* const real = next<int(int, const char*, int, const char*, int)>("linkat");
  return chosen("link") && path_matches(to) && fails_now() ? -1
                                                           : real(from_folder, from, to_folder, to, flags);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const real = next<int(const char*, mode_t)>("mkdir");
  return chosen("mkdir") && path_matches(path) && fails_now() ? -1 : real(path, mode);
}

int fstat(int descriptor, struct stat* found) noexcept {
  static auto* const real = next<int(int, struct stat*)>("fstat");
  return chosen("fstat") && fails_now() ? -1 : real(descriptor, found);
}

int stat(const char* path, struct stat* found) noexcept {
  static auto* const real = next<int(const char*, struct stat*)>("stat");
  return chosen("stat") && path_matches(path) && fails_now() ? -1 : real(path, found);
}

int lstat(const char* path, struct stat* found) noexcept {
  static auto* const real = next<int(const char*, struct stat*)>("lstat");
  return chosen("stat") && path_matches(path) && fails_now() ? -1 : real(path, found);
}

int open(const char* path, int flags, ...) {
  static auto* const real = next<int(const char*, int, ...)>("open");
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  const bool unnamed = (flags & O_TMPFILE) == O_TMPFILE;
  char created[PATH_MAX + sizeof kTemporary];
  std::snprintf(created, sizeof created, "%s%s", path, unnamed ? kTemporary : "");
  const bool creates = unnamed || (flags & O_CREAT) != 0;
  if (chosen("create") && creates && path_matches(created) && fails_now()) return -1;
  if (chosen("tmpfile") && unnamed && path_matches(created) && fails_now()) return -1;
  if (chosen("open") && path_matches(path) && fails_now()) return -1;
  return real(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  static auto* const real = next<int(int, const char*, int, ...)>("openat");
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  return chosen("open") && path_matches(path) && fails_now() ? -1 : real(folder, path, flags, mode);
}

void* mmap(void* address, size_t size, int protection, int flags, int descriptor, off_t offset) noexcept {
  static auto* const real = next<void*(void*, size_t, int, int, int, off_t)>("mmap");
  return ready && chosen("mmap") && fails_now() ? MAP_FAILED
                                                : real(address, size, protection, flags, descriptor, offset);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*routine)(void*),
                   void* argument) noexcept {
  static auto* const real =
      next<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  return chosen("thread") && fails_now() ? errno : real(thread, attributes, routine, argument);
}

#ifndef ATTNCTL_SANITIZED
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t size) noexcept {
  return allocation_fails() ? nullptr : __libc_malloc(size);
}
void* calloc(size_t count, size_t size) noexcept {
  return allocation_fails() ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) noexcept {
  return allocation_fails() ? nullptr : __libc_realloc(old, size);
}
void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return allocation_fails() ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** place, size_t alignment, size_t size) noexcept {
  void* const memory = allocation_fails() ? nullptr : __libc_memalign(alignment, size);
  if (memory == nullptr) return ENOMEM;
  *place = memory;
  return 0;
}
#endif

}  // extern "C"

#ifdef ATTNCTL_SANITIZED
// A sanitizer replaces malloc, so only the allocations of C++ can fail.
void* operator new(std::size_t size) {
  static auto* const real = next<void*(std::size_t)>("_Znwm");
  while (allocation_fails()) {
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
  return real(size);
}
#endif
