#include "study/plan.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/interrupt.hpp"
#include "base/pool.hpp"
#include "forward/footprint.hpp"
#include "study/results.hpp"
#include "study/state/state_io.hpp"

namespace attnctl {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

BlockSize size_of(const CorpusBlock& block) {
  BlockSize size{.number = block.number, .sentences = block.counts.sentences, .probe = !block.probes.empty()};
  for (const Sequence& sequence : block.batch.sequences) {
    const std::uint64_t tokens = sequence.queries();
    size.tokens += tokens;
    size.pairs += tokens * tokens;
  }
  return size;
}

/// Returns the first sequences of a block, with at most `tokens` tokens in total, but at least one sequence.
CorpusBlock first_of(const CorpusBlock& block, std::uint64_t tokens) {
  CorpusBlock first = block;
  std::size_t kept = 0;
  std::uint64_t sum = 0;
  for (const Sequence& sequence : block.batch.sequences) {
    sum += sequence.queries();
    if (kept > 0 && sum > tokens) break;
    ++kept;
  }
  first.batch.sequences.resize(kept);
  first.annotations.resize(kept);
  if (!first.probes.empty()) first.probes.resize(kept);
  return first;
}

/// Keeps the blocks with the most extreme sizes, for use as trials.
class Samples {
 public:
  void offer(const std::shared_ptr<const CorpusBlock>& block) {
    const BlockSize size = size_of(*block);
    for (Slot& slot : slots_) {
      if (size.tokens == 0 || size.probe != slot.probe) continue;
      const bool better = slot.better != nullptr && slot.block && slot.better(size, size_of(*slot.block));
      if (!slot.block || better) slot.block = block;
    }
  }
  [[nodiscard]] std::vector<std::shared_ptr<const CorpusBlock>> list() const {
    std::vector<std::shared_ptr<const CorpusBlock>> list;
    for (const Slot& slot : slots_) {
      if (slot.block && std::ranges::find(list, slot.block) == list.end()) list.push_back(slot.block);
    }
    return list;
  }

