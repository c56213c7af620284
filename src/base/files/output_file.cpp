#include "base/files/output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/xattr.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <climits>

#include "base/error.hpp"
#include "base/files/mapped_file.hpp"
#include "base/interrupt.hpp"

namespace attnctl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferSize = std::size_t{1} << 16U;

/// Throws Error(environment), for example "NAME: cannot write: No space left on device".
[[noreturn]] void fail_with_errno(const std::string& name, const char* what, int error) {
  fail(Status::environment, "{}: cannot {}: {}", name, what, std::generic_category().message(error));
}

/// An open output: a temporary file that will replace another file, or a descriptor that is written directly.
struct OutputTarget {
  int descriptor = -1;
  bool in_place = true;
  std::string temporary;           // path of the temporary file
  std::string path;                // path of the file to replace, after following symbolic links
  std::optional<struct stat> old;  // mode and owner of the file to replace; nullopt if there is none
};

/// Returns the descriptor that a path stands for: 1 for "-" and /dev/stdout, N for /dev/fd/N. Returns nullopt
/// for other paths.
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

/// Replaces a path that is a symbolic link by the target of the link, even if the target does not exist yet.
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

/// Creates a hidden folder with a new name in `parent`. On failure returns an empty path and sets errno.
fs::path make_temporary_folder(const fs::path& parent) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    fs::path folder = parent / (".attnctl-" + random_suffix());
    if (::mkdir(folder.c_str(), 0777) == 0) return folder;
    if (errno != EEXIST) break;
  }
  return {};
}

/// Creates a hidden temporary file in the folder of target.path.
void open_temporary(OutputTarget& target, const std::string& name) {
  const fs::path folder = fs::path(target.path).parent_path();
  const mode_t mode = target.old ? 0600 : 0666;  // replace() sets the mode of the file that is replaced
  for (int attempt = 0; attempt < 100; ++attempt) {
    target.temporary = (folder / (".attnctl-" + random_suffix())).string();
    target.descriptor = ::open(target.temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (target.descriptor >= 0) return;
    if (errno != EEXIST && errno != EINTR) break;
  }
  fail_with_errno(name, "create a file next to it", errno);
}

/// Opens an output; "-" is standard output. `name` is the path in error messages. Throws Error(environment).
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
    target.old = found;
  } else if (errno != ENOENT || path.native().ends_with('/')) {
    fail_with_errno(name, "open", errno);
  }
  target.in_place = false;
  open_temporary(target, name);
  return target;
}

/// Returns the number of bytes to write in one call: whole lines of together at most PIPE_BUF bytes, which a
/// pipe receives atomically, or a single longer line.
std::size_t lines_at_once(std::string_view lines) {
  if (lines.size() <= PIPE_BUF) return lines.size();
  const std::size_t last = lines.rfind('\n', PIPE_BUF - 1);
  return 1 + (last != std::string_view::npos ? last : lines.find('\n', PIPE_BUF));
}

/// Makes earlier renames in a folder durable, if the file system supports this.
void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  [[maybe_unused]] const int ignored = ::fsync(descriptor);
  ::close(descriptor);
}

/// Returns true if the folder is the root of a mount, which cannot be renamed.
bool is_mount_point(const fs::path& folder) {
  struct statx found {};
  return ::statx(AT_FDCWD, folder.c_str(), 0, STATX_BASIC_STATS, &found) == 0 &&
         (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

/// Copies the owner, group and mode of `from` to `to`. Returns false if this is not allowed, or if the
/// extended attributes (such as access control lists) of the two differ.
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

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    entries.push_back(entry->path());
  return entries;
}

}  // namespace

fs::path output_path(const fs::path& path) {
  std::error_code error;
  const fs::path whole =
      fs::weakly_canonical(fs::absolute(follow_links(path, escaped(path.native()))), error);
  const fs::path& found = error ? path : whole;
  return found.has_filename() ? found : found.parent_path();
}

struct OutputFile::State {
  std::string name;
  OutputTarget target;
  std::size_t remembered = Temporaries::kNone;
  std::uint64_t flushed = 0;  // offset in the file at which the buffer will be written
  std::vector<char> buffer;
  bool committed = false;
  bool whole_lines = false;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Calls State() first, so that the destructor runs if this constructor throws.
  explicit State(const std::filesystem::path& path) : State() {
    name = path == "-" ? "standard output" : escaped(path.native());
    buffer.reserve(kBufferSize);
    target = open_target(path, name);
    if (!target.in_place) remembered = Temporaries::add(target.temporary);
  }

