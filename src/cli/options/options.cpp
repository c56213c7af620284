#include "cli/options/options.hpp"

#include <cctype>
#include <charconv>
#include <functional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "report/number_format.hpp"

namespace attnctl::cli {
namespace {

/// Parses a size in bytes with an optional binary suffix: "2G", "512M" or "1048576".
std::uint64_t parse_bytes(const std::string& text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  constexpr std::string_view kSuffixes = "KMGT";
  int shift = 0;
  bool good = error == std::errc() && number > 0;
  if (good && stop != end) {
    const std::size_t place =
        kSuffixes.find(static_cast<char>(std::toupper(static_cast<unsigned char>(*stop))));
    good = place != std::string_view::npos && stop + 1 == end;
    if (good) shift = 10 * static_cast<int>(place + 1);
  }
  const auto bytes = checked_mul(number, std::uint64_t{1} << shift);
  if (!good || !bytes)
    fail(Status::usage, "--memory: got \"{}\", need bytes such as 512M or 2G", escaped(text));
  return *bytes;
}

constexpr const char* kInputGroup = "Inputs (may be repeated; order is kept)";

/// Adds an option that calls `target` for each value, in the order of the command line.
void add_ordered(Command& command, const char* name, const char* type, const std::string& help,
                 std::function<void(const std::string&)> target) {
  command.add(kInputGroup,
              {{.names = name, .target = std::move(target), .help = help, .type = type, .in_order = true}});
}

/// Adds an option that appends an InputItem to `items`, for inputs or for the targets of inputs.
void add_items(Command& command, InputOptions& options, std::vector<InputItem>& items, const char* name,
               InputItem::Kind kind, const char* type, const std::string& help) {
  const bool text = kind == InputItem::Kind::text && &items == &options.items;
  add_ordered(command, name, type, help, [&options, &items, kind, text](const std::string& value) {
    items.push_back({kind, value});
    options.after_text = text;
  });
}

/// Adds --text and --text-pair.
void add_texts(Command& command, InputOptions& options) {
  add_items(command, options, options.items, "--text", InputItem::Kind::text, "S",
            "Text, tokenized by the model's tokenizer, with special tokens");
  add_ordered(command, "--text-pair", "S", "After --text: the second text of a pair",
              [&options](const std::string& value) {
                if (!std::exchange(options.after_text, false))
                  fail(Status::usage, "--text-pair must come directly after its --text");
                options.items.back().pair = value;
              });
}

/// Adds --input and --input-format.
void add_files(Command& command, InputOptions& options, const std::string& objects) {
  add_items(command, options, options.items, "--input", InputItem::Kind::file, "FILE",
            "File of inputs; .txt: one text per line; .jsonl: one object per line; .json: one object or an "
            "array; objects have " +
                objects + "; .conllu: sentences; -: standard input");
  command.add(kInputGroup, {{.names = "--input-format",
                             .target = &options.input_format,
                             .help = "Format of --input -",
                             .allowed = {"txt", "jsonl", "json", "conllu"}}});
}

}  // namespace

void add_model_options(Command& command, ModelOptions& options) {
  command.add(
      {{.names = "MODEL",
        .target = &options.model,
        .help = "Directory in Hugging Face layout, name in the local Hugging Face cache, or one weights file",
        .required = true},
       {"--config", &options.config, "Configuration file to use instead of the model's", "FILE"}});
}

void add_text_options(Command& command, InputOptions& options) {
  add_texts(command, options);
  add_files(command, options, "\"text\"");
}

void add_file_options(Command& command, InputOptions& options) {
  add_files(command, options, "\"text\", \"tokens\" or \"ids\"");
}

void add_sequence_options(Command& command, InputOptions& options) {
  using Kind = InputItem::Kind;
  const auto add = [&](std::vector<InputItem>& items, const char* name, Kind kind, const char* type,
                       const char* help) { add_items(command, options, items, name, kind, type, help); };
  add_texts(command, options);
  add(options.items, "--ids", Kind::ids, "101,7592,102", "Token ids, used unchanged");
  add_file_options(command, options);
  add(options.items, "--embeddings", Kind::embeddings, "X.npy",
      "Array [n, d] or [batch, n, d] to use instead of token embeddings");
  add(options.items, "--pixels", Kind::pixels, "X.npy",
      "Images [batch, channels, height, width], for a model that reads images");
  add(options.targets, "--target-text", Kind::text, "S",
      "Text for the decoder of the k-th input; the model's start token is added before it");
  add(options.targets, "--target-ids", Kind::ids, "2,17,9",
      "Token ids for the decoder of the k-th input, used unchanged");
  command.add(kInputGroup, {{"--truncate", &options.truncate,
                             "Truncate texts and ids to the model's number of positions, with a warning"}});
}

void add_input_options(Command& command, InputOptions& options) {
  add_sequence_options(command, options);
  command.add(
      kInputGroup,
      {{"--keys", &options.keys, "Embeddings of the keys (cross-attention), one file per --embeddings",
        "K.npy"},
       {"--values", &options.values, "Embeddings of the values, one file per --embeddings", "V.npy"},
       {"--mask", &options.mask,
        "Mask: causal, none, or FILE.npy (bool or integer: 1 = may attend; float: added to the scores)",
        "causal|none|FILE.npy"},
       {"--key-mask", &options.key_mask, "Array [batch, m]: 1 = this key is visible", "FILE.npy"}});
}

void add_head_options(Command& command, SelectionOptions& options) {
  command.add("Selection",
              {{"--component", &options.component,
                "For an encoder with a decoder: encoder, decoder, cross (default: all)", "LIST"},
               {"--layers", &options.layers, "Layers, such as 0,3-5 (default: all)", "LIST"},
               {"--heads", &options.heads,
                "Heads as LAYER.HEAD, such as 0.1,2.3, or enc.0.1,cross.2.3 (default: all)", "LIST"}});
}

void add_target_options(Command& command, OutputOptions& options, const std::vector<std::string>& formats) {
  options.formats = formats;
  command.add(
      "Output",
      {{.names = "--format",
        .target = &options.format,
        .help = "Output format (default: by the extension of -o, else text on a terminal and json in a pipe)",
        .allowed = formats},
       {"-o,--output", &options.path, "Output file or folder; a file is replaced atomically", "PATH"}});
}

void add_document_options(Command& command, OutputOptions& options, const std::vector<std::string>& formats) {
  add_target_options(command, options, formats);
  command.add("Output",
              {number("--digits", &options.digits,
                      "Number of decimals (default: the shortest text that reads back to the same number)",
                      Range{0, NumberFormat::most_digits})});
}

void add_table_option(Command& command, OutputOptions& options, const std::string& help) {
  command.add("Output", {{"--table", &options.table, help, "NAME"}});
}

void add_worker_options(Command& command, RunOptions& options) {
  command.add("Run", {{.names = "--threads",
                       .target = &options.threads,
                       .help = "Number of threads (default: all cores that this process may use)",
                       .range = Range{1, 4096}},
                      {"--quiet", &options.quiet, "Print no warnings and no progress on standard error"},
                      {.names = "--progress",
                       .target = choice<ProgressMode>(options.progress, {{"auto", ProgressMode::automatic},
                                                                         {"always", ProgressMode::always},
                                                                         {"never", ProgressMode::never}}),
                       .help = "Show progress: auto, always or never",
                       .type = "WHEN"}});
}

void add_run_options(Command& command, RunOptions& options) {
  add_worker_options(command, options);
  command.add(
      "Run",
      {{.names = "--memory",
        .target = [&options](const std::string& text) { options.memory = parse_bytes(text); },
        .help = "Limit of the resident memory, such as 2G; if necessary, weights are released layer by layer",
        .type = "BYTES"},
       number("--limit", &options.limit, "Largest number of values in text formats"),
       {"--strict", &options.strict, "Treat non-finite numbers as an error (status 6)"}});
}

}  // namespace attnctl::cli