 private:
  using Better = bool (*)(const BlockSize& a, const BlockSize& b);
  struct Slot {
    bool probe = false;
    Better better = nullptr;  // null: the first block
    std::shared_ptr<const CorpusBlock> block = nullptr;
  };
  static double pairs_per_token(const BlockSize& size) {
    return static_cast<double>(size.pairs) / static_cast<double>(size.tokens);
  }
  std::array<Slot, 5> slots_ = {
      Slot{false, [](const BlockSize& a, const BlockSize& b) { return a.pairs > b.pairs; }},
      Slot{false,
           [](const BlockSize& a, const BlockSize& b) { return pairs_per_token(a) < pairs_per_token(b); }},
      Slot{true}, Slot{false, [](const BlockSize& a, const BlockSize& b) { return a.tokens < b.tokens; }},
      Slot{}};
};

double rounded(double value) {
  if (value == 0) return 0;
  constexpr double digits = 4;
  const double scale = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

double blocks_per_worker(const StudyPlan& plan, std::size_t nodes) {
  return static_cast<double>(plan.survey.blocks.size()) / static_cast<double>(nodes * plan.memory.workers);
}

Table shards_table(const StudyPlan& plan) {
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < plan.shards.size(); ++i) {
    const ShardPlan& shard = plan.shards[i];
    rows.push_back({fmt::format("{}/{}", i + 1, plan.shards.size()), count_cell(shard.blocks),
                    count_cell(shard.sentences), count_cell(shard.tokens), count_cell(shard.pairs),
                    rounded(shard.seconds), rounded(shard.cpu_seconds)});
  }
  return make_table("shards", {"shard", "blocks", "sentences", "tokens", "pairs", "seconds", "cpu_seconds"},
                    std::move(rows));
}

Table choices_table(const StudyPlan& plan) {
  std::vector<std::vector<Cell>> rows;
  for (const NodesPlan& choice : plan.choices) {
    rows.push_back({count_cell(choice.nodes), rounded(choice.seconds), rounded(choice.cpu_seconds),
                    rounded(choice.imbalance), rounded(choice.efficiency),
                    rounded(blocks_per_worker(plan, choice.nodes))});
  }
  return make_table("choices",
                    {"nodes", "seconds", "cpu_seconds", "imbalance", "efficiency", "blocks_per_worker"},
                    std::move(rows));
}

Table trials_table(const StudyPlan& plan) {
  std::vector<std::vector<Cell>> rows;
  for (const BlockTrial& trial : plan.trials) {
    const double law = plan.cost.law.seconds(trial.size);
    rows.push_back({count_cell(trial.size.number), text_cell(trial.size.probe ? "probe" : "corpus"),
                    count_cell(trial.size.tokens), count_cell(trial.size.pairs), rounded(trial.seconds),
                    rounded(law), rounded(law / trial.seconds - 1)});
  }
  return make_table("trials", {"block", "of", "tokens", "pairs", "seconds", "law", "deviation"},
                    std::move(rows));
}

Record corpus_record(const StudyPlan& plan) {
  const CorpusCounts& counts = plan.survey.counts;
  std::uint64_t pairs = 0;
  for (const BlockSize& block : plan.survey.blocks) pairs += block.probe ? 0 : block.pairs;
  return {{{"files", plan.files},
           {"sentences", counts.sentences},
           {"words", counts.words},
           {"tokens", counts.tokens},
           {"pairs", pairs},
           {"skipped", counts.skipped},
           {"blocks", plan.survey.blocks.size()}}};
}

Record cost_record(const StudyPlan& plan) {
  const StudyCost& cost = plan.cost;
  return {{{"token", rounded(cost.law.token)},
           {"pair", rounded(cost.law.pair)},
           {"probe_token", rounded(cost.law.probe_token)},
           {"deviation", rounded(cost.law.deviation)},
           {"read", rounded(cost.read)},
           {"start", rounded(cost.start)},
           {"workers", plan.trial_workers}}};
}

Record memory_record(const NodeMemory& memory) {
  return {{{"process", memory.process},
           {"weights", memory.weights},
           {"worker", memory.worker},
           {"workers", memory.workers},
           {"node", memory.node()}}};
}

Record summary_record(const StudyPlan& plan) {
  return {{{"nodes", plan.nodes},
           {"seconds", rounded(plan.chosen.seconds)},
           {"cpu_seconds", rounded(plan.chosen.cpu_seconds)},
           {"imbalance", rounded(plan.chosen.imbalance)},
           {"efficiency", rounded(plan.chosen.efficiency)},
           {"blocks_per_worker", rounded(blocks_per_worker(plan, plan.nodes))},
           {"suggested_nodes", plan.suggested}}};
}

/// "450 ms", "45 s", "12 min", "3.2 h", "5.1 days".
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

std::string mebibytes(std::uint64_t bytes) {
  constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20U;
  return fmt::format("{} MiB", (bytes + mebibyte - 1) / mebibyte);
}

std::vector<PageBlock> head_lines(const StudyPlan& plan) {
  const CorpusCounts& counts = plan.survey.counts;
  const NodeMemory& memory = plan.memory;
  std::vector<PageBlock> lines;
  const auto add = [&lines](std::string line) { lines.emplace_back(TextLine{"", std::move(line)}); };
  add(fmt::format("{} sentences, {} tokens in {} blocks", counts.sentences, counts.tokens,
                  plan.survey.blocks.size()));
  add(fmt::format("Time      {} for the slowest of {} nodes with {} threads; {} of processor time in total",
                  duration(plan.chosen.seconds), plan.nodes, memory.workers,
                  duration(plan.chosen.cpu_seconds)));
  add(fmt::format("Memory    {} per node: {} for the program, {} for weights, {} per thread",
                  mebibytes(memory.node()), mebibytes(memory.process), mebibytes(memory.weights),
                  mebibytes(memory.worker)));
  add(fmt::format(
      "Cost      {:.3g} ms per token, {:.3g} ns per pair of tokens, from {} trials (within {:.0f} %)",
      1e3 * plan.cost.law.token, 1e9 * plan.cost.law.pair, plan.trials.size(),
      100 * plan.cost.law.deviation));
  add(fmt::format("Each node {} to start, {} to read the corpus", duration(plan.cost.start),
                  duration(plan.cost.read)));
  add(fmt::format("Nodes     at most {} are useful; with more, each works less than {:.0f} % of its time",
                  plan.suggested, 100 * ShardPlanner::kLeastEfficiency));
  return lines;
}

}  // namespace

