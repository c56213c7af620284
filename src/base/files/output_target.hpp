#pragma once

#include <filesystem>
#include <string>

// Shared by output files and output folders.
namespace attnctl {

/// Returns the absolute path of the file that OutputFile(path) writes. Symbolic links are followed, even if
/// the file does not exist yet.
[[nodiscard]] std::filesystem::path output_path(const std::filesystem::path& path);

/// Creates a hidden folder with an unused name in `parent`. Returns an empty path and sets errno on failure.
[[nodiscard]] std::filesystem::path make_temporary_folder(const std::filesystem::path& parent);

/// Makes renames in a folder durable if the file system supports it.
void sync_folder(const std::filesystem::path& folder);

/// Throws Error(environment): "NAME: cannot WHAT: No space left on device".
[[noreturn]] void fail_with_errno(const std::string& name, const char* what, int error);

}  // namespace attnctl
