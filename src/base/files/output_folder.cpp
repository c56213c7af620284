#include "base/files/output_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "base/error.hpp"
#include "base/files/output_target.hpp"
#include "base/interrupt.hpp"

namespace attnctl {
namespace {

namespace fs = std::filesystem;

/// Returns true if the folder is the root of a mount, which cannot be renamed.
bool is_mount_point(const fs::path& folder) {
  struct statx found {};
  return ::statx(AT_FDCWD, folder.c_str(), 0, STATX_BASIC_STATS, &found) == 0 &&
         (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

/// Copies the owner, group and mode of `from` to `to`. Returns false if that is not allowed, or if the two
/// differ in extended attributes, such as access lists.
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

// The destructor runs after the delegated constructor, so it removes what this body created before it threw.
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

/// Creates the hidden folder next to path_ if the two can be exchanged, otherwise inside path_.
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
  files_.clear();  // removes their temporary files
  std::error_code ignored;
  if (!staging_.empty()) fs::remove_all(staging_, ignored);
  if (created_) ::rmdir(path_.c_str());  // works only if it is empty
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

/// Replaces the folder by the hidden folder in one step. Returns false if that is not possible.
bool OutputFolder::replace_folder() {
  constexpr int most_attempts = 10;  // other processes may create and remove the folder meanwhile
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    if (std::rename(staging_.c_str(), path_.c_str()) == 0) {  // the folder was empty
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

/// Links all other files of the old folder into the hidden folder. Returns false if one cannot be linked.
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
  ::rmdir(old.c_str());  // fails if a file could not be moved; the folder then stays
}

/// Renames the files one by one.
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