  ~State() {
    if (target.descriptor >= 0) ::close(target.descriptor);
    if (!target.in_place && !committed) ::unlink(target.temporary.c_str());
    Temporaries::forget(remembered);
  }

  void put(std::uint64_t offset, const char* data, std::size_t size) const {
    while (size > 0) {
      throw_if_interrupted();
      const ssize_t written = target.in_place
                                  ? ::write(target.descriptor, data, size)
                                  : ::pwrite(target.descriptor, data, size, static_cast<off_t>(offset));
      if (written < 0) {
        if (errno == EINTR) continue;
        if (errno == EPIPE) throw BrokenPipe{};
        if (errno == EAGAIN) {
          pollfd polled{target.descriptor, POLLOUT, 0};  // another process made the descriptor non-blocking
          ::poll(&polled, 1, -1);  // if poll() fails, the next write() reports the error
          continue;
        }
        fail_with_errno(name, "write", errno);
      }
      const auto count = static_cast<std::size_t>(written);
      data += count;
      offset += count;
      size -= count;
    }
  }

  void flush() {
    put(flushed, buffer.data(), buffer.size());
    flushed += buffer.size();
    buffer.clear();
  }

  /// Writes the buffered text up to and including the last newline.
  void flush_lines() {
    std::string_view lines(buffer.data(), buffer.size());
    lines = lines.substr(0, lines.rfind('\n') + 1);
    const std::size_t whole = lines.size();
    while (!lines.empty()) {
      const std::size_t size = lines_at_once(lines);
      put(flushed, lines.data(), size);
      flushed += size;
      lines.remove_prefix(size);
    }
    buffer.erase(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(whole));
  }

  void close_checked() {
    if (::close(std::exchange(target.descriptor, -1)) != 0 && errno != EINTR) {
      fail_with_errno(name, "close", errno);
    }
  }

  void replace() {
    if (target.old) {
      // Only root may change the owner. Otherwise the new file belongs to the user.
      [[maybe_unused]] const int ignored =
          ::fchown(target.descriptor, target.old->st_uid, target.old->st_gid);
      if (::fchmod(target.descriptor, target.old->st_mode & 07777U) != 0)
        fail_with_errno(name, "keep the file's mode", errno);
    }
    while (::fsync(target.descriptor) != 0) {
      if (errno != EINTR) fail_with_errno(name, "write to disk", errno);
      throw_if_interrupted();
    }
    close_checked();
    throw_if_interrupted();
    if (std::rename(target.temporary.c_str(), target.path.c_str()) != 0) {
      fail_with_errno(name, "replace", errno);
    }
    committed = true;
    sync_folder(std::filesystem::path(target.path).parent_path());
  }
};

OutputFile::OutputFile(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}

OutputFile::~OutputFile() = default;
OutputFile::OutputFile(OutputFile&&) noexcept = default;
OutputFile& OutputFile::operator=(OutputFile&&) noexcept = default;

void OutputFile::write(std::string_view text) {
  State& state = *state_;
  if (state.whole_lines && text.find('\n') != std::string_view::npos) {
    state.buffer.insert(state.buffer.end(), text.begin(), text.end());
    return state.flush_lines();
  }
  if (state.buffer.size() + text.size() > kBufferSize) state.flush();
  if (text.size() >= kBufferSize) {
    state.put(state.flushed, text.data(), text.size());
    state.flushed += text.size();
  } else {
    state.buffer.insert(state.buffer.end(), text.begin(), text.end());
  }
}

void OutputFile::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void OutputFile::write_whole_lines() {
  state_->whole_lines = state_->target.in_place;
}

