#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/options/options.hpp"
#include "report/text.hpp"

namespace attnctl::cli {

enum class Format { json, jsonl, csv, npz, svg, text };
[[nodiscard]] std::string to_string(Format format);

/// A path that a command writes.
struct OutputPath {
  std::string option;  // option that names the path: "--state"
  std::filesystem::path path;
  bool folder = false;  // a folder of CSV tables
};

/// Throws Error(usage) if an output is one of the inputs, or if two outputs are the same file. Compares
/// device and inode after following symbolic links. Ignores all but regular files, so that a terminal can be
/// both input and output. A folder of tables counts as the .csv files in it.
void check_outputs(const std::vector<OutputPath>& outputs, const std::vector<std::filesystem::path>& inputs);

/// The destination and format of the results, resolved before any work.
struct Target {
  Format format = Format::json;
  std::filesystem::path path;  // "-": standard output
  std::string table;           // CSV: the one table to write as a file; empty: all tables, into a directory
};

/// Applies the rules of docs/cli.md: the format is that of --format, or else that of the extension of -o, or
/// else text on a terminal and JSON elsewhere. `others` are the paths that the command writes in addition to
/// -o. Throws Error(usage) if the format contradicts the extension or is none of the command, for CSV without
/// a directory or --table, for NPZ to a terminal, and for everything that check_outputs() rejects. Throws
/// Error(environment) if the output is a directory and a file is written, or the reverse.
[[nodiscard]] Target resolve_target(const OutputOptions& options,
                                    const std::vector<std::filesystem::path>& inputs,
                                    std::vector<OutputPath> others = {});

/// Returns the text style of a target: bold, dim and colours at the width of the terminal, unless NO_COLOR is
/// set; plain text if the target is not a terminal.
[[nodiscard]] TextOptions text_style(const Target& target);

}  // namespace attnctl::cli
