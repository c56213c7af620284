#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace attnctl {

/// A regular file, or standard input, read once from front to back; EINTR and short reads are handled.
class InputStream {
 public:
  /// "-" is standard input. Throws Error(environment) where the path cannot be opened or is no regular file.
  explicit InputStream(const std::filesystem::path& path);
  ~InputStream();
  InputStream(InputStream&&) noexcept;
  InputStream& operator=(InputStream&&) noexcept;

  /// Fills the buffer, less only at the end; returns how many bytes were read. Throws Error: environment
  /// where reading fails, bad_input where the file became shorter than it was when it was opened.
  [[nodiscard]] std::size_t read(std::span<char> buffer);

  /// Of a regular file, in bytes; nullopt for standard input.
  [[nodiscard]] std::optional<std::uint64_t> length() const;

  /// For messages: the path escaped, or "standard input".
  [[nodiscard]] const std::string& name() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attnctl
