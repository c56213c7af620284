#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/files/input_file.hpp"

namespace attnctl {

/// A regular file that is mapped into memory, read-only. If the file becomes shorter or a disk error occurs,
/// reads from the affected page up to the end return zeros instead of raising SIGBUS, and check() throws.
/// Call check() before you write results that were computed from the file.
class MappedFile {
 public:
  /// Maps a file. Throws Error(absent) if the path does not exist or is not a regular file (`absent` is the
  /// argument), Error(environment) if the file cannot be opened or mapped, and Error(limit) if 4,096 files
  /// are mapped already. Pass bad_input for a file that another file names, and environment for a path that
  /// the user gave.
  explicit MappedFile(const std::filesystem::path& path, Status absent = Status::environment);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  /// Releases the memory of `part` of bytes(), and of up to 64 KiB before and after it. Later reads load the
  /// bytes from the file again.
  void forget(std::span<const std::byte> part) const;

  /// Throws Error(bad_input) if the length of the file changed after it was opened, and Error(environment)
  /// after a read error.
  void check() const;

 private:
  void unmap();

  std::string path_;
  RegularFile file_;
  std::span<const std::byte> bytes_;
  std::size_t slot_ = 0;  // in the table of mapped files
};

/// Calls check() for every file that is currently mapped. OutputFile::commit() calls this function.
void check_mapped_files();

/// The bytes of a file, and the name of the file. The bytes are a mapped file, or (in tests and fuzzers)
/// memory that must outlive this object.
class FileBytes {
 public:
  /// Maps a file. Throws the errors of MappedFile.
  FileBytes(const std::filesystem::path& path, Status absent);
  FileBytes(std::string_view name, std::span<const std::byte> memory);

  /// Returns the escaped name, for error messages. The returned reference stays valid when this object is
  /// moved.
  [[nodiscard]] const std::string& name() const { return *name_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  /// Calls MappedFile::forget() if the bytes are mapped; otherwise does nothing.
  void forget(std::span<const std::byte> part) const {
    if (file_) file_->forget(part);
  }

 private:
  std::unique_ptr<const MappedFile> file_;
  std::unique_ptr<const std::string> name_;
  std::span<const std::byte> bytes_;
};

}  // namespace attnctl
