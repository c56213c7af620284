#include "base/cpu_quota.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <sched.h>
#include <string>
#include <thread>

#include "base/pool.hpp"

namespace attnctl {
namespace {

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The cgroup v2 entry of /proc/self/cgroup, "0::/path"; empty where there is none.
std::string own_cgroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return {};
}

/// Cores of the affinity mask. The kernel refuses a mask smaller than its own, so that the size is tried.
std::optional<std::size_t> cores_of_affinity() {
  for (int cores = CPU_SETSIZE; cores <= (1 << 20); cores *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(cores));
    if (set == nullptr) return std::nullopt;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(cores));
    CPU_ZERO_S(bytes, set);
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const int count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) return static_cast<std::size_t>(count);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> cores_of_cpu_max(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto quota = number(text.substr(0, space));
  const auto period = number(text.substr(space + 1));
  if (!quota || !period || *period == 0) return std::nullopt;
  const std::uint64_t cores = *quota / *period + (*quota % *period != 0 ? 1 : 0);
  return std::max<std::size_t>(1, static_cast<std::size_t>(cores));
}

std::optional<std::size_t> cores_of_cgroup(const std::filesystem::path& root, std::string_view group) {
  std::optional<std::size_t> least;
  const auto take = [&](const std::filesystem::path& directory) {
    const auto cores = cores_of_cpu_max(first_line(directory / "cpu.max"));
    if (cores) least = std::min(least.value_or(*cores), *cores);
  };
  std::filesystem::path below = std::filesystem::path(group).relative_path();
  for (; !below.empty(); below = below.parent_path()) take(root / below);
  take(root);
  return least;
}

std::size_t available_threads() {
  std::size_t cores = cores_of_affinity().value_or(std::thread::hardware_concurrency());
  const auto quota = cores_of_cgroup("/sys/fs/cgroup", own_cgroup());
  if (quota) cores = std::min(cores, *quota);
  return std::max<std::size_t>(1, cores);
}

}  // namespace attnctl
