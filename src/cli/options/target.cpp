#include "cli/options/target.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/files/output_file.hpp"

namespace attnctl::cli {
namespace {

struct FormatRow {
  Format format;
  std::string_view name;
  std::string_view extension;
  inspect::Form form;
};
constexpr std::array kFormats = {
    FormatRow{Format::json, "json", ".json", inspect::Form::document},
    FormatRow{Format::jsonl, "jsonl", ".jsonl", inspect::Form::document},
    FormatRow{Format::csv, "csv", ".csv", inspect::Form::tables},
    FormatRow{Format::npz, "npz", ".npz", inspect::Form::arrays},
    FormatRow{Format::svg, "svg", ".svg", inspect::Form::pictures},
    FormatRow{Format::text, "text", ".txt", inspect::Form::text},
};

/// Returns the format whose `member` (name or extension) has this value.
std::optional<Format> format_with(std::string_view FormatRow::*member, std::string_view value) {
  const auto* const row = std::ranges::find(kFormats, value, member);
  return row == kFormats.end() ? std::nullopt : std::optional(row->format);
}

std::optional<Format> format_of_extension(const std::filesystem::path& path) {
  return format_with(&FormatRow::extension, path.extension().string());
}

Format resolve_format(const OutputOptions& options, bool to_stdout) {
  const std::optional<Format> by_name = format_with(&FormatRow::name, options.format);
  const std::optional<Format> by_extension = to_stdout ? std::nullopt : format_of_extension(options.path);
  if (by_name && by_extension && by_name != by_extension) {
    fail(Status::usage, "--format {} contradicts the extension of -o {}", options.format,
         escaped(options.path));
  }
  if (by_name) return *by_name;
  if (by_extension) return *by_extension;
  return to_stdout && isatty(STDOUT_FILENO) == 1 ? Format::text : Format::json;
}

bool writes_folder(const Target& target) {
  return target.format == Format::csv && target.table.empty();
}

void check_output_type(const Target& target) {
  std::error_code ignored;
  const bool directory = std::filesystem::is_directory(target.path, ignored);
  const bool folder_wanted = writes_folder(target);
  if (directory && !folder_wanted) {
    fail(Status::environment, "{}: is a directory, but {} is written to one file; give the path of a file",
         escaped(target.path.string()), to_string(target.format));
  }
  if (folder_wanted && !directory && std::filesystem::exists(target.path, ignored)) {
    fail(Status::environment,
         "{}: is not a directory, but csv writes a directory of tables; give a directory, or --table NAME "
         "for one table",
         escaped(target.path.string()));
  }
}

/// The device and inode of a regular file.
using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> file_id(const std::filesystem::path& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  return FileId(found.st_dev, found.st_ino);
}

/// Returns the output path. If the output is a folder, returns the paths of the .csv files in the folder.
std::vector<std::filesystem::path> files_of(const OutputPath& output) {
  if (!output.folder) return {output.path};
  std::vector<std::filesystem::path> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(output.path, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".csv") files.push_back(entry->path());
  }
  return files;
}

/// Returns whether two outputs are the same file, or one is a table in the folder of the other. The outputs
/// need not exist.
bool collide(const OutputPath& a, const OutputPath& b) {
  const auto id = file_id(a.path);
  if (id && id == file_id(b.path)) return true;
  std::error_code ignored;
  if (std::filesystem::is_other(a.path, ignored)) return false;  // devices and FIFOs may be written twice
  const std::filesystem::path path = output_path(a.path);
  const std::filesystem::path other = output_path(b.path);
  const auto holds = [](const std::filesystem::path& folder, const std::filesystem::path& file) {
    return file.parent_path() == folder && file.extension() == ".csv";
  };
  return path == other || (a.folder && holds(path, other)) || (b.folder && holds(other, path));
}

}  // namespace

void check_outputs(const std::vector<OutputPath>& outputs, const std::vector<std::filesystem::path>& inputs) {
  std::map<FileId, std::filesystem::path> read;
  for (const std::filesystem::path& input : inputs) {
    if (const auto id = file_id(input)) read.emplace(*id, input);
  }
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    const std::string name = output->option + " " + escaped(output->path.native());
    for (const std::filesystem::path& file : files_of(*output)) {
      const auto id = file_id(file);
      const auto input = id ? read.find(*id) : read.end();
      if (input == read.end()) continue;
      fail(Status::usage, "{}: would replace {}, an input of this run; give another path", name,
           escaped(input->second.native()));
    }
    const auto other = std::find_if(outputs.begin(), output,
                                    [&](const OutputPath& earlier) { return collide(earlier, *output); });
    if (other != output) {
      fail(Status::usage, "{}: would replace {} {}, an output of this run; give another path", name,
           other->option, escaped(other->path.native()));
    }
  }
}

std::string to_string(Format format) {
  return std::string(std::ranges::find(kFormats, format, &FormatRow::format)->name);
}

inspect::Form form_of(Format format) {
  return std::ranges::find(kFormats, format, &FormatRow::format)->form;
}

Target resolve_target(const OutputOptions& options, const std::vector<std::filesystem::path>& inputs,
                      std::vector<OutputPath> others) {
  const bool to_stdout = options.path.empty() || options.path == "-";
  Target target{resolve_format(options, to_stdout), to_stdout ? "-" : options.path, options.table};
  if (std::ranges::find(options.formats, to_string(target.format)) == options.formats.end()) {
    fail(Status::usage, "--format: unsupported {} for this command; it writes {}", to_string(target.format),
         fmt::join(options.formats, ", "));
  }
  if (!target.table.empty() && target.format != Format::csv)
    fail(Status::usage, "--table needs --format csv");
  if (target.format == Format::csv && target.table.empty()) target.table = options.default_table;
  const bool one_file = to_stdout || format_of_extension(target.path) == Format::csv;
  if (target.format == Format::csv && one_file && target.table.empty()) {
    fail(Status::usage,
         "--format csv writes several tables: give -o DIRECTORY, or --table NAME for one table");
  }
  if (target.format == Format::npz && to_stdout && isatty(STDOUT_FILENO) == 1) {
    fail(Status::usage, "--format npz cannot be written to a terminal: give -o FILE.npz");
  }
  if (!to_stdout) others.push_back({"-o", target.path, writes_folder(target)});
  check_outputs(others, inputs);
  if (!to_stdout) check_output_type(target);
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
