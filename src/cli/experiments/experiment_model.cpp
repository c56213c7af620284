#include "cli/experiments/experiment_model.hpp"

#include <algorithm>
#include <utility>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "base/random.hpp"
#include "cli/options/inputs.hpp"
#include "cli/options/selection.hpp"
#include "input/sequences.hpp"
#include "inspect/memory_plan.hpp"

namespace attnctl::cli {
namespace {

constexpr std::size_t kSeededIds = 128;

/// Returns random ids: at most 128, and at most the model's number of positions.
Sequence random_sequence(const ModelConfig& config, std::uint64_t seed) {
  if (config.embedding.vocabulary == 0) {
    fail(Status::bad_input, "the model has no embedding table: give {}",
         config.embedding.pixels.present() ? "--pixels" : "--embeddings");
  }
  Random random(seed);
  Sequence sequence;
  const std::size_t length = std::min(kSeededIds, config.max_positions.value_or(kSeededIds));
  for (std::size_t i = 0; i < length; ++i)
    sequence.ids.push_back(static_cast<std::int64_t>(random.next() % config.embedding.vocabulary));
  return sequence;
}

Batch choose_inputs(const ModelExperimentOptions& options, std::uint64_t seed, OpenModel& open,
                    Warnings& warnings) {
  if (!options.inputs.items.empty()) return read_inputs(options.inputs, open, warnings);
  Batch batch;
  batch.sequences.push_back(random_sequence(open.model.config(), seed));
  finish_batch(batch, open.vocabulary);
  return batch;
}

/// Makes every option that `add` adds require --model.
template <typename Add>
void add_needing(CLI::App& command, CLI::Option* model, Add add) {
  const std::vector<CLI::Option*> before = command.get_options();
  add();
  for (CLI::Option* option : command.get_options()) {
    if (std::find(before.begin(), before.end(), option) == before.end()) option->needs(model);
  }
}

}  // namespace

CLI::Option* add_model_experiment(CLI::App& command, ModelExperimentOptions& options) {
  CLI::Option* model =
      command.add_option("--model", options.model.model, "a trained model, as `analyze` takes it")
          ->type_name("MODEL");
  add_needing(command, model, [&] {
    command.add_option("--config", options.model.config, "FILE with the model's configuration")
        ->type_name("FILE");
    add_sequence_options(command, options.inputs);
  });
  return model;
}

void add_model_heads(CLI::App& command, ModelExperimentOptions& options, CLI::Option* model) {
  add_needing(command, model, [&] { add_head_options(command, options.selection); });
}

ModelRun::ModelRun(const ModelExperimentOptions& options, std::uint64_t seed, Session& session)
    : open(open_model(options.model, session.warnings)),
      batch(choose_inputs(options, seed, open, session.warnings)),
      selection(select_heads(options.selection, open.model.config())) {
  check_batch(open.model, batch);
}

void ModelRun::observe(Observer& observer, Session& session) const {
  Observer* const observers[] = {&observer};
  RunContext context{.pool = session.pool, .warnings = session.warnings, .progress = &session.progress};
  const inspect::WorkBytes work = inspect::pass_bytes(open.model, batch, selection, observers, context);
  context.streamed_rows = inspect::plan_memory(session.options.memory, work).rows;
  run_forward(open.model, batch, selection, observers, context);
}

void ModelRun::describe(Record& parameters) const {
  std::size_t tokens = 0;
  for (const Sequence& sequence : batch.sequences) tokens += sequence.queries();
  parameters.set("model", open.model.name()).set("inputs", batch.sequences.size()).set("tokens", tokens);
}

}  // namespace attnctl::cli
