#include "base/files/plain_path.hpp"

#include <algorithm>

namespace attnctl {

std::optional<std::string_view> path_fault(std::string_view path) {
  if (path.starts_with('/')) return "an absolute path, need a relative one";
  if (path.find('\\') != std::string_view::npos) return "with a backslash, need a plain relative path";
  if (path.find('\0') != std::string_view::npos) return "with a NUL, need a plain relative path";
  for (;;) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    if (part == "..") return "which leads out of the directory, need a plain relative path";
    if (part.empty() || part == ".") return "with an empty part, need a plain relative path";
    if (slash == path.size()) return std::nullopt;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace attnctl
