#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>

namespace attnctl {

/// Cores that a cgroup v2 `cpu.max` grants ("200000 100000": 2), rounded up; nullopt for "max ..." and for
/// anything that is no quota.
[[nodiscard]] std::optional<std::size_t> cores_of_cpu_max(std::string_view text);

/// The smallest quota of a cgroup and those above it, under the mount point `root`; `group` as in
/// /proc/self/cgroup ("/system.slice/x").
[[nodiscard]] std::optional<std::size_t> cores_of_cgroup(const std::filesystem::path& root,
                                                         std::string_view group);

}  // namespace attnctl
