#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace attnctl {

/// Where results go. A regular file is written to a temporary beside it and replaces it at commit() (fsync,
/// then rename; a symlink is followed and its target replaced, mode kept); without commit() the old file is
/// untouched and no temporary stays, also on interrupt. A device, FIFO, standard output ("-") or a descriptor
/// of this process (/dev/stdout, /dev/fd/N) is written in place. EPIPE while writing throws BrokenPipe, which
/// the program ends on quietly with status 0; an interrupt throws Error(interrupted); every other failure,
/// close and fsync included, throws Error(environment).
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);  // "-": standard output
  ~OutputFile();
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;

  void write(std::string_view text);
  void write(std::span<const std::byte> bytes);

  /// From now on an output in place (a pipe, say) gets each line as soon as it is complete, and not in parts:
  /// whenever the process ends, lines of up to PIPE_BUF bytes are there wholly or not at all. A longer line
  /// is handed on in parts once it fills the buffer. A regular file appears whole anyway.
  void write_whole_lines();

  /// True where write_at works: a regular file.
  [[nodiscard]] bool seekable() const;
  /// Writes at an absolute offset; safe from several threads on disjoint ranges. Does not move position().
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  /// Where the next write() goes: the bytes written so far, unless seek() moved it.
  [[nodiscard]] std::uint64_t position() const;
  /// Moves the place of the next write(), for seekable outputs.
  void seek(std::uint64_t offset);

  /// The path as it was given, escaped, for messages.
  [[nodiscard]] const std::string& name() const;

  /// Makes the output final; nothing may be written afterwards. Throws where a file that the results were
  /// computed from changed meanwhile (check_mapped_files).
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The reader of a pipe went away: not a failure.
struct BrokenPipe {};

}  // namespace attnctl
