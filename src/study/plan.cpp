#include "study/plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "analysis/head_axes.hpp"
#include "analysis/model_summary.hpp"
#include "base/interrupt.hpp"
#include "base/memory.hpp"
#include "forward/run.hpp"
#include "study/corpus.hpp"
#include "study/measure.hpp"
#include "study/state/state_io.hpp"
#include "study/state/study_state.hpp"

// `attnctl plan`: surveys the corpus, times some blocks, and predicts the time of the shards.
namespace attnctl::study {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The sizes of all blocks of a corpus, measured before any block is computed.
struct CorpusSurvey {
  std::vector<BlockSize> blocks;
  CorpusCounts counts;
  double read_seconds = 0;         // processor time of reading and tokenizing
  std::uint64_t pass_bytes = 0;    // memory that one worker needs for the largest block, without weights
  std::uint64_t weight_bytes = 0;  // largest memory for weights over all blocks
  /// Frequencies in the corpus. The trials use them even if the study uses a file; the time is the same.
  TokenFrequencies frequencies;
  MemoryShares shares;
  /// One to five blocks for the trials: the block with the most pairs, the block with the fewest pairs per
  /// token, a probe block, the block with the fewest tokens, and the first block.
  std::vector<std::shared_ptr<const CorpusBlock>> samples;
};

/// The memory that one node needs, in bytes.
struct NodeMemory {
  std::uint64_t process = 0;  // program, libraries, tokenizer
  std::uint64_t weights = 0;  // weights, including the pages of the weight files that are in memory
  std::uint64_t worker = 0;   // per worker: the blocks that it computes at a time, and their measures
  std::size_t workers = 0;

  [[nodiscard]] std::uint64_t node() const { return process + weights + workers * worker; }
};

struct StudyPlan {
  const StudyInput& input;
  CorpusSurvey survey = {};
  std::vector<BlockTrial> trials = {};
  std::size_t trial_workers = 0;  // number of workers that ran the trials
  std::uint64_t state_bytes = 0;  // largest size of the saved state of a block, if weights are not kept
  StudyCost cost = {};
  NodeMemory memory = {};
  NodesPlan chosen = {};
  std::size_t suggested = 1;
  std::vector<ShardPlan> shards = {};
  std::vector<NodesPlan> choices = {};
};

BlockSize size_of(const CorpusBlock& block) {
  BlockSize size{.number = block.number, .sentences = block.counts.sentences, .probe = !block.probes.empty()};
  for (const input::Sequence& sequence : block.batch.sequences) {
    const std::uint64_t tokens = sequence.queries();
    size.tokens += tokens;
    size.pairs += tokens * tokens;
  }
  return size;
}

/// Returns the block with only its first sequences: up to `tokens` tokens, but at least one sequence.
CorpusBlock first_of(const CorpusBlock& block, std::uint64_t tokens) {
  CorpusBlock first = block;
  std::size_t kept = 0;
  std::uint64_t sum = 0;
  for (const input::Sequence& sequence : block.batch.sequences) {
    sum += sequence.queries();
    if (kept > 0 && sum > tokens) break;
    ++kept;
  }
  first.batch.sequences.resize(kept);
  first.annotations.resize(kept);
  if (!first.probes.empty()) first.probes.resize(kept);
  return first;
}

CorpusSurvey survey_corpus(const StudyInput& input, const MemoryShares& shares, std::size_t workers,
                           Progress& progress) {
  const StudySettings& settings = input.settings;
  CorpusSurvey survey;
  survey.shares = shares;
  constexpr std::size_t probe = 2;  // index of the probe block in `samples`
  // For each kind of CorpusSurvey::samples, the first block with the largest score, and this score.
  std::array<std::pair<std::shared_ptr<const CorpusBlock>, double>, 5> samples;
  progress.begin("plan", corpus_bytes(settings.corpus), "byte");
  CorpusBlocks corpus(settings.corpus, input.model, input.vocabulary, input.encoder);
  while (true) {
    throw_if_interrupted();
    const double begin = thread_seconds();
    auto block = corpus.next();
    survey.read_seconds += thread_seconds() - begin;
    progress.reach(corpus.bytes());
    if (!block) break;
    survey.blocks.push_back(size_of(*block));
    merge_state(survey.counts, block->counts);
    if (block->batch.sequences.empty()) continue;
    const BlockNeeds needs = needs_of(input, shares, block->batch);
    const forward::PassFootprint& footprint = needs.pass;
    const std::uint64_t weights = footprint.resident_weights + footprint.other_weights;
    survey.weight_bytes = std::max(survey.weight_bytes, weights);
    survey.pass_bytes = std::max(survey.pass_bytes, footprint.resident() - weights);
    if (shares.one_layer_at_a_time()) {
      survey.blocks.back().memory = needs.memory;
      if (!GroupSize(shares, 0, 0).add(needs.memory)) refuse_block(input, shares, workers, *block);
    }
    const BlockSize size = survey.blocks.back();
    const auto shared = std::make_shared<const CorpusBlock>(std::move(*block));
    const auto tokens = static_cast<double>(size.tokens);
    const auto pairs = static_cast<double>(size.pairs);
    const std::array scores = {pairs, -pairs / tokens, 0.0, -tokens, 0.0};
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (size.tokens == 0 || size.probe != (i == probe)) continue;
      if (!samples[i].first || scores[i] > samples[i].second) samples[i] = {shared, scores[i]};
    }
  }
  progress.end();
  for (const auto& [block, score] : samples) {
    if (block && std::ranges::find(survey.samples, block) == survey.samples.end())
      survey.samples.push_back(block);
  }
  survey.frequencies = corpus.frequencies();
  return survey;
}