bool OutputFile::seekable() const {
  return !state_->target.in_place;
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (!seekable()) fail(Status::environment, "{}: cannot seek", state_->name);
  state_->put(offset, reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::uint64_t OutputFile::position() const {
  return state_->flushed + state_->buffer.size();
}

void OutputFile::seek(std::uint64_t offset) {
  if (!seekable()) fail(Status::environment, "{}: cannot seek", state_->name);
  state_->flush();
  state_->flushed = offset;
}

const std::string& OutputFile::name() const {
  return state_->name;
}

void OutputFile::commit() {
  State& state = *state_;
  state.flush();
  check_mapped_files();
  if (state.target.in_place) {
    state.close_checked();
  } else {
    state.replace();
  }
}

// The delegated constructor has completed first. Therefore, if this constructor throws, the destructor runs
// and removes what was created.
OutputFolder::OutputFolder(const fs::path& path) : OutputFolder() {
  name_ = escaped(path.native());
  path_ = output_path(path);
  created_ = ::mkdir(path_.c_str(), 0777) == 0;
  const int error = errno;
  std::error_code ignored;
  if (!created_ && !fs::is_directory(path_, ignored)) {
    if (error == EEXIST)
      fail(Status::environment, "{}: is not a directory: give another path, or --table NAME", name_);
    fail_with_errno(name_, "create a directory", error);
  }
  if (created_) remember(path_.string());
  if (::access(path_.c_str(), W_OK | X_OK) != 0) fail_with_errno(name_, "write to it", errno);
  make_staging();
}

/// Creates the hidden folder: next to path_ if the two folders can be exchanged, otherwise inside path_.
void OutputFolder::make_staging() {
  std::error_code ignored;
  if (!is_mount_point(path_) && !fs::equivalent(path_, ".", ignored))
    staging_ = make_temporary_folder(path_.parent_path());
  beside_ = !staging_.empty() && copy_attributes(path_, staging_);
  if (!beside_) {
    if (!staging_.empty()) ::rmdir(staging_.c_str());
    staging_ = make_temporary_folder(path_);
    if (staging_.empty()) fail_with_errno(name_, "create a folder in it", errno);
  }
  remember(staging_.string());
}

OutputFolder::~OutputFolder() {
  files_.clear();  // removes the temporary files of these outputs
  std::error_code ignored;
  if (!staging_.empty()) fs::remove_all(staging_, ignored);
  if (created_) ::rmdir(path_.c_str());  // fails if the folder is not empty
  for (const std::size_t place : remembered_) Temporaries::forget(place);
}

void OutputFolder::remember(const std::string& path) {
  remembered_.push_back(Temporaries::add(path));
}

bool OutputFolder::writes(const fs::path& file) const {
  return std::ranges::find(names_, file.filename().native()) != names_.end();
}

OutputFile& OutputFolder::open(const std::string& file) {
  const fs::path place = path_ / file;
  struct stat found {};
  if (::lstat(place.c_str(), &found) == 0) {
    if (!S_ISREG(found.st_mode) && !S_ISLNK(found.st_mode))
      fail(Status::environment, "{}: is not a file: remove it, or give another folder",
           escaped(place.native()));
    if (S_ISREG(found.st_mode) && ::access(place.c_str(), W_OK) != 0)
      fail_with_errno(escaped(place.native()), "replace", errno);
  }
  names_.push_back(file);
  return files_.emplace_back(staging_ / file);
}

void OutputFolder::commit() {
  for (const std::string& name : names_) {
    const fs::path file = staging_ / name;
    files_.front().commit();
    remember(file.string());
    files_.pop_front();
    const fs::path old = path_ / name;
    std::error_code ignored;
    if (fs::is_regular_file(fs::symlink_status(old, ignored))) copy_attributes(old, file);
  }
  throw_if_interrupted();
  if (!beside_ || !replace_folder()) replace_files();
  staging_.clear();
  created_ = false;
}

/// Replaces the folder by the hidden folder in one step. Returns false if this is not possible.
bool OutputFolder::replace_folder() {
  constexpr int most_attempts = 10;  // other processes may create or remove the folder at the same time
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    if (std::rename(staging_.c_str(), path_.c_str()) == 0) {  // works only if the old folder was empty
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

/// Links all other files of the old folder into the hidden folder. Returns false if a file cannot be linked.
bool OutputFolder::carry_over() const {
  const std::vector<fs::path> entries = entries_of(path_);
  return std::ranges::all_of(entries, [&](const fs::path& entry) {
    if (writes(entry)) return true;
    const fs::path link = staging_ / entry.filename();
    return ::linkat(AT_FDCWD, entry.c_str(), AT_FDCWD, link.c_str(), 0) == 0 || same_file(entry, link);
  });
}

/// Removes the old folder. Files that other processes added since carry_over() move to the new folder.
void OutputFolder::remove_old(const fs::path& old) const {
  for (const fs::path& entry : entries_of(old)) {
    const fs::path place = path_ / entry.filename();
    if (writes(entry) || same_file(entry, place)) {
      ::unlink(entry.c_str());
    } else {
      [[maybe_unused]] const int ignored = std::rename(entry.c_str(), place.c_str());
    }
  }
  ::rmdir(old.c_str());  // fails if a file could not be moved; then the folder remains
}

/// Renames the files of the hidden folder one by one.
void OutputFolder::replace_files() const {
  for (const std::string& file : names_) {
    const fs::path place = path_ / file;
    if (std::rename((staging_ / file).c_str(), place.c_str()) != 0)
      fail_with_errno(escaped(place.native()), "replace", errno);
  }
  sync_folder(path_);
  std::error_code ignored;
  fs::remove_all(staging_, ignored);
}

}  // namespace attnctl
