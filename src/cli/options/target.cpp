#include "cli/options/target.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <sys/ioctl.h>
#include <system_error>
#include <unistd.h>

#include "base/error.hpp"

namespace attnctl::cli {
namespace {

struct FormatRow {
  Format format;
  std::string_view name;
  std::string_view extension;
};
constexpr std::array kFormats = {
    FormatRow{Format::json, "json", ".json"}, FormatRow{Format::jsonl, "jsonl", ".jsonl"},
    FormatRow{Format::csv, "csv", ".csv"},    FormatRow{Format::npz, "npz", ".npz"},
    FormatRow{Format::svg, "svg", ".svg"},    FormatRow{Format::text, "text", ".txt"},
};

std::optional<Format> format_of_extension(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  for (const FormatRow& row : kFormats) {
    if (row.extension == extension) return row.format;
  }
  return std::nullopt;
}

Format resolve_format(const OutputOptions& options, bool to_stdout) {
  std::optional<Format> by_name;
  for (const FormatRow& row : kFormats) {
    if (row.name == options.format) by_name = row.format;
  }
  const std::optional<Format> by_extension = to_stdout ? std::nullopt : format_of_extension(options.path);
  if (by_name && by_extension && *by_name != *by_extension) {
    fail(Status::usage, "--format {} contradicts the extension of -o {}", options.format,
         escaped(options.path));
  }
  if (by_name) return *by_name;
  if (by_extension) return *by_extension;
  return to_stdout && isatty(STDOUT_FILENO) == 1 ? Format::text : Format::json;
}

void check_place(const Target& target) {
  std::error_code ignored;
  const bool directory = std::filesystem::is_directory(target.path, ignored);
  const bool folder_wanted = target.format == Format::csv && target.table.empty();
  if (directory && !folder_wanted) {
    fail(Status::environment, "{}: is a directory; {} writes one file", escaped(target.path.string()),
         to_string(target.format));
  }
  if (folder_wanted && !directory && std::filesystem::exists(target.path, ignored)) {
    fail(Status::environment,
         "{}: is not a directory; csv writes a folder of tables (or one with --table NAME)",
         escaped(target.path.string()));
  }
}

}  // namespace

std::string to_string(Format format) {
  const auto* row = std::find_if(kFormats.begin(), kFormats.end(),
                                 [&](const FormatRow& each) { return each.format == format; });
  return std::string(row->name);
}

Target resolve_target(const OutputOptions& options, std::initializer_list<Format> allowed,
                      const std::vector<std::filesystem::path>& inputs) {
  const bool to_stdout = options.path.empty() || options.path == "-";
  Target target{resolve_format(options, to_stdout), to_stdout ? "-" : options.path, options.table};
  if (std::find(allowed.begin(), allowed.end(), target.format) == allowed.end()) {
    std::string names;
    for (const Format each : allowed) names += (names.empty() ? "" : ", ") + to_string(each);
    fail(Status::usage, "--format: unsupported {} for this command; it writes {}", to_string(target.format),
         names);
  }
  if (!target.table.empty() && target.format != Format::csv)
    fail(Status::usage, "--table goes with --format csv");
  const bool one_file = to_stdout || format_of_extension(target.path) == Format::csv;
  if (target.format == Format::csv && one_file && target.table.empty()) {
    fail(Status::usage, "csv needs -o DIRECTORY, or --table NAME for one table");
  }
  if (target.format == Format::npz && to_stdout && isatty(STDOUT_FILENO) == 1) {
    fail(Status::usage, "npz is binary: give -o FILE.npz, or a pipe");
  }
  if (to_stdout) return target;
  for (const std::filesystem::path& input : inputs) {
    std::error_code ignored;
    if (std::filesystem::equivalent(input, target.path, ignored)) {
      fail(Status::usage, "-o {}: is an input of this run", escaped(options.path));
    }
  }
  check_place(target);
  return target;
}

TextOptions text_style(const Target& target) {
  TextOptions style;
  if (target.path != "-" || isatty(STDOUT_FILENO) != 1) return style;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  style.styled = variable("NO_COLOR").empty();
  const bool many =
      variable("TERM").find("256color") != std::string_view::npos || !variable("COLORTERM").empty();
  style.colours = style.styled && many;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.width = size.ws_col;
  return style;
}

}  // namespace attnctl::cli
