#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl {

/// Reads a whole regular file. Throws an Error with the status `absent` if the path is missing or is not a
/// regular file, and the errors of read_descriptor().
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::size_t limit,
                                    Status absent = Status::environment);

/// Reads an open file descriptor to its end. `name` is for messages. Throws Error(environment) if reading
/// fails, Error(interrupted) after an interrupt, and Error(bad_input) after more than `limit` bytes.
[[nodiscard]] std::string read_descriptor(int descriptor, const std::string& name, std::size_t limit);

/// Returns the first line of standard input without its end, or its first 64 KiB if it is longer. The result
/// is valid until the next read of standard input, which returns these bytes again. Must not be called while
/// another thread reads standard input. Throws Error(environment) if reading fails, and Error(interrupted)
/// after an interrupt.
[[nodiscard]] std::string_view first_line_of_standard_input();

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] int release() { return std::exchange(number_, -1); }  // the caller must close it

 private:
  int number_ = -1;
};

/// A regular file, or standard input, that is read once from front to back. Unpacks .gz and .zst files.
class InputStream {
 public:
  /// "-" is standard input. Throws Error(environment) if the path is not a regular file that can be opened.
  explicit InputStream(const std::filesystem::path& path);

  /// Returns the number of bytes, which is less than buffer.size() only at the end of the file. Throws
  /// Error(environment) if reading fails, Error(interrupted) after an interrupt, and Error(bad_input) if the
  /// file became shorter or is a damaged compressed file.
  [[nodiscard]] std::size_t read(std::span<char> buffer);
  /// Reads to the end. Throws the errors of read(), and Error(bad_input) after more than `limit` bytes.
  [[nodiscard]] std::string read_all(std::size_t limit);
  /// The length of the file in bytes; nullopt for standard input.
  [[nodiscard]] std::optional<std::uint64_t> length() const { return length_; }
  /// Returns the offset in the file of byte `at` of the text, which must have been read. For a compressed
  /// file, it is an estimate, which is exact at the end of the text.
  [[nodiscard]] std::uint64_t position(std::uint64_t at) const {
    if (!unpacker_ || unpacked_ == 0) return at;
    const double share = static_cast<double>(at) / static_cast<double>(unpacked_);
    return static_cast<std::uint64_t>(share * static_cast<double>(read_));
  }
  [[nodiscard]] const std::string& name() const { return name_; }  // the escaped path, or "standard input"

 private:
  struct Unpacker;
  struct Gzip;
  struct Zstd;
  [[nodiscard]] std::size_t read_stored(std::span<char> buffer);
  [[nodiscard]] std::size_t read_piece(std::span<char> buffer);

  Descriptor own_;  // empty for standard input, which stays open
  int number_;
  std::string name_ = "standard input";
  std::optional<std::uint64_t> length_;
  std::uint64_t read_ = 0;              // bytes of the file read so far, before unpacking
  std::uint64_t unpacked_ = 0;          // bytes of the text of a compressed file read so far
  std::shared_ptr<Unpacker> unpacker_;  // null unless the file is compressed
};

/// Throws Error(environment), or Error(limit) for ENOMEM: "NAME: cannot WHAT: No space left on device".
/// `name` must already be escaped.
[[noreturn]] void fail_with_errno(const std::string& name, std::string_view what, int error);

/// Returns the size of a file in bytes. Throws Error(environment) if it cannot be read.
[[nodiscard]] std::uint64_t size_of_file(const std::filesystem::path& path);

/// Identifies the content of a file: a file that is edited or replaced gets another version.
struct FileVersion {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t modified = 0;  // nanoseconds since 1970

  bool operator==(const FileVersion&) const = default;
};

/// Throws Error(environment) if the file cannot be found.
[[nodiscard]] FileVersion version_of_file(const std::filesystem::path& path);
/// Throws Error(bad_input) if the file does not have this version any more, and Error(environment) if it
/// cannot be found.
void require_version(const std::filesystem::path& path, const FileVersion& version);

/// A regular file that is mapped into memory, read-only. If the file becomes shorter or a disk error occurs,
/// reads from the affected page up to the end return zeros instead of raising SIGBUS, and check() throws.
/// Call check() before you write results that were computed from the file.
class MappedFile {
 public:
  /// Throws Error(absent) if the path is missing or is not a regular file, Error(environment) if the file
  /// cannot be opened or mapped, and Error(limit) if 4,096 files are mapped already. Pass bad_input for a
  /// file that another file names, and environment for a path that the user gave.
  explicit MappedFile(const std::filesystem::path& path, Status absent = Status::environment);
  /// Uses `memory`, which must outlive this object, in place of a file.
  MappedFile(const std::string& path, std::span<const std::byte> memory)
      : path_(path), name_(escaped(path)), bytes_(memory) {}
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::string_view text() const { return text_of(bytes_); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& name() const { return name_; }  // the escaped path, for messages

  /// Releases the memory of `part` of bytes(), and of up to 64 KiB before and after it. Later reads load the
  /// bytes from the file again.
  void forget(std::span<const std::byte> part) const;

  /// Throws Error(bad_input) if the file was changed, and Error(environment) after a read error.
  void check() const;

 private:
  std::string path_, name_;
  Descriptor file_;  // empty for memory
  FileVersion version_;
  std::span<const std::byte> bytes_;
  std::size_t slot_ = 0;  // index in the table of mapped files
};

/// Calls check() for every mapped file. OutputFile::commit() calls this function.
void check_mapped_files();

}  // namespace attnctl
