#pragma once

#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files/output_file.hpp"

namespace attnctl {

/// A folder of files that appear together at commit(). The folder is created if it is missing (its parent is
/// not). The files are written to a hidden folder next to it, which commit() renames to it if it is empty;
/// otherwise the two are exchanged in one step: at any moment the folder holds all files of one run. Other
/// files and links of the old folder are linked into the new one first; they stay, and so do the owner and
/// the mode of the folder and of the files that are replaced. A symbolic link to the folder is followed; a
/// link in the place of one of the files is replaced.
///
/// If the two cannot be exchanged, the files are renamed one by one: each is old or new, but a program that
/// is killed in between leaves some of both. This is the case if the file system has no such operation, the
/// folder holds folders of its own, is the working directory or a mount point, belongs to another user, or
/// its parent cannot be written to.
///
/// Without commit() the old folder is untouched, and no hidden or created folder stays, also on interrupt.
class OutputFolder {
 public:
  /// Throws Error(environment) if the path is no directory and cannot become one.
  explicit OutputFolder(const std::filesystem::path& path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Opens a file of the folder; the reference stays valid. Throws Error(environment).
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
  bool created_ = false;           // path_ was made by the constructor
  bool beside_ = false;            // staging_ is next to path_, not in it
  std::vector<std::string> names_;
  std::deque<OutputFile> files_;
  std::vector<std::size_t> remembered_;  // in Temporaries
};

}  // namespace attnctl
