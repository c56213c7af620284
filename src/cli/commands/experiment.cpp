#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/files/input_file.hpp"
#include "base/numbers.hpp"
#include "checkpoint/checkpoint.hpp"
#include "cli/commands.hpp"
#include "cli/options/inputs.hpp"
#include "cli/session.hpp"
#include "input/sequences.hpp"
#include "inspect/memory_plan.hpp"
#include "report/npz.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::cli {
namespace {

/// The options of all experiments. Each experiment adds some of them to its command.
struct ExperimentOptions : CommandOptions {
  bool show = false;  // draw charts in text output
  textbook::AveragingOptions averaging;
  textbook::DiversityOptions diversity;
  std::optional<std::size_t> d_head;
  std::string circuit = "qk";
  std::string save;  // --save: a folder
  std::string keys;  // --keys: numbers or a file
  textbook::HeadsOptions widths;
  textbook::PositionsOptions encodings;
  std::optional<std::size_t> positions, d;
  textbook::ScalingOptions scaling;
  double saturation = 0.99;
  textbook::DistanceOptions distance;
  std::string by = "layer";
  textbook::GradientsOptions gradients;
  std::string target;                   // empty: the token with the largest logit
  std::optional<std::size_t> position;  // nullopt: the first mask token, or else the last position
  std::vector<std::string> kinds = {"full", "window:8", "block:16", "strided:8", "linear"};
  std::string grid;
  std::size_t layer = 0;
  std::optional<std::size_t> n;
  model::RandomLayer random;
  bool causal = false;