/// Returns the mean processor time in seconds in which each worker reads the weights of all layers once,
/// while the others do the same: that of a pass over the first token of a sequence.
double time_reading(const StudyRun& run, const input::Sequence& sequence) {
  const auto first_token = [](const input::Sequence& of) {
    input::Sequence first;
    first.id = of.id;
    first.ids = {of.ids.front()};
    return first;
  };
  input::Batch batch;
  batch.sequences.push_back(first_token(sequence));
  if (sequence.target)
    batch.sequences.front().target = std::make_shared<input::Sequence>(first_token(*sequence.target));
  std::vector<double> times(run.pool.size());
  run.pool.run(times.size(), [&](std::size_t task, std::size_t) {
    const double begin = thread_seconds();
    Pool alone(1);
    Warnings ignored;
    forward::RunContext context{.pool = alone, .warnings = ignored};
    context.streamed_rows = 1;
    forward::run_forward(run.input.model, batch, run.input.settings.selection, {}, context);
    times[task] = thread_seconds() - begin;
  });
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

/// Measures the time of each block once, after a warm-up. All workers compute copies of the block at the same
/// time, so that they slow each other down as in a study. The results are added to `state`, which must not be
/// used afterwards. If the blocks need more than `seconds`, only the first sequences of each block (at least
/// one) are computed. If no time is left, the remaining blocks are skipped, but never the first block.
void try_blocks(StudyPlan& plan, const StudyRun& run, StudyState& state, double seconds) {
  const std::vector<std::shared_ptr<const CorpusBlock>>& blocks = plan.survey.samples;
  const bool streamed = plan.survey.shares.one_layer_at_a_time();
  std::mutex adding;
  std::uint64_t next_number = 0;
  // Returns the mean processor time of the workers in seconds, while all workers compute copies of the block.
  const auto time = [&](const CorpusBlock& block) {
    const std::size_t workers = run.pool.size();
    std::vector<CorpusBlock> copies(workers, block);
    for (CorpusBlock& each : copies) each.number = next_number++;  // add() rejects duplicate numbers
    std::vector<double> times(workers);
    std::vector<std::uint64_t> states(workers);
    run.pool.run(workers, [&](std::size_t task, std::size_t) {
      const double begin = thread_seconds();
      states[task] = compute_blocks(run, {&copies[task], 1}, streamed, state, adding);
      times[task] = thread_seconds() - begin;
    });
    plan.state_bytes = std::max(plan.state_bytes, std::ranges::max(states));
    return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(workers);
  };
  constexpr std::uint64_t warm_up_tokens = 512;
  const Clock::time_point begin = Clock::now();
  const CorpusBlock small = first_of(*blocks.front(), warm_up_tokens);
  const BlockTrial warm_up{size_of(small), time(small)};
  if (since(begin) > seconds) {  // a large model: the other trials would take too long
    plan.trials.push_back(warm_up);
    return;
  }
  const Clock::time_point again = Clock::now();
  (void)time(small);
  const double tokens_per_second = static_cast<double>(size_of(small).tokens) / since(again);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const double left = std::max(seconds - since(begin), 0.0);
    if (i > 0 && left == 0) break;
    const double share = left / static_cast<double>(blocks.size() - i);
    constexpr double max_tokens = 1e15;  // fits in 64 bits
    const CorpusBlock piece =
        first_of(*blocks[i], static_cast<std::uint64_t>(std::min(share * tokens_per_second, max_tokens)));
    plan.trials.push_back({size_of(piece), time(piece)});
  }
}

