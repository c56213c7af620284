#include "base/files/input_file.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace attnctl {
namespace {

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "a special file";
}

/// Calls read() until it returns bytes or the end of the file. Repeats after EINTR, and waits for data if the
/// descriptor is non-blocking. Returns the number of bytes, 0 at the end of the file. Throws
/// Error(environment) for other errors.
std::size_t read_some(int descriptor, const std::string& name, std::span<char> buffer) {
  for (;;) {
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) fail_with_errno(escaped(name), "read", errno);
    pollfd waiting = {descriptor, POLLIN, 0};
    poll(&waiting, 1, -1);
  }
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

std::string error_text(int error) {
  return std::generic_category().message(error);
}

void fail_with_errno(const std::string& name, std::string_view what, int error) {
  fail(Status::environment, "{}: cannot {}: {}", name, what, error_text(error));
}

RegularFile open_regular_file(const std::filesystem::path& path, Status absent) {
  const std::string name = escaped(path.string());
  RegularFile file;
  do {
    file.descriptor = Descriptor(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  } while (file.descriptor.number() < 0 && errno == EINTR);
  if (file.descriptor.number() < 0) {
    const int error = errno;
    const bool missing = error == ENOENT || error == ENOTDIR || error == ENXIO || error == ELOOP;
    fail(missing ? absent : Status::environment, "{}: cannot open: {}", name, error_text(error));
  }
  struct stat status = {};
  if (fstat(file.descriptor.number(), &status) != 0) fail_with_errno(name, "read its size", errno);
  if (!S_ISREG(status.st_mode)) fail(absent, "{}: is {}; give a regular file", name, kind_of(status.st_mode));
  file.length = static_cast<std::uint64_t>(status.st_size);
  return file;
}

std::string read_file(const std::filesystem::path& path, std::size_t limit, Status absent) {
  const RegularFile file = open_regular_file(path, absent);
  return read_descriptor(file.descriptor.number(), path.string(), limit);
}

std::string read_descriptor(int descriptor, const std::string& name, std::size_t limit) {
  constexpr std::size_t kFirstSize = 64 << 10;
  std::string text;
  std::size_t filled = 0;
  for (;;) {
    if (filled == text.size()) text.resize(std::max(kFirstSize, 2 * text.size()));
    const std::size_t count = read_some(descriptor, name, std::span(text).subspan(filled));
    if (count == 0) break;
    filled += count;
    if (filled > limit)
      fail(Status::bad_input, "{}: has more than {} bytes, the limit for this input", escaped(name), limit);
  }
  text.resize(filled);
  return text;
}

InputStream::InputStream(const std::filesystem::path& path) : number_(STDIN_FILENO) {
  if (path == "-") return;
  RegularFile file = open_regular_file(path, Status::environment);
  own_ = std::move(file.descriptor);
  number_ = own_.number();
  name_ = escaped(path.string());
  length_ = file.length;
}

std::size_t InputStream::read(std::span<char> buffer) {
  std::size_t filled = 0;
  while (filled < buffer.size()) {
    const std::size_t count = read_some(number_, name_, buffer.subspan(filled));
    if (count == 0) break;
    filled += count;
  }
  read_ += filled;
  if (filled < buffer.size() && length_ && read_ < *length_) {
    fail(Status::bad_input, "{}: the file shrank to {} of {} bytes during the run", name_, read_, *length_);
  }
  return filled;
}

}  // namespace attnctl
