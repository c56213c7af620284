// A library for LD_PRELOAD that makes chosen calls of libc fail, so that tests see what a program does when a
// disk is full, a close fails or a signal comes at a given byte. tests/support/fault.hpp documents its
// environment. It calls nothing that allocates.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
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
                             {"EPIPE", EPIPE},   {"EXDEV", EXDEV}, {"EINVAL", EINVAL}};
constexpr Named kSignals[] = {{"KILL", SIGKILL}, {"INT", SIGINT}, {"TERM", SIGTERM}};

enum class Kind { none, error, signal, interrupted, short_transfer };

struct Fault {
  char call[16] = "";
  Kind kind = Kind::none;
  int value = 0;
  long long after = 0;
  const char* path = nullptr;

  Fault() {
    const char* text = std::getenv("ATTNCTL_FAULT");
    path = std::getenv("ATTNCTL_FAULT_PATH");
    char name[16] = "";
    if (text == nullptr || std::sscanf(text, "%15[^:]:%15[^:]:%lld", call, name, &after) < 2) return;
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

std::atomic<long long> passed{0};  // bytes or calls that went through

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
  if (fstat(descriptor, &found) != 0 || !S_ISREG(found.st_mode)) return false;
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

/// Whether a call that is not a transfer fails now.
bool fails_now() {
  if (passed++ < fault().after) return false;
  if (fault().kind == Kind::interrupted) return interrupt_now();
  if (fault().kind == Kind::signal) {
    static std::atomic<bool> raised{false};  // a second signal would end the program at once
    if (!raised.exchange(true)) std::raise(fault().value);
    return false;
  }
  errno = fault().value;
  return true;
}

/// How many of `size` bytes are let through; -1 where the call fails with errno.
ssize_t allowed(std::size_t size) {
  const auto wanted = static_cast<long long>(size);
  if (fault().kind == Kind::interrupted) return interrupt_now() ? -1 : static_cast<ssize_t>(wanted);
  if (fault().kind == Kind::short_transfer)
    return static_cast<ssize_t>(std::max(wanted / 2, std::min(wanted, 1LL)));
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

ssize_t write(int descriptor, const void* data, size_t size) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  if (chosen("write") && descriptor_matches(descriptor)) {
    const ssize_t count = allowed(size);
    return count < 0 ? count : real(descriptor, data, static_cast<size_t>(count));
  }
  return real(descriptor, data, size);
}

ssize_t pwrite(int descriptor, const void* data, size_t size, off_t offset) {
  static auto* const real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  if (chosen("write") && descriptor_matches(descriptor)) {
    const ssize_t count = allowed(size);
    return count < 0 ? count : real(descriptor, data, static_cast<size_t>(count), offset);
  }
  return real(descriptor, data, size, offset);
}

ssize_t read(int descriptor, void* data, size_t size) {
  static auto* const real = next<ssize_t(int, void*, size_t)>("read");
  if (chosen("read") && descriptor_matches(descriptor)) {
    const ssize_t count = allowed(size);
    return count < 0 ? count : real(descriptor, data, static_cast<size_t>(count));
  }
  return real(descriptor, data, size);
}

ssize_t pread(int descriptor, void* data, size_t size, off_t offset) {
  static auto* const real = next<ssize_t(int, void*, size_t, off_t)>("pread");
  if (chosen("read") && descriptor_matches(descriptor)) {
    const ssize_t count = allowed(size);
    return count < 0 ? count : real(descriptor, data, static_cast<size_t>(count), offset);
  }
  return real(descriptor, data, size, offset);
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

}  // extern "C"
