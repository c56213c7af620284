#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/comparison.hpp"
#include "analysis/head_axes.hpp"
#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/commands/reference_file.hpp"
#include "cli/options/inputs.hpp"
#include "cli/options/options.hpp"
#include "cli/options/selection.hpp"
#include "cli/options/target.hpp"
#include "cli/result_writer.hpp"
#include "cli/session.hpp"
#include "forward/run.hpp"
#include "input/sequences.hpp"
#include "inspect/describe.hpp"
#include "inspect/memory_plan.hpp"
#include "reference/reference.hpp"

namespace attnctl::cli {
namespace {

struct VerifyOptions {
  ModelOptions model;
  InputOptions inputs;
  SelectionOptions selection;
  OutputOptions output;
  RunOptions run;
  std::optional<std::string> against;
  double tolerance = 1e-5;
};

constexpr std::size_t kSeededIds = 64;

/// Returns a seeded input of at most 64 ids and at most the model's number of positions. The target has half
/// as many ids.
Sequence choose_seeded(const ModelConfig& config) {
  if (config.embedding.vocabulary == 0 && !config.embedding.pixels.present()) {
    fail(Status::bad_input, "the model has no embedding table: give --embeddings");
  }
  const std::size_t length = std::min(kSeededIds, config.max_positions.value_or(kSeededIds));
  return SeededInputs(config).next(length, (length + 1) / 2);
}

/// Returns whether all inputs have targets, so that heads of a decoder can be compared.
bool has_targets(const Batch& batch) {
  return std::ranges::all_of(batch.sequences,
                             [](const Sequence& sequence) { return sequence.target != nullptr; });
}

/// Returns the inputs of the command line, or else those of the reference, or else a seeded input.
Batch choose_inputs(const VerifyOptions& options, OpenModel& open,
                    const std::optional<ReferenceFile>& reference, Warnings& warnings) {
  if (!options.inputs.items.empty()) return read_inputs(options.inputs, open, warnings);
  Batch batch;
  if (reference) {
    for (std::size_t i = 0; i < reference->ids.size(); ++i) {
      const std::vector<std::int64_t>& ids = reference->ids[i];
      if (ids.empty()) {
        fail(Status::bad_input, "{}: has no ids_{}: give the inputs", escaped(*options.against),
             batch.sequences.size());
      }
      Sequence& sequence = batch.sequences.emplace_back();
      sequence.ids = ids;
      if (reference->target_ids[i].empty()) continue;
      sequence.target = std::make_shared<Sequence>();
      sequence.target->ids = reference->target_ids[i];
    }
  } else {
    batch.sequences.push_back(choose_seeded(open.model.config()));
  }
  finish_batch(batch, open.vocabulary);
  return batch;
}

/// Runs each sequence in float64 and compares the result with the float32 pass of the same sequence.
std::vector<Comparison> compare_float64(const VerifyOptions& options, const OpenModel& open, Batch& batch,
                                        const std::optional<AxialGrid>& grid, Session& session) {
  const ModelConfig& config = open.model.config();
  const Selection selection = select_heads(options.selection, config, has_targets(batch));
  const bool all = options.selection.layers.empty() && options.selection.heads.empty() &&
                   options.selection.component.empty();
  const bool logits = all && config.head.present && (!config.decoder || has_targets(batch));
  (void)inspect::plan_memory(session.options.memory,
                             inspect::reference_bytes(open.model, batch, logits, session.pool.size()));
  std::vector<ReferencePass> passes;
  if (grid) passes = run_axial_reference(open.model, batch, *grid, session.pool);
  session.progress.begin("float64", batch.sequences.size());
  for (const Sequence& sequence : batch.sequences) {
    if (grid) break;
    passes.push_back(run_reference(open.model, sequence, selection.layers().back(), logits, session.pool));
    session.progress.advance();
  }
  session.progress.end();
  CompareObserver observer(passes);
  Observer* const observers[] = {&observer};
  RunContext context{.pool = session.pool, .warnings = session.warnings, .progress = &session.progress};
  if (grid) {
    run_axial(open.model, batch, *grid, selection, observers, context);
  } else {
    run_forward(open.model, batch, selection, observers, context);
  }
  return observer.finish("float64");
}

std::vector<Comparison> compare_file(const VerifyOptions& options, const OpenModel& open, const Batch& batch,
                                     const ReferenceFile& reference, Session& session) {
  if (reference.passes.size() != batch.sequences.size()) {
    fail(Status::bad_input, "{}: holds {} inputs, the run has {}", escaped(*options.against),
         reference.passes.size(), batch.sequences.size());
  }
  for (std::size_t s = 0; s < batch.sequences.size(); ++s)
    check_reference_shapes(reference.passes[s], open.model.config(), batch.sequences[s], *options.against);
  CompareObserver observer(reference.passes);
  Observer* const observers[] = {&observer};
  RunContext context{.pool = session.pool, .warnings = session.warnings, .progress = &session.progress};
  run_forward(open.model, batch, select_heads(options.selection, open.model.config(), has_targets(batch)),
              observers, context);
  return observer.finish(*options.against);
}

/// Returns the absolute tolerance. It is relative to the largest value, which is 1 for patterns.
double tolerance_of(const Comparison& comparison, double tolerance) {
  return tolerance * comparison.largest;
}

bool within(const Comparison& comparison, double tolerance) {
  return comparison.max_difference <= tolerance_of(comparison, tolerance);
}

Table comparison_table(const std::vector<Comparison>& comparisons, const ModelConfig& config,
                       double tolerance) {
  std::vector<std::vector<Cell>> rows;
  for (const Comparison& each : comparisons) {
    rows.push_back({each.reference, each.array, each.layer ? component_cell(config, *each.layer) : Cell(),
                    inspect::number_cell(config, each.layer), each.max_difference,
                    tolerance_of(each, tolerance), within(each, tolerance)});
  }
  return make_table("comparisons",
                    {"reference", "array", "component", "layer", "max_difference", "tolerance", "ok"},
                    std::move(rows));
}

Results verify_results(const VerifyOptions& options, const OpenModel& open, const Batch& batch,
                       const Table& table, bool ok, const Session& session) {
  Results results;
  Document& document = results.document;
  document.head.set("schema", "attnctl.verify/1")
      .set("attnctl", tool_record(session))
      .set("model", model_record(open.model))
      .set("tolerance", options.tolerance)
      .set("ok", ok);
  List inputs;
  for (const Sequence& sequence : batch.sequences) {
    Record record;
    record.set("id", sequence.id).set("length", sequence.queries());
    if (!sequence.ids.empty()) record.set("ids", make_array({sequence.ids.size()}, sequence.ids));
    if (sequence.target)
      record.set("target_ids", make_array({sequence.target->ids.size()}, sequence.target->ids));
    inputs.emplace_back(std::move(record));
  }
  document.sections.push_back({"inputs", "input", std::move(inputs)});
  document.sections.push_back({"comparisons", "comparison", table});
  results.text.emplace_back(TextTable{"", table});
  return results;
}

void verify(const VerifyOptions& options) {
  std::vector<std::filesystem::path> files = files_read(options.model, options.inputs);
  if (options.against) files.emplace_back(*options.against);
  const Target target = resolve_target(options.output, {Format::text, Format::json, Format::jsonl}, files);
  Session session(options.run);
  OpenModel open = open_model(options.model, session.warnings);
  std::optional<ReferenceFile> reference;
  if (options.against) reference = read_reference(*options.against, open.model.config());
  open.model = with_attention_option(open.model, options.selection);
  Batch batch = choose_inputs(options, open, reference, session.warnings);
  const auto grid = axial_grid(options.selection, options.inputs, open.model, batch);
  if (grid && reference) fail(Status::usage, "--against does not go with --attention axial");
  check_batch(open.model, batch);

  ResultWriter writer(target, options.output, session);
  std::vector<Comparison> comparisons = compare_float64(options, open, batch, grid, session);
  if (reference) {
    const auto more = compare_file(options, open, batch, *reference, session);
    comparisons.insert(comparisons.end(), more.begin(), more.end());
  }
  const auto outside = std::count_if(comparisons.begin(), comparisons.end(), [&](const Comparison& each) {
    return !within(each, options.tolerance);
  });
  const Table table = comparison_table(comparisons, open.model.config(), options.tolerance);
  writer.write(verify_results(options, open, batch, table, outside == 0, session));
  if (outside == 0) {
    print_warnings(session);
    return;
  }
  const auto excess = [](const Comparison& each) { return each.max_difference / each.largest; };
  const auto worst =
      std::max_element(comparisons.begin(), comparisons.end(), [&](const auto& a, const auto& b) {
        return !std::isnan(a.max_difference) && (std::isnan(b.max_difference) || excess(a) < excess(b));
      });
  fail(Status::difference,
       "{} of {} comparisons are over the tolerance {}; the furthest is {} off ({}{}, against {})", outside,
       comparisons.size(), options.tolerance, worst->max_difference, worst->array,
       worst->layer ? " of layer " + layer_name(open.model.config(), *worst->layer) : "",
       escaped(worst->reference));
}

}  // namespace

Command verify_command() {
  Command command{.name = "verify", .about = "Compare the float32 pass with float64, and with a reference"};
  auto options = std::make_shared<VerifyOptions>();
  add_model_options(command, options->model);
  add_input_options(command, options->inputs);
  command.add({{"--against", &options->against,
                "arrays of a reference: pattern_0 [layers, heads, n, m], logits_0, ...", "FILE.npz"},
               number("--tolerance", &options->tolerance,
                      "largest difference that passes; times the largest value of scores, z, output, logits",
                      non_negative())});
  add_head_options(command, options->selection);
  add_attention_option(command, options->selection);
  add_document_options(command, options->output, {"json", "jsonl", "text"});
  add_run_options(command, options->run);
  command.footer =
      "Without inputs: the ids of the reference, else 64 seeded ids. A difference over the tolerance is "
      "status 7.\n"
      "Examples:\n"
      "  attnctl verify data/tiny-llama\n"
      "  attnctl verify data/tiny-bert --text \"The cat sat on the mat.\"\n"
      "  attnctl verify data/tiny-bert --ids 2,30,31,3 --layers 0 --format json";
  command.action = [options] { verify(*options); };
  return command;
}

}  // namespace attnctl::cli
