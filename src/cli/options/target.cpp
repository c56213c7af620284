#include "cli/options/target.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
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

using inspect::Form;
using report::PictureFormat;

constexpr std::array kFormats = {
    Format{.name = "json", .extension = ".json", .form = Form::document},
    Format{
        .name = "jsonl", .extension = ".jsonl", .form = Form::document, .layout = report::JsonLayout::lines},
    Format{.name = "csv", .extension = ".csv", .form = Form::tables},
    Format{.name = "tsv", .extension = ".tsv", .form = Form::tables, .separator = '\t'},
    Format{.name = "npz", .extension = ".npz", .form = Form::arrays},
    Format{.name = "svg", .extension = ".svg", .form = Form::pictures},
    Format{.name = "png", .extension = ".png", .form = Form::pictures, .picture = PictureFormat::png},
    Format{.name = "pdf", .extension = ".pdf", .form = Form::pictures, .picture = PictureFormat::pdf},
    Format{.name = "html", .extension = ".html", .form = Form::page},
    Format{.name = "text", .extension = ".txt", .form = Form::text},
};

const Format* format_with(std::string_view Format::*member, std::string_view value) {
  const auto* const found = std::ranges::find(kFormats, value, member);
  return found == kFormats.end() ? nullptr : found;
}

/// Returns the format of the extension of -o, or null. Without --format, throws Error(usage) for an extension
/// that the command does not write, unless the path is a device or a pipe.
const Format* format_of_extension(const OutputOptions& options) {
  const std::filesystem::path path = options.path;
  const std::string extension = path.extension().string();
  const Format* const format = format_with(&Format::extension, extension);
  if (!options.format.empty()) return format;
  if (format != nullptr && std::ranges::find(options.formats, format->name) != options.formats.end())
    return format;
  std::error_code ignored;
  if (!extension.empty() && !std::filesystem::is_other(path, ignored))
    fail(Status::usage,
         "-o {}: got the extension {}, need one of {}; give --format to write a file with another extension",
         escaped(options.path), escaped(extension), extensions_of(options.formats));
  return nullptr;
}

/// Returns whether a path is that of a folder, which may not exist yet if the path ends with a slash.
bool names_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.native().ends_with('/') || std::filesystem::is_directory(path, ignored);
}

const Format& resolve_format(const OutputOptions& options, const Format* by_extension, bool to_stdout) {
  const Format* const by_name = format_with(&Format::name, options.format);
  if (by_name != nullptr && by_extension != nullptr && by_name != by_extension) {
    fail(Status::usage, "--format {} contradicts the extension of -o {}", options.format,
         escaped(options.path));
  }
  if (by_name != nullptr) return *by_name;
  if (by_extension != nullptr) return *by_extension;
  if (!to_stdout && names_folder(options.path) && options.writes_folders())
    return *format_with(&Format::name, "csv");
  return *format_with(&Format::name,
                      to_stdout && isatty(STDOUT_FILENO) == 1 ? "text" : options.default_format);
}

void check_output_type(const Target& target, const OutputOptions& options) {
  std::error_code ignored;
  // Reads the status only once, because another run may create the directory at any time.
  const std::filesystem::file_status found = std::filesystem::status(target.path, ignored);
  const bool directory = is_directory(found) || target.path.native().ends_with('/');
  const bool folder_wanted = target.is_folder();
  if (directory && !folder_wanted) {
    const bool table = !target.table.empty() && options.default_table.empty();
    fail(Status::environment, "{}: is a directory, but {} is written to one file; give the path of a file{}",
         escaped(target.path.string()), table ? "--table " + options.table : std::string(target.format.name),
         !options.writes_folders() ? ""
         : table                   ? ", or leave out --table"
                                   : ", or --format csv for a folder of tables");
  }
  if (folder_wanted && !directory && exists(found)) {
    fail(Status::environment,
         "{}: is not a directory, but {} writes a directory of tables; give a directory, or --table NAME "
         "for one table",
         escaped(target.path.string()), target.format.name);
  }
}

using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> file_id(const std::filesystem::path& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  return FileId(found.st_dev, found.st_ino);
}

/// Returns the output path or, for a folder of tables, its files with the extension of tables.
std::vector<std::filesystem::path> files_of(const OutputPath& output) {
  if (output.tables.empty()) return {output.path};
  std::vector<std::filesystem::path> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(output.path, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == output.tables) files.push_back(entry->path());
  }
  return files;
}

