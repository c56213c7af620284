#pragma once

#include <cstddef>
#include <string>

namespace attnctl {

/// The temporary files and folders that exist now, so that a signal handler can remove them on its way out.
/// remove_all() is async-signal-safe; the rest is safe from several threads.
class Temporaries {
 public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  /// Remembers a path; returns its place, or `none` when all places are taken (the file is then removed by
  /// its owner alone).
  static std::size_t add(const std::string& path);
  static void forget(std::size_t place);
  /// Removes every remembered file, then the remembered folders.
  static void remove_all() noexcept;
};

}  // namespace attnctl
