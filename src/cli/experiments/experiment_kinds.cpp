#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "cli/experiments/experiments.hpp"
#include "cli/options/attention_choice.hpp"
#include "cli/options/inputs.hpp"
#include "model/model.hpp"
#include "textbook/kinds.hpp"

namespace attnctl::cli {
namespace {

struct KindsRequest {
  ModelOptions model;  // empty: a layer with random weights
  InputOptions inputs;
  std::vector<std::string> kinds = {"full", "window:8", "block:16", "strided:8", "linear"};
  std::string grid;
  std::size_t layer = 0;
  std::size_t n = 256;
  RandomLayer random;
  bool causal = false;
};

std::optional<AxialGrid> parse_grid(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const std::size_t by = text.find('x');
  const auto rows = parse_number(std::string_view(text).substr(0, by));
  const auto columns =
      by == std::string::npos ? std::nullopt : parse_number(std::string_view(text).substr(by + 1));
  if (!rows || !columns || *rows == 0 || *columns == 0 || *rows > 65536 || *columns > 65536) {
    fail(Status::usage, "--grid: got \"{}\", need ROWSxCOLUMNS such as 16x16", escaped(text));
  }
  return AxialGrid{*rows, *columns};
}

KindsOptions kinds_options(const KindsRequest& request, const Session& session) {
  KindsOptions options;
  options.layer = request.layer;
  options.memory = session.options.memory;
  options.grid = parse_grid(request.grid);
  for (const std::string& text : request.kinds) {
    const AttentionChoice choice = parse_attention_choice("--kinds", text);
    if (choice.axial) fail(Status::usage, "--kinds: axial needs a grid: give --grid 16x16 for its row");
    options.kinds.push_back(choice.kind);
  }
  return options;
}

Batch random_input(const KindsRequest& request) {
  Batch batch;
  Sequence& sequence = batch.sequences.emplace_back();
  sequence.id = "0";
  sequence.embeddings = OwnedMatrix<float>(request.n, request.random.d_model);
  Random random(request.random.seed);
  for (float& value : sequence.embeddings.values()) value = static_cast<float>(random.normal());
  return batch;
}

void check_layer_and_grid(const KindsOptions& options, const Model& model, const Batch& batch) {
  const std::size_t layers = model.config().layers.size();
  if (options.layer >= layers)
    fail(Status::usage, "--layer: got {}, the model has {} (0 to {})", options.layer, layers, layers - 1);
  if (!options.grid) return;
  const std::size_t tokens = options.grid->rows * options.grid->columns;
  if (batch.sequences.size() != 1 || batch.sequences.front().queries() != tokens) {
    fail(Status::usage, "--grid {}x{}: need one input of {} tokens, got {} of {}", options.grid->rows,
         options.grid->columns, tokens, batch.sequences.size(), batch.sequences.front().queries());
  }
}

ExperimentResult run_kinds(const KindsRequest& request, Session& session) {
  const KindsOptions options = kinds_options(request, session);
  const bool drawn = request.model.model.empty();
  if (drawn && !request.inputs.items.empty()) fail(Status::usage, "inputs go with --model");
  if (drawn && request.random.d_model % request.random.heads != 0) {
    fail(Status::usage, "--heads: got {}, need a divisor of --d {}", request.random.heads,
         request.random.d_model);
  }
  std::optional<OpenModel> open;
  std::optional<Model> layer;
  Batch batch;
  if (drawn) {
    layer = random_layer(request.random, session.warnings);
    batch = random_input(request);
  } else {
    open = open_model(request.model, session.warnings);
    batch = read_inputs(request.inputs, *open, session.warnings);
  }
  Model& model = drawn ? *layer : open->model;
  if (request.causal) {
    for (Sequence& sequence : batch.sequences) sequence.causal = true;
  }
  check_layer_and_grid(options, model, batch);
  RunContext context{.pool = session.pool, .warnings = session.warnings, .progress = &session.progress};
  ExperimentResult result = kinds_experiment(model, batch, options, context);
  const AttentionConfig& attention = model.config().layers[options.layer].attention;
  std::size_t tokens = 0;
  for (const Sequence& sequence : batch.sequences) tokens += sequence.queries();
  result.seed = request.random.seed;
  result.parameters.set("model", drawn ? Value() : Value(request.model.model))
      .set("layer", options.layer)
      .set("inputs", batch.sequences.size())
      .set("tokens", tokens)
      .set("d_model", model.config().d_model)
      .set("heads", attention.heads)
      .set("d_head", attention.d_head)
      .set("d_value", attention.d_value)
      .set("causal", batch.sequences.front().causal.value_or(attention.causal))
      .set("kinds", List(request.kinds.begin(), request.kinds.end()))
      .set("grid", request.grid.empty() ? Value() : Value(request.grid));
  return result;
}

}  // namespace

Experiment add_kinds(CLI::App& command) {
  auto request = std::make_shared<KindsRequest>();
  command.add_option("--kinds", request->kinds, "kinds of attention: " + std::string(attention_kinds))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command.add_option("--grid", request->grid, "a row for axial attention over so many rows and columns")
      ->type_name("16x16");
  command.add_flag("--causal", request->causal, "no token attends to later ones");
  command.add_option("--model", request->model.model,
                     "a layer of this model, on inputs; default: a random layer");
  command.add_option("--config", request->model.config, "FILE with the configuration of --model")
      ->type_name("FILE");
  command.add_option("--layer", request->layer, "of --model")->capture_default_str();
  command.add_option("--n", request->n, "tokens of the random layer's input")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--d", request->random.d_model, "width of the random layer")
      ->check(CLI::Range(1, 1 << 14))
      ->capture_default_str();
  command.add_option("--heads", request->random.heads, "of the random layer")
      ->check(CLI::Range(1, 1 << 14))
      ->capture_default_str();
  add_seed(command, request->random.seed);
  add_input_options(command, request->inputs);
  command.footer(
      "Examples:\n  attnctl experiment kinds --grid 16x16 --format text\n"
      "  attnctl experiment kinds --model data/tiny-llama --ids 5,6,7,8,9,10,11,12 --kinds "
      "window:2,strided:3");
  Experiment experiment([request](Session& session) { return run_kinds(*request, session); });
  experiment.inputs = [request] { return files_read(request->model, request->inputs); };
  return experiment;
}

}  // namespace attnctl::cli
