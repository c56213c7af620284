#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// Examples of documents and of --help, so that tests can run what they show.
namespace attnctl::test {

/// A command of a ```console block ("$ attnctl ...", continued over lines that end in a backslash) and the
/// lines shown below it.
struct Example {
  std::size_t line = 0;  // of the command in the document, from 1
  std::string command;
  std::vector<std::string> output;
};
[[nodiscard]] std::vector<Example> console_examples(std::string_view markdown);

/// A fenced block whose first line names a file in a comment ("# heatmap.py"): the reader saves it under
/// that name.
struct NamedFile {
  std::string name;
  std::string text;
};
[[nodiscard]] std::vector<NamedFile> named_files(std::string_view markdown);

/// The commands below "Examples:" of a --help text.
[[nodiscard]] std::vector<std::string> help_examples(std::string_view help);

/// Compares shown lines with printed ones word by word. A line "..." stands for any lines; numbers may differ
/// by one in the last digit shown, since sums are ordered differently by different BLAS kernels. Returns
/// the first difference, or an empty string.
[[nodiscard]] std::string shown_against_printed(const std::vector<std::string>& shown,
                                                const std::vector<std::string>& printed);

/// Text cut at line ends; "\r\n" counts as one.
[[nodiscard]] std::vector<std::string> lines_of(std::string_view text);

}  // namespace attnctl::test
