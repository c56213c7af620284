#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace attnctl {

/// Reads a whole small regular file, such as a configuration or a vocabulary. Throws Error(absent) if the
/// path does not exist or is not a regular file (`absent` is the argument), Error(environment) if the file
/// cannot be read, and Error(bad_input) if the file is longer than `limit` bytes.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::size_t limit,
                                    Status absent = Status::environment);

/// Reads an open file descriptor, such as standard input, to its end. `name` is used in error messages.
/// Throws Error(environment) if reading fails, and Error(bad_input) after more than `limit` bytes.
[[nodiscard]] std::string read_descriptor(int descriptor, const std::string& name, std::size_t limit);

/// An open file descriptor, closed by the destructor.
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
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int number() const { return number_; }
  /// Returns the descriptor's number and gives up ownership: the caller must close it.
  [[nodiscard]] int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

/// A regular file, or standard input, that is read once from front to back.
class InputStream {
 public:
  /// Opens a path; "-" is standard input. Throws Error(environment) if the path cannot be opened or is not a
  /// regular file.
  explicit InputStream(const std::filesystem::path& path);

  /// Reads the next bytes into the buffer and returns their number, which is less than buffer.size() only at
  /// the end of the file. Throws Error(environment) if reading fails, and Error(bad_input) if a regular file
  /// became shorter after it was opened.
  [[nodiscard]] std::size_t read(std::span<char> buffer);
  /// Returns the length of a regular file in bytes; nullopt for standard input.
  [[nodiscard]] std::optional<std::uint64_t> length() const { return length_; }
  /// Returns the escaped path, or "standard input", for messages.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  Descriptor own_;  // empty for standard input, which stays open
  int number_;
  std::string name_ = "standard input";
  std::optional<std::uint64_t> length_;
  std::uint64_t read_ = 0;
};

struct RegularFile {
  Descriptor descriptor;
  std::uint64_t length = 0;
};

/// Opens a regular file for reading. Does not block on a FIFO that has no writer. Throws Error(absent) if the
/// path does not exist or is not a regular file (`absent` is the argument), and Error(environment) if the
/// file cannot be opened.
[[nodiscard]] RegularFile open_regular_file(const std::filesystem::path& path, Status absent);

/// Returns the text of an errno value: "No such file or directory".
[[nodiscard]] std::string error_text(int error);

/// Throws Error(environment), for example "NAME: cannot write: No space left on device", where `what` is
/// "write". `name` must already be escaped.
[[noreturn]] void fail_with_errno(const std::string& name, std::string_view what, int error);

}  // namespace attnctl
