#include "report/spool.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/types.h>
#include <system_error>
#include <unistd.h>

#include "base/error.hpp"
#include "base/interrupt.hpp"

namespace attnctl {
namespace {

[[noreturn]] void fail_spool(const std::string& name, const char* what) {
  fail(Status::environment, "{}: cannot {} a temporary file: {} (TMPDIR chooses another place)", name, what,
       std::generic_category().message(errno));
}

/// Creates a temporary file and unlinks it at once, for file systems without O_TMPFILE.
int open_and_unlink(const std::string& folder) {
  std::string path = folder + "/attnctl-XXXXXX";
  const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor >= 0) ::unlink(path.c_str());
  return descriptor;
}

}  // namespace

Spool::Spool() {
  const char* chosen = std::getenv("TMPDIR");
  const std::string folder = chosen != nullptr && *chosen != '\0' ? chosen : "/var/tmp";
  name_ = escaped(folder);
  descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor_ < 0) descriptor_ = open_and_unlink(folder);
  if (descriptor_ < 0) fail_spool(name_, "create");
}

Spool::~Spool() {
  ::close(descriptor_);
}

void Spool::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    throw_if_interrupted();
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      fail_spool(name_, "write");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

void Spool::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    throw_if_interrupted();
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count <= 0) {
      if (count < 0 && errno == EINTR) continue;
      if (count == 0) errno = EIO;  // the file is shorter than what was written
      fail_spool(name_, "read");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

}  // namespace attnctl
