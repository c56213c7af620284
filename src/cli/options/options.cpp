#include "cli/options/options.hpp"

#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "cli/options/choice.hpp"
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

}  // namespace

void add_model_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option(
          "MODEL", options.model,
          "a directory in Hugging Face layout, a name in the local Hugging Face cache, or one weights file")
      ->required();
  command.add_option("--config", options.config, "FILE with the configuration, in place of the model's own")
      ->type_name("FILE");
}

void add_head_options(CLI::App& command, SelectionOptions& options) {
  const std::string group = "Selection";
  command
      .add_option("--component", options.component, "of an encoder and a decoder: encoder, decoder, cross")
      ->type_name("LIST")
      ->group(group);
  command.add_option("--layers", options.layers, "layers, such as 0,3-5 (default: all)")
      ->type_name("LIST")
      ->group(group);
  command
      .add_option("--heads", options.heads,
                  "heads as LAYER.HEAD, such as 0.1,2.3, or enc.0.1,cross.2.3 (default: all)")
      ->type_name("LIST")
      ->group(group);
}

void add_selection_options(CLI::App& command, SelectionOptions& options, const std::string& default_include) {
  const std::string group = "Selection";
  options.include = default_include;
  add_head_options(command, options);
  command.add_option("--include", options.include, "what to compute: " + inspect::include_names())
      ->type_name("LIST")
      ->capture_default_str()
      ->group(group);
  command.add_option("--directions", options.directions, "principal directions of each head")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--across-layers", options.across_layers, "similarity between heads of all selected layers")
      ->group(group);
  command.add_flag("--fold-norm", options.fold_norm, "fold the norm's gain into W_Q, W_K and W_V")
      ->group(group);
  command
      .add_option("--order", options.order,
                  "of heads in heatmaps: model, or cluster (similar ones beside each other)")
      ->transform(choice<inspect::HeadOrder>(
          {{"model", inspect::HeadOrder::model}, {"cluster", inspect::HeadOrder::cluster}}))
      ->type_name("ORDER")
      ->group(group);
  command
      .add_option("--similarity", options.similarity,
                  "with --include map: by what, of qk, ov, w_q, w_k, w_v, w_o")
      ->type_name("LIST")
      ->capture_default_str()
      ->group(group);
}

void add_target_options(CLI::App& command, OutputOptions& options, const std::vector<std::string>& formats) {
  const std::string group = "Output";
  command
      .add_option("--format", options.format,
                  "default: by the extension of -o; else text on a terminal, json in a pipe")
      ->check(CLI::IsMember(formats))
      ->group(group);
  command.add_option("-o,--output", options.path, "where to write; a file is replaced atomically")
      ->type_name("PATH")
      ->group(group);
}

void add_document_options(CLI::App& command, OutputOptions& options,
                          const std::vector<std::string>& formats) {
  const std::string group = "Output";
  add_target_options(command, options, formats);
  command
      .add_option("--digits", options.digits, "fixed decimals (default: the shortest text that reads back)")
      ->check(CLI::Range(0, NumberFormat::most_digits))
      ->group(group);
}

void add_output_options(CLI::App& command, OutputOptions& options) {
  const std::string group = "Output";
  add_document_options(command, options, {"json", "jsonl", "csv", "npz", "svg", "text"});
  command
      .add_option("--table", options.table, "with csv: this table alone, as one file, not a folder of all")
      ->type_name("NAME")
      ->group(group);
  command.add_flag("--compress", options.compress, "with npz: deflate")->group(group);
  command.add_option("--sort", options.sort, "with text: sort heads by this column, largest first")
      ->type_name("COLUMN")
      ->group(group);
  command.add_option("--top", options.top, "with text: so many heads; with --from: so many keys (default 5)")
      ->check(CLI::PositiveNumber)
      ->group(group);
}

void add_worker_options(CLI::App& command, RunOptions& options) {
  const std::string group = "Run";
  command.add_option("--threads", options.threads, "default: the cores that this process may use")
      ->check(CLI::Range(1, 4096))
      ->group(group);
  command.add_flag("--quiet", options.quiet, "no warnings and no progress on standard error")->group(group);
  command.add_option("--progress", options.progress, "auto, always or never")
      ->transform(choice<ProgressMode>({{"auto", ProgressMode::automatic},
                                        {"always", ProgressMode::always},
                                        {"never", ProgressMode::never}}))
      ->type_name("WHEN")
      ->group(group);
}

void add_run_options(CLI::App& command, RunOptions& options) {
  const std::string group = "Run";
  add_worker_options(command, options);
  command
      .add_option_function<std::string>(
          "--memory", [&options](const std::string& text) { options.memory = parse_bytes(text); },
          "resident memory at most, such as 2G: weights are given back layer by layer where it has to be so")
      ->type_name("BYTES")
      ->group(group);
  command.add_option("--limit", options.limit, "values in text formats, at most")
      ->capture_default_str()
      ->group(group);
  command.add_flag("--strict", options.strict, "non-finite numbers are an error (status 6)")->group(group);
}

}  // namespace attnctl::cli
