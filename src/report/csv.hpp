#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/output_file.hpp"
#include "base/files/output_folder.hpp"
#include "report/write_options.hpp"
#include "results/result.hpp"

namespace attnctl {

/// Writes a table as RFC 4180 has it: a header line, CRLF after each line, fields with a comma, quote or line
/// end in quotes. Undefined and non-finite cells are empty, an empty text is "". Text is made harmless:
///
/// - Control characters except tab and line ends, and bytes that are no UTF-8, become \xNN.
/// - A text of two characters or more that begins with = + - @, a tab or a line end and is no number gets a
///   leading ', so that no spreadsheet runs it as a formula.
///
/// Rows are formatted in parallel where a pool is given, in bounded memory.
void write_csv_table(OutputFile& out, const Table& table, const WriteOptions& options = {});

/// Appends one text cell, as above.
void append_csv_text(std::string& line, std::string_view text);

/// A folder of tables, NAME.csv each, that appear together at commit() (OutputFolder).
class CsvFolder {
 public:
  explicit CsvFolder(const std::filesystem::path& path) : folder_(path) {}

  void add(const Table& table, const WriteOptions& options = {});
  /// NAME.csv, to be written by the caller.
  [[nodiscard]] OutputFile& open(const std::string& name) { return folder_.open(name + ".csv"); }
  void commit() { folder_.commit(); }

 private:
  OutputFolder folder_;
};

/// All of it at once.
void write_csv_folder(const std::filesystem::path& path, std::span<const Table> tables,
                      const WriteOptions& options = {});

}  // namespace attnctl
