#include "base/files/output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/types.h>
#include <sys/xattr.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <climits>

#include "base/error.hpp"

namespace attnctl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferSize = std::size_t{1} << 16U;

/// Returns 1 for "-" and /dev/stdout, 2 for /dev/stderr, N for /dev/fd/N and /proc/self/fd/N, else nullopt.
std::optional<int> named_descriptor(std::string_view path) {
  if (path == "-" || path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    const auto number = parse_number(path.substr(folder.size()));
    if (number && *number <= INT_MAX) return static_cast<int>(*number);
  }
  return std::nullopt;
}

/// Follows symbolic links, also to a missing target. Throws Error(environment) if there are too many.
fs::path follow_links(fs::path path, const std::string& name) {
  constexpr int kMaxLinks = 40;  // the limit of Linux for links in a path
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code error;
    const fs::path next = fs::read_symlink(path, error);
    if (error) return path;
    path = path.parent_path() / next;
  }
  fail_with_errno(name, "open", ELOOP);
}

[[noreturn]] void fail_to_create(const fs::path& path, const std::string& name, const char* what, int error) {
  if (error == ENOENT)
    fail(Status::environment, "{}: the folder {} does not exist; create it first", name,
         escaped(path.parent_path().native()));
  fail_with_errno(name, what, error);
}

Descriptor open_in_place(const fs::path& path, const std::string& name) {
  while (true) {
    Descriptor descriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    if (descriptor.number() >= 0) return descriptor;
    if (errno != EINTR) fail_with_errno(name, "open", errno);
    throw_if_interrupted();
  }
}

/// Tries at most 100 random hidden paths in `folder` until create(path) returns true, and only while the
/// error is EEXIST or EINTR. Returns an empty path on failure; errno is then the error of create(). Sets
/// `remembered` before the path exists.
template <typename Create>
fs::path create_hidden(const fs::path& folder, std::shared_ptr<void>& remembered, const Create& create) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::uint64_t bits = 0;
    if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) bits = static_cast<std::uint64_t>(::getpid());
    fs::path path = folder / fmt::format(".attnctl-{:012x}", bits >> 16U);
    remembered = remember_temporary(path.string());
    const CreationHold hold;
    if (create(path)) return path;
    if (errno != EEXIST && errno != EINTR) break;
  }
  return {};
}

/// Returns the path of a link to an open file, which exists if /proc is mounted.
std::string link_to(const Descriptor& file) {
  return fmt::format("/proc/self/fd/{}", file.number());
}

fs::path make_hidden_folder(const fs::path& parent, std::shared_ptr<void>& remembered) {
  return create_hidden(parent, remembered,
                       [](const fs::path& path) { return ::mkdir(path.c_str(), 0777) == 0; });
}