/// Runs the trials and measures the memory that they need. Adds the time of loading the weights to the cost.
void measure(StudyPlan& plan, StudyState& state, double seconds, Pool& pool, Progress& progress) {
  const StudySettings& settings = plan.input.settings;
  Warnings ignored;  // random_twins() repeats the warnings of the model
  const std::vector<model::Model> null_models =
      random_twins(plan.input.model, settings.null_models, settings.seed, ignored);
  Pool trial_pool(std::min(pool.size(), available_threads()));
  std::optional<AblationData> ablation;
  if (settings.removes_heads()) ablation = prepare_ablation(plan.input, pool, progress);
  const StudyRun run{.input = plan.input,
                     .pool = trial_pool,
                     .progress = progress,
                     .null_models = null_models,
                     .frequencies = &plan.survey.frequencies,
                     .ablation = ablation ? &*ablation : nullptr};
  const Clock::time_point begin = Clock::now();
  const bool streamed = plan.survey.shares.one_layer_at_a_time();
  if (!streamed) load_weights(run);
  plan.cost.start += since(begin);
  const std::uint64_t loaded = memory_use().now;
  NodeMemory& memory = plan.memory;
  if (!streamed) {
    memory.weights = std::max(plan.survey.weight_bytes * (1 + settings.null_models),
                              loaded - std::min(loaded, memory.process));
  }
  reset_peak_memory();
  if (streamed) {
    // Each copy with shuffled tokens needs another pass.
    const std::size_t passes = 1 + (state.header().shuffled_measures().empty() ? 0 : settings.null_shuffles);
    plan.cost.law.group =
        static_cast<double>(passes) * time_reading(run, plan.survey.samples.front()->batch.sequences.front());
  }
  try_blocks(plan, run, state, seconds);
  plan.trial_workers = trial_pool.size();
  const std::uint64_t grown = memory_use().peak - std::min(memory_use().peak, loaded);
  memory.worker = std::max(streamed ? 0 : plan.survey.pass_bytes, grown / trial_pool.size());
  memory.workers = pool.size();
}

