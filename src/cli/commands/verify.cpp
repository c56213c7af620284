#include "cli/commands/verify.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/comparison.hpp"
#include "analysis/head_axes.hpp"
#include "analysis/model_summary.hpp"
#include "cli/commands.hpp"
#include "cli/options/inputs.hpp"
#include "cli/session.hpp"
#include "forward/block.hpp"
#include "input/sequences.hpp"
#include "inspect/describe.hpp"
#include "inspect/memory_plan.hpp"
#include "reference/reference.hpp"

namespace attnctl::cli {
namespace {

// --- The file of --against

using Integers = std::vector<std::int64_t>;

/// The layers of the reference arrays of one component.
struct ReferenceLayers {
  std::string prefix;               // prefix of the array names
  std::vector<std::size_t> layers;  // indices into the model's layers
};

/// Reads the arrays of a reference file (docs/cli.md, NPZ): any of pattern_I, scores_I, z_I [layers, heads,
/// n, ...], output_I [layers, n, d] and logits_I [n, vocabulary], and optionally ids_I and target_ids_I. I is
/// the index of the input. The array `layers` lists the layers on the first axis; without it, this axis has
/// all layers. For an encoder-decoder model, all names except ids_I, target_ids_I and logits_I start with
/// enc_, dec_ or cross_.
class ReferenceReader {
 public:
  ReferenceReader(checkpoint::Checkpoint& file, std::string path, const model::ModelConfig& config)
      : file_(file), path_(std::move(path)), config_(config) {
    std::set<model::Component> components;
    for (const model::LayerConfig& layer : config.layers) components.insert(layer.component);
    for (const model::Component component : components) stacks_.push_back(layers_of(component));
  }

  /// Returns the arrays of an input, or nullopt if the file has none to compare with (ids do not count).
  std::optional<ReferenceInput> read(std::size_t input) {
    ReferenceInput result;
    reference::ReferencePass& pass = result.pass;
    pass.layers.resize(config_.layers.size());
    bool found = false;
    for (const ReferenceLayers& stack : stacks_) {
      found |= read_heads(input, "pattern", stack, pass, &reference::ReferenceLayer::pattern);
      found |= read_heads(input, "scores", stack, pass, &reference::ReferenceLayer::scores);
      found |= read_heads(input, "z", stack, pass, &reference::ReferenceLayer::z);
      const auto output = read_checked(fmt::format("{}output_{}", stack.prefix, input), 3, &stack);
      found |= output.has_value();
      for (std::size_t i = 0; output && i < stack.layers.size(); ++i)
        pass.layers[stack.layers[i]].output = output->matrix(i);
    }
    const auto logits = read_checked(fmt::format("logits_{}", input), 2, nullptr);
    if (logits) pass.logits = logits->matrix(0);
    if (!found && !logits) return std::nullopt;
    result.ids = integers(fmt::format("ids_{}", input)).value_or(Integers());
    result.target_ids = integers(fmt::format("target_ids_{}", input)).value_or(Integers());
    return result;
  }

 private:
  std::optional<FileArray<double>> read_array(const std::string& name) {
    const std::size_t index = file_.find(name);
    if (index == checkpoint::Checkpoint::npos) return std::nullopt;
    return FileArray<double>(path_, file_.tensor(index));
  }

  std::optional<Integers> integers(const std::string& name) {
    const auto array = read_array(name);
    if (!array) return std::nullopt;
    for (const double value : array->values) {
      if (std::abs(value) <= 0x1p53 && value == std::trunc(value)) continue;
      fail(Status::bad_input, "{}: \"{}\": got {}, need integers", path_, name, value);
    }
    return Integers(array->values.begin(), array->values.end());
  }

  /// Returns the layers of the array `layers` of a component; without this array, all its layers.
  ReferenceLayers layers_of(model::Component component) {
    ReferenceLayers found{inspect::prefix_of(component), {}};
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < config_.layers.size(); ++i) {
      if (config_.layers[i].component == component) all.push_back(i);
    }
    const auto named = integers(found.prefix + "layers");
    if (!named) return {std::move(found.prefix), std::move(all)};
    for (const std::int64_t layer : *named) {
      if (layer < 0 || static_cast<std::size_t>(layer) >= all.size()) {
        fail(Status::bad_input, "{}: \"{}layers\": got layer {}, need layers from 0 to {}", path_,
             found.prefix, layer, all.size() - 1);
      }
      found.layers.push_back(all[static_cast<std::size_t>(layer)]);
    }
    return found;
  }