  [[nodiscard]] bool has_model() const { return !model.model.empty(); }
};
using Experiment = std::function<textbook::ExperimentResult(Session& session)>;

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

constexpr std::array kSaved = {"random.npz", "specialised.npz", "config.json"};  // files of --save

void run_experiment(const Experiment& experiment, ExperimentOptions& request) {
  const OutputOptions& options = request.output;
  std::vector<std::filesystem::path> inputs = files_read(request);
  if (!request.keys.empty()) inputs.emplace_back(request.keys);
  std::vector<OutputPath> outputs;
  for (const char* name : kSaved)
    if (!request.save.empty()) outputs.push_back({"--save", std::filesystem::path(request.save) / name});
  const Target target = resolve_target(options, inputs, std::move(outputs));
  if (target.format.form == inspect::Form::document || target.format.form == inspect::Form::tables)
    request.output.strip_markers = false;
  Session session(request.run);
  ResultWriter writer(target, options, session);
  Results results = textbook::results_of(experiment(session), request.show);
  if (!options.digits) give_own_digits(results);
  writer.write("attnctl.experiment/2", std::move(results));
  print_warnings(session);
}

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

Experiment add_averaging(Command& command, ExperimentOptions& shared) {
  command.about = "A head returns one average of values; to return several values, several heads are needed";
  textbook::AveragingOptions& options = shared.averaging;
  command.add(
      {number("--targets", &options.targets,
              "Largest number of values to return at once, and largest number of heads", Range{1, 64}),
       number("--others", &options.others, "Number of other tokens in the input", Range{0, 1024}),
       number("--d-value", &options.d_value, "Width of a value vector", Range{1, 4096}),
       number("--sharpness", &options.sharpness,
              "Score of a query and a key that match; all other scores are 0", Range{0.0, 700.0}),
       number("--steps", &options.steps,
              "Number of gradient descent steps that search for scores with a smaller error",
              Range{0, 1 << 20})});
  add_seed(command, options.seed);
  command.footer =
      "Examples:\n  attnctl experiment averaging --targets 3 --format text\n"
      "  attnctl experiment averaging -o averaging.svg";
  return [&options](Session& session) { return textbook::averaging_experiment(options, session.pool); };
}

/// Writes two models of the family `attention` and their configuration to the folder of --save.
void save_weights(const std::filesystem::path& folder, const textbook::DiversityOptions& options,
                  Session& session) {
  std::error_code error;
  std::filesystem::create_directories(output_path(folder).parent_path(), error);
  if (error) fail(Status::environment, "{}: {}", escaped(folder.native()), error.message());
  OutputFolder out(folder);
  for (const bool specialised : {false, true}) {
    report::NpzWriter writer(out.open(kSaved[specialised ? 1 : 0]));
    for (const Tensor& tensor : textbook::diversity_weights(options, specialised, session.pool))
      writer.add(tensor.name, tensor);
    writer.close();
  }
  out.open(kSaved[2]).write(fmt::format("{{\"model_type\": \"attention\", \"heads\": {}}}\n", options.heads));
  const InterruptHold hold;  // the experiment itself follows
  out.commit();
}

textbook::ExperimentResult run_diversity(const ExperimentOptions& request, Session& session) {
  textbook::DiversityOptions options = request.diversity;
  if (request.has_model()) {
    const model::Model model = model::Model::bind(
        checkpoint::open_model_source(request.model.model, {}, session.warnings), session.warnings);
    const analysis::Circuit circuit = request.circuit == "ov" ? analysis::Circuit::ov : analysis::Circuit::qk;
    return textbook::model_diversity_experiment(model, circuit, options, session.pool, session.warnings);
  }
  if (!request.d_head && options.d % options.heads != 0)
    fail(Status::usage, "--heads: {} heads do not divide --d {}; give --d-head", options.heads, options.d);
  options.d_head = request.d_head.value_or(options.d / options.heads);
  textbook::ExperimentResult result = textbook::diversity_experiment(options, session.pool);
  if (!request.save.empty()) save_weights(request.save, options, session);
  return result;
}

Experiment add_diversity(Command& command, ExperimentOptions& request) {
  command.about = "Effective ranks and similarity of heads with random, specialised and trained weights";
  textbook::DiversityOptions& options = request.diversity;
  command.add(without_model(
      {number("--d", &options.d, "Width of the input of the heads", Range{1, 1 << 15}),
       number("--heads", &options.heads, "Number of heads", Range{1, 1024}),
       number("--d-head", &request.d_head, "Width of a head (default: d / heads)", Range{1, 1 << 15}),
       number("--gain", &options.gain,
              "Factor on the weights of the input dimensions in which a head is specialised",
              Range{1e-6, 1e6})}));
  command.add(
      {number("--draws", &options.draws, "Number of times that random weights are drawn", Range{1, 10000})});
  command.add(without_model({{"--save", &request.save,
                              "Write the weights of the first draw as models to this folder: random.npz, "
                              "specialised.npz and config.json"}}));
  command.add({{"--model", &request.model.model,
                "Compare the heads of this trained model with random heads of the same shapes"}});
  command.add(with_model({{.names = "--circuit",
                           .target = &request.circuit,
                           .help = "Product of weights to compare: qk (W_Q and W_K) or ov (W_V and W_O)",
                           .show_default = true,
                           .allowed = {"qk", "ov"}}}));
  add_seed(command, options.seed);
  command.footer =
      "Examples:\n  attnctl experiment diversity --format text\n"
      "  attnctl experiment diversity --model data/tiny-llama --format text\n"
      "  attnctl experiment diversity --picture similarity -o diversity.svg\n"
      "  attnctl experiment diversity --save weights -o diversity.json";
  return [&request](Session& session) { return run_diversity(request, session); };
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

Experiment add_heads(Command& command, ExperimentOptions& shared) {
  command.about = "Costs and benefits of dividing a width among several heads";
  textbook::HeadsOptions& options = shared.widths;
  command.add(
      {number("--d", &options.d, "Width that is divided among the heads", Range{1, 4096}),
       number("--heads", &options.heads, "Numbers of heads to compare; each must divide d", Range{1, 1024}),
       number("--length", &options.length, "Number of tokens", Range{1, 1024})});
  add_seed(command, options.seed);
  command.footer =
      "Examples:\n  attnctl experiment heads --format text\n"
      "  attnctl experiment heads --d 256 --heads 1,8,32 -o heads.svg";
  return [&options](Session& session) { return textbook::heads_experiment(options, session.pool); };
}

textbook::ExperimentResult run_positions(const ExperimentOptions& request, Session& session) {
  textbook::PositionsOptions options = request.encodings;
  std::optional<OpenModel> open;
  if (request.has_model()) {
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

Experiment add_positions(Command& command, ExperimentOptions& request) {
  command.about = "Properties of position encodings, and attention without positions";
  command.add(
      {number("--positions", &request.positions,
              "Number of positions (default: 64; with --model: the model's number of positions, up to 512)",
              Range{2, 4096}),
       number("--d", &request.d,
              "Width of sinusoidal positions, an even number (default: 64; with --model: the model's width)",
              Range{2, 16384}),
       number("--far", &request.encodings.far,
              "First of the distant positions for which the rotation residual is also measured",
              Range{0L, 1'000'000'000'000}),
       number("--heads", &request.encodings.heads,
              "Number of heads of the random layer that receives its tokens in another order; must divide d",
              positive()),
       {"--model", &request.model.model, "Also examine the positions of this model"}});
  add_seed(command, request.encodings.seed);
  command.footer =
      "Examples:\n  attnctl experiment positions --positions 8 --format text\n"
      "  attnctl experiment positions --d 512 --picture matrix -o positions.svg\n"
      "  attnctl experiment positions --model data/tiny-bert --positions 8 --format text";
  return [&request](Session& session) { return run_positions(request, session); };
}

// --- Experiments that use a trained model and inputs if --model is given, and generated numbers otherwise

std::size_t token_count(const input::Batch& batch) {
  std::size_t tokens = 0;
  for (const input::Sequence& sequence : batch.sequences) tokens += sequence.queries();
  return tokens;
}

input::Sequence random_sequence(const model::ModelConfig& config, std::uint64_t seed) {
  if (config.embedding.vocabulary == 0) {
    fail(Status::bad_input, "the model has no embedding table: give {}",
         config.embedding.pixels.present() ? "--pixels" : "--embeddings");
  }
  Random random(seed);
  input::Sequence sequence;
  sequence.ids.resize(std::min<std::size_t>(128, config.max_positions.value_or(128)));
  for (std::int64_t& id : sequence.ids)
    id = static_cast<std::int64_t>(random.next() % config.embedding.vocabulary);
  return sequence;
}

/// A model and its inputs; without inputs on the command line, one random_sequence().
struct ModelRun {
  ModelRun(const CommandOptions& options, std::uint64_t inputs_seed, Session& session)
      : open(open_model(options.model, session.warnings)), seed(inputs_seed) {
    if (options.inputs.items.empty()) {
      batch.sequences.push_back(random_sequence(open.model.config(), seed));
      input::finish_batch(batch, open.vocabulary);
    } else {
      batch = read_inputs(options.inputs, open, session.warnings);
    }
    selection = inspect::select_heads(options.selection, open.model.config());
    forward::check_batch(open.model, batch);
  }

  void observe(forward::Observer& observer, Session& session) const {
    forward::Observer* const observers[] = {&observer};
    forward::RunContext context = session.context();
    const inspect::WorkBytes work = inspect::pass_bytes(open.model, batch, selection, observers, context);
    context.streamed_rows = inspect::plan_memory(session.options.memory, work);
    forward::run_forward(open.model, batch, selection, observers, context);
  }

  void describe(textbook::ExperimentResult& result) const {
    result.seed = seed;
    result.parameters.set("model", open.model.name())
        .set("inputs", batch.sequences.size())
        .set("tokens", token_count(batch));
    result.subtitle = {open.model.name()};
    if (batch.sequences.size() == 1 && batch.sequences[0].text)
      result.subtitle.push_back(*batch.sequences[0].text);
  }

  OpenModel open;
  std::uint64_t seed;
  input::Batch batch;
  forward::Selection selection;
};

void add_model_experiment(Command& command, CommandOptions& options, bool heads) {
  command.add({{"--model", &options.model.model,
                "Use this trained model instead of random numbers: a directory, a name in the Hugging Face "
                "cache, or a weights file",
                "MODEL"}});
  const std::size_t first = command.options.size();
  command.add(
      {{"--config", &options.model.config, "Configuration file that replaces the one of --model", "FILE"}});
  add_sequence_options(command, options.inputs);
  if (heads) add_head_options(command, options.selection);
  for (std::size_t i = first; i < command.options.size(); ++i) command.options[i].needs = "--model";
}

textbook::ExperimentResult run_scaling(const ExperimentOptions& request, Session& session) {
  if (!request.has_model()) return textbook::scaling_experiment(request.scaling, session.pool);
  const ModelRun run(request, request.scaling.seed, session);
  analysis::Temperatures temperatures(run.selection, request.saturation);
  run.observe(temperatures, session);
  textbook::ExperimentResult result =
      textbook::scaling_of_model(run.open.model.config(), temperatures.finish(session.pool));
  run.describe(result);
  result.parameters.set("saturation", request.saturation);
  return result;
}

textbook::ExperimentResult run_distance(const ExperimentOptions& request, Session& session) {
  if (!request.has_model()) return textbook::distance_experiment(request.distance);
  ModelRun run(request, request.distance.seed, session);
  const auto crosses = [&](const model::HeadId& head) {
    return run.open.model.config().layers[head.layer].component == model::Component::cross;
  };
  if (const std::size_t left_out = std::erase_if(run.selection.heads, crosses); left_out > 0)
    session.warnings.add("cross_left_out",
                         "left out a head of cross-attention, in which positions belong to two texts",
                         left_out);
  if (run.selection.heads.empty())
    fail(Status::usage,
         "got only heads of cross-attention, in which positions belong to two texts; add --component encoder "
         "or decoder");
  analysis::DistanceProfile profile(run.selection);
  run.observe(profile, session);
  textbook::ExperimentResult result = textbook::distance_of_model(run.open.model.config(), profile.finish(),
                                                                  profile.bins(), request.by == "head");
  run.describe(result);
  result.parameters.set("by", request.by);
  return result;
}

std::size_t head_count(const std::string& heads) {
  constexpr std::size_t most = 4096;
  const auto count = parse_number(heads);
  if (!count || *count == 0 || *count > most)
    fail(Status::usage, "--heads: got {}, need a number of heads from 1 to {}", escaped(heads), most);
  return *count;
}

/// Returns the token id for --target. A number of up to nine digits is an id. Anything else is a token of the
/// vocabulary, with or without its word mark (U+0120 or U+2581).
std::size_t target_id(const std::string& target, const OpenModel& open) {
  const tokenizer::Vocabulary& vocabulary = open.vocabulary;
  std::optional<std::int64_t> id;
  if (target.find_first_not_of("0123456789") == std::string::npos && target.size() < 10) {
    id = std::stoll(target);
  } else {
    for (const char* mark : {"", "\u0120", "\u2581"}) {
      if (!id) id = vocabulary.id(mark + target);
    }
  }
  if (!id) fail(Status::usage, "--target: \"{}\" is not a token of the vocabulary", escaped(target));
  const std::size_t size = open.model.config().embedding.vocabulary;
  if (size == 0) fail(Status::usage, "--target: this model has no token ids; gradients need a vocabulary");
  if (static_cast<std::size_t>(*id) >= size)
    fail(Status::usage, "--target: the model has ids 0 to {}, got {}", size - 1, *id);
  return static_cast<std::size_t>(*id);
}

/// Returns the position of the first mask token, such as [MASK]; nullopt if there is none.
std::optional<std::size_t> mask_position(const input::Sequence& sequence,
                                         const tokenizer::Vocabulary& vocabulary) {
  for (std::size_t i = 0; i < sequence.ids.size(); ++i)
    if (vocabulary.is_mask(sequence.ids[i])) return i;
  return std::nullopt;
}

textbook::LogitAttribution trace_back(const ExperimentOptions& request, const ModelRun& run,
                                      const input::Sequence& sequence, std::optional<std::size_t> token,
                                      Session& session) {
  const std::size_t position = request.position.value_or(
      mask_position(sequence, run.open.vocabulary).value_or(sequence.queries() - 1));
  if (position >= sequence.queries())
    fail(Status::usage, "--position: input {} has positions 0 to {}, got {}", escaped(sequence.id),
         sequence.queries() - 1, position);
  textbook::LogitAttribution result =
      textbook::attribute(reference::logit_gradient(run.open.model, sequence, position, token, session.pool),
                          run.selection.heads);
  result.input = sequence.id;
  const auto label = [&](std::string_view text) {
    return run.open.vocabulary.label(text, request.output.strip_markers);
  };
  for (const std::string& text : sequence.tokens) result.tokens.push_back(label(text));
  result.position = position;
  if (const auto text = run.open.vocabulary.token(static_cast<std::int64_t>(result.target)))
    result.target_text = label(*text);
  return result;
}

textbook::ExperimentResult run_gradients(const ExperimentOptions& request, Session& session) {
  if (!request.has_model()) {
    textbook::GradientsOptions made = request.gradients;
    const std::string& heads = request.selection.heads;  // without --model, the number of heads
    if (!heads.empty()) made.heads = head_count(heads);
    return textbook::gradients_experiment(made, session.pool);
  }
  const ModelRun run(request, request.gradients.seed, session);
  std::optional<std::size_t> token;
  if (!request.target.empty()) token = target_id(request.target, run.open);
  std::vector<textbook::LogitAttribution> inputs;
  session.progress.begin("gradients", run.batch.sequences.size(), "input");
  for (const input::Sequence& sequence : run.batch.sequences) {
    inputs.push_back(trace_back(request, run, sequence, token, session));
    session.progress.advance();
  }
  session.progress.end();
  textbook::ExperimentResult result = textbook::gradients_of_model(run.open.model.config(), inputs);
  if (!request.position && !mask_position(run.batch.sequences.front(), run.open.vocabulary))
    result.conclusion += " To choose another logit, give --position and --target.";
  run.describe(result);
  return result;
}

std::optional<analysis::AxialGrid> parse_grid(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const std::vector<std::string_view> numbers = split(text, 'x');
  const auto rows = parse_number(numbers.front());
  const auto columns = parse_number(numbers.back());
  if (numbers.size() != 2 || !rows || !columns || *rows == 0 || *columns == 0 || *rows > 65536 ||
      *columns > 65536) {
    fail(Status::usage, "--grid: got \"{}\", need ROWSxCOLUMNS such as 16x16, each from 1 to 65536",
         escaped(text));
  }
  return analysis::AxialGrid{*rows, *columns};
}

textbook::KindsOptions kinds_options(const ExperimentOptions& request, const Session& session) {
  textbook::KindsOptions options;
  options.layer = request.layer;
  options.memory = session.options.memory;
  options.grid = parse_grid(request.grid);
  for (const std::string& text : request.kinds) {
    const auto kind = parse_attention_option("--kinds", text);
    if (!kind)
      fail(Status::usage,
           "--kinds: remove axial, and give --grid ROWSxCOLUMNS, which adds the costs of axial attention");
    options.kinds.push_back(*kind);
  }
  return options;
}

constexpr std::size_t kMostTokens = 1 << 20;  // in the input of the random layer

input::Batch random_input(const ExperimentOptions& request, const std::optional<analysis::AxialGrid>& grid) {
  const std::size_t tokens = grid ? grid->rows * grid->columns : 0;
  const std::size_t n = request.n.value_or(grid && tokens <= kMostTokens ? tokens : 256);
  input::Batch batch;
  input::Sequence& sequence = batch.sequences.emplace_back();
  sequence.id = "0";
  sequence.embeddings = OwnedMatrix<float>(n, request.random.d_model);
  Random random(request.random.seed);
  for (float& value : sequence.embeddings.values()) value = static_cast<float>(random.normal());
  return batch;
}

void check_layer_and_grid(const textbook::KindsOptions& options, const model::Model& model,
                          const input::Batch& batch) {
  const std::size_t layers = model.config().layers.size();
  if (options.layer >= layers)
    fail(Status::usage, "--layer: got {}, the model has {} (0 to {})", options.layer,
         counted(layers, "layer"), layers - 1);
  if (!options.grid) return;
  const std::size_t tokens = options.grid->rows * options.grid->columns;
  if (batch.sequences.size() != 1 || batch.sequences.front().queries() != tokens) {
    fail(Status::usage,
         "--grid {}x{}: need one input of {}; the number of inputs is {}, and the first has {}",
         options.grid->rows, options.grid->columns, counted(tokens, "token"), batch.sequences.size(),
         counted(batch.sequences.front().queries(), "token"));
  }
}

textbook::ExperimentResult run_kinds(const ExperimentOptions& request, Session& session) {
  const textbook::KindsOptions options = kinds_options(request, session);
  const bool drawn = !request.has_model();  // a layer with random weights
  if (drawn && !request.inputs.items.empty())
    fail(Status::usage, "inputs need --model; remove them, or give --model");
  if (drawn && request.random.d_model % request.random.heads != 0) {
    fail(Status::usage, "--heads: got {}, need a divisor of --d {}", request.random.heads,
         request.random.d_model);
  }
  std::optional<OpenModel> open;
  if (!drawn) open = open_model(request.model, session.warnings);
  const model::Model model = drawn ? model::random_layer(request.random, session.warnings) : open->model;
  input::Batch batch =
      drawn ? random_input(request, options.grid) : read_inputs(request.inputs, *open, session.warnings);
  if (request.causal) {
    for (input::Sequence& sequence : batch.sequences) sequence.causal = true;
  }
  check_layer_and_grid(options, model, batch);
  forward::RunContext context = session.context();
  textbook::ExperimentResult result = textbook::kinds_experiment(model, batch, options, context);
  const model::AttentionConfig& attention = model.config().layers[options.layer].attention;
  result.seed = request.random.seed;
  result.parameters.set("model", drawn ? Value() : Value(request.model.model))
      .set("layer", options.layer)
      .set("inputs", batch.sequences.size())
      .set("tokens", token_count(batch))
      .set("d_model", model.config().d_model)
      .set("heads", attention.heads)
      .set("d_head", attention.d_head)
      .set("d_value", attention.d_value)
      .set("causal", batch.sequences.front().causal.value_or(attention.causal))
      .set("kinds", request.kinds)
      .set("grid", request.grid.empty() ? Value() : Value(request.grid));
  return result;
}

Experiment add_scaling(Command& command, ExperimentOptions& options) {
  command.about =
      "Why scores are divided by sqrt(d_k): variance of scores, saturation of the softmax, gradients";
  textbook::ScalingOptions& made = options.scaling;
  add_model_experiment(command, options, true);
  command.add(with_model({number("--saturation", &options.saturation,
                                 "With --model: a row is saturated if its largest weight is over this value",
                                 Range{0.0, 1.0})}));
  command.add("Run", with_model({memory_option(options.run, kMemoryHelp)}));
  command.add(without_model(
      {number("--d-k", &made.d_k, "Sizes of queries and keys to compare", Range{1, 1 << 16}),
       number("--keys", &made.keys, "Number of keys per query", Range{1, 1 << 16}),
       number(
           "--components", &made.components,
           "Number of random numbers to draw for the queries of each size; at least 2048 queries are drawn",
           Range{1, 1 << 26})}));
  add_seed(command, made.seed);
  command.footer =
      "Examples:\n  attnctl experiment scaling --format text\n"
      "  attnctl experiment scaling --d-k 16,64,256 -o scaling.svg\n"
      "  attnctl experiment scaling --model data/tiny-bert --text \"The cat sat on the mat.\" --format text";
  return [&options](Session& session) { return run_scaling(options, session); };
}

Experiment add_kinds(Command& command, ExperimentOptions& options) {
  command.about =
      "Window, block, strided and linear attention: costs and difference from full attention; with --grid, "
      "costs of axial attention";
  command.add(
      {{.names = "--kinds",
        .target = &options.kinds,
        .help = "Kinds of attention to compare, of: " + std::string(model::kAttentionKinds),
        .show_default = true,
        .split = true,
        .offered = {"full", "window:", "block:", "strided:", "linear"}},
       {"--grid", &options.grid,
        "Add the costs of axial attention over the tokens, read as a grid of this number of rows x columns",
        "16x16"},
       {"--causal", &options.causal, "Hide from each token the tokens after it"},
       {"--model", &options.model.model,
        "Use a layer of this model, with inputs (default: a layer with random weights and inputs)"},
       {"--config", &options.model.config, "Configuration file that replaces the one of --model", "FILE"},
       number("--layer", &options.layer, "Layer of --model to use, counted from 0"),
       number("--n", &options.n,
              "Number of tokens in the input of the random layer (default: those of --grid, otherwise 256)",
              Range{std::size_t{1}, kMostTokens}),
       number("--d", &options.random.d_model, "Width of the random layer", Range{1, 1 << 14}),
       number("--heads", &options.random.heads, "Number of heads of the random layer", Range{1, 1 << 14})});
  add_seed(command, options.random.seed);
  add_input_options(command, options.inputs);
  command.add("Run",
              {memory_option(options.run,
                             "Limit of the memory of the patterns of full attention, such as 512M or 2G; "
                             "a run that needs more ends with exit status 5 (default: 4G)")});
  command.footer =
      "Examples:\n  attnctl experiment kinds --grid 16x16 --format text\n"
      "  attnctl experiment kinds --model data/tiny-llama --ids 5,6,7,8,9,10,11,12 --kinds "
      "window:2,strided:3";
  return [&options](Session& session) { return run_kinds(options, session); };
}

Experiment add_gradients(Command& command, ExperimentOptions& options) {
  command.about = "The gradient of an attention layer as a sum of one gradient per head";
  textbook::GradientsOptions& made = options.gradients;
  add_model_experiment(command, options, false);
  command.add(with_model({{"--layers", &options.selection.layers,
                           "With --model: layers, such as 0,3-5 (default: all)", "LIST"}}));
  command.add({{"--heads", &options.selection.heads,
                "Number of heads, which must divide --d (default: 4); with --model: heads, such as 0.1,2.3 "
                "(default: all)",
                "NUMBER|LIST"}});
  command.add(with_model(
      {{"--target", &options.target,
        "With --model: the token, or its id, whose logit is differentiated (default: the likeliest token at "
        "this position)",
        "TOKEN"},
       number("--position", &options.position,
              "With --model: position whose logit is differentiated, from 0 (default: that of the first mask "
              "token, such as [MASK], otherwise the last position)",
              non_negative()),
       strip_markers_option(options.output.strip_markers)}));
  command.add(without_model(
      {number("--n", &made.n, "Number of tokens", Range{1, 1024}),
       number("--d", &made.d, "Width of the layer", Range{1, 4096}),
       number("--d-k", &made.d_k, "Sizes of queries and keys to compare (default: d / heads)",
              Range{1, 4096}),
       number("--checks", &made.checks,
              "Number of entries of each head's gradient that are compared with a numerical derivative",
              Range{1, 1 << 20})}));
  add_seed(command, made.seed);
  command.footer =
      "Examples:\n  attnctl experiment gradients --format text\n"
      "  attnctl experiment gradients --d-k 1,4,16,64,256 -o gradients.svg\n"
      "  attnctl experiment gradients --model data/tiny-llama --text \"The cat sat\" --format text";
  return [&options](Session& session) { return run_gradients(options, session); };
}

Experiment add_distance(Command& command, ExperimentOptions& options) {
  command.about = "How information from distant tokens reaches a token, and in how many steps";
  textbook::DistanceOptions& built = options.distance;
  add_model_experiment(command, options, true);
  command.add(with_model({{.names = "--by",
                           .target = &options.by,
                           .help = "With --model: group the rows of the table by layer or by head; each "
                                   "group has one row per range of distances",
                           .show_default = true,
                           .allowed = {"layer", "head"}}}));
  command.add("Run", with_model({memory_option(options.run, kMemoryHelp)}));
  command.add(without_model(
      {number("--n", &built.n, "Number of tokens; the queries look for the first token (the event)",
              Range{2, 1 << 14}),
       number("--d", &built.d, "Size of a token's vector", Range{2, 4096}),
       number("--d-k", &built.d_k, "Size of queries and keys", Range{1, 4096}),
       number("--strength", &built.strength,
              "Score of the event without noise; other tokens have the score 0", Range{0.0, 1000.0}),
       number("--noise", &built.noise, "Root mean square norm of the noise that is added to each token",
              Range{0.0, 1000.0}),
       number("--window", &built.window,
              "Number of tokens that a token sees in local attention, including itself", Range{2, 1024}),
       number("--decay", &built.decay, "Share of its state that the recurrence keeps at each step",
              Range{0.0, 1.0})}));
  add_seed(command, built.seed);
  command.footer =
      "Examples:\n  attnctl experiment distance --format text\n"
      "  attnctl experiment distance --model data/tiny-llama --input data/tiny-llama/sentences.jsonl -o "
      "distance.svg";
  return [&options](Session& session) { return run_distance(options, session); };
}

/// All experiments, in the order of --help. A new experiment is one row here and one function.
constexpr std::pair<const char*, Experiment (*)(Command& command, ExperimentOptions& options)>
    kExperiments[] = {{"averaging", add_averaging}, {"diversity", add_diversity}, {"hull", add_hull},
                      {"heads", add_heads},         {"positions", add_positions}, {"scaling", add_scaling},
                      {"kinds", add_kinds},         {"gradients", add_gradients}, {"distance", add_distance}};

}  // namespace

Command experiment_command() {
  Command parent{.name = "experiment",
                 .about = "Run an experiment of docs/textbook.md: a table, a summary and charts"};
  parent.footer = "Examples:\n  attnctl experiment scaling --format text";
  for (const auto& [name, add] : kExperiments) {
    Command& command = parent.subcommands.emplace_back();
    command.name = name;
    auto request = std::make_shared<ExperimentOptions>();
    const Experiment experiment = add(command, *request);
    request->output.default_table = "rows";
    add_document_options(command, request->output,
                         {"json", "jsonl", "csv", "svg", "png", "pdf", "html", "text"});
    command.add({{"--picture", &request->output.picture,
                  "With svg, png, pdf: what to draw, charts (default) or the name of a heatmap"},
                 {"--show", &request->show, "With text: also draw the charts"}});
    add_run_options(command, request->run);
    command.action = [experiment, request] { run_experiment(experiment, *request); };
  }
  return parent;
}

}  // namespace attnctl::cli
