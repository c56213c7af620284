#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace attnctl {

/// A regular file that is mapped into memory, read-only. If the file becomes shorter or a disk error occurs,
/// later reads of the memory return zeros instead of raising SIGBUS, and check() throws. Call check() before
/// you write results that were computed from the file.
class MappedFile {
 public:
  /// Maps a file. Throws Error(absent) if the path does not exist or is not a regular file (`absent` is the
  /// argument), and Error(environment) if the file cannot be opened or mapped. Pass bad_input for a file that
  /// another file names, and environment for a path that the user gave.
  explicit MappedFile(const std::filesystem::path& path, Status absent = Status::environment);
  ~MappedFile();
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;

  [[nodiscard]] std::span<const std::byte> bytes() const;
  [[nodiscard]] const std::string& path() const;

  /// Releases the memory of `part` of bytes(), and of up to 64 KiB before and after it. Later reads load the
  /// bytes from the file again.
  void forget(std::span<const std::byte> part) const;

  /// Throws Error(bad_input) if the length of the file changed after it was opened, and Error(environment)
  /// after a read error.
  void check() const;

 private:
  friend void check_mapped_files();
  struct State;
  std::unique_ptr<State> state_;
};

/// Calls check() for every file that is currently mapped. OutputFile::commit() calls this function.
void check_mapped_files();

/// The bytes of a file, and the name of the file. The bytes are a mapped file, or (in tests and fuzzers)
/// memory that must outlive this object.
class FileBytes {
 public:
  explicit FileBytes(MappedFile file);
  FileBytes(std::string_view name, std::span<const std::byte> memory);

  /// Returns the escaped name, for error messages. The returned reference stays valid when this object is
  /// moved.
  [[nodiscard]] const std::string& name() const { return *name_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::string_view text() const;
  /// Calls MappedFile::forget() if the bytes are mapped; otherwise does nothing.
  void forget(std::span<const std::byte> part) const;

 private:
  std::optional<MappedFile> file_;
  std::unique_ptr<const std::string> name_;
  std::span<const std::byte> bytes_;
};

}  // namespace attnctl