  /// Returns nullopt without this array. `stack` has the layers of the first axis; null: no layer axis.
  std::optional<FileArray<double>> read_checked(const std::string& name, std::size_t axes,
                                                const ReferenceLayers* stack) {
    auto array = read_array(name);
    const bool fits = !array || (array->shape.size() == axes &&
                                 (stack == nullptr || array->shape[0] == stack->layers.size()));
    if (!fits) {
      fail(Status::bad_input, "{}: \"{}\": got shape {}, need {} axes{}", path_, name,
           attnctl::to_string(array->shape), axes,
           stack == nullptr ? ""
                            : fmt::format(", the first of length {}, one per layer", stack->layers.size()));
    }
    return array;
  }

  bool read_heads(std::size_t input, const char* kind, const ReferenceLayers& stack,
                  reference::ReferencePass& pass,
                  std::vector<OwnedMatrix<double>> reference::ReferenceLayer::*member) {
    const std::string name = fmt::format("{}{}_{}", stack.prefix, kind, input);
    const auto array = read_checked(name, 4, &stack);
    if (!array) return false;
    for (std::size_t i = 0; i < stack.layers.size(); ++i) {
      const std::size_t heads = config_.layers[stack.layers[i]].attention.heads;
      if (array->shape[1] != heads) {
        fail(Status::bad_input, "{}: \"{}\": got {}, the model has {}", path_, name,
             counted(array->shape[1], "head"), heads);
      }
      for (std::size_t h = 0; h < heads; ++h)
        (pass.layers[stack.layers[i]].*member).push_back(array->matrix(i * heads + h));
    }
    return true;
  }

  checkpoint::Checkpoint& file_;
  std::string path_;
  const model::ModelConfig& config_;
  std::vector<ReferenceLayers> stacks_;
};

}  // namespace

void check_reference_shapes(const reference::ReferencePass& pass, const model::ModelConfig& config,
                            const input::Sequence& sequence, const std::string& path) {
  // `keys` is 0 if the columns of the matrix are not keys; their number is then not checked.
  const auto check = [&](const OwnedMatrix<double>& matrix, const char* name, std::size_t queries,
                         std::size_t keys) {
    if (matrix.rows() == 0) return;
    if (matrix.rows() != queries || (keys != 0 && matrix.cols() != keys)) {
      fail(Status::bad_input, "{}: {} of input \"{}\": got [{}, {}], the input has {}{}", escaped(path), name,
           escaped(sequence.id), matrix.rows(), matrix.cols(), counted(queries, "query", "queries"),
           keys == 0 ? "" : " and " + counted(keys, "key"));
    }
  };
  for (std::size_t i = 0; i < pass.layers.size(); ++i) {
    const model::Component component = config.layers[i].component;
    const reference::ReferenceLayer& layer = pass.layers[i];
    if (forward::needs_target(component) && !sequence.target) continue;
    const forward::Sides sides = forward::sides_of(component, sequence);
    for (const auto& pattern : layer.pattern) check(pattern, "pattern", sides.queries(), sides.keys());
    for (const auto& scores : layer.scores) check(scores, "scores", sides.queries(), sides.keys());
    for (const auto& z : layer.z) check(z, "z", sides.queries(), 0);
    check(layer.output, "output", sides.queries(), 0);
  }
  check(pass.logits, "logits", sequence.target ? sequence.target->queries() : sequence.queries(), 0);
}

std::vector<ReferenceInput> read_reference(checkpoint::Checkpoint& file, const std::string& path,
                                           const model::ModelConfig& config) {
  ReferenceReader reader(file, escaped(path), config);
  std::vector<ReferenceInput> inputs;
  while (auto input = reader.read(inputs.size())) inputs.push_back(std::move(*input));
  if (inputs.empty()) {
    fail(Status::bad_input,
         "{}: need arrays of input 0 to compare with: pattern_0, scores_0, z_0, output_0 or logits_0; in an "
         "encoder-decoder model, the first four names start with enc_, dec_ or cross_",
         escaped(path));
  }
  return inputs;
}

