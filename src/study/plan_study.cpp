#include "study/plan_study.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/model_summary.hpp"
#include "base/memory.hpp"
#include "linalg/blas.hpp"
#include "study/corpus/shuffled.hpp"
#include "study/plan.hpp"
#include "study/run_study.hpp"

namespace attnctl {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The steps of plan_study().
class Planner {
 public:
  Planner(const StudyInput& input, const PlanRequest& request, Pool& pool, Progress& progress)
      : input_(input), settings_(input.settings), request_(request), pool_(pool), progress_(progress) {}

  StudyPlan plan() {
    plan_.memory.process = memory_use().now;
    hash_all();
    plan_.cost.start = since(request_.begin);
    plan_.model = model_record(input_.model);
    plan_.settings = settings();
    StudyState state(plain_header(settings_, input_.model));
    survey(state);
    measure(state);
    divide();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] Record settings() const;
  void hash_all();
  void survey(const StudyState& state);
  void measure(StudyState& state);
  void divide();

  const StudyInput& input_;
  const StudySettings& settings_;
  const PlanRequest& request_;
  Pool& pool_;
  Progress& progress_;
  TokenFrequencies frequencies_;  // of the corpus, also if a file gives others: the cost is the same
  StudyPlan plan_;
};

Record Planner::settings() const {
  const auto or_null = [](const std::optional<std::size_t>& number) {
    return number ? Value(*number) : Value();
  };
  List measures;
  for (const MeasureRow* const row : settings_.measures) measures.emplace_back(std::string(row->name));
  Record record;
  record.set("nodes", request_.nodes)
      .set("threads", pool_.size())
      .set("heads", settings_.selection.heads.size())
      .set("measures", std::move(measures))
      .set("batch_tokens", settings_.corpus.batch_tokens)
      .set("max_length", or_null(settings_.corpus.max_length))
      .set("stride", or_null(settings_.corpus.stride))
      .set("null_model", settings_.null_models)
      .set("null_shuffle", settings_.null_shuffles);
  return record;
}

/// Hashes the weights and the corpus, as every shard does before its work.
void Planner::hash_all() {
  (void)weights_hash(input_.model, pool_);
  for (const CorpusFile& file : settings_.corpus.files) {
    plan_.files.emplace_back(file.path.string());
    if (file.path != "-") (void)file_hash(file.path, pool_);
  }
}

void Planner::survey(const StudyState& state) {
  Needs needs;
  for (const auto& measure : state.make_block_measures().own) needs |= measure->needs();
  progress_.begin("plan", corpus_bytes(settings_.corpus));
  CorpusBlocks blocks(settings_.corpus, input_.model, input_.vocabulary, input_.encoder);
  plan_.survey = survey_corpus(blocks, {input_.model, settings_.selection, needs},
                               [&](std::uint64_t bytes) { progress_.advance(bytes); });
  progress_.end();
  frequencies_ = blocks.frequencies();
  const bool counts = !settings_.frequencies && settings_.needs_frequencies();
  plan_.cost.read = plan_.survey.read_seconds;
  if (counts) plan_.cost.start += plan_.survey.read_seconds;  // counting reads the corpus once more
}

void Planner::measure(StudyState& state) {
  Warnings ignored;  // random_twins() repeats the warnings of the model
  const std::vector<Model> null_models =
      random_twins(input_.model, settings_.null_models, settings_.seed, ignored);
  Pool pool(std::min(pool_.size(), available_threads()));
  const StudyRun run{.model = input_.model,
                     .vocabulary = input_.vocabulary,
                     .encoder = input_.encoder,
                     .selection = settings_.selection,
                     .corpus = settings_.corpus,
                     .shard = {},
                     .checkpoint = {},
                     .kernel = blas_kernel(),
                     .pool = pool,
                     .progress = progress_,
                     .null_models = null_models,
                     .frequencies = &frequencies_};
  const Clock::time_point begin = Clock::now();
  load_weights(run);
  plan_.cost.start += since(begin);
  const std::uint64_t loaded = memory_use().now;
  NodeMemory& memory = plan_.memory;
  memory.weights = std::max(plan_.survey.weight_bytes * (1 + settings_.null_models),
                            loaded - std::min(loaded, memory.process));
  reset_peak_memory();
  plan_.trials = try_blocks(run, state, plan_.survey.samples, request_.seconds);
  plan_.trial_workers = pool.size();
  const std::uint64_t grown = memory_use().peak - std::min(memory_use().peak, loaded);
  memory.worker = std::max(plan_.survey.pass_bytes, grown / pool.size());
  memory.workers = pool_.size();
}

void Planner::divide() {
  plan_.cost.law = fit_cost_law(plan_.trials);
  const ShardPlanner planner(plan_.survey.blocks, plan_.cost, pool_.size());
  plan_.nodes = request_.nodes;
  plan_.shards = planner.shards(request_.nodes);
  plan_.chosen = planner.nodes(request_.nodes);
  plan_.suggested = planner.suggested_nodes();
  std::vector<std::size_t> counts = {request_.nodes, plan_.suggested};
  for (std::size_t n = 1; n <= 2 * plan_.suggested; n *= 2) counts.push_back(n);
  std::ranges::sort(counts);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  for (const std::size_t count : counts) plan_.choices.push_back(planner.nodes(count));
}

}  // namespace

StudyPlan plan_study(const StudyInput& input, const PlanRequest& request, Pool& pool, Progress& progress) {
  return Planner(input, request, pool, progress).plan();
}

}  // namespace attnctl