CorpusSurvey survey_corpus(CorpusBlocks& corpus, const SurveyPass& pass,
                           const std::function<void(std::uint64_t bytes)>& advance) {
  CorpusSurvey survey;
  Samples samples;
  while (true) {
    throw_if_interrupted();
    const double begin = thread_seconds();
    auto block = corpus.next();
    survey.read_seconds += thread_seconds() - begin;
    advance(corpus.new_bytes());
    if (!block) break;
    survey.blocks.push_back(size_of(*block));
    merge_state(survey.counts, block->counts);
    if (block->batch.sequences.empty()) continue;
    const PassFootprint footprint =
        pass_footprint(pass.model, block->batch, pass.selection, pass.needs, {.threads = 1});
    const std::uint64_t weights = footprint.resident_weights + footprint.other_weights;
    survey.weight_bytes = std::max(survey.weight_bytes, weights);
    survey.pass_bytes = std::max(survey.pass_bytes, footprint.resident() - weights);
    samples.offer(std::make_shared<const CorpusBlock>(std::move(*block)));
  }
  survey.samples = samples.list();
  return survey;
}

std::vector<BlockTrial> try_blocks(const StudyRun& run, StudyState& state,
                                   std::span<const std::shared_ptr<const CorpusBlock>> blocks,
                                   double seconds) {
  std::mutex adding;
  std::uint64_t next_number = 0;
  // Returns the processor time of one worker in seconds, while all workers compute copies of the block.
  const auto time = [&](const CorpusBlock& block) {
    const std::size_t workers = run.pool.size();
    std::vector<CorpusBlock> copies(workers, block);
    for (CorpusBlock& each : copies) each.number = next_number++;  // add() rejects duplicate numbers
    std::vector<double> times(workers);
    run.pool.run(workers, [&](std::size_t task, std::size_t) {
      const double begin = thread_seconds();
      compute_block(run, copies[task], state, adding);
      times[task] = thread_seconds() - begin;
    });
    return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(workers);
  };
  constexpr std::uint64_t warm_up_tokens = 512;
  const Clock::time_point begin = Clock::now();
  const CorpusBlock small = first_of(*blocks.front(), warm_up_tokens);
  (void)time(small);
  const Clock::time_point again = Clock::now();
  (void)time(small);
  const double tokens_per_second = static_cast<double>(size_of(small).tokens) / since(again);
  std::vector<BlockTrial> done;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const double left = std::max(seconds - since(begin), 0.0);
    if (i > 0 && left == 0) break;
    const double share = left / static_cast<double>(blocks.size() - i);
    constexpr double max_tokens = 1e15;  // fits in 64 bits
    const CorpusBlock piece =
        first_of(*blocks[i], static_cast<std::uint64_t>(std::min(share * tokens_per_second, max_tokens)));
    done.push_back({size_of(piece), time(piece)});
  }
  return done;
}

Results plan_results(const StudyPlan& plan) {
  Results results;
  results.document.head.set("model", plan.model)
      .set("corpus", corpus_record(plan))
      .set("settings", plan.settings)
      .set("summary", summary_record(plan))
      .set("memory", memory_record(plan.memory))
      .set("cost", cost_record(plan));
  results.text = head_lines(plan);
  const auto add = [&](std::string record, std::string title, const Table& table) {
    results.document.sections.push_back({table.name, std::move(record), table});
    results.tables.push_back(table);
    results.text.emplace_back(TextTable{std::move(title), table});
  };
  add("shard", "Shards", shards_table(plan));
  add("choice", "Numbers of nodes", choices_table(plan));
  add("trial", "Trials, and the time that the cost law predicts", trials_table(plan));
  return results;
}

}  // namespace attnctl
