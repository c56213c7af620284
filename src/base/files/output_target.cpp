#include "base/files/output_target.hpp"

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fcntl.h>
#include <optional>
#include <string_view>
#include <sys/random.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "base/error.hpp"
#include "base/interrupt.hpp"

namespace attnctl {
namespace {

namespace fs = std::filesystem;

/// The descriptor that a name of one stands for: 1 for "-" and /dev/stdout, N for /dev/fd/N.
std::optional<int> named_descriptor(std::string_view path) {
  if (path == "-" || path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    const std::string_view number = path.substr(folder.size());
    int descriptor = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), descriptor);
    if (error == std::errc{} && end == number.data() + number.size() && descriptor >= 0) return descriptor;
  }
  return std::nullopt;
}

/// The path with symlinks of its last part followed, also where the file they name does not exist yet.
fs::path follow_links(fs::path path, const std::string& name) {
  constexpr int most_links = 40;  // as the kernel's
  for (int i = 0; i < most_links; ++i) {
    std::error_code error;
    const fs::path next = fs::read_symlink(path, error);
    if (error) return path;
    path = path.parent_path() / next;
  }
  fail_with_errno(name, "open", ELOOP);
}

}  // namespace

fs::path output_path(const fs::path& path) {
  std::error_code error;
  const fs::path whole =
      fs::weakly_canonical(fs::absolute(follow_links(path, escaped(path.native()))), error);
  const fs::path& found = error ? path : whole;
  return found.has_filename() ? found : found.parent_path();
}

namespace {

int open_in_place(const fs::path& path, const std::string& name) {
  while (true) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (descriptor >= 0) return descriptor;
    if (errno != EINTR) fail_with_errno(name, "open", errno);
    throw_if_interrupted();
  }
}

std::string random_suffix() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) {
    bits = static_cast<std::uint64_t>(::getpid());
  }
  return fmt::format("{:012x}", bits >> 16U);
}

/// Creates a fresh hidden file beside target.path.
void open_temporary(OutputTarget& target, const std::string& name) {
  const fs::path folder = fs::path(target.path).parent_path();
  const mode_t mode = target.replaces ? 0600 : 0666;  // the final one follows when the content is complete
  for (int attempt = 0; attempt < 100; ++attempt) {
    target.temporary = (folder / (".attnctl-" + random_suffix())).string();
    target.descriptor = ::open(target.temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (target.descriptor >= 0) return;
    if (errno != EEXIST && errno != EINTR) break;
  }
  fail_with_errno(name, "create a file beside it", errno);
}

}  // namespace

void fail_with_errno(const std::string& name, const char* what, int error) {
  fail(Status::environment, "{}: cannot {}: {}", name, what, std::generic_category().message(error));
}

fs::path make_temporary_folder(const fs::path& parent) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    fs::path folder = parent / (".attnctl-" + random_suffix());
    if (::mkdir(folder.c_str(), 0777) == 0) return folder;
    if (errno != EEXIST) break;
  }
  return {};
}

void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  [[maybe_unused]] const int ignored = ::fsync(descriptor);
  ::close(descriptor);
}

OutputTarget open_target(const fs::path& path, const std::string& name) {
  OutputTarget target;
  if (path.empty()) fail(Status::environment, "the output path is empty: give a file, or - for stdout");
  if (const auto descriptor = named_descriptor(path.native())) {
    target.descriptor = ::fcntl(*descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (target.descriptor < 0) fail_with_errno(name, "open", errno);
    return target;
  }
  target.path = follow_links(path, name).string();
  struct stat found {};
  if (::stat(target.path.c_str(), &found) == 0) {
    if (S_ISDIR(found.st_mode))
      fail(Status::environment, "{}: is a directory: give the path of a file", name);
    if (!S_ISREG(found.st_mode)) {
      target.descriptor = open_in_place(target.path, name);
      return target;
    }
    if (::access(target.path.c_str(), W_OK) != 0) fail_with_errno(name, "replace", errno);
    target.replaces = true;
    target.mode = found.st_mode & 07777U;
    target.owner = found.st_uid;
    target.group = found.st_gid;
  } else if (errno != ENOENT || path.native().ends_with('/')) {
    fail_with_errno(name, "open", errno);
  }
  target.in_place = false;
  open_temporary(target, name);
  return target;
}

}  // namespace attnctl
