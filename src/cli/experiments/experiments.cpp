#include "cli/experiments/experiments.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <system_error>

#include "base/files/input_file.hpp"
#include "checkpoint/source.hpp"
#include "cli/commands.hpp"
#include "cli/options/inputs.hpp"
#include "report/npz.hpp"

namespace attnctl::cli {
namespace {

/// In the summary of the text output, formats each number with a magnitude below 0.1 with three significant
/// digits, because the values of the summary have different units.
void give_own_digits(Results& results) {
  for (PageBlock& block : results.text) {
    TextTable* const shown = std::get_if<TextTable>(&block);
    if (shown == nullptr || shown->table.name != "summary") continue;
    shown->table.row = [row = shown->table.row](std::size_t index, std::span<Cell> cells) {
      row(index, cells);
      for (Cell& cell : cells) {
        const double* const number = std::get_if<double>(&cell);
        if (number != nullptr && *number != 0 && std::abs(*number) < 0.1)
          cell = fmt::format("{:.3g}", *number);
      }
    };
  }
}

// Files that --save writes.
constexpr std::array kSaved = {"random.npz", "specialised.npz", "config.json"};

void run_experiment(const Experiment& experiment, const ExperimentOptions& request) {
  const OutputOptions& options = request.output;
  std::vector<std::filesystem::path> inputs = files_read(request);
  if (!request.keys.empty()) inputs.emplace_back(request.keys);
  std::vector<OutputPath> outputs;
  for (const char* name : kSaved)
    if (!request.save.empty()) outputs.push_back({"--save", std::filesystem::path(request.save) / name});
  const Target target = resolve_target(options, inputs, std::move(outputs));
  if (!options.picture.empty() && target.format.form != inspect::Form::pictures)
    fail(Status::usage, "--picture needs --format svg, or -o FILE.svg");
  Session session(request.run);
  ResultWriter writer(target, options, session);
  Results results = textbook::results_of(experiment(session), request.show);
  if (!options.digits) give_own_digits(results);
  writer.write("attnctl.experiment/1", std::move(results));
  print_warnings(session);
}

Experiment add_averaging(Command& command, ExperimentOptions& /*options*/) {
  command.about = "A head returns one average of values; to return several values, several heads are needed";
  auto options = std::make_shared<textbook::AveragingOptions>();
  command.add(
      {number("--targets", &options->targets,
              "Largest number of values to return at once, and largest number of heads", Range{1, 64}),
       number("--others", &options->others, "Number of other tokens in the input", Range{0, 1024}),
       number("--d-value", &options->d_value, "Size of a value", Range{1, 4096}),
       number("--sharpness", &options->sharpness,
              "Score of a query and a key that match; all other scores are 0", Range{0.0, 700.0}),
       number("--steps", &options->steps,
              "Number of gradient descent steps that search for scores with a smaller error",
              Range{0, 1 << 20})});
  add_seed(command, options->seed);
  command.footer =
      "Examples:\n  attnctl experiment averaging --targets 3 --format text\n"
      "  attnctl experiment averaging -o averaging.svg";
  return [options](Session& session) { return textbook::averaging_experiment(*options, session.pool); };
}

struct DiversityRequest {
  const ExperimentOptions& shared;
  textbook::DiversityOptions options = {};
  std::optional<std::size_t> d_head = {};
  std::string circuit = "qk";
};

/// Writes two models of the family `attention` and their configuration to the folder of --save.
void save_weights(const DiversityRequest& request, Session& session) {
  const std::filesystem::path folder = request.shared.save;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(Status::environment, "{}: {}", escaped(folder.native()), error.message());
  for (const bool specialised : {false, true}) {
    OutputFile out(folder / kSaved[specialised ? 1 : 0]);
    report::NpzWriter writer(out);
    for (const Tensor& tensor : textbook::diversity_weights(request.options, specialised, session.pool))
      writer.add(tensor.name, tensor);
    writer.close();
    out.commit();
  }
  OutputFile config(folder / kSaved[2]);
  config.write(fmt::format("{{\"model_type\": \"attention\", \"heads\": {}}}\n", request.options.heads));
  config.commit();
}

textbook::ExperimentResult run_diversity(DiversityRequest request, Session& session) {
  textbook::DiversityOptions& options = request.options;
  if (const std::string& name = request.shared.model.model; !name.empty()) {
    const model::Model model =
        model::Model::bind(checkpoint::open_model_source(name, {}, session.warnings), session.warnings);
    const analysis::Circuit circuit = request.circuit == "ov" ? analysis::Circuit::ov : analysis::Circuit::qk;
    return textbook::model_diversity_experiment(model, circuit, options, session.pool, session.warnings);
  }
  if (!request.d_head && options.d % options.heads != 0) {
    fail(Status::usage, "--heads: {} heads do not divide --d {}; give --d-head", options.heads, options.d);
  }
  options.d_head = request.d_head.value_or(options.d / options.heads);
  textbook::ExperimentResult result = textbook::diversity_experiment(options, session.pool);
  if (!request.shared.save.empty()) save_weights(request, session);
  return result;
}

Experiment add_diversity(Command& command, ExperimentOptions& shared) {
  command.about = "Effective ranks and similarity of heads with random, specialised and trained weights";
  auto request = std::make_shared<DiversityRequest>(DiversityRequest{shared});
  textbook::DiversityOptions& options = request->options;
  command.add(without_model(
      {number("--d", &options.d, "Width of the input of the heads", Range{1, 1 << 15}),
       number("--heads", &options.heads, "Number of heads", Range{1, 1024}),
       number("--d-head", &request->d_head, "Width of a head (default: d / heads)", Range{1, 1 << 15}),
       number("--gain", &options.gain,
              "Factor on the weights of the input dimensions in which a head is specialised",
              Range{1e-6, 1e6})}));
  command.add(
      {number("--draws", &options.draws, "Number of times that random weights are drawn", Range{1, 10000})});
  command.add(without_model({{"--save", &shared.save,
                              "Write the weights of the first draw as models to this folder: random.npz, "
                              "specialised.npz and config.json"}}));
  command.add({{"--model", &shared.model.model,
                "Compare the heads of this trained model with random heads of the same shapes"}});
  command.add(with_model({{.names = "--circuit",
                           .target = &request->circuit,
                           .help = "Product of weights to compare: qk (W_Q and W_K) or ov (W_V and W_O)",
                           .show_default = true,
                           .allowed = {"qk", "ov"}}}));
  add_seed(command, options.seed);
  command.footer =
      "Examples:\n  attnctl experiment diversity --format text\n"
      "  attnctl experiment diversity --model data/tiny-llama --format text\n"
      "  attnctl experiment diversity --picture similarity -o diversity.svg\n"
      "  attnctl experiment diversity --save weights -o diversity.json";
  return [request](Session& session) { return run_diversity(*request, session); };
}

OwnedMatrix<double> read_keys(const std::string& given) {
  if (given.ends_with(".npy")) {
    const auto array = read_npy<double>(given);
    if (array.shape.size() != 2) array.refuse_shape("[keys, d]");
    return array.matrix(0);
  }
  if (given.ends_with(".json"))
    return textbook::parse_json_keys(read_file(given, std::size_t{1} << 28), escaped(given));
  return textbook::parse_keys(given, "--keys");
}

Experiment add_hull(Command& command, ExperimentOptions& options) {
  command.about = "Which keys a head can select: those that are vertices of the keys' convex hull";
  options.keys = "10,0;0,10;5,5;2,2";
  command.add({{.names = "--keys",
                .target = &options.keys,
                .help = "Keys: numbers such as \"10,0;0,10\" (two keys of size 2), a .npy file [keys, d], or "
                        "a .json file with one array of numbers per key",
                .show_default = true}});
  command.footer =
      "Examples:\n  attnctl experiment hull --format text\n"
      "  attnctl experiment hull --keys \"0,0;4,0;0,4;1,1;4,0\" --format text\n"
      "  attnctl experiment hull | jq -c '.summary.keys[2].combination'";
  return [&options](Session& session) {
    const OwnedMatrix<double> set = read_keys(options.keys);
    return textbook::hull_experiment(set.view(), session.pool);
  };
}

Experiment add_heads(Command& command, ExperimentOptions& /*options*/) {
  command.about = "Costs and benefits of dividing a width among several heads";
  auto options = std::make_shared<textbook::HeadsOptions>();
  command.add(
      {number("--d", &options->d, "Width that is divided among the heads", Range{1, 4096}),
       number("--heads", &options->heads, "Numbers of heads to compare; each must divide d", Range{1, 1024}),
       number("--length", &options->length, "Number of tokens", Range{1, 1024})});
  add_seed(command, options->seed);
  command.footer =
      "Examples:\n  attnctl experiment heads --format text\n"
      "  attnctl experiment heads --d 256 --heads 1,8,32 -o heads.svg";
  return [options](Session& session) { return textbook::heads_experiment(*options, session.pool); };
}

struct PositionsRequest {
  const ModelOptions& model;
  textbook::PositionsOptions options = {};
  std::optional<std::size_t> positions = {}, d = {};
};

textbook::ExperimentResult run_positions(PositionsRequest request, Session& session) {
  textbook::PositionsOptions& options = request.options;
  std::optional<OpenModel> open;
  if (!request.model.model.empty()) {
    open = open_model(request.model, session.warnings);
    const model::ModelConfig& config = open->model.config();
    options.model = &open->model;
    options.positions = std::min<std::size_t>(512, config.max_positions.value_or(512));
    options.d = config.embedding.width;
  }
  options.positions = request.positions.value_or(options.positions);
  options.d = request.d.value_or(options.d);
  return textbook::positions_experiment(options, session.pool);
}

Experiment add_positions(Command& command, ExperimentOptions& shared) {
  command.about = "Properties of position encodings, and attention without positions";
  auto request = std::make_shared<PositionsRequest>(PositionsRequest{shared.model});
  command.add(
      {number("--positions", &request->positions,
              "Number of positions (default: 64; with --model: the model's number of positions, up to 512)",
              Range{2, 4096}),
       number("--d", &request->d,
              "Width of sinusoidal positions, an even number (default: 64; with --model: the model's width)",
              Range{2, 16384}),
       number("--far", &request->options.far,
              "First of the distant positions for which the rotation residual is also measured",
              Range{0L, 1'000'000'000'000}),
       number("--heads", &request->options.heads,
              "Number of heads of the random layer that receives its tokens in another order; must divide d",
              positive()),
       {"--model", &shared.model.model, "Also examine the positions of this model"}});
  add_seed(command, request->options.seed);
  command.footer =
      "Examples:\n  attnctl experiment positions --positions 8 --format text\n"
      "  attnctl experiment positions --d 512 --picture matrix -o positions.svg\n"
      "  attnctl experiment positions --model data/tiny-bert --positions 8 --format text";
  return [request](Session& session) { return run_positions(*request, session); };
}

/// All experiments, in the order of --help. A new experiment is one row here and one function.
constexpr std::pair<const char*, Experiment (*)(Command& command, ExperimentOptions& options)>
    kExperiments[] = {{"averaging", add_averaging}, {"diversity", add_diversity}, {"hull", add_hull},
                      {"heads", add_heads},         {"positions", add_positions}, {"scaling", add_scaling},
                      {"kinds", add_kinds},         {"gradients", add_gradients}, {"distance", add_distance}};

}  // namespace

void add_seed(Command& command, std::uint64_t& seed) {
  command.add({number("--seed", &seed, "Seed of the random numbers")});
}

std::vector<Option> with_model(std::vector<Option> options) {
  for (Option& option : options) option.needs = "--model";
  return options;
}

std::vector<Option> without_model(std::vector<Option> options) {
  for (Option& option : options) option.excludes = "--model";
  return options;
}

Command experiment_command() {
  Command parent{.name = "experiment",
                 .about = "Run an experiment of docs/textbook.md: a table, a summary and charts"};
  parent.footer = "Examples:\n  attnctl experiment scaling --format text";
  for (const auto& [name, add] : kExperiments) {
    Command& command = parent.subcommands.emplace_back();
    command.name = name;
    auto request = std::make_shared<ExperimentOptions>();
    const Experiment experiment = add(command, *request);
    add_document_options(command, request->output, {"json", "jsonl", "csv", "svg", "text"});
    request->output.default_table = "rows";
    command.add({{"--picture", &request->output.picture,
                  "With svg: what to draw, charts (default) or the name of a heatmap"},
                 {"--show", &request->show, "With text: also draw the charts"}});
    add_run_options(command, request->run);
    command.action = [experiment, request] { run_experiment(experiment, *request); };
  }
  return parent;
}

}  // namespace attnctl::cli
