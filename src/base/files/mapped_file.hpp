#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/error.hpp"

namespace attnctl {

/// A regular file mapped read-only. When the file is cut, or cannot be read, while it is mapped, reading
/// gives zeros instead of SIGBUS and check() throws: nothing that was computed from it may be written
/// afterwards.
class MappedFile {
 public:
  /// Throws Error: `absent` where the path does not exist or is no regular file (FIFO, directory, device), so
  /// that a file which a layout requires is bad_input and one that the user named is environment; environment
  /// where it cannot be opened or mapped.
  explicit MappedFile(const std::filesystem::path& path, Status absent = Status::environment);
  ~MappedFile();
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;

  [[nodiscard]] std::span<const std::byte> bytes() const;
  [[nodiscard]] const std::string& path() const;

  /// Lets go of the memory behind a part of bytes(), and behind up to 64 KiB beside it; it is read from the
  /// file again where it is needed again.
  void forget(std::span<const std::byte> part) const;

  /// Throws Error(bad_input) when the file was cut or changed its length since it was opened,
  /// Error(environment) on a read error.
  void check() const;

 private:
  friend void check_mapped_files();
  struct State;
  std::unique_ptr<State> state_;
};

/// check() of every file that is mapped now; called before an output is committed.
void check_mapped_files();

/// The whole of a small regular file (config, vocabulary), read with EINTR and short reads handled. Throws
/// Error: `absent` as for MappedFile, environment where it cannot be read, bad_input where it is longer than
/// `limit` bytes.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::size_t limit,
                                    Status absent = Status::environment);

/// The same for an open descriptor, such as standard input; `name` is for errors.
[[nodiscard]] std::string read_descriptor(int descriptor, const std::string& name, std::size_t limit);

}  // namespace attnctl
