#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <vector>

#include "base/files/input_file.hpp"
#include "base/interrupt.hpp"
#include "base/text.hpp"

namespace attnctl {

/// An output file for results. If the path is a regular file or does not exist, the results are written to a
/// temporary file in the same folder, which has no name until prepare() if the file system supports this.
/// commit() replaces the old file by this file (fsync, then rename; symbolic links are followed; the mode is
/// kept). Unless commit() returns, the old file is unchanged, and
/// the destructor or the signal handler removes the temporary file. A device, a FIFO, standard output ("-")
/// and a descriptor of this process (such as /dev/stdout, /dev/fd/N) are written directly. A failed write
/// throws BrokenPipe for EPIPE, Error(interrupted) after an interrupt, and Error(environment) for any other
/// failure.
class OutputFile {
 public:
  /// "-" is standard output. Throws Error(environment) if the path cannot be opened or replaced.
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();

  void write(std::string_view text);
  void write(std::span<const std::byte> bytes) { write(text_of(bytes)); }

  /// After this call, an output that is written directly receives each line as soon as it is complete; lines
  /// of up to PIPE_BUF bytes atomically.
  void write_whole_lines() { whole_lines_ = in_place_; }

  /// Returns false if the output is written directly. Then write_at() and seek() throw Error(environment).
  [[nodiscard]] bool seekable() const { return !in_place_; }
  /// Writes at an absolute offset; position() does not change. Thread-safe if the ranges do not overlap.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  [[nodiscard]] std::uint64_t position() const { return flushed_ + buffer_.size(); }
  void seek(std::uint64_t offset);

  [[nodiscard]] const std::string& name() const { return name_; }  // the escaped path, or "standard output"

  /// Writes the buffered data to the disk and closes the output, which cannot be written afterwards. Only the
  /// renaming remains for commit(), so that several files can be replaced only if all of them were written.
  /// Throws the errors of write() and of check_mapped_files().
  void prepare();
  /// Calls prepare() unless this was done, then ignore_signals(), and replaces the old file.
  void commit();

 private:
  OutputFile() = default;
  void put(std::uint64_t offset, std::string_view text) const;
  void append(std::string_view text);
  void flush();
  void flush_lines();
  void close_checked();
  template <typename Create>
  void set_temporary(const Create& create);

  std::string name_;
  Descriptor descriptor_;
  bool in_place_ = true;              // written directly, not to a temporary file
  std::filesystem::path temporary_;   // path of the temporary file, if it has one; commit() clears it
  std::filesystem::path path_;        // the file to create or replace, after following symbolic links
  std::optional<struct stat> old_;    // mode and owner of the file to replace; nullopt if there is none
  std::shared_ptr<void> remembered_;  // keeps the path of the temporary file for the signal handler
  std::uint64_t flushed_ = 0;         // offset in the file at which the buffer will be written
  std::string buffer_;
  bool whole_lines_ = false;
};

/// Thrown if the reader of a pipe has closed the pipe. The program then ends with status 0.
struct BrokenPipe {};

/// A folder whose files are replaced together by commit(). If the folder does not exist, the constructor
/// creates it; the parent folder must exist. The files are written to a hidden folder next to the output
/// folder, or inside it if that is not possible. If the output folder is empty, commit() renames the hidden
/// folder to the path of the output folder. Otherwise commit() exchanges the two folders in one step, so the
/// output folder always contains all files of one run. Other files and links of the old folder are kept:
/// before the exchange they are linked into the hidden folder. The owner and the mode of the folder are kept,
/// and the mode of each replaced file; its owner is kept if the process may set it. A symbolic link to the
/// folder is followed. A symbolic link with the name of an output file is replaced.
///
/// If the two folders cannot be exchanged, commit() renames the files one by one. Then each file is either
/// old or new, but if commit() fails or the program is killed during commit(), old and new files may be
/// mixed. The exchange is impossible, for example, if the file system does not support it, or if the output
/// folder has subfolders, is the working directory or a mount point, or has a parent that is not writable.
///
/// Unless commit() is called, the old folder is unchanged, and the destructor removes the hidden folder, and
/// the output folder if the constructor created it.
class OutputFolder {
 public:
  /// Throws Error(environment) if the folder does not exist and cannot be created, or if it is not writable.
  explicit OutputFolder(const std::filesystem::path& path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Opens an output file, which is valid until commit(). Throws Error(environment) if it cannot be created,
  /// or if the folder has an entry of this name that is neither a writable file nor a symbolic link.
  [[nodiscard]] OutputFile& open(const std::string& file);
  /// Throws the errors of OutputFile::commit(), and Error(environment) if a file cannot be moved.
  void commit();

 private:
  OutputFolder() = default;
  void remember(const std::string& path) { remembered_.push_back(remember_temporary(path)); }
  void make_staging();
  void remove_staging() const;
  bool replace_folder();
  bool carry_over();
  void remove_old(const std::filesystem::path& old) const;
  [[nodiscard]] bool writes(const std::string& name) const;

  std::string name_;               // for messages
  std::filesystem::path path_;     // absolute, with symbolic links followed
  std::filesystem::path staging_;  // path of the hidden folder; empty before open() and after commit()
  bool created_ = false;           // the constructor created the folder
  bool beside_ = false;            // staging_ is next to path_; otherwise inside it
  std::vector<std::string> names_, carried_;  // of the outputs, and of the files of carry_over()
  std::deque<OutputFile> files_;
  std::vector<std::shared_ptr<void>> remembered_;
  std::shared_ptr<void> staging_remembered_;
};

/// Returns the absolute path of the file that OutputFile(path) creates or replaces. Symbolic links are
/// followed, even if their target does not exist yet. Throws Error(environment) if there are too many links.
[[nodiscard]] std::filesystem::path output_path(const std::filesystem::path& path);

}  // namespace attnctl