/// Returns whether two outputs are the same file, or whether one output is a folder of tables and the other a
/// file in this folder with the extension of tables. The outputs need not exist.
bool collide(const OutputPath& a, const OutputPath& b) {
  const auto id = file_id(a.path);
  if (id && id == file_id(b.path)) return true;
  std::error_code ignored;
  if (std::filesystem::is_other(a.path, ignored)) return false;  // devices and FIFOs may be written twice
  const std::filesystem::path path = output_path(a.path);
  const std::filesystem::path other = output_path(b.path);
  const auto holds = [](std::string_view tables, const std::filesystem::path& folder,
                        const std::filesystem::path& file) {
    return !tables.empty() && file.parent_path() == folder && file.extension() == tables;
  };
  return path == other || holds(a.tables, path, other) || holds(b.tables, other, path);
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

std::vector<std::string> all_formats() {
  return texts_of(kFormats, &Format::name);
}

std::string table_formats(const std::vector<std::string>& formats) {
  std::vector<std::string> names;
  std::ranges::copy_if(formats, std::back_inserter(names), [](const std::string& name) {
    return format_with(&Format::name, name)->form == Form::tables;
  });
  return fmt::format("{}", fmt::join(names, " or "));
}

std::string extensions_of(const std::vector<std::string>& formats) {
  return join_texts(formats,
                    [](const std::string& name) { return format_with(&Format::name, name)->extension; });
}

bool writes_picture(const OutputOptions& options) {
  const std::string extension = std::filesystem::path(options.path).extension().string();
  const Format* const format = options.format.empty() ? format_with(&Format::extension, extension)
                                                      : format_with(&Format::name, options.format);
  return format != nullptr && format->form == Form::pictures;
}

Target resolve_target(const OutputOptions& options, const std::vector<std::filesystem::path>& inputs,
                      std::vector<OutputPath> others) {
  const bool to_stdout = options.path.empty() || options.path == "-";
  const bool folder = !to_stdout && options.format.empty() && names_folder(options.path);
  const Format* const by_extension = to_stdout || folder ? nullptr : format_of_extension(options);
  Target target{resolve_format(options, by_extension, to_stdout), to_stdout ? "-" : options.path,
                options.table, options.columns == std::vector<std::string>{"all"}};
  const Format& format = target.format;
  const bool tables = format.form == Form::tables;
  if (!target.table.empty() && !tables)
    fail(Status::usage, "--table needs --format {}, or -o FILE with this extension",
         table_formats(options.formats));
  if (!(options.plot + options.picture).empty() && format.form != Form::pictures)
    fail(Status::usage, "--{} needs --format svg, png or pdf, or -o FILE with this extension",
         options.plot.empty() ? "picture" : "plot");
  const auto& [vmin, vmax] = std::pair(options.drawing.vmin, options.drawing.vmax);
  if (vmin && vmax && *vmin >= *vmax)
    fail(Status::usage, "--vmin: got {}, need a number below --vmax {}", *vmin, *vmax);
  const bool single = to_stdout || by_extension != nullptr;
  if (tables && target.table.empty()) target.table = single ? options.single_table : "";
  if (tables && target.table.empty()) target.table = options.default_table;
  if (target.is_folder() && single) {
    fail(Status::usage,
         "{0} is several tables, so it cannot go to one file or to standard output: give --format {0} -o "
         "DIRECTORY, or --table NAME for one table, such as --table heads (--help lists the names)",
         format.name);
  }
  const bool drawn = format.picture != PictureFormat::svg;
  if ((drawn || format.form == Form::arrays) && to_stdout && isatty(STDOUT_FILENO) == 1)
    fail(Status::usage, "--format {} cannot be written to a terminal: give -o FILE{}", format.name,
         format.extension);
  if (!to_stdout) others.push_back({"-o", target.path, target.is_folder() ? format.extension : ""});
  check_outputs(others, inputs);
  if (!to_stdout) check_output_type(target, options);
  if (drawn) report::require_picture_library();
  return target;
}

std::optional<std::size_t> output_width(bool to_stdout) {
  winsize size{};
  if (to_stdout && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* const variable = std::getenv("COLUMNS");
  const auto columns = parse_number(variable == nullptr ? "" : variable);
  return columns == 0 ? std::nullopt : columns;
}

report::TextOptions text_style(const Target& target) {
  report::TextOptions style{.width = output_width(target.path == "-"), .all_columns = target.all_columns};
  if (target.path != "-" || isatty(STDOUT_FILENO) != 1) return style;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  style.styled = variable("NO_COLOR").empty();
  const bool many =
      variable("TERM").find("256color") != std::string_view::npos || !variable("COLORTERM").empty();
  style.colours = style.styled && many;
  return style;
}

}  // namespace attnctl::cli