namespace {

// --- The command

struct VerifyOptions : CommandOptions {
  std::optional<std::string> against;
  double tolerance = 1e-5;
};

input::Batch choose_inputs(const VerifyOptions& options, OpenModel& open,
                           const std::vector<ReferenceInput>& reference, Warnings& warnings) {
  if (!options.inputs.items.empty()) return read_inputs(options.inputs, open, warnings);
  input::Batch batch;
  for (const ReferenceInput& input : reference) {
    if (input.ids.empty()) {
      fail(Status::bad_input, "{}: has no array ids_{}; give the inputs on the command line",
           escaped(*options.against), batch.sequences.size());
    }
    input::Sequence& sequence = batch.sequences.emplace_back();
    sequence.ids = input.ids;
    if (input.target_ids.empty()) continue;
    sequence.target = std::make_shared<input::Sequence>();
    sequence.target->ids = input.target_ids;
  }
  if (reference.empty()) {
    const model::ModelConfig& config = open.model.config();
    if (config.embedding.vocabulary == 0 && !config.embedding.pixels.present())
      fail(Status::bad_input, "the model has no embedding table: give --embeddings");
    const std::size_t length = std::min<std::size_t>(64, config.max_positions.value_or(64));
    batch.sequences = seeded_inputs(config, 1, length, (length + 1) / 2);
  }
  input::finish_batch(batch, open.vocabulary);
  return batch;
}

/// A comparison of the float32 forward pass with reference passes of the same sequences.
struct VerifyRun {
  const VerifyOptions& options;
  const OpenModel& open;
  input::Batch& batch;
  const std::optional<analysis::AxialGrid>& grid;
  Session& session;
  /// True if all inputs have targets. Only then can the heads of a decoder be compared.
  bool targets =
      std::ranges::all_of(batch.sequences, [](const input::Sequence& each) { return !!each.target; });
  forward::Selection selection = inspect::select_heads(options.selection, open.model.config(), targets);

  [[nodiscard]] std::vector<analysis::Comparison> compare(const std::vector<reference::ReferencePass>& passes,
                                                          const std::string& reference) const {
    analysis::CompareObserver observer(passes);
    forward::Observer* const observers[] = {&observer};
    forward::RunContext context = session.context();
    analysis::run_axial(open.model, batch, grid, selection, observers, context);
    return observer.finish(reference);
  }

