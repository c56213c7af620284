#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "base/memory.hpp"
#include "cli/commands.hpp"
#include "cli/options/study_options.hpp"
#include "cli/options/target.hpp"
#include "cli/result_writer.hpp"
#include "linalg/blas/blas.hpp"
#include "study/corpus/block_trials.hpp"
#include "study/corpus/random_twin.hpp"
#include "study/plan_results.hpp"

namespace attnctl::cli {
namespace {

struct PlanOptions {
  StudyScope scope;
  OutputOptions output;
  RunOptions run;
  std::size_t nodes = 1;
  double seconds = 10;
};

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// One run of `plan`.
class PlanCommand {
 public:
  PlanCommand(const PlanOptions& options, Target target);
  void run();

 private:
  [[nodiscard]] Record settings() const;
  void hash_all();
  void survey(const StudyState& state);
  void measure(StudyState& state);
  void divide();

  const PlanOptions& options_;
  const StudyScope& scope_;
  Target target_;
  Clock::time_point begin_ = Clock::now();
  Session session_;
  std::vector<const MeasureRow*> measures_;
  OpenModel open_;
  Selection selection_;
  CorpusOptions corpus_;
  std::uint64_t corpus_bytes_ = 0;
  TokenFrequencies frequencies_;  // of the corpus, also if --frequencies is given: the cost is the same
  StudyPlan plan_;
};

PlanCommand::PlanCommand(const PlanOptions& options, Target target)
    : options_(options),
      scope_(options.scope),
      target_(std::move(target)),
      session_(options.run),
      measures_(study_measures(scope_, session_.warnings)),
      open_(open_model(scope_.model, session_.warnings)),
      selection_(select_heads(scope_.selection, open_.model.config(), false)),
      corpus_(corpus_options(scope_, measures_)) {
  if (scope_.measures.empty())
    measures_ = within_limit(measures_, selection_.heads.size(), session_.warnings);
}

Record PlanCommand::settings() const {
  const auto or_null = [](const std::optional<std::size_t>& number) {
    return number ? Value(*number) : Value();
  };
  List measures;
  for (const MeasureRow* const row : measures_) measures.emplace_back(std::string(row->name));
  Record record;
  record.set("nodes", options_.nodes)
      .set("threads", session_.pool.size())
      .set("heads", selection_.heads.size())
      .set("measures", std::move(measures))
      .set("batch_tokens", scope_.batch_tokens)
      .set("max_length", or_null(scope_.max_length))
      .set("stride", or_null(scope_.stride))
      .set("null_model", scope_.null_models)
      .set("null_shuffle", scope_.null_shuffles);
  return record;
}

/// Hashes the weights and the corpus, as every shard does before its work.
void PlanCommand::hash_all() {
  (void)weights_hash(open_.model, session_.pool);
  for (const CorpusFile& file : corpus_.files) {
    plan_.files.emplace_back(file.path.string());
    if (file.path == "-") continue;
    (void)file_hash(file.path, session_.pool);
    corpus_bytes_ += std::filesystem::file_size(file.path);
  }
}

void PlanCommand::survey(const StudyState& state) {
  Needs needs;
  for (const auto& measure : state.make_measures()) needs |= measure->needs();
  session_.progress.begin("plan", corpus_bytes_);
  CorpusBlocks blocks(corpus_, open_.model, open_.vocabulary, open_.encoder);
  plan_.survey = survey_corpus(blocks, {open_.model, selection_, needs},
                               [&](std::uint64_t bytes) { session_.progress.advance(bytes); });
  session_.progress.end();
  frequencies_ = blocks.frequencies();
  const bool counts = !scope_.frequencies && std::ranges::any_of(measures_, &MeasureRow::needs_frequencies);
  plan_.cost.read = plan_.survey.read_seconds;
  if (counts) plan_.cost.start += plan_.survey.read_seconds;  // counting reads the corpus once more
}

void PlanCommand::measure(StudyState& state) {
  Warnings ignored;  // random_twins() repeats the warnings of open_model()
  const std::vector<Model> null_models = random_twins(open_.model, scope_.null_models, scope_.seed, ignored);
  Pool pool(std::min(session_.pool.size(), available_threads()));
  const StudyRun run{.model = open_.model,
                     .vocabulary = open_.vocabulary,
                     .encoder = open_.encoder,
                     .selection = selection_,
                     .corpus = corpus_,
                     .shard = {},
                     .checkpoint = {},
                     .kernel = blas_kernel(),
                     .pool = pool,
                     .progress = session_.progress,
                     .null_models = null_models,
                     .frequencies = &frequencies_};
  const Clock::time_point begin = Clock::now();
  load_weights(run);
  plan_.cost.start += since(begin);
  const std::uint64_t loaded = memory_use().now;
  NodeMemory& memory = plan_.memory;
  memory.weights = std::max(plan_.survey.weight_bytes * (1 + scope_.null_models),
                            loaded - std::min(loaded, memory.process));
  reset_peak_memory();
  plan_.trials = try_blocks(run, state, plan_.survey.samples, options_.seconds);
  plan_.trial_workers = pool.size();
  const std::uint64_t grown = memory_use().peak - std::min(memory_use().peak, loaded);
  memory.worker = std::max(plan_.survey.pass_bytes, grown / pool.size());
  memory.workers = session_.pool.size();
}

void PlanCommand::divide() {
  plan_.cost.law = fit_cost_law(plan_.trials);
  const ShardPlanner planner(plan_.survey.blocks, plan_.cost, session_.pool.size());
  plan_.nodes = options_.nodes;
  plan_.shards = planner.shards(options_.nodes);
  plan_.chosen = planner.nodes(options_.nodes);
  plan_.suggested = planner.suggested_nodes();
  std::vector<std::size_t> counts = {options_.nodes, plan_.suggested};
  for (std::size_t n = 1; n <= 2 * plan_.suggested; n *= 2) counts.push_back(n);
  std::ranges::sort(counts);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  for (const std::size_t count : counts) plan_.choices.push_back(planner.nodes(count));
}

void PlanCommand::run() {
  ResultWriter writer(target_, options_.output, session_);
  plan_.memory.process = memory_use().now;
  hash_all();
  plan_.cost.start = since(begin_);
  plan_.model = model_record(open_.model);
  plan_.settings = settings();
  StudyState state(study_header(scope_, measures_, shape_of(selection_, open_.model.config(), scope_.seed)));
  survey(state);
  measure(state);
  divide();
  Results results;
  results.document.head.set("schema", "attnctl.plan/1").set("attnctl", tool_record(session_));
  results.append(plan_results(plan_));
  writer.write(results);
  print_warnings(session_);
}

void plan(const PlanOptions& options) {
  require_study_scope(options.scope);
  OutputOptions output = options.output;
  const bool csv = output.format == "csv" || output.path.ends_with(".csv");
  if (csv && output.table.empty()) output.table = "shards";
  PlanCommand(options, resolve_target(output, {Format::text, Format::json, Format::jsonl, Format::csv},
                                      files_read(options.scope)))
      .run();
}

}  // namespace

Command plan_command() {
  Command command{.name = "plan", .about = "Time and memory of a study on so many nodes"};
  auto options = std::make_shared<PlanOptions>();
  add_study_scope(command, options->scope);
  command.add("Nodes", {{.names = "--nodes",
                         .target = &options->nodes,
                         .help = "shards, one a node",
                         .type = "N",
                         .show_default = true,
                         .range = Range{1, 1'000'000}},
                        number("--seconds", &options->seconds,
                               "to measure for, about, after the corpus was read", positive())});
  add_document_options(command, options->output, {"json", "jsonl", "csv", "text"});
  add_table_option(command, options->output, "with csv: shards (the default), choices or trials");
  add_worker_options(command, options->run);
  command.footer =
      "--threads are those of a node; measured are as many as this machine has cores for.\n"
      "Examples:\n"
      "  attnctl plan data/tiny-bert --input data/sentences.txt --batch-tokens 16 --nodes 2 --seconds 1 "
      "--format text\n"
      "  attnctl plan data/tiny-llama --input data/sentences.txt --measures metrics --nodes 4 --threads 1 "
      "--seconds 1 | jq '.summary.seconds'";
  command.action = [options] { plan(*options); };
  return command;
}

}  // namespace attnctl::cli
