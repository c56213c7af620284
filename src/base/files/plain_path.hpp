#pragma once

#include <optional>
#include <string_view>

namespace attnctl {

/// What is wrong with a name that a file gives for another file, or for a member of an archive; nullopt where
/// it is a plain relative path that cannot leave its directory: parts of ordinary names between slashes.
[[nodiscard]] std::optional<std::string_view> path_fault(std::string_view path);

}  // namespace attnctl