double rounded(double value) {
  if (value == 0) return 0;
  constexpr double digits = 4;
  const double scale = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

Record document_head(const StudyPlan& plan) {
  const StudySettings& settings = plan.input.settings;
  const CorpusCounts& counts = plan.survey.counts;
  const StudyCost& cost = plan.cost;
  const NodeMemory& memory = plan.memory;
  List files, measures;
  for (const CorpusFile& file : settings.corpus.files) files.emplace_back(file.path.string());
  for (const MeasureRow* const row : settings.measures) measures.emplace_back(std::string(row->name));
  std::uint64_t pairs = 0;
  for (const BlockSize& block : plan.survey.blocks) pairs += block.probe ? 0 : block.pairs;
  return {{{"model", analysis::model_record(plan.input.model)},
           {"corpus", Record{{{"files", std::move(files)},
                              {"sentences", counts.sentences},
                              {"words", counts.words},
                              {"tokens", counts.tokens},
                              {"pairs", pairs},
                              {"skipped", counts.skipped},
                              {"blocks", plan.survey.blocks.size()}}}},
           {"settings", Record{{{"nodes", plan.chosen.nodes},
                                {"threads", memory.workers},
                                {"heads", settings.selection.heads.size()},
                                {"measures", std::move(measures)},
                                {"batch_tokens", settings.corpus.batch_tokens},
                                {"max_length", analysis::cell_of(settings.corpus.max_length)},
                                {"stride", analysis::cell_of(settings.corpus.stride)},
                                {"memory", plan.input.memory == 0 ? Cell() : count_cell(plan.input.memory)},
                                {"null_model", settings.null_models},
                                {"null_shuffle", settings.null_shuffles}}}},
           {"summary", Record{{{"nodes", plan.chosen.nodes},
                               {"seconds", rounded(plan.chosen.seconds)},
                               {"cpu_seconds", rounded(plan.chosen.cpu_seconds)},
                               {"imbalance", rounded(plan.chosen.imbalance)},
                               {"efficiency", rounded(plan.chosen.efficiency)},
                               {"blocks_per_worker", rounded(plan.chosen.blocks_per_worker)},
                               {"suggested_nodes", plan.suggested}}}},
           {"memory", Record{{{"process", memory.process},
                              {"weights", memory.weights},
                              {"worker", memory.worker},
                              {"workers", memory.workers},
                              {"node", memory.node()}}}},
           {"cost", Record{{{"group", rounded(cost.law.group)},
                            {"token", rounded(cost.law.token)},
                            {"pair", rounded(cost.law.pair)},
                            {"probe_token", rounded(cost.law.probe_token)},
                            {"deviation", rounded(cost.law.deviation)},
                            {"read", rounded(cost.read)},
                            {"start", rounded(cost.start)},
                            {"workers", plan.trial_workers}}}}}};
}

/// Returns a duration as text: "450 ms", "45 s", "12 min", "3.2 h", "5.1 days".
std::string duration(double seconds) {
  constexpr double minute = 60;
  constexpr double hour = 60 * minute;
  constexpr double day = 24 * hour;
  if (seconds < 1) return fmt::format("{:.0f} ms", 1e3 * seconds);
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  if (seconds < 2 * minute) return fmt::format("{:.0f} s", seconds);
  if (seconds < 2 * hour) return fmt::format("{:.0f} min", seconds / minute);
  if (seconds < 2 * day) return fmt::format("{:.1f} h", seconds / hour);
  return fmt::format("{:.1f} days", seconds / day);
}

void add_head_lines(const StudyPlan& plan, Results& results) {
  const NodeMemory& memory = plan.memory;
  const auto add = [&](std::string line) { results.text.emplace_back(TextLine{"", std::move(line)}); };
  const auto mebibytes = [](std::uint64_t bytes) { return (bytes + (1U << 20U) - 1) >> 20U; };
  add(fmt::format("{}, {}", plan.survey.counts.text(), counted(plan.survey.blocks.size(), "block")));
  add(fmt::format(
      "Time      {} on the slowest node (nodes: {}, threads per node: {}); "
      "{} of processor time in total",
      duration(plan.chosen.seconds), plan.chosen.nodes, memory.workers, duration(plan.chosen.cpu_seconds)));
  add(fmt::format("Memory    {} MiB per node: {} MiB for the program, {} MiB for weights, {} MiB per thread",
                  mebibytes(memory.node()), mebibytes(memory.process), mebibytes(memory.weights),
                  mebibytes(memory.worker)));
  add(fmt::format(
      "Cost      {:.3g} ms per token, {:.3g} ns per pair of tokens (trials: {}, largest deviation: {:.0f} %)",
      1e3 * plan.cost.law.token, 1e9 * plan.cost.law.pair, plan.trials.size(),
      100 * plan.cost.law.deviation));
  if (plan.survey.shares.one_layer_at_a_time())
    add(
        fmt::format("Weights   one layer at a time (--memory); a thread reads all layers once for a group of "
                    "blocks, in {}",
                    duration(plan.cost.law.group)));
  add(fmt::format("Each node {} to start, {} to read the corpus", duration(plan.cost.start),
                  duration(plan.cost.read)));
  add(fmt::format("Nodes     suggested: {}, the largest tried number with an efficiency of at least {:.0f} %",
                  plan.suggested, 100 * ShardPlanner::kLeastEfficiency));
}

Results results_of(const StudyPlan& plan) {
  std::vector<std::vector<Cell>> shards, choices, trials;
  for (std::size_t i = 0; i < plan.shards.size(); ++i) {
    const ShardPlan& shard = plan.shards[i];
    shards.push_back({fmt::format("{}/{}", i + 1, plan.shards.size()), count_cell(shard.blocks),
                      count_cell(shard.sentences), count_cell(shard.tokens), count_cell(shard.pairs),
                      rounded(shard.seconds), rounded(shard.cpu_seconds)});
  }
  for (const NodesPlan& choice : plan.choices) {
    choices.push_back({count_cell(choice.nodes), rounded(choice.seconds), rounded(choice.cpu_seconds),
                       rounded(choice.imbalance), rounded(choice.efficiency),
                       rounded(choice.blocks_per_worker)});
  }
  for (const BlockTrial& trial : plan.trials) {
    const double law = plan.cost.law.group + plan.cost.law.seconds(trial.size);
    trials.push_back({count_cell(trial.size.number), text_cell(trial.size.probe ? "probe" : "corpus"),
                      count_cell(trial.size.tokens), count_cell(trial.size.pairs), rounded(trial.seconds),
                      rounded(law), rounded(law / trial.seconds - 1)});
  }
  Results results;
  results.document.head = document_head(plan);
  add_head_lines(plan, results);
  add_table(results, "shard", "shards",
            {"shard", "blocks", "sentences", "tokens", "pairs", "seconds", "cpu_seconds"}, std::move(shards));
  results.text.emplace_back(TextTable{"Shards", results.tables.back()});
  add_table(results, "choice", "choices",
            {"nodes", "seconds", "cpu_seconds", "imbalance", "efficiency", "blocks_per_worker"},
            std::move(choices));
  results.text.emplace_back(TextTable{"Numbers of nodes", results.tables.back()});
  add_table(results, "trial", "trials", {"block", "of", "tokens", "pairs", "seconds", "law", "deviation"},
            std::move(trials));
  results.text.emplace_back(
      TextTable{"Trials, and the time that the cost law predicts", results.tables.back()});
  return results;
}

}  // namespace

