#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "cli/options/command.hpp"
#include "inspect/open_model.hpp"
#include "report/page.hpp"
#include "report/writers.hpp"

// The options that several subcommands share: one struct per group, and a function that adds them to a
// command.
namespace attnctl::cli {

struct ModelOptions {
  std::string model;
  std::optional<std::string> config, adapter;
};
/// Adds MODEL, --config and --adapter.
void add_model_options(Command& command, ModelOptions& options);

enum class InputKind { text, ids, file, embeddings, pixels };
/// One input or target of the command line.
struct InputItem {
  InputKind kind = InputKind::ids;
  std::string value;
  std::optional<std::string> pair = {};  // second text of a text input

  [[nodiscard]] bool is_standard_input() const {
    return value == "-" && (kind == InputKind::file || kind == InputKind::text);
  }
};

/// Returns the files that match a pattern of --input, sorted, or `value` itself if it is not a pattern or is
/// the name of a file. Throws Error(environment) if no file matches.
[[nodiscard]] std::vector<std::string> matching_files(const std::string& value);

struct InputOptions {
  std::vector<InputItem> items;    // inputs, in the order of the command line
  std::vector<InputItem> targets;  // texts or ids; the k-th target belongs to the k-th input
  std::string input_format;        // --input-format; empty: see input_format()
  std::vector<std::string> keys;   // files of --keys; the k-th file belongs to the k-th --embeddings
  std::vector<std::string> values;
  std::optional<std::string> mask;  // "causal", "none" or a file
  std::optional<std::string> key_mask;
  bool truncate = false;
  std::size_t words = 0;  // number of arguments TEXT that have only one word
  /// While parsing, true if the last input is a TEXT or --text without --text-pair, which may then follow.
  bool after_text = false;
};
/// Adds the arguments for text inputs: TEXT, --text, --text-pair, --input and --input-format.
void add_text_options(Command& command, InputOptions& options);
/// Adds only --input and --input-format. `keys` are those of an object in a .json or .jsonl file.
void add_file_options(Command& command, InputOptions& options,
                      const std::string& keys =
                          "\"text\", \"tokens\" or \"ids\", and for a model with a decoder "
                          "\"target\" or \"target_ids\"");
/// Adds all input options except --keys, --values and the masks.
void add_sequence_options(Command& command, InputOptions& options);
void add_input_options(Command& command, InputOptions& options);

struct SelectionOptions : inspect::HeadChoice {
  std::string attention;  // --attention; empty: the attention of the model
};
/// Adds --component, --layers and --heads.
void add_head_options(Command& command, SelectionOptions& options);

struct OutputOptions {
  std::vector<std::string> formats;  // the formats that the command can write
  std::string format;
  std::string default_format = "json";  // without --format, an extension of -o or a terminal
  std::string path;
  std::string table;
  /// Table to write if --table is not given; empty: write all tables to a folder.
  std::string default_table = {};
  /// Table of a run that writes to a file of tables or to standard output; empty: the run needs --table.
  std::string single_table = {};
  std::string plot;     // --plot: COLUMN or TABLE.COLUMN to draw
  std::string picture;  // name of the picture to write; empty: the first picture
  report::PictureOptions drawing = {};
  report::PageOptions page = {};
  std::vector<std::string> command_line = {};  // all words
  std::optional<int> digits;
  std::vector<std::string> columns = {};  // --columns
  bool names_columns = false;             // --columns can name columns of the table of heads
  bool compress = false;
  bool strip_markers = false;  // text and pictures show tokens without their word marks

  [[nodiscard]] bool writes_folders() const;  // folders of CSV tables
};
/// Adds only --format, -o, --columns and --explain, and the options of pictures if the command writes svg.
/// options.default_table must already be set.
void add_target_options(Command& command, OutputOptions& options, const std::vector<std::string>& formats);
/// Adds the options of add_target_options() and --digits.
void add_document_options(Command& command, OutputOptions& options, const std::vector<std::string>& formats);
/// Adds --table. `names` are the tables, separated by commas. Help shows `default_text` as the default
/// instead of options.default_table. options.formats and options.default_table must already be set.
void add_table_option(Command& command, OutputOptions& options, std::string_view names,
                      std::string_view default_text = {});
[[nodiscard]] Option strip_markers_option(bool& strip_markers);
/// Returns the number of --top; the largest number for "all".
[[nodiscard]] std::size_t parse_top(const std::string& word);
void add_plot_option(Command& command, OutputOptions& options);

struct ResourceOptions {
  std::size_t threads = 0;   // 0: all cores available to this process
  std::uint64_t memory = 0;  // bytes; 0: no limit
  std::uint64_t limit = 50'000'000;
  bool strict = false;
  bool quiet = false;
  ProgressMode progress = ProgressMode::automatic;
};
/// Adds only --threads, --quiet and --progress.
void add_worker_options(Command& command, ResourceOptions& options);
/// Adds the options of add_worker_options() and --strict.
void add_run_options(Command& command, ResourceOptions& options);
/// Help of memory_option() for a run that adapts to the limit, and for one that only compares its estimate.
constexpr const char* kMemoryHelp =
    "Limit of the resident memory, such as 512M or 2G; if necessary, the weights of each layer are released "
    "after their use (default: no limit)";
constexpr const char* kMemoryEstimateHelp =
    "Limit of the estimated memory, such as 512M or 2G; a run that needs more ends with exit status 5 "
    "(default: no limit)";
[[nodiscard]] Option memory_option(ResourceOptions& options, std::string help);

/// The options that most commands share. Each command adds only some of them.
struct CommandOptions {
  ModelOptions model;
  InputOptions inputs;
  SelectionOptions selection;
  OutputOptions output;
  ResourceOptions run;
};

}  // namespace attnctl::cli
