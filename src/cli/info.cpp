#include "attnctl/base/error.hpp"
#include "attnctl/model/accounting.hpp"
#include "attnctl/model/family.hpp"
#include "attnctl/report/json.hpp"
#include "attnctl/report/text.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/session.hpp"
#include "cli/target.hpp"

namespace attnctl::cli {
namespace {

struct InfoOptions {
  ModelOptions model;
  std::optional<std::size_t> length;
  std::size_t batch = 1;
  bool shapes = false;
  bool tensors = false;
  bool families = false;
  OutputOptions output;
  RunOptions run;
};

constexpr std::size_t kUsualLength = 512;

Cell cell(std::uint64_t number) {
  return static_cast<std::int64_t>(number);
}

Table families_table() {
  std::vector<std::vector<Cell>> rows;
  for (const FamilySpec& family : families()) rows.push_back({std::string(family.name)});
  return make_table("families", {"name"}, std::move(rows));
}

Table tensors_table(const Checkpoint& weights) {
  std::vector<std::vector<Cell>> rows;
  for (const TensorInfo& tensor : weights.tensors()) {
    rows.push_back({tensor.name, std::string(name_of(tensor.dtype)), attnctl::to_string(tensor.shape),
                    std::string(tensor.file)});
  }
  return make_table("tensors", {"name", "dtype", "shape", "file"}, std::move(rows));
}

/// Named numbers: a record of them in JSON, a table of two columns in text.
using Counts = std::vector<std::pair<std::string, std::uint64_t>>;

Record record_of(const Counts& counts) {
  Record record;
  for (const auto& [name, count] : counts) record.set(name, static_cast<std::size_t>(count));
  return record;
}

struct Accounts {
  Counts parameters;
  Counts flops;
  Counts memory;
  Table layers;
};

Accounts accounts_of(const Model& model, std::size_t length) {
  const ModelConfig& config = model.config();
  const ParameterCount parameters = count_parameters(config);
  const FlopCount flops = count_flops(config, length);
  const PatternMemory patterns = count_pattern_memory(config, length);
  Accounts accounts;
  accounts.parameters = {
      {"all", parameters.all},     {"attention", parameters.attention}, {"mlp", parameters.mlp},
      {"norms", parameters.norms}, {"embedding", parameters.embedding}, {"head", parameters.head}};
  accounts.flops = {{"all", flops.all},
                    {"projections", flops.projections},
                    {"scores", flops.scores},
                    {"values", flops.values},
                    {"output", flops.output},
                    {"mlp", flops.mlp},
                    {"embedding", flops.embedding},
                    {"head", flops.head}};
  accounts.memory = {{"patterns", patterns.all},
                     {"patterns_of_a_layer", patterns.layer},
                     {"key_value_cache_per_token", count_cache_bytes(config)}};
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < parameters.layers.size(); ++i) {
    const ParameterCount::Layer& layer = parameters.layers[i];
    const std::size_t shared = model.shared_with(i);
    std::vector<Cell>& row = rows.emplace_back();
    for (const std::uint64_t count :
         {std::uint64_t{i}, layer.query, layer.key, layer.value, layer.output, layer.attention, layer.all}) {
      row.push_back(cell(count));
    }
    row.push_back(shared == i ? Cell() : cell(shared));
  }
  accounts.layers =
      make_table("layers", {"layer", "query", "key", "value", "output", "attention", "all", "shared_with"},
                 std::move(rows));
  return accounts;
}

const char* name_of(NormKind kind) {
  switch (kind) {
    case NormKind::layer:
      return "layer";
    case NormKind::rms:
      return "rms";
    case NormKind::none:
      break;
  }
  return "none";
}

const char* name_of(NormPlace place) {
  switch (place) {
    case NormPlace::pre:
      return "pre";
    case NormPlace::post:
      return "post";
    case NormPlace::none:
      break;
  }
  return "none";
}

std::string position_of(const ModelConfig& config) {
  if (config.layers.front().attention.rotary) return "rotary";
  switch (config.embedding.position) {
    case PositionKind::learned:
      return "learned";
    case PositionKind::sinusoidal:
      return "sinusoidal";
    case PositionKind::none:
      break;
  }
  return "none";
}

/// What the configuration says that is no size: how layers are built, and dropout, which inference leaves
/// out.
Record architecture_record(const Model& model) {
  const ModelConfig& config = model.config();
  const LayerConfig& layer = config.layers.front();
  Record dropout;
  for (const auto& [key, value] : model.source().config.items()) {
    if (value.is_number() && (key.find("drop") != std::string::npos)) dropout.set(key, value.get<double>());
  }
  Record record;
  record.set("vocabulary", config.embedding.vocabulary)
      .set("positions", config.max_positions ? Value(*config.max_positions) : Value())
      .set("position", position_of(config))
      .set("causal", layer.attention.causal)
      .set("norm", name_of(layer.norm.kind))
      .set("norm_place", name_of(layer.place))
      .set("mlp_width", layer.mlp.width)
      .set("mlp_gated", layer.mlp.gated)
      .set("output_head", config.head.present)
      .set("unused_tensors", model.unused_tensors())
      .set("dropout", std::move(dropout));
  return record;
}

struct Report {
  std::optional<OpenModel> open;
  std::size_t length = 0;
  std::optional<Accounts> accounts;
};

Document info_document(const InfoOptions& options, const Report& report, const Session& session) {
  Document document;
  document.head.set("schema", "attnctl.info/1").set("attnctl", tool_record(session));
  if (report.open) {
    document.head.set("model", model_record(report.open->model))
        .set("architecture", architecture_record(report.open->model))
        .set("length", report.length)
        .set("batch", options.batch)
        .set("parameters", record_of(report.accounts->parameters))
        .set("flops", record_of(report.accounts->flops))
        .set("memory_bytes", record_of(report.accounts->memory));
    document.sections.push_back({"layers", "layer", report.accounts->layers});
    if (options.shapes) {
      document.sections.push_back(
          {"shapes", "shape", shape_walk(report.open->model.config(), options.batch, report.length)});
    }
    if (options.tensors) {
      document.sections.push_back({"tensors", "tensor", tensors_table(*report.open->model.source().weights)});
    }
  }
  if (options.families) document.sections.push_back({"families", "family", families_table()});
  document.sections.push_back(warnings_section(session.warnings));
  return document;
}

std::string info_text(const InfoOptions& options, const Report& report, const TextOptions& style) {
  std::string text;
  const auto part = [&](const std::string& title, const Table& table) {
    text += (text.empty() ? "" : "\n") + strong(title, style) + "\n";
    append_text_table(text, table, style);
  };
  const auto counts = [&](const std::string& title, const Counts& list, const char* what) {
    std::vector<std::vector<Cell>> rows;
    for (const auto& [name, count] : list) rows.push_back({name, cell(count)});
    part(title, make_table("", {"part", what}, std::move(rows)));
  };
  if (options.families) part("Families", families_table());
  if (!report.open) return text;
  const auto named = [&](const std::string& title, const Record& record) {
    std::vector<std::vector<Cell>> rows;
    for (const auto& [name, value] : record.fields) {
      if (const Cell* single = std::get_if<Cell>(&value.data)) rows.push_back({name, *single});
    }
    part(title, make_table("", {"property", "value"}, std::move(rows)));
  };
  named("Model", model_record(report.open->model));
  named("Architecture", architecture_record(report.open->model));
  counts("Parameters", report.accounts->parameters, "parameters");
  counts(fmt::format("FLOPs of one sequence of {} tokens (a multiply-add is 2)", report.length),
         report.accounts->flops, "FLOPs");
  counts(fmt::format("Memory at {} tokens, float32", report.length), report.accounts->memory, "bytes");
  part("Parameters of each layer", report.accounts->layers);
  if (options.shapes) {
    part(fmt::format("Shapes, batch {}, {} tokens", options.batch, report.length),
         shape_walk(report.open->model.config(), options.batch, report.length));
  }
  if (options.tensors) part("Tensors", tensors_table(*report.open->model.source().weights));
  return text;
}

void info(const InfoOptions& options) {
  const Target target =
      resolve_target(options.output, {Format::text, Format::json, Format::jsonl}, model_files(options.model));
  if (options.model.model.empty() && !options.families)
    fail(Status::usage, "info: MODEL is required (or --families)");
  Session session(options.run);
  Report report;
  if (!options.model.model.empty()) {
    report.open = open_model(options.model, session.warnings);
    const auto& positions = report.open->model.config().max_positions;
    report.length = options.length.value_or(std::min(kUsualLength, positions.value_or(kUsualLength)));
    report.accounts = accounts_of(report.open->model, report.length);
  }
  OutputFile out(target.path);
  if (target.format == Format::text) {
    out.write(info_text(options, report, text_style(target)));
  } else {
    const Document document = info_document(options, report, session);
    const WriteOptions write{.number = {}, .pool = &session.pool};
    target.format == Format::json ? write_json(out, document, write) : write_jsonl(out, document, write);
  }
  check_before_commit(session);
  out.commit();
  print_warnings(session);
}

}  // namespace

void add_info(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("info", "Architecture, parameters, FLOPs and memory of a model");
  auto options = std::make_shared<InfoOptions>();
  add_model_options(*command, options->model);
  command->get_option("MODEL")->required(false);
  command
      ->add_option("--length", options->length, "tokens (default: 512, or what the model has positions for)")
      ->check(CLI::PositiveNumber);
  command->add_option("--batch", options->batch, "sequences, for --shapes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--shapes", options->shapes, "the walk of shapes through the attention of a layer");
  command->add_flag("--tensors", options->tensors, "every tensor of the checkpoint");
  command->add_flag("--families", options->families, "the families that attnctl knows");
  add_document_options(*command, options->output, {"json", "jsonl", "text"});
  add_run_options(*command, options->run);
  command->footer(
      "Examples:\n"
      "  attnctl info data/tiny-llama --format text\n"
      "  attnctl info data/tiny-bert --shapes --batch 2 --length 10 --format text\n"
      "  attnctl info --families --format text");
  command->callback([&action, options] { action = [options] { info(*options); }; });
}

}  // namespace attnctl::cli