/// Makes earlier renames in a folder durable, if the file system supports this.
void sync_folder(const fs::path& folder) {
  const Descriptor opened(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  [[maybe_unused]] const int ignored = ::fsync(opened.number());  // fails if open() failed
}

/// Returns true if the folder is the root of a mount, which cannot be renamed.
bool is_mount_point(const fs::path& folder) {
  struct statx found {};
  return ::statx(AT_FDCWD, folder.c_str(), 0, STATX_BASIC_STATS, &found) == 0 &&
         (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

/// Copies the owner, group and mode of `from` to `to`. Returns false if this fails, or if the lists
/// of the names of extended attributes (such as access control lists) have different sizes.
bool copy_attributes(const fs::path& from, const fs::path& to) {
  struct stat old {};
  struct stat fresh {};
  if (::stat(from.c_str(), &old) != 0 || ::stat(to.c_str(), &fresh) != 0) return false;
  const bool owned = (old.st_uid == fresh.st_uid && old.st_gid == fresh.st_gid) ||
                     ::chown(to.c_str(), old.st_uid, old.st_gid) == 0;
  return ::chmod(to.c_str(), old.st_mode & 07777U) == 0 && owned &&
         ::listxattr(from.c_str(), nullptr, 0) == ::listxattr(to.c_str(), nullptr, 0);
}

bool same_file(const fs::path& a, const fs::path& b) {
  struct stat of_a {};
  struct stat of_b {};
  return ::lstat(a.c_str(), &of_a) == 0 && ::lstat(b.c_str(), &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

/// Adds the names in a folder to `names`. Returns false if the folder cannot be read.
bool list_folder(const fs::path& folder, std::vector<std::string>& names) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    names.push_back(entry->path().filename().native());
  return !error;
}

}  // namespace

fs::path output_path(const fs::path& path) {
  std::error_code error;
  const fs::path whole =
      fs::weakly_canonical(fs::absolute(follow_links(path, escaped(path.native()))), error);
  const fs::path& found = error ? path : whole;
  return found.has_filename() ? found : found.parent_path();
}

// The constructors delegate to OutputFile() and OutputFolder(). Therefore, if a constructor throws, the
// destructor runs and removes what was created.
OutputFile::OutputFile(const fs::path& path) : OutputFile() {
  name_ = path == "-" ? "standard output" : escaped(path.native());
  buffer_.reserve(kBufferSize);
  if (path.empty())
    fail(Status::environment, "the output path is empty; give a file, or - for standard output");
  if (const auto number = named_descriptor(path.native())) {
    descriptor_ = Descriptor(::fcntl(*number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (descriptor_.number() < 0) fail_with_errno(name_, "open", errno);
    return;
  }
  path_ = follow_links(path, name_);
  struct stat found {};
  if (::stat(path_.c_str(), &found) == 0) {
    if (S_ISDIR(found.st_mode))
      fail(Status::environment, "{}: is a directory; give the path of a file", name_);
    if (!S_ISREG(found.st_mode)) {
      descriptor_ = open_in_place(path_, name_);
      return;
    }
    if (::access(path_.c_str(), W_OK) != 0) fail_with_errno(name_, "replace", errno);
    old_ = found;
  } else if (errno != ENOENT || path.native().ends_with('/')) {
    fail_with_errno(name_, "open", errno);
  }
  in_place_ = false;
  const mode_t mode = old_ ? 0600 : 0666;  // prepare() sets the mode that the old file has
  const auto open_file = [&](const fs::path& at, int flags) {
    descriptor_ = Descriptor(::open(at.c_str(), O_WRONLY | O_CLOEXEC | flags, mode));
    return descriptor_.number() >= 0;
  };
  // Of a file without a name, nothing remains if the process is killed. Not every file system supports it.
  if (open_file(path_.has_parent_path() ? path_.parent_path() : ".", O_TMPFILE) &&
      ::access(link_to(descriptor_).c_str(), F_OK) == 0)
    return;
  set_temporary([&](const fs::path& hidden) { return open_file(hidden, O_CREAT | O_EXCL); });
}

/// Sets temporary_ to a path at which create(path) created the temporary file.
template <typename Create>
void OutputFile::set_temporary(const Create& create) {
  temporary_ = create_hidden(path_.parent_path(), remembered_, create);
  if (temporary_.empty()) fail_to_create(path_, name_, "create a temporary file in its directory", errno);
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::put(std::uint64_t offset, std::string_view text) const {
  while (!text.empty()) {
    throw_if_interrupted();
    const int descriptor = descriptor_.number();
    const ssize_t written = in_place_
                                ? ::write(descriptor, text.data(), text.size())
                                : ::pwrite(descriptor, text.data(), text.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == EPIPE) throw BrokenPipe{};
      if (errno == EAGAIN) {
        pollfd polled{descriptor, POLLOUT, 0};  // another process made the descriptor non-blocking
        ::poll(&polled, 1, -1);                 // if poll() fails, the next write() reports the error
        continue;
      }
      fail_with_errno(name_, "write", errno);
    }
    text.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void OutputFile::append(std::string_view text) {
  put(flushed_, text);
  flushed_ += text.size();
}

void OutputFile::flush() {
  append(buffer_);
  buffer_.clear();
}

void OutputFile::flush_lines() {
  const std::size_t whole = buffer_.rfind('\n') + 1;
  std::string_view lines = std::string_view(buffer_).substr(0, whole);
  while (!lines.empty()) {
    // Writes as many lines as fit in PIPE_BUF bytes, which a pipe receives atomically, or one longer line.
    std::size_t end = lines.rfind('\n', PIPE_BUF - 1);
    if (end == std::string_view::npos) end = lines.find('\n', PIPE_BUF);
    append(lines.substr(0, end + 1));
    lines.remove_prefix(end + 1);
  }
  buffer_.erase(0, whole);
}

void OutputFile::close_checked() {
  if (::close(descriptor_.release()) != 0 && errno != EINTR) fail_with_errno(name_, "close", errno);
}

void OutputFile::write(std::string_view text) {
  if (whole_lines_ && text.find('\n') != std::string_view::npos) {
    buffer_ += text;
    return flush_lines();
  }
  if (buffer_.size() + text.size() > kBufferSize) flush();
  if (text.size() >= kBufferSize) return append(text);
  buffer_ += text;
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (in_place_) fail(Status::environment, "{}: cannot seek", name_);
  put(offset, text_of(bytes));
}

void OutputFile::seek(std::uint64_t offset) {
  if (in_place_) fail(Status::environment, "{}: cannot seek", name_);
  flush();
  flushed_ = offset;
}

void OutputFile::prepare() {
  flush();
  check_mapped_files();
  if (in_place_) {
    ignore_signals();
    return close_checked();
  }
  if (old_) {
    // Only root may change the owner. Otherwise the new file belongs to the user.
    [[maybe_unused]] const int ignored = ::fchown(descriptor_.number(), old_->st_uid, old_->st_gid);
    if (::fchmod(descriptor_.number(), old_->st_mode & 07777U) != 0)
      fail_with_errno(name_, "keep the file's mode", errno);
  }
  while (::fsync(descriptor_.number()) != 0) {
    if (errno != EINTR) fail_with_errno(name_, "write to disk", errno);
    throw_if_interrupted();
  }
  if (temporary_.empty()) {
    const std::string file = link_to(descriptor_);
    set_temporary([&](const fs::path& hidden) {
      return ::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, hidden.c_str(), AT_SYMLINK_FOLLOW) == 0;
    });
  }
  close_checked();
}

void OutputFile::commit() {
  if (descriptor_.number() >= 0) prepare();
  if (in_place_) return;
  throw_or_ignore_signals();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail_with_errno(name_, "replace", errno);
  temporary_.clear();
  sync_folder(path_.parent_path());
}

OutputFolder::OutputFolder(const fs::path& path) : OutputFolder() {
  name_ = escaped(path.native());
  path_ = output_path(path);
  remember(path_.string());
  const auto create = [&] {
    const CreationHold hold;
    return ::mkdir(path_.c_str(), 0777) == 0;
  };
  created_ = create();
  const int error = errno;
  if (!created_) remembered_.clear();
  std::error_code ignored;
  if (!created_ && !fs::is_directory(path_, ignored))
    fail_to_create(path_, name_, "create a directory", error);
  if (::access(path_.c_str(), W_OK | X_OK) != 0) fail_with_errno(name_, "write to this directory", errno);
  make_staging();
  // open() creates the hidden folder again, so that nothing remains if the process is killed before.
  ::rmdir(std::exchange(staging_, {}).c_str());
}

/// Creates the hidden folder: next to path_ if commit() may be able to exchange the two, otherwise inside
/// path_.
void OutputFolder::make_staging() {
  std::error_code ignored;
  if (!is_mount_point(path_) && !fs::equivalent(path_, ".", ignored))
    staging_ = make_hidden_folder(path_.parent_path(), staging_remembered_);
  beside_ = !staging_.empty() && copy_attributes(path_, staging_);
  if (!beside_) {
    if (!staging_.empty()) ::rmdir(staging_.c_str());
    staging_ = make_hidden_folder(path_, staging_remembered_);
    if (staging_.empty()) fail_with_errno(name_, "create a directory in it", errno);
  }
}

OutputFolder::~OutputFolder() {
  files_.clear();  // removes the temporary files of these outputs
  remove_staging();
  if (created_) ::rmdir(path_.c_str());  // fails if the folder is not empty
}

/// Removes the hidden folder, which has no other files. Works without opening the folder, which may fail.
void OutputFolder::remove_staging() const {
  if (staging_.empty()) return;
  for (const auto* const names : {&names_, &carried_})
    for (const std::string& name : *names) ::unlink((staging_ / name).c_str());
  ::rmdir(staging_.c_str());
}

bool OutputFolder::writes(const std::string& name) const {
  return std::ranges::find(names_, name) != names_.end();
}

OutputFile& OutputFolder::open(const std::string& file) {
  const fs::path place = path_ / file;
  struct stat found {};
  if (::lstat(place.c_str(), &found) == 0) {
    if (!S_ISREG(found.st_mode) && !S_ISLNK(found.st_mode))
      fail(Status::environment, "{}: is not a file; remove it, or give another directory",
           escaped(place.native()));
    if (S_ISREG(found.st_mode) && ::access(place.c_str(), W_OK) != 0)
      fail_with_errno(escaped(place.native()), "replace", errno);
  }
  if (staging_.empty()) make_staging();
  names_.push_back(file);
  return files_.emplace_back(staging_ / file);
}

void OutputFolder::commit() {
  for (const std::string& name : names_) {
    const fs::path file = staging_ / name;
    remember(file.string());
    {
      const InterruptHold hold;  // commits a file of the hidden folder, not the output
      files_.front().commit();
    }
    throw_if_interrupted();
    files_.pop_front();
    const fs::path old = path_ / name;
    std::error_code ignored;
    if (fs::is_regular_file(fs::symlink_status(old, ignored))) copy_attributes(old, file);
  }
  throw_or_ignore_signals();
  if (!beside_ || !replace_folder()) {
    for (const std::string& name : names_) {
      const fs::path place = path_ / name;
      if (std::rename((staging_ / name).c_str(), place.c_str()) != 0)
        fail_with_errno(escaped(place.native()), "replace", errno);
    }
    sync_folder(path_);
    remove_staging();
  }
  staging_.clear();
  created_ = false;
}

/// Replaces the folder by the hidden folder in one step. Returns false if this is not possible. Throws
/// Error(environment) if the path is not a folder any more.
bool OutputFolder::replace_folder() {
  constexpr int most_attempts = 10;  // other processes may create or remove the folder at the same time
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    // rename() works only if the old folder is empty or missing.
    if (std::rename(staging_.c_str(), path_.c_str()) == 0) {
      sync_folder(path_.parent_path());
      return true;
    }
    if (errno != ENOTEMPTY && errno != EEXIST) {
      const int error = errno;
      std::error_code ignored;
      if (fs::is_directory(path_, ignored)) return false;
      fail_with_errno(name_, "create a directory", error);
    }
    if (!copy_attributes(path_, staging_) || !carry_over()) return false;
    sync_folder(staging_);
    if (::renameat2(AT_FDCWD, staging_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) {
      sync_folder(path_.parent_path());
      remove_old(std::exchange(staging_, {}));
      return true;
    }
    if (errno != ENOENT) return false;
  }
  return false;
}

/// Links the files of the old folder that are not outputs of this run into the hidden folder. Returns false
/// if an entry, such as a subfolder, cannot be linked.
bool OutputFolder::carry_over() {
  std::vector<std::string> names;
  if (!list_folder(path_, names)) return false;
  return std::ranges::all_of(names, [&](const std::string& name) {
    if (writes(name)) return true;
    const fs::path from = path_ / name, to = staging_ / name;
    remember(to.string());
    if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), 0) != 0) return same_file(from, to);
    carried_.push_back(name);
    return true;
  });
}

/// Removes the old folder. Files that other processes added since carry_over() move to the new folder.
void OutputFolder::remove_old(const fs::path& old) const {
  const auto remove = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const fs::path entry = old / name, place = path_ / name;
      if (writes(name) || same_file(entry, place)) {
        ::unlink(entry.c_str());
      } else {
        [[maybe_unused]] const int ignored = std::rename(entry.c_str(), place.c_str());
      }
    }
    return ::rmdir(old.c_str()) == 0;
  };
  std::vector<std::string> known = names_, added;
  known.insert(known.end(), carried_.begin(), carried_.end());
  // If a file cannot be moved, the folder remains.
  if (!remove(known) && list_folder(old, added)) remove(added);
}

}  // namespace attnctl