Results plan_study(const StudyInput& input, const PlanRequest& request, Pool& pool, Progress& progress) {
  const StudySettings& settings = input.settings;
  StudyPlan plan{.input = input};
  plan.memory.process = memory_use().now;
  // Every shard hashes the weights and the corpus on one thread (begin_study()).
  const double opened = since(request.begin);
  Pool alone(1);
  (void)study_identity(settings, input.model, alone, input.memory > 0);
  plan.cost.start = since(request.begin);
  StudyState state(plain_header(settings, input.model));
  const MemoryShares shares = share_memory(input, pool.size());
  if (shares.one_layer_at_a_time()) plan.memory.process = shares.used;
  plan.survey = survey_corpus(input, shares, pool.size(), progress);
  plan.cost.read = plan.survey.read_seconds;
  // If a measure needs frequencies, each shard also reads the corpus to count the tokens, at the same time if
  // it has two threads.
  if (!settings.frequencies && settings.needs_frequencies())
    plan.cost.start = pool.size() > 1 ? std::max(plan.cost.start, opened + plan.survey.read_seconds)
                                      : plan.cost.start + plan.survey.read_seconds;
  measure(plan, state, request.seconds, pool, progress);
  plan.cost.law = fit_cost_law(plan.trials, plan.cost.law.group);
  const ShardPlanner planner(plan.survey.blocks, plan.cost, plan.memory.workers, shares, plan.state_bytes);
  plan.shards = planner.shards(request.nodes);
  for (const ShardPlan& shard : plan.shards)
    plan.memory.worker = std::max(plan.memory.worker, shard.worker_bytes);
  plan.chosen = planner.nodes(request.nodes);
  plan.suggested = planner.suggested_nodes();
  std::set<std::size_t> counts = {request.nodes, plan.suggested};
  for (std::size_t n = 1; n <= 2 * plan.suggested; n *= 2) counts.insert(n);
  for (const std::size_t count : counts) plan.choices.push_back(planner.nodes(count));
  return results_of(plan);
}

