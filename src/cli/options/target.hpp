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

/// Where results go and how, resolved before any work.
struct Target {
  Format format = Format::json;
  std::filesystem::path path;  // "-": standard output
  std::string table;           // csv: one table as a file; empty: all into a directory
};

/// Applies the rules of cli.md: --format decides, then the extension of -o, then text on a terminal and json
/// elsewhere. Throws Error(usage): a format that contradicts the extension, one that this command does not
/// write (`allowed`), csv to nowhere, npz to a terminal, an output that is one of `inputs`;
/// Error(environment): an output that is a directory where a file is written, or a file where a directory is
/// needed.
[[nodiscard]] Target resolve_target(const OutputOptions& options, std::initializer_list<Format> allowed,
                                    const std::vector<std::filesystem::path>& inputs);

/// Bold and dim on a terminal, unless NO_COLOR says otherwise.
[[nodiscard]] TextOptions text_style(const Target& target);

}  // namespace attnctl::cli
