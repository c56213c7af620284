#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/commands/info_parts.hpp"
#include "cli/options/inputs.hpp"
#include "cli/options/options.hpp"
#include "cli/options/target.hpp"
#include "cli/result_writer.hpp"
#include "cli/session.hpp"

namespace attnctl::cli {
namespace {

/// Sizes that are given instead of a model.
struct SizeOptions {
  std::optional<std::size_t> d, heads, kv_heads, layers, d_head, d_value;

  [[nodiscard]] bool any() const { return d || heads || kv_heads || layers || d_head || d_value; }
};

struct InfoOptions {
  ModelOptions model;
  std::string preset;
  SizeOptions sizes;
  std::optional<std::size_t> length;
  std::size_t batch = 1;
  bool shapes = false;
  bool tensors = false;
  bool families = false;
  OutputOptions output;
  RunOptions run;
};

constexpr std::size_t kUsualLength = 512;

/// Returns whether there is a subject to describe. --families needs none. Throws Error(usage) for
/// contradictory options.
bool check_subject(const InfoOptions& options) {
  const int given = (options.model.model.empty() ? 0 : 1) + (options.preset.empty() ? 0 : 1) +
                    (options.sizes.any() ? 1 : 0);
  if (given > 1) fail(Status::usage, "info: got more than one of MODEL, --preset and sizes (--d); need one");
  if (given == 0 && !options.families)
    fail(Status::usage, "info: got no MODEL; need one, or --preset NAME, or --d and --heads, or --families");
  if (options.sizes.any() && !(options.sizes.d && options.sizes.heads))
    fail(Status::usage, "info: sizes without a model need both --d and --heads");
  const bool no_file = options.model.model.empty();
  if (no_file && options.tensors) fail(Status::usage, "--tensors: only a MODEL has tensors");
  if (no_file && options.model.config) fail(Status::usage, "--config: goes with a MODEL");
  if (given == 0 && options.shapes) fail(Status::usage, "--shapes: of what? Give a MODEL, --preset or --d");
  return given == 1;
}

InfoSubject subject_of(const InfoOptions& options, Warnings& warnings) {
  InfoSubject subject;
  if (!options.preset.empty()) {
    subject.preset = &preset_named(options.preset);
    subject.config = subject.preset->config;
  } else if (options.sizes.any()) {
    const SizeOptions& sizes = options.sizes;
    subject.config = bare_config({.d_model = *sizes.d,
                                  .heads = *sizes.heads,
                                  .layers = sizes.layers.value_or(1),
                                  .kv_heads = sizes.kv_heads,
                                  .d_head = sizes.d_head,
                                  .d_value = sizes.d_value});
  } else {
    subject.open = open_model(options.model, warnings);
    subject.config = subject.open->model.config();
  }
  return subject;
}

/// Returns the single values of a record as a table.
Table record_table(const InfoPart& part, const Record& record) {
  std::vector<std::vector<Cell>> rows;
  for (const auto& [name, value] : record.fields) {
    if (const Cell* single = std::get_if<Cell>(&value.data)) rows.push_back({name, *single});
  }
  const std::string what = part.what;
  return make_table(part.name, {what == "value" ? "property" : "part", what}, std::move(rows));
}

/// Returns variants in columns, with a mark at the model's own variant.
Table side_by_side(const Table& comparison) {
  constexpr std::size_t labels = 2;  // columns "variant" and "own"
  std::vector<std::string> header = {"of a layer"};
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = labels; i < comparison.columns.size(); ++i)
    rows.push_back({comparison.columns[i].name});
  std::vector<Cell> cells(comparison.columns.size());
  for (std::size_t variant = 0; variant < comparison.rows; ++variant) {
    comparison.row(variant, cells);
    header.push_back(std::get<std::string>(cells[0]) + (std::get<bool>(cells[1]) ? " (own)" : ""));
    for (std::size_t i = labels; i < cells.size(); ++i) rows[i - labels].push_back(cells[i]);
  }
  return make_table(comparison.name, std::move(header), std::move(rows));
}

Table text_table(const InfoPart& part) {
  if (const Record* record = std::get_if<Record>(&part.content)) return record_table(part, *record);
  const Table& table = std::get<Table>(part.content);
  return part.name == "comparison" ? side_by_side(table) : table;
}

Results info_results(const std::vector<InfoPart>& parts, const InfoAsked& asked, const Session& session) {
  Results results;
  Document& document = results.document;
  document.head.set("schema", "attnctl.info/1").set("attnctl", tool_record(session));
  for (const InfoPart& part : parts) {
    if (const Record* record = std::get_if<Record>(&part.content)) {
      document.head.set(part.name, *record);
    } else {
      const Table& table = std::get<Table>(part.content);
      document.sections.push_back({part.name, part.record, table});
      results.tables.push_back(table);
    }
    if (part.name == "architecture") document.head.set("length", asked.length).set("batch", asked.batch);
    results.text.emplace_back(TextTable{part.title, text_table(part)});
  }
  return results;
}

void info(const InfoOptions& options) {
  const Target target = resolve_target(
      options.output, {Format::text, Format::json, Format::jsonl, Format::csv}, files_read(options.model));
  const bool about_something = check_subject(options);
  Session session(options.run);
  std::vector<InfoPart> parts;
  InfoAsked asked = {.batch = options.batch, .shapes = options.shapes, .tensors = options.tensors};
  InfoSubject subject;
  if (about_something) {
    subject = subject_of(options, session.warnings);
    const auto& positions = subject.config.max_positions;
    asked.length = options.length.value_or(std::min(kUsualLength, positions.value_or(kUsualLength)));
    parts = info_parts(subject, asked);
  }
  if (options.families) {
    const bool text = target.format == Format::text;
    parts.insert(text ? parts.begin() : parts.end(), {"families", "Families", families_table(), "family"});
  }
  ResultWriter(target, options.output, session).write(info_results(parts, asked, session));
  print_warnings(session);
}

void add_size_options(CLI::App& command, SizeOptions& sizes) {
  const auto add = [&](const char* name, std::optional<std::size_t>& size, const char* about) {
    command.add_option(name, size, about)->check(CLI::PositiveNumber);
  };
  add("--d", sizes.d, "width of attention without a model; with --heads");
  add("--heads", sizes.heads, "its heads");
  add("--kv-heads", sizes.kv_heads, "its key/value heads (default: --heads)");
  add("--layers", sizes.layers, "its layers (default: 1)");
  add("--d-head", sizes.d_head, "width of its queries and keys (default: d / heads)");
  add("--d-value", sizes.d_value, "width of its values (default: as queries)");
}

}  // namespace

