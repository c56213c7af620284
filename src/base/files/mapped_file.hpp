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

/// A regular file that is mapped read-only. If the file is truncated or a disk error occurs while it is
/// mapped, reads return zeros instead of raising SIGBUS, and check() throws. Call check() before writing
/// anything that was computed from the file.
class MappedFile {
 public:
  /// Maps a file. Throws Error: `absent` if the path does not exist or is not a regular file, environment if
  /// it cannot be opened or mapped. `absent` is bad_input for a file that a layout requires, and environment
  /// for a path that the user gave.
  explicit MappedFile(const std::filesystem::path& path, Status absent = Status::environment);
  ~MappedFile();
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;

  [[nodiscard]] std::span<const std::byte> bytes() const;
  [[nodiscard]] const std::string& path() const;

  /// Releases the memory of a part of bytes() and of up to 64 KiB next to it. Later reads fetch it from the
  /// file again.
  void forget(std::span<const std::byte> part) const;

  /// Throws Error: bad_input if the length of the file changed since it was opened, environment after a read
  /// error.
  void check() const;

 private:
  friend void check_mapped_files();
  struct State;
  std::unique_ptr<State> state_;
};

/// Calls check() for every file that is mapped now. OutputFile::commit() calls it.
void check_mapped_files();

/// The bytes of a file and its name. The bytes are a mapped file, or memory that outlives this object (for
/// tests and fuzzers).
class FileBytes {
 public:
  explicit FileBytes(MappedFile file);
  FileBytes(std::string_view name, std::span<const std::byte> memory);

  /// Returns the escaped name, for errors. Its address stays valid when this object is moved.
  [[nodiscard]] const std::string& name() const { return *name_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::string_view text() const;
  /// Calls MappedFile::forget() if the bytes are mapped.
  void forget(std::span<const std::byte> part) const;

 private:
  std::optional<MappedFile> file_;
  std::unique_ptr<const std::string> name_;
  std::span<const std::byte> bytes_;
};

}  // namespace attnctl