CostLaw fit_cost_law(std::span<const BlockTrial> trials, double group) {
  if (std::ranges::all_of(trials, [](const BlockTrial& trial) { return trial.size.probe; }))
    throw std::logic_error("the cost law needs a trial of the corpus");
  // Sums over the trials for the normal equations of the fit, of tokens per second and pairs per second.
  // Tokens and pairs explain the share of the time that is not `group`.
  double tokens = 0, pairs = 0;  // right-hand side
  double tokens_tokens = 0, tokens_pairs = 0, pairs_pairs = 0;
  for (const BlockTrial& trial : trials) {
    if (trial.size.probe) continue;
    const double t = static_cast<double>(trial.size.tokens) / trial.seconds;
    const double p = static_cast<double>(trial.size.pairs) / trial.seconds;
    const double share = std::max(1 - group / trial.seconds, 0.0);
    tokens += t * share;
    pairs += p * share;
    tokens_tokens += t * t;
    tokens_pairs += t * p;
    pairs_pairs += p * p;
  }
  CostLaw law{.group = group};
  const double scale = tokens_tokens * pairs_pairs;
  const double determinant = scale - tokens_pairs * tokens_pairs;
  // A smaller determinant means that all trials have nearly the same number of pairs per token.
  constexpr double smallest = 1e-9;
  const bool separable = determinant > smallest * scale;
  if (separable) {
    law.token = (tokens * pairs_pairs - pairs * tokens_pairs) / determinant;
    law.pair = (pairs * tokens_tokens - tokens * tokens_pairs) / determinant;
  }
  if (law.token < 0) {
    law.token = 0;
    law.pair = pairs / pairs_pairs;
  } else if (!separable || law.pair < 0) {
    law.token = tokens / tokens_tokens;
    law.pair = 0;
  }
  law.probe_token = law.token;
  for (const BlockTrial& trial : trials) {
    if (trial.size.probe) {
      law.probe_token = std::max(trial.seconds - group, 0.0) / static_cast<double>(trial.size.tokens);
    } else {
      const double predicted = group + law.seconds(trial.size);
      law.deviation = std::max(law.deviation, std::abs(predicted / trial.seconds - 1));
    }
  }
  return law;
}

ShardPlanner::ShardPlanner(std::span<const BlockSize> blocks, const StudyCost& cost, std::size_t threads,
                           const MemoryShares& shares, std::uint64_t state_bytes)
    : blocks_(blocks), cost_(cost), threads_(threads), shares_(shares), state_bytes_(state_bytes) {
  double tokens = 0;
  for (const BlockSize& block : blocks) {
    if (!block.probe) tokens += static_cast<double>(block.tokens);
    tokens_until_.push_back(tokens);
  }
  for (const double until : tokens_until_) read_until_.push_back(tokens > 0 ? until * cost.read / tokens : 0);
  alone_ = shard(0, 1).seconds;
}

