#pragma once

#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files/output_file.hpp"

namespace attnctl {

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

}  // namespace attnctl
