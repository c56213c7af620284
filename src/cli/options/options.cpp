#include "cli/options/options.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <functional>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "inspect/request.hpp"
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

constexpr const char* kInputGroup = "Inputs (repeat freely; order is kept)";

/// Adds options whose values are inputs, in the order of the command line.
class ItemAdder {
 public:
  ItemAdder(Command& command, InputOptions& options) : command_(command), options_(options) {}

  /// Adds an option for inputs or, if `targets` is true, for their targets.
  void add(const char* name, InputItem::Kind kind, const char* type, const std::string& help,
           bool targets = false) {
    std::vector<InputItem>& items = targets ? options_.targets : options_.items;
    const bool text = kind == InputItem::Kind::text && !targets;
    add(name, type, help, [&items, kind, text, after_text = after_text_](const std::string& value) {
      items.push_back({kind, value});
      *after_text = text;
    });
  }

  /// Adds --text and --text-pair.
  void add_texts() {
    add("--text", InputItem::Kind::text, "S",
        "a text, tokenized as the model's own tokenizer does, special tokens added");
    add("--text-pair", "S", "behind --text: the second text of a pair",
        [&options = options_, after_text = after_text_](const std::string& value) {
          if (!*after_text || options.items.back().pair)
            fail(Status::usage, "--text-pair goes behind the --text that it makes a pair with");
          options.items.back().pair = value;
          *after_text = false;
        });
  }

  /// Adds --input and --input-format.
  void add_files(const std::string& objects) {
    add("--input", InputItem::Kind::file, "FILE",
        ".txt: a text a line; .jsonl: an object a line; .json: one object or an array; each holds " +
            objects + "; .conllu: a sentence each; - is stdin");
    command_.add(kInputGroup, {{.names = "--input-format",
                                .target = &options_.input_format,
                                .help = "format of --input -",
                                .allowed = {"txt", "jsonl", "json", "conllu"}}});
  }

 private:
  void add(const char* name, const char* type, const std::string& help,
           std::function<void(const std::string&)> target) {
    command_.add(
        kInputGroup,
        {{.names = name, .target = std::move(target), .help = help, .type = type, .in_order = true}});
  }

  Command& command_;
  InputOptions& options_;
  std::shared_ptr<bool> after_text_ = std::make_shared<bool>(false);  // the last item is a --text
};

}  // namespace

void add_model_options(Command& command, ModelOptions& options) {
  command.add(
      {{.names = "MODEL",
        .target = &options.model,
        .help = "a directory in Hugging Face layout, a name in the local Hugging Face cache, or one "
                "weights file",
        .required = true},
       {"--config", &options.config, "FILE with the configuration, in place of the model's own", "FILE"}});
}

void add_text_options(Command& command, InputOptions& options) {
  ItemAdder items(command, options);
  items.add_texts();
  items.add_files("\"text\"");
}

void add_file_options(Command& command, InputOptions& options) {
  ItemAdder(command, options).add_files("\"text\", \"tokens\" or \"ids\"");
}

void add_sequence_options(Command& command, InputOptions& options) {
  using Kind = InputItem::Kind;
  ItemAdder items(command, options);
  items.add_texts();
  items.add("--ids", Kind::ids, "101,7592,102", "token ids, used as they are");
  items.add_files("\"text\", \"tokens\" or \"ids\"");
  items.add("--embeddings", Kind::embeddings, "X.npy",
            "[n, d] or [batch, n, d] in place of token embeddings");
  items.add("--pixels", Kind::pixels, "X.npy",
            "images [batch, channels, height, width] of a model that reads them");
  items.add("--target-text", Kind::text, "S",
            "the decoder's side of the k-th input, the model's start token put before it", true);
  items.add("--target-ids", Kind::ids, "2,17,9", "the decoder's own input, used as it is", true);
  command.add(kInputGroup,
              {{"--truncate", &options.truncate,
                "cut texts and ids that are longer than the model's positions, with a warning"}});
}

void add_input_options(Command& command, InputOptions& options) {
  add_sequence_options(command, options);
  command.add(
      kInputGroup,
      {{"--keys", &options.keys, "embeddings of the keys (cross-attention), for each --embeddings", "K.npy"},
       {"--values", &options.values, "embeddings of the values, for each --embeddings", "V.npy"},
       {"--mask", &options.mask,
        "causal, none, or FILE.npy: bool or integer, 1 = may attend; float: added to the scores",
        "causal|none|FILE.npy"},
       {"--key-mask", &options.key_mask, "[batch, m]: 1 = this key is visible", "FILE.npy"}});
}

