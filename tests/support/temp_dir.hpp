#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace attnctl::test {

/// A fresh directory, removed with all that is in it at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Writes a file below the directory, making folders on the way; returns its path.
  std::filesystem::path write(const std::string& name, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

/// The whole of a file; throws where it cannot be read.
std::string slurp(const std::filesystem::path& path);

}  // namespace attnctl::test
