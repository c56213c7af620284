#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.hpp"

namespace CLI {
class App;
}

// The options that several subcommands share: a struct each, and a function that adds them to a command.
namespace attnctl::cli {

struct PartRow;  // cli/analysis_part.hpp

struct ModelOptions {
  std::string model;
  std::optional<std::string> config;
};
void add_model_options(CLI::App& command, ModelOptions& options);

/// One input as given, in the order of the command line.
struct InputItem {
  enum class Kind { text, ids, file, embeddings, pixels };
  Kind kind = Kind::ids;
  std::string value;
  std::optional<std::string> pair = {};  // of a text: the second one
};

struct InputOptions {
  std::vector<InputItem> items;
  std::vector<InputItem> targets;  // of kinds text and ids; the k-th belongs to the k-th input
  std::string input_format;        // of standard input: "json", "jsonl", "txt" or "conllu"
  std::vector<std::string> keys;   // the k-th belongs to the k-th --embeddings
  std::vector<std::string> values;
  std::optional<std::string> mask;  // "causal", "none" or a file
  std::optional<std::string> key_mask;
  bool truncate = false;

  [[nodiscard]] bool has_targets() const { return !targets.empty(); }
};
/// --text, --text-pair, --input and --input-format: the inputs that are text.
void add_text_options(CLI::App& command, InputOptions& options);
/// --input and --input-format alone.
void add_file_options(CLI::App& command, InputOptions& options);
/// Inputs of one sequence each, whose keys and values are their own: all but --keys, --values and the masks.
void add_sequence_options(CLI::App& command, InputOptions& options);
/// All inputs.
void add_input_options(CLI::App& command, InputOptions& options);

/// What to compute and show (cli.md, --include).
struct Includes {
  bool metrics = false, patterns = false, scores = false, queries = false, keys = false, values = false,
       z = false, output = false, logits = false, weights = false, directions = false, circuits = false;
  std::vector<const PartRow*> parts;  // further analyses, in the order of their table

  /// True where something needs a forward pass.
  [[nodiscard]] bool of_inputs() const;
};

/// How heads stand in matrices of them: as in the model, or similar ones beside each other.
enum class HeadOrder { model, cluster };

struct SelectionOptions {
  std::string component;  // --component; empty: all
  std::string layers;
  std::string heads;
  std::string attention;  // --attention; empty: as the model says
  std::string include;
  std::size_t directions = 5;
  bool across_layers = false;
  bool fold_norm = false;
  bool per_input = false;
  HeadOrder order = HeadOrder::model;
  std::string similarity = "qk,ov";  // of the map of heads
};
/// --component, --layers and --heads alone.
void add_head_options(CLI::App& command, SelectionOptions& options);
void add_selection_options(CLI::App& command, SelectionOptions& options, const std::string& default_include);
/// Parses a list for --include; Error(usage) names what is not known.
[[nodiscard]] Includes parse_includes(const std::string& list);

struct OutputOptions {
  std::string format;
  std::string path;
  std::string table;
  std::string picture;  // name of a picture for SVG; empty: the first
  std::optional<int> digits;
  bool compress = false;
  std::string sort;
  std::optional<std::size_t> top;
};
/// --format and -o alone.
void add_target_options(CLI::App& command, OutputOptions& options, const std::vector<std::string>& formats);
/// --format, -o and --digits: all that commands without tables take.
void add_document_options(CLI::App& command, OutputOptions& options, const std::vector<std::string>& formats);
void add_output_options(CLI::App& command, OutputOptions& options);

struct RunOptions {
  std::size_t threads = 0;   // 0: as many cores as this process may use
  std::uint64_t memory = 0;  // bytes; 0: no bound
  std::uint64_t limit = 50'000'000;
  bool strict = false;
  bool quiet = false;
  ProgressMode progress = ProgressMode::automatic;
};
/// --threads, --quiet and --progress alone.
void add_worker_options(CLI::App& command, RunOptions& options);
void add_run_options(CLI::App& command, RunOptions& options);

}  // namespace attnctl::cli
