#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace attnctl::test {

/// A new folder that the destructor removes with its content.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Writes a file in the folder, creates missing parent folders, and returns the path.
  std::filesystem::path write(const std::string& name, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

/// Returns the content of a file. Throws if it cannot be read.
std::string slurp(const std::filesystem::path& path);

}  // namespace attnctl::test
