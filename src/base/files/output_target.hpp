#pragma once

#include <filesystem>
#include <string>

// Shared by output files and output folders.
namespace attnctl {

/// Returns the absolute path of the file that OutputFile(path) writes: symbolic links followed, also if the
/// file does not exist yet.
[[nodiscard]] std::filesystem::path output_path(const std::filesystem::path& path);

/// Makes a hidden folder with a fresh name in `parent`. Returns an empty path, with errno, if that fails.
[[nodiscard]] std::filesystem::path make_temporary_folder(const std::filesystem::path& parent);

/// Makes renames in a folder durable, if the file system can.
void sync_folder(const std::filesystem::path& folder);

/// Throws Error(environment): "NAME: cannot WHAT: No space left on device".
[[noreturn]] void fail_with_errno(const std::string& name, const char* what, int error);

}  // namespace attnctl
