#include "cli/options/options.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <glob.h>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/options/target.hpp"
#include "report/drawing.hpp"

namespace attnctl::cli {
namespace {

/// Parses a size in bytes with an optional binary suffix: "2G", "512M" or "1048576".
std::uint64_t parse_bytes(const std::string& text) {
  constexpr std::string_view kSuffixes = "KMGT";
  std::string_view digits = text;
  const char last = text.empty() ? ' ' : text.back();
  const std::size_t index = kSuffixes.find(static_cast<char>(std::toupper(static_cast<unsigned char>(last))));
  if (index != std::string_view::npos) digits.remove_suffix(1);
  const std::uint64_t unit = index == std::string_view::npos ? 1 : std::uint64_t{1024} << (10 * index);
  const auto bytes = checked_mul<std::uint64_t>(parse_number(digits).value_or(0), unit);
  if (bytes.value_or(0) == 0)
    fail(Status::usage, "--memory: got \"{}\", need a positive number of bytes such as 1048576, 512M or 2G",
         escaped(text));
  return *bytes;
}

constexpr const char* kInputGroup = "Inputs (inputs may be given several times; their order is kept)";

/// Adds an argument that calls `target` for each value, in the order of the command line.
void add_ordered(Command& command, const char* name, const char* type, const std::string& help,
                 std::function<void(const std::string&)> target) {
  command.add(kInputGroup,
              {{.names = name, .target = std::move(target), .help = help, .type = type, .in_order = true}});
}

void add_items(Command& command, InputOptions& options, std::vector<InputItem>& items, const char* name,
               InputKind kind, const char* type, const std::string& help) {
  const bool text = kind == InputKind::text && &items == &options.items;
  add_ordered(command, name, type, help, [&options, &items, kind, text](const std::string& value) {
    const bool files = kind == InputKind::file;
    for (const std::string& each : files ? matching_files(value) : std::vector{value})
      items.push_back({kind, each});
    options.after_text = text;
  });
}

/// Returns whether a text looks like the name of a file of inputs.
bool names_inputs(const std::string& text) {
  constexpr std::string_view kInputExtensions[] = {".txt",   ".jsonl", ".json", ".conllu",
                                                   ".conll", ".npy",   ".gz",   ".zst"};
  const std::string extension = std::filesystem::path(lower_case(text)).extension().string();
  return text.find_first_of(" \t\n") == std::string::npos &&
         std::ranges::find(kInputExtensions, extension) != std::end(kInputExtensions);
}

void add_texts(Command& command, InputOptions& options) {
  add_ordered(
      command, "TEXT", "", "Text, as with --text; the name of an existing file is an error",
      [&options](const std::string& value) {
        std::error_code ignored;
        if (std::filesystem::is_directory(value, ignored))
          fail(
              Status::usage,
              "{0}: is a folder, and only one MODEL can be given; to compare two models, use attnctl compare "
              "MODEL {0} --input FILE; for this text, give --text {0}",
              escaped(value));
        if (std::filesystem::exists(value, ignored))
          fail(Status::usage, "{0}: is a file, not a text; give --input {0}, or --text {0} for this text",
               escaped(value));
        if (names_inputs(value))
          fail(Status::usage, "{0}: no such file; give --input FILE, or --text {0} for this text",
               escaped(value));
        options.items.push_back({InputKind::text, value});
        options.after_text = true;
        if (!value.empty() && std::ranges::all_of(value, [](char c) { return c > ' ' && c < '\x7f'; }))
          ++options.words;  // other scripts may have sentences without spaces
      });
  add_items(command, options, options.items, "--text", InputKind::text, "TEXT",
            "Text, or - for a text from standard input; the model's tokenizer splits it into tokens and adds "
            "special tokens");
  add_ordered(command, "--text-pair", "TEXT", "Second text of a pair; must directly follow the first text",
              [&options](const std::string& value) {
                if (!std::exchange(options.after_text, false))
                  fail(Status::usage, "--text-pair must directly follow the first text of its pair");
                options.items.back().pair = value;
              });
}

void add_picture_options(Command& command, report::PictureOptions& options) {
  constexpr double kMost = std::numeric_limits<double>::max();
  const Range finite{-kMost, kMost, "finite"};
  command.add(
      "Pictures (svg, png, pdf)",
      {{"--title", &options.title,
        "Title, instead of the title and the lines below it; an empty text removes them"},
       number("--font-size", &options.font_size,
              "Size of labels in points; all other texts are scaled with it", Range{1.0, 100.0}),
       {"--font-family",
        [&options](const std::string& name) {
          const auto allowed = [](char c) {
            return (c & 0x80) != 0 || (std::isalnum(static_cast<unsigned char>(c)) != 0) || c == ' ' ||
                   c == '-' || c == '_';
          };
          if (name.empty() || !std::ranges::all_of(name, allowed))
            fail(Status::usage,
                 "--font-family: got {}, need one name of letters, digits, spaces, - and _, such as serif or "
                 "\"DejaVu Serif\"",
                 in_quotes(name));
          options.font_family = name;
        },
        "Font family of all texts, such as serif or \"DejaVu Serif\" (default: Helvetica or another "
        "sans-serif font)",
        "NAME"},
       {.names = "--colormap",
        .target = &options.colormap,
        .help = "Colours of heatmaps (default: blues, or rdbu_r for values of both signs)",
        .allowed = report::colormap_names()},
       number("--width", &options.width,
              "Width in pixels (pdf: points); the drawing and its texts are scaled to it", Range{1, 32767}),
       number("--vmin", &options.vmin, "Low end of the scale of heatmaps (default: fitted)", finite),
       number("--vmax", &options.vmax, "High end of the scale of heatmaps (default: fitted)", finite)});
}

}  // namespace

std::vector<std::string> matching_files(const std::string& value) {
  std::error_code ignored;
  if (value.find_first_of("*?[") == std::string::npos || std::filesystem::exists(value, ignored))
    return {value};
  glob_t found = {};  // glob() sorts by bytes, because the program sets no locale
  const int status = glob(value.c_str(), 0, nullptr, &found);
  std::vector<std::string> files(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (status != 0) fail(Status::environment, "{}: no file matches this pattern", escaped(value));
  return files;
}

void add_model_options(Command& command, ModelOptions& options) {
  command.add({{.names = "MODEL",
                .target = &options.model,
                .help = "Model: a directory in Hugging Face layout, a name in the local Hugging Face cache, "
                        "or one weights file",
                .required = true},
               {"--config", &options.config, "Configuration file that replaces the one of MODEL", "FILE"},
               {"--adapter", &options.adapter,
                "LoRA adapter in the layout of PEFT, a directory with adapter_config.json, to add to the "
                "weights",
                "DIR"}});
}

void add_text_options(Command& command, InputOptions& options) {
  add_texts(command, options);
  add_file_options(command, options, "\"text\"");
}

void add_file_options(Command& command, InputOptions& options, const std::string& keys) {
  add_items(command, options, options.items, "--input", InputKind::file, "FILE",
            "File of inputs: .txt (one text per line), .jsonl (one object per line), .json (one object or an "
            "array of objects), .conllu or .conll (one text per sentence), each also as .gz or .zst, a "
            "quoted pattern such as 'texts/*.txt', or - for standard input. An object has " +
                keys);
  command.add(kInputGroup, {{.names = "--input-format",
                             .target = &options.input_format,
                             .help = "Format of the files (default: by the extension of the name; for "
                                     "standard input: by its first line)",
                             .allowed = {"txt", "jsonl", "json", "conllu"}}});
}

void add_sequence_options(Command& command, InputOptions& options) {
  add_texts(command, options);
  add_items(command, options, options.items, "--ids", InputKind::ids, "101,7592,102",
            "Token ids, used as given: no special tokens are added");
  add_file_options(command, options);
  add_items(command, options, options.items, "--embeddings", InputKind::embeddings, "X.npy",
            "Array [n, d] or [batch, n, d] of vectors that replace the embeddings of n tokens");
  add_items(
      command, options, options.items, "--pixels", InputKind::pixels, "X.npy",
      "Images [batch, channels, height, width], or one image [channels, height, width], for a model that "
      "reads images");
  add_items(command, options, options.targets, "--target-text", InputKind::text, "TEXT",
            "Text that the decoder of an encoder-decoder model reads after the model's start token; the k-th "
            "target belongs to the k-th input");
  add_items(command, options, options.targets, "--target-ids", InputKind::ids, "2,17,9",
            "Token ids that the decoder reads, used as given; the k-th target belongs to the k-th input");
  command.add(kInputGroup, {{"--truncate", &options.truncate,
                             "Shorten texts and ids that are longer than the model's number of positions, "
                             "with a warning (default: stop with an error)"}});
}

void add_input_options(Command& command, InputOptions& options) {
  add_sequence_options(command, options);
  command.add(
      kInputGroup,
      {{"--keys", &options.keys,
        "For cross-attention: array like --embeddings, from which keys and values are computed; one file per "
        "--embeddings",
        "K.npy"},
       {"--values", &options.values,
        "Array like --keys, from which values are computed (default: that of --keys); one file per --keys",
        "V.npy"},
       {.names = "--mask",
        .target = &options.mask,
        .help =
            "Mask of the scores: causal (hide later keys), none (do not hide later keys), or a file of bools "
            "or integers (1: the query may attend to the key, 0: hidden) or of floats (added to the scores)",
        .type = "causal|none|FILE.npy",
        .offered = {"causal", "none"}},
       {"--key-mask", &options.key_mask,
        "Array [batch, m] of bools or integers, for m keys (1: visible, 0: hidden)", "FILE.npy"}});
}

void add_head_options(Command& command, SelectionOptions& options) {
  command.add(
      "Selection",
      {{.names = "--component",
        .target = &options.component,
        .help = "For an encoder-decoder model: any of encoder, decoder, cross (default: all, or only encoder "
                "if the model runs without a target)",
        .type = "LIST",
        .offered = {"encoder", "decoder", "cross"}},
       {"--layers", &options.layers, "Layers, counted from 0, such as 0,3-5 (default: all)", "LIST"},
       {"--heads", &options.heads,
        "Heads as LAYER.HEAD, such as 0.1,2.3 (or L0H1, 0:1); in an encoder-decoder model such as "
        "enc.0.1,cross.2.3 (default: all)",
        "LIST"}});
}

bool OutputOptions::writes_folders() const {
  return default_table.empty() && std::ranges::find(formats, "csv") != formats.end();
}

void add_target_options(Command& command, OutputOptions& options, const std::vector<std::string>& formats) {
  options.formats = formats;
  command.add(
      "Output",
      {{.names = "--format",
        .target = &options.format,
        .help = fmt::format("Output format (default: by the extension of -o; otherwise {})",
                            options.default_format == "text" ? "text" : "text on a terminal, else json"),
        .allowed = formats},
       {"-o,--output", &options.path,
        fmt::format("Output file with one of the extensions {}{} (default: standard output); an old file is "
                    "replaced only when the results are complete",
                    extensions_of(formats), options.writes_folders() ? ", or folder of tables" : ""),
        "PATH"},
       {.names = "--columns",
        .target = &options.columns,
        .help =
            std::string("With text: ") +
            (options.names_columns ? "columns of the table of heads, such as entropy,distance, or " : "") +
            "all to show all columns of each table, also if its lines are then wider than the terminal",
        .type = options.names_columns ? "LIST|all" : "all",
        .split = true,
        .allowed = options.names_columns ? std::vector<std::string>() : std::vector<std::string>{"all"}},
       {"--explain", [](const std::string& name) { throw OptionText{explanation(name)}; },
        "Print what a column, metric, measure or analysis means, and exit; attnctl explain lists all names",
        "NAME"}});
  command.command_line = &options.command_line;
  if (std::ranges::find(formats, "svg") != formats.end()) add_picture_options(command, options.drawing);
  if (std::ranges::find(formats, "html") == formats.end()) return;
  command.add(
      "Page (html)",
      {number("--page-top-k", &options.page.top_k,
              "Keep only this number of the largest weights of each query, for long inputs", positive()),
       {"--page-limit", [&options](const std::string& text) { options.page.limit = parse_bytes(text); },
        "Largest size of the page, such as 100M (default: 64M)", "BYTES"}});
}

void add_document_options(Command& command, OutputOptions& options, const std::vector<std::string>& formats) {
  add_target_options(command, options, formats);
  command.add(
      "Output",
      {number(
          "--digits", &options.digits,
          "Number of decimals (default: the shortest text that reads back to the same number; fewer in text)",
          Range{0, report::NumberFormat::kMostDigits})});
}

void add_table_option(Command& command, OutputOptions& options, std::string_view names,
                      std::string_view default_text) {
  const std::vector<std::string_view> tables = split(names, ',');
  const std::string what =
      options.writes_folders()
          ? "write only this table, as one file instead of a folder of tables"
          : fmt::format("table to write (default: {})",
                        default_text.empty() ? std::string_view(options.default_table) : default_text);
  command.add("Output", {{.names = "--table",
                          .target = &options.table,
                          .help = fmt::format("With {}: {}, of: {}", table_formats(options.formats), what,
                                              fmt::join(tables, ", ")),
                          .type = "NAME",
                          .offered = {tables.begin(), tables.end()}}});
}

Option strip_markers_option(bool& strip_markers) {
  return {"--strip-markers", &strip_markers,
          "In text and pictures, show tokens without the marker at their beginning: ful instead of ##ful"};
}

std::size_t parse_top(const std::string& word) {
  const std::optional<std::size_t> top = word == "all" ? inspect::kAllHeads : parse_number(word);
  if (!top || *top == 0) fail(Status::usage, "--top: got {}, need a positive number, or all", escaped(word));
  return *top;
}

void add_plot_option(Command& command, OutputOptions& options) {
  command.add("Output", {{.names = "--plot",
                          .target = &options.plot,
                          .help = "With svg, png, pdf: draw this column of a table by layer and head, such "
                                  "as entropy; for a table other than heads: TABLE.COLUMN; =WORDS after it "
                                  "draws only the heatmaps whose titles contain each word",
                          .type = "COLUMN"}});
}

void add_worker_options(Command& command, ResourceOptions& options) {
  command.add("Run", {{.names = "--threads",
                       .target = &options.threads,
                       .help = "Number of threads (default: all cores that this process may use)",
                       .range = Range{1, 4096}},
                      {"--quiet", &options.quiet, "Print no warnings and no progress on standard error"},
                      choice("--progress", options.progress, {"auto", "always", "never"},
                             "When to show progress on standard error: auto (on a terminal, if the work "
                             "takes more than a second), always or never (default: auto)")});
}

void add_run_options(Command& command, ResourceOptions& options) {
  add_worker_options(command, options);
  command.add("Run", {{"--strict", &options.strict,
                       "Stop with exit status 6 if a weight or a result is NaN or infinite"}});
}

Option memory_option(ResourceOptions& options, std::string help) {
  return {"--memory", [&options](const std::string& text) { options.memory = parse_bytes(text); },
          std::move(help), "BYTES"};
}

}  // namespace attnctl::cli