void add_head_options(Command& command, SelectionOptions& options) {
  command.add(
      "Selection",
      {{"--component", &options.component, "of an encoder and a decoder: encoder, decoder, cross", "LIST"},
       {"--layers", &options.layers, "layers, such as 0,3-5 (default: all)", "LIST"},
       {"--heads", &options.heads,
        "heads as LAYER.HEAD, such as 0.1,2.3, or enc.0.1,cross.2.3 (default: all)", "LIST"}});
}

void add_selection_options(Command& command, SelectionOptions& options, const std::string& default_include) {
  options.include = default_include;
  add_head_options(command, options);
  command.add("Selection",
              {{.names = "--include",
                .target = &options.include,
                .help = "what to compute: " + inspect::include_names(),
                .type = "LIST",
                .show_default = true},
               number("--directions", &options.directions, "principal directions of each head", positive()),
               {"--across-layers", &options.across_layers, "similarity between heads of all selected layers"},
               {"--fold-norm", &options.fold_norm, "fold the norm's gain into W_Q, W_K and W_V"},
               {.names = "--order",
                .target = choice<inspect::HeadOrder>(options.order,
                                            {{"model", inspect::HeadOrder::model}, {"cluster", inspect::HeadOrder::cluster}}),
                .help = "of heads in heatmaps: model, or cluster (similar ones beside each other)",
                .type = "ORDER"},
               {.names = "--similarity",
                .target = &options.similarity,
                .help = "with --include map: by what, of qk, ov, w_q, w_k, w_v, w_o",
                .type = "LIST",
                .show_default = true}});
}

void add_target_options(Command& command, OutputOptions& options, const std::vector<std::string>& formats) {
  command.add("Output",
              {{.names = "--format",
                .target = &options.format,
                .help = "default: by the extension of -o; else text on a terminal, json in a pipe",
                .allowed = formats},
               {"-o,--output", &options.path, "where to write; a file is replaced atomically", "PATH"}});
}

void add_document_options(Command& command, OutputOptions& options, const std::vector<std::string>& formats) {
  add_target_options(command, options, formats);
  command.add("Output", {number("--digits", &options.digits,
                                "fixed decimals (default: the shortest text that reads back)",
                                Range{0, NumberFormat::most_digits})});
}

void add_table_option(Command& command, OutputOptions& options, const std::string& help) {
  command.add("Output", {{"--table", &options.table, help, "NAME"}});
}

void add_output_options(Command& command, OutputOptions& options) {
  add_document_options(command, options, {"json", "jsonl", "csv", "npz", "svg", "text"});
  add_table_option(command, options, "with csv: this table alone, as one file, not a folder of all");
  command.add("Output",
              {{"--compress", &options.compress, "with npz: deflate"},
               {"--sort", &options.sort, "with text: sort heads by this column, largest first", "COLUMN"},
               number("--top", &options.top,
                      "with text: so many heads; with --from: so many keys (default 5)", positive())});
}

void add_worker_options(Command& command, RunOptions& options) {
  command.add("Run", {{.names = "--threads",
                       .target = &options.threads,
                       .help = "default: the cores that this process may use",
                       .range = Range{1, 4096}},
                      {"--quiet", &options.quiet, "no warnings and no progress on standard error"},
                      {.names = "--progress",
                       .target = choice<ProgressMode>(options.progress, {{"auto", ProgressMode::automatic},
                                                                         {"always", ProgressMode::always},
                                                                         {"never", ProgressMode::never}}),
                       .help = "auto, always or never",
                       .type = "WHEN"}});
}

void add_run_options(Command& command, RunOptions& options) {
  add_worker_options(command, options);
  command.add("Run", {{.names = "--memory",
                       .target = [&options](const std::string& text) { options.memory = parse_bytes(text); },
                       .help = "resident memory at most, such as 2G: weights are given back layer by layer "
                               "where it has to be so",
                       .type = "BYTES"},
                      number("--limit", &options.limit, "values in text formats, at most"),
                      {"--strict", &options.strict, "non-finite numbers are an error (status 6)"}});
}

}  // namespace attnctl::cli
