#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// Reads the examples of documents and of --help, so that tests can run them.
namespace attnctl::test {

/// A command of a ```console block ("$ attnctl ...", with continuation lines after a backslash) and the
/// output that the document shows for it.
struct Example {
  std::size_t line = 0;  // line number of the command in the document, from 1
  std::string command;
  std::vector<std::string> output;
};
[[nodiscard]] std::vector<Example> console_examples(std::string_view markdown);

/// A fenced block whose first line is a comment with a file name ("# heatmap.py"). Readers save it under this
/// name.
struct NamedFile {
  std::string name;
  std::string text;
};
[[nodiscard]] std::vector<NamedFile> named_files(std::string_view markdown);

/// Returns the commands after "Examples:" of a --help text.
[[nodiscard]] std::vector<std::string> help_examples(std::string_view help);

/// Compares shown lines with printed lines word by word. A line "..." matches any lines. Numbers may differ
/// by one unit of the last digit shown, because BLAS kernels add in different orders. Returns the first
/// difference, or an empty string.
[[nodiscard]] std::string shown_against_printed(const std::vector<std::string>& shown,
                                                const std::vector<std::string>& printed);

/// Splits a text at line ends. "\r\n" is one line end.
[[nodiscard]] std::vector<std::string> lines_of(std::string_view text);

}  // namespace attnctl::test
