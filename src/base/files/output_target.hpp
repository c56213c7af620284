#pragma once

#include <filesystem>
#include <string>
#include <sys/types.h>

namespace attnctl {

/// Where the bytes of an output go, opened: a fresh temporary beside the file that it will replace, or a
/// descriptor that is written in place.
struct OutputTarget {
  int descriptor = -1;
  bool in_place = true;
  std::string temporary;  // of a regular file
  std::string path;       // that the temporary replaces: symlinks followed
  bool replaces = false;  // a file exists at path, with this mode and owner
  mode_t mode = 0;
  uid_t owner = 0;
  gid_t group = 0;
};

/// Opens an output; "-" is standard output. `name` is the path for messages. Throws Error(environment).
[[nodiscard]] OutputTarget open_target(const std::filesystem::path& path, const std::string& name);

/// Returns the absolute path of the file that OutputFile(path) writes: symbolic links followed, also if the
/// file does not exist yet.
[[nodiscard]] std::filesystem::path output_path(const std::filesystem::path& path);

/// Makes a hidden folder of a fresh name in `parent`. Returns an empty path, with errno, if that fails.
[[nodiscard]] std::filesystem::path make_temporary_folder(const std::filesystem::path& parent);

/// Makes renames in a folder durable. If the file system cannot, the files are complete all the same.
void sync_folder(const std::filesystem::path& folder);

/// Error(environment) with the text of an errno: "NAME: cannot WHAT: No space left on device".
[[noreturn]] void fail_with_errno(const std::string& name, const char* what, int error);

}  // namespace attnctl
