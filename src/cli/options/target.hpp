#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "cli/options/options.hpp"
#include "report/text/text.hpp"

namespace attnctl::cli {

enum class Format { json, jsonl, csv, npz, svg, text };
[[nodiscard]] std::string to_string(Format format);

/// A path that a command writes.
struct OutputPath {
  std::string option;  // that names it: "--state"
  std::filesystem::path path;
  bool folder = false;  // of CSV tables
};

/// Throws Error(usage) if an output is one of the inputs, or if two outputs are one file. Paths are compared
/// by device and inode after following symbolic links; only regular files count, so that a terminal can be
/// both. A folder of tables stands for the .csv files in it.
void check_outputs(const std::vector<OutputPath>& outputs, const std::vector<std::filesystem::path>& inputs);

/// Where results go and how, resolved before any work.
struct Target {
  Format format = Format::json;
  std::filesystem::path path;  // "-": standard output
  std::string table;           // csv: one table as a file; empty: all into a directory
};

/// Applies the rules of cli.md: --format decides, then the extension of -o, then text on a terminal and json
/// elsewhere. `others` are the paths that the command writes besides -o. Throws Error(usage): a format that
/// contradicts the extension, one that this command does not write (`allowed`), csv to nowhere, npz to a
/// terminal, what check_outputs() throws; Error(environment): an output that is a directory if a file is
/// written, or a file if a directory is needed.
[[nodiscard]] Target resolve_target(const OutputOptions& options, std::initializer_list<Format> allowed,
                                    const std::vector<std::filesystem::path>& inputs,
                                    std::vector<OutputPath> others = {});

/// Bold and dim on a terminal, unless NO_COLOR says otherwise.
[[nodiscard]] TextOptions text_style(const Target& target);

}  // namespace attnctl::cli
