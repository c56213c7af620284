#include <memory>
#include <optional>
#include <string>

#include "analysis/model_summary.hpp"
#include "cli/commands.hpp"
#include "cli/options/inputs.hpp"
#include "cli/session.hpp"

namespace attnctl::cli {
namespace {

/// The sizes of a model, given instead of MODEL.
struct SizeOptions {
  std::optional<std::size_t> d, heads, kv_heads, layers, d_head, d_value;

  [[nodiscard]] bool any() const { return d || heads || kv_heads || layers || d_head || d_value; }
};

struct InfoOptions : CommandOptions {
  std::string preset;
  SizeOptions sizes;
  analysis::SummaryRequest asked;
};

/// Returns whether the options name a model, a preset or sizes to describe. --families can be given without
/// them. Throws Error(usage) for missing or contradictory options.
bool check_subject(const InfoOptions& options) {
  const bool no_file = options.model.model.empty();
  const int given = !no_file + !options.preset.empty() + options.sizes.any();
  if (given > 1)
    fail(Status::usage, "info: got more than one of MODEL, --preset and sizes (such as --d); need only one");
  if (given == 0 && !options.asked.families)
    fail(Status::usage, "info: need a MODEL, or --preset NAME, or --d and --heads, or --families");
  if (options.sizes.any() && !(options.sizes.d && options.sizes.heads))
    fail(Status::usage, "info: to describe a model by sizes instead of MODEL, give at least --d and --heads");
  if (no_file && options.asked.tensors)
    fail(Status::usage, "--tensors: needs a MODEL; only a checkpoint has tensors");
  if (no_file && options.model.config) fail(Status::usage, "--config: needs a MODEL");
  if (given == 0 && options.asked.shapes)
    fail(Status::usage, "--shapes: needs a MODEL, or --preset NAME, or --d and --heads");
  return given == 1;
}

analysis::SummarySubject subject_of(const InfoOptions& options, std::optional<OpenModel>& open,
                                    Warnings& warnings) {
  analysis::SummarySubject subject;
  if (!options.preset.empty()) {
    subject.preset = &model::preset_named(options.preset);
    subject.config = subject.preset->config();
  } else if (options.sizes.any()) {
    const SizeOptions& sizes = options.sizes;
    subject.config = model::bare_config({.d_model = *sizes.d,
                                         .heads = *sizes.heads,
                                         .layers = sizes.layers.value_or(1),
                                         .kv_heads = sizes.kv_heads,
                                         .d_head = sizes.d_head,
                                         .d_value = sizes.d_value});
  } else {
    open = open_model(options.model, warnings);
    subject.model = &open->model;
    subject.config = open->model.config();
  }
  return subject;
}

void info(const InfoOptions& options) {
  const Target target = resolve_target(options.output, files_read(options));
  const bool has_subject = check_subject(options);
  Session session(options.run);
  std::optional<OpenModel> open;
  std::optional<analysis::SummarySubject> subject;
  if (has_subject) subject = subject_of(options, open, session.warnings);
  ResultWriter(target, options.output, session)
      .write("attnctl.info/2", analysis::model_summary(subject, options.asked));
  print_warnings(session);
}

}  // namespace

Command info_command() {
  Command command{.name = "info", .about = "Show the architecture, parameters, FLOPs and memory of a model"};
  auto options = std::make_shared<InfoOptions>();
  add_model_options(command, options->model);
  command.options.front().required = false;
  SizeOptions& sizes = options->sizes;
  command.add(
      {{.names = "--preset",
        .target = &options->preset,
        .help = "Describe a published architecture instead of MODEL, of: " + model::preset_names(),
        .offered = texts_of(model::presets(), &model::Preset::name)},
       number(
           "--d", &sizes.d,
           "Width of a layer (d_model), to describe attention of this size instead of MODEL; needs --heads",
           positive()),
       number("--heads", &sizes.heads, "With --d: number of heads", positive()),
       number("--kv-heads", &sizes.kv_heads, "With --d: number of key/value heads (default: that of --heads)",
              positive()),
       number("--layers", &sizes.layers, "With --d: number of layers (default: 1)", positive()),
       number("--d-head", &sizes.d_head,
              "With --d: width of the queries and keys of a head (default: d / heads)", positive()),
       number("--d-value", &sizes.d_value,
              "With --d: width of the values of a head (default: that of --d-head)", positive()),
       number("--length", &options->asked.length,
              "Number of tokens for FLOPs, memory and shapes (default: 512, or the model's number of "
              "positions if that is smaller)",
              positive()),
       number("--batch", &options->asked.batch, "With --shapes: number of sequences in the batch",
              positive()),
       {"--shapes", &options->asked.shapes, "Show the shape of each array in the attention of a layer"},
       {"--tensors", &options->asked.tensors, "List all tensors of the checkpoint"},
       {"--families", &options->asked.families, "List the supported model families"}});
  add_document_options(command, options->output, {"json", "jsonl", "csv", "text"});
  add_table_option(command, options->output,
                   "summary,comparison,layers,sharing,apart,shapes,tensors,families");
  add_run_options(command, options->run);
  command.footer =
      "Examples:\n"
      "  attnctl info data/tiny-llama --format text\n"
      "  attnctl info data/tiny-bert --shapes --batch 2 --length 10 --format text\n"
      "  attnctl info --preset bert-base --format text\n"
      "  attnctl info --d 512 --heads 8 --kv-heads 2 --layers 6 --length 1024 --format text\n"
      "  attnctl info --families --format text";
  command.action = [options] { info(*options); };
  return command;
}

}  // namespace attnctl::cli