  /// Compares with passes in float64, up to the last selected layer.
  [[nodiscard]] std::vector<analysis::Comparison> compare_float64() const {
    const model::ModelConfig& config = open.model.config();
    const bool all = options.selection.layers.empty() && options.selection.heads.empty() &&
                     options.selection.component.empty();
    const bool logits = all && config.head.present && (!config.decoder || targets);
    (void)inspect::plan_memory(session.options.memory,
                               inspect::reference_bytes(open.model, batch, logits, session.pool.size()));
    if (grid)
      return compare(analysis::run_axial_reference(open.model, batch, *grid, session.pool), "float64");
    std::vector<reference::ReferencePass> passes;
    session.progress.begin("float64", batch.sequences.size(), "input");
    for (const input::Sequence& sequence : batch.sequences) {
      passes.push_back(
          reference::run_reference(open.model, sequence, selection.layers().back(), logits, session.pool));
      session.progress.advance();
    }
    session.progress.end();
    return compare(passes, "float64");
  }
  [[nodiscard]] std::vector<analysis::Comparison> compare_file(std::vector<ReferenceInput> reference) const {
    if (reference.size() != batch.sequences.size()) {
      fail(Status::bad_input, "{}: has arrays of {}, the command line gives {}", escaped(*options.against),
           counted(reference.size(), "input"), counted(batch.sequences.size(), "input"));
    }
    std::vector<reference::ReferencePass> passes;
    for (ReferenceInput& input : reference) {
      const input::Sequence& sequence = batch.sequences[passes.size()];
      check_reference_shapes(input.pass, open.model.config(), sequence, *options.against);
      passes.push_back(std::move(input.pass));
    }
    return compare(passes, *options.against);
  }
};

bool within(const analysis::Comparison& comparison, double tolerance) {
  return comparison.max_difference <= tolerance * comparison.largest;
}

Table comparison_table(const std::vector<analysis::Comparison>& comparisons, const model::ModelConfig& config,
                       double tolerance) {
  std::vector<std::vector<Cell>> rows;
  for (const analysis::Comparison& each : comparisons) {
    rows.push_back({each.reference, each.array, analysis::component_cell(config, each.layer),
                    analysis::number_cell(config, each.layer), each.max_difference, tolerance * each.largest,
                    within(each, tolerance)});
  }
  return make_table("comparisons",
                    {"reference", "array", "component", "layer", "max_difference", "tolerance", "ok"},
                    std::move(rows));
}

Results verify_results(const VerifyOptions& options, const OpenModel& open, const input::Batch& batch,
                       const Table& table, bool ok) {
  Results results;
  Document& document = results.document;
  document.head.set("model", analysis::model_record(open.model))
      .set("tolerance", options.tolerance)
      .set("ok", ok);
  List inputs;
  for (const input::Sequence& sequence : batch.sequences) {
    Record record;
    record.set("id", sequence.id).set("length", sequence.queries());
    if (!sequence.ids.empty()) record.set("ids", make_tensor({sequence.ids.size()}, sequence.ids));
    if (sequence.target)
      record.set("target_ids", make_tensor({sequence.target->ids.size()}, sequence.target->ids));
    inputs.emplace_back(std::move(record));
  }
  document.sections.push_back({"inputs", "input", std::move(inputs)});
  results.add_table("comparison", table);
  results.text.emplace_back(TextTable{"", table});
  return results;
}

void verify(const VerifyOptions& options) {
  std::vector<std::filesystem::path> files = files_read(options);
  if (options.against) files.emplace_back(*options.against);
  const Target target = resolve_target(options.output, files);
  Session session(options.run);
  OpenModel open = open_model(options.model, session.warnings);
  std::vector<ReferenceInput> reference;  // empty without --against
  if (options.against) {
    Warnings unused;
    const auto file = checkpoint::open_checkpoint(*options.against, unused);
    reference = read_reference(*file, *options.against, open.model.config());
  }
  open.model = with_attention_option(open.model, options.selection);
  input::Batch batch = choose_inputs(options, open, reference, session.warnings);
  const auto grid = axial_grid(options.selection, options.inputs, open.model, batch);
  if (grid && options.against) fail(Status::usage, "--against cannot be used with --attention axial");
  forward::check_batch(open.model, batch);

  ResultWriter writer(target, options.output, session);
  const VerifyRun run{options, open, batch, grid, session};
  std::vector<analysis::Comparison> comparisons = run.compare_float64();
  if (options.against) {
    const auto more = run.compare_file(std::move(reference));
    comparisons.insert(comparisons.end(), more.begin(), more.end());
  }
  const auto outside = std::ranges::count_if(
      comparisons, [&](const analysis::Comparison& each) { return !within(each, options.tolerance); });
  const Table table = comparison_table(comparisons, open.model.config(), options.tolerance);
  writer.write("attnctl.verify/2", verify_results(options, open, batch, table, outside == 0));
  print_warnings(session);
  if (outside == 0) return;
  const auto excess = [](const analysis::Comparison& each) {
    return std::pair(std::isnan(each.max_difference), each.max_difference / each.largest);
  };
  const auto worst = std::ranges::max_element(comparisons, {}, excess);
  fail(
      Status::difference,
      "{} of {} comparisons exceed the tolerance {}; the worst one has a difference of {} ({}{}, against {})",
      outside, comparisons.size(), options.tolerance, worst->max_difference, worst->array,
      worst->layer ? " of layer " + model::layer_name(open.model.config(), *worst->layer) : "",
      escaped(worst->reference));
}

}  // namespace

Command verify_command() {
  Command command{
      .name = "verify",
      .about = "Compare the forward pass in float32 with one in float64, and with a reference file"};
  auto options = std::make_shared<VerifyOptions>();
  add_model_options(command, options->model);
  add_input_options(command, options->inputs);
  command.add(
      {{"--against", &options->against,
        "File with the arrays of another program, which are also compared: pattern_I [layers, heads, n, "
        "m], scores_I, z_I, output_I or logits_I of input I, and ids_I",
        "FILE.npz"},
       number("--tolerance", &options->tolerance,
              "Largest accepted difference of a pattern; for scores, z, output and logits, it is "
              "multiplied by the largest absolute value of the reference (at least 1)",
              non_negative())});
  add_head_options(command, options->selection);
  add_attention_option(command, options->selection);
  options->output.default_table = "comparisons";
  add_document_options(command, options->output, {"json", "jsonl", "csv", "text"});
  add_run_options(command, options->run);
  command.add("Run", {memory_option(options->run, kMemoryEstimateHelp)});
  command.footer =
      "Without inputs, verify uses the ids of the reference file, or else one random input, the same in "
      "every run.\n"
      "The exit status is 7 if a difference exceeds the tolerance.\n"
      "Examples:\n"
      "  attnctl verify data/tiny-llama\n"
      "  attnctl verify data/tiny-bert --text \"The cat sat on the mat.\"\n"
      "  attnctl verify data/tiny-bert --ids 2,30,31,3 --layers 0 --format json";
  command.action = [options] { verify(*options); };
  return command;
}

}  // namespace attnctl::cli
