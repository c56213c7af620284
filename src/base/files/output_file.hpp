#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace attnctl {

/// An output file for results. A regular file is written to a temporary file next to it. commit() replaces
/// the old file (fsync, then rename; symlinks are followed; the mode is kept). Without commit(), and after an
/// interrupt, the old file is unchanged and the temporary file is removed. A device, a FIFO, standard output
/// ("-") and a descriptor of this process (/dev/stdout, /dev/fd/N) are written in place. A write throws
/// BrokenPipe on EPIPE, Error(interrupted) on an interrupt and Error(environment) on every other failure.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);  // "-": standard output
  ~OutputFile();
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;

  void write(std::string_view text);
  void write(std::span<const std::byte> bytes);

  /// Writes each later line to an in-place output, such as a pipe, as soon as it is complete. Lines of up to
  /// PIPE_BUF bytes are written atomically.
  void write_whole_lines();

  /// Returns true if the output is a regular file, so that write_at() and seek() work.
  [[nodiscard]] bool seekable() const;
  /// Writes at an absolute offset and does not move position(). Thread-safe on disjoint ranges.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  /// Returns the offset of the next write().
  [[nodiscard]] std::uint64_t position() const;
  /// Sets the offset of the next write() of a seekable output.
  void seek(std::uint64_t offset);

  /// Returns the escaped path, for messages.
  [[nodiscard]] const std::string& name() const;

  /// Makes the output final. Nothing may be written afterwards. Throws if a mapped input file changed
  /// (check_mapped_files).
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Thrown if the reader of a pipe has closed it. The program then ends with status 0.
struct BrokenPipe {};

}  // namespace attnctl
