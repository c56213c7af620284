#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace attnctl {

/// Where results go. A regular file is written to a temporary beside it and replaces it at commit() (fsync,
/// then rename; a symlink is followed and its target replaced, mode kept); without commit() the old file is
/// untouched and no temporary stays, also on interrupt. A device, FIFO or standard output ("-") is written in
/// place. EPIPE while writing throws BrokenPipe, which the program ends on quietly with status 0; every other
/// failure, close and fsync included, throws Error(environment).
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);  // "-": standard output
  ~OutputFile();
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;

  void write(std::string_view text);
  void write(std::span<const std::byte> bytes);

  /// True where write_at works: a regular file.
  [[nodiscard]] bool seekable() const;
  /// Writes at an absolute offset; safe from several threads on disjoint ranges.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  /// Bytes handed to write() so far.
  [[nodiscard]] std::uint64_t position() const;
  /// Moves the place of the next write(), for seekable outputs.
  void seek(std::uint64_t offset);

  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The reader of a pipe went away: not a failure.
struct BrokenPipe {};

}  // namespace attnctl