ShardPlan ShardPlanner::shard(std::size_t index, std::size_t count) const {
  struct PlannedWorker {
    double free_at = 0;             // seconds
    std::uint64_t state_bytes = 0;  // 0 before its first group
  };
  ShardPlan plan;
  std::vector<PlannedWorker> workers(threads_);
  double read = 0;  // time spent on reading the corpus so far, in seconds
  double reader_free_at = 0;
  const auto read_to = [&](double until, const PlannedWorker& worker) {
    reader_free_at = std::max(worker.free_at, reader_free_at) + (until - read);
    read = until;
  };
  const auto first_free = [&]() -> PlannedWorker& {
    return *std::ranges::min_element(workers, {}, &PlannedWorker::free_at);
  };
  for (std::size_t next = index; next < blocks_.size();) {
    PlannedWorker& worker = first_free();
    const double left = tokens_until_.back() - tokens_until_[next];
    GroupSize group(
        shares_, worker.state_bytes,
        blocks_[next].probe ? kUsualRows : fair_rows(left / static_cast<double>(count), threads_));
    double computing = cost_.law.group;
    std::size_t last = next;
    while (next < blocks_.size() && group.add(blocks_[next].memory)) {
      const BlockSize& block = blocks_[next];
      last = next;
      next += count;
      computing += cost_.law.seconds(block);
      ++plan.blocks;
      if (!block.probe) {
        plan.sentences += block.sentences;
        plan.tokens += block.tokens;
        plan.pairs += block.pairs;
      }
      if (group.full()) break;
    }
    read_to(read_until_[last], worker);
    worker.free_at = reader_free_at + computing;
    worker.state_bytes = state_bytes_;
    plan.cpu_seconds += computing;
    if (shares_.one_layer_at_a_time()) plan.worker_bytes = std::max(plan.worker_bytes, group.bytes());
  }
  PlannedWorker& worker = first_free();
  read_to(read_until_.empty() ? 0 : read_until_.back(), worker);
  worker.free_at = reader_free_at;
  plan.seconds = cost_.start + std::ranges::max(workers, {}, &PlannedWorker::free_at).free_at;
  plan.cpu_seconds += cost_.start + cost_.read;
  return plan;
}

NodesPlan ShardPlanner::nodes(std::size_t nodes) const {
  NodesPlan plan{.nodes = nodes};
  plan.blocks_per_worker = static_cast<double>(blocks_.size()) / static_cast<double>(nodes * threads_);
  const std::vector<ShardPlan> plans = shards(nodes);
  double sum = 0;
  for (const ShardPlan& shard : plans) {
    plan.seconds = std::max(plan.seconds, shard.seconds);
    plan.cpu_seconds += shard.cpu_seconds;
    sum += shard.seconds;
  }
  // Computes max / mean - 1 as total waiting time / total time, which rounding cannot make negative.
  double waiting = 0;
  for (const ShardPlan& shard : plans) waiting += plan.seconds - shard.seconds;
  plan.imbalance = waiting / sum;
  plan.efficiency = alone_ / (static_cast<double>(nodes) * plan.seconds);
  return plan;
}

std::size_t ShardPlanner::suggested_nodes() const {
  constexpr std::size_t all_up_to = 64;
  constexpr std::size_t step = 10;  // then increase the number of nodes by 1/10 in each step
  std::size_t best = 1;
  const auto offer = [&](std::size_t n) {
    if (nodes(n).efficiency >= kLeastEfficiency) best = n;
  };
  for (std::size_t n = 2; n < blocks_.size(); n += n < all_up_to ? 1 : n / step) offer(n);
  if (!blocks_.empty()) offer(blocks_.size());
  return best;
}

}  // namespace attnctl::study