void add_info(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("info", "Architecture, parameters, FLOPs and memory of a model");
  auto options = std::make_shared<InfoOptions>();
  add_model_options(*command, options->model);
  command->get_option("MODEL")->required(false);
  command->add_option("--preset", options->preset,
                      "a published architecture without weights: " + preset_names());
  add_size_options(*command, options->sizes);
  command
      ->add_option("--length", options->length, "tokens (default: 512, or what the model has positions for)")
      ->check(CLI::PositiveNumber);
  command->add_option("--batch", options->batch, "sequences, for --shapes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--shapes", options->shapes, "the walk of shapes through the attention of a layer");
  command->add_flag("--tensors", options->tensors, "every tensor of the checkpoint");
  command->add_flag("--families", options->families, "the families that attnctl knows");
  add_document_options(*command, options->output, {"json", "jsonl", "csv", "text"});
  command->add_option("--table", options->output.table, "with csv: the one table that is written")
      ->type_name("NAME")
      ->group("Output");
  add_run_options(*command, options->run);
  command->footer(
      "Examples:\n"
      "  attnctl info data/tiny-llama --format text\n"
      "  attnctl info data/tiny-bert --shapes --batch 2 --length 10 --format text\n"
      "  attnctl info --preset bert-base --format text\n"
      "  attnctl info --d 512 --heads 8 --kv-heads 2 --layers 6 --length 1024 --format text\n"
      "  attnctl info --families --format text");
  command->callback([&action, options] { action = [options] { info(*options); }; });
}

}  // namespace attnctl::cli
