#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/options/options.hpp"
#include "inspect/catalogue.hpp"
#include "report/text.hpp"

namespace attnctl::cli {

enum class Format { json, jsonl, csv, npz, svg, text };
[[nodiscard]] std::string to_string(Format format);
/// Returns the form of results that the writer of a format uses.
[[nodiscard]] inspect::Form form_of(Format format);

/// A path that a command writes.
struct OutputPath {
  std::string option;  // the option with this path: "--state"
  std::filesystem::path path;
  bool folder = false;  // true for a folder of CSV tables
};

/// Throws Error(usage) if an output is one of the inputs, or if two outputs are the same file. Follows
/// symbolic links, then compares device and inode. Compares only regular files, so that a terminal can be
/// both input and output. For a folder of tables, compares the .csv files in the folder.
void check_outputs(const std::vector<OutputPath>& outputs, const std::vector<std::filesystem::path>& inputs);

/// The destination and format of the results, determined before any work.
struct Target {
  Format format = Format::json;
  std::filesystem::path path;  // "-": standard output
  std::string table;  // for CSV: the table to write to the file; empty: write all tables to a directory
};

/// Determines the destination and format by the rules of docs/cli.md. The format is set by --format, else by
/// the extension of -o. The default is text on a terminal and JSON elsewhere. `others` are the paths that the
/// command writes in addition to -o. Throws Error(usage) if the format contradicts the extension, if the
/// command cannot write the format, for CSV without a directory or --table, for NPZ to a terminal, and if
/// check_outputs() fails. Throws Error(environment) if the results are a file but the output path is a
/// directory, or the reverse.
[[nodiscard]] Target resolve_target(const OutputOptions& options,
                                    const std::vector<std::filesystem::path>& inputs,
                                    std::vector<OutputPath> others = {});

/// Returns the text style of a target. On a terminal, the style has the width of the terminal, and bold, dim
/// and colours unless NO_COLOR is set. Elsewhere, the style is plain text.
[[nodiscard]] TextOptions text_style(const Target& target);

}  // namespace attnctl::cli
