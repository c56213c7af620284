#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// A folder of files that appear together at commit(). A missing folder is created; its parent must exist.
/// The files are written to a hidden folder next to it. If the folder is empty, commit() renames the hidden
/// folder to it. Otherwise commit() exchanges the two in one step, so at any moment the folder holds all
/// files of one run. Other files and links of the old folder are kept: they are linked into the new folder
/// first. The owner and the mode of the folder and of the replaced files are kept. A symbolic link to the
/// folder is followed; a symbolic link with the name of one of the files is replaced.
///
/// If the two folders cannot be exchanged, the files are renamed one by one. Each file is then old or new,
/// but a program that is killed in between leaves a mixture. This happens if the file system lacks the
/// operation, or if the folder has subfolders, is the working directory or a mount point, belongs to another
/// user, or has a parent that is not writable.
///
/// Without commit(), also after an interrupt, the old folder is unchanged, and hidden or newly created
/// folders are removed.
class OutputFolder {
 public:
  /// Throws Error(environment) if the path is not a folder and cannot be created.
  explicit OutputFolder(const std::filesystem::path& path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Opens a file of the folder. The reference stays valid. Throws Error(environment).
  [[nodiscard]] OutputFile& open(const std::string& file);
  /// Makes all files final. Throws what OutputFile::commit() throws.
  void commit();

 private:
  OutputFolder() = default;
  void make_staging();
  void remember(const std::string& path);
  bool replace_folder();
  bool carry_over() const;
  void remove_old(const std::filesystem::path& old) const;
  void replace_files() const;
  [[nodiscard]] bool writes(const std::filesystem::path& file) const;

  std::string name_;               // for messages
  std::filesystem::path path_;     // absolute, links followed
  std::filesystem::path staging_;  // the hidden folder; empty after commit()
  bool created_ = false;           // the constructor created path_
  bool beside_ = false;            // staging_ is next to path_, not in it
  std::vector<std::string> names_;
  std::deque<OutputFile> files_;
  std::vector<std::size_t> remembered_;  // slots in Temporaries
};

/// Returns the absolute path of the file that OutputFile(path) writes. Symbolic links are followed, even if
/// the file does not exist yet.
[[nodiscard]] std::filesystem::path output_path(const std::filesystem::path& path);

}  // namespace attnctl
