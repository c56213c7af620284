#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/options.hpp"
#include "inspect/catalogue.hpp"
#include "report/text.hpp"
#include "report/writers.hpp"

namespace attnctl::cli {

/// An output format: a row of the table in target.cpp.
struct Format {
  std::string_view name;                                       // in --format
  std::string_view extension;                                  // of its files: ".json"
  inspect::Form form = inspect::Form::document;                // the form of results that its writer uses
  report::JsonLayout layout = report::JsonLayout::document;    // for a document
  char separator = ',';                                        // for tables: the character between columns
  report::PictureFormat picture = report::PictureFormat::svg;  // for pictures
};

[[nodiscard]] std::vector<std::string> all_formats();
/// Returns the names of those of `formats` that write tables, such as "csv or tsv".
[[nodiscard]] std::string table_formats(const std::vector<std::string>& formats);
/// Returns the extensions of `formats`, such as ".json, .csv".
[[nodiscard]] std::string extensions_of(const std::vector<std::string>& formats);

/// Returns true if --format or, without it, the extension of -o is that of a picture.
[[nodiscard]] bool writes_picture(const OutputOptions& options);

struct OutputPath {
  std::string option;  // the option with this path: "--state"
  std::filesystem::path path;
  std::string_view tables = {};  // for a folder of tables: their extension; otherwise empty
};

/// Throws Error(usage) if an output is one of the inputs, or if two outputs are the same file. Follows
/// symbolic links, then compares device and inode of regular files, so that a terminal can be both input and
/// output. Also compares the paths of outputs, which need not exist. For a folder of tables, compares the
/// tables in the folder.
void check_outputs(const std::vector<OutputPath>& outputs, const std::vector<std::filesystem::path>& inputs);

/// The destination and format of the results, determined before any work.
struct Target {
  Format format;
  std::filesystem::path path;  // "-": standard output
  std::string table;           // for tables: the table to write to the file; empty: write all to a directory
  bool all_columns = false;    // --columns all

  [[nodiscard]] bool is_page() const { return format.form == inspect::Form::text && path == "-"; }
  [[nodiscard]] bool is_folder() const { return format.form == inspect::Form::tables && table.empty(); }
};

/// Determines the destination and format by the rules of docs/cli.md. The format is set by --format, else by
/// the extension of -o, or csv if -o is a folder and the command writes folders of tables. The default is
/// text on a terminal and options.default_format elsewhere. `others` are the paths that the command writes in
/// addition to -o. Throws Error(usage) if the format contradicts the extension, if the extension decides but
/// is not that of a format of the command, for --table, --plot or --picture with a format that has no tables
/// or pictures, if --vmin is not below --vmax, for several tables to one file or to stdout, for NPZ, PNG or
/// PDF to a terminal, and if check_outputs() or require_picture_library() fails. Throws Error(environment) if
/// the results are a file but the output path is a directory, or the reverse.
[[nodiscard]] Target resolve_target(const OutputOptions& options,
                                    const std::vector<std::filesystem::path>& inputs,
                                    std::vector<OutputPath> others = {});

/// Returns the width of standard output if it is a terminal and `to_stdout` is true; otherwise the number in
/// the environment variable COLUMNS, if it is set.
[[nodiscard]] std::optional<std::size_t> output_width(bool to_stdout = true);

/// Returns the text style of a target, with the width of output_width(). If the target is standard output and
/// standard output is a terminal and NO_COLOR is not set, the style has bold and dim text, and also colours
/// if TERM contains 256color or COLORTERM is set. Otherwise, the style is plain text. Empty variables count
/// as not set.
[[nodiscard]] report::TextOptions text_style(const Target& target);

}  // namespace attnctl::cli
