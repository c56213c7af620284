#include "study/plan_results.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "study/results.hpp"

namespace attnctl {
namespace {

double rounded(double value) {
  if (value == 0) return 0;
  constexpr double digits = 4;
  const double scale = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

Cell seconds_cell(double value) {
  return rounded(value);
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
                    seconds_cell(shard.seconds), seconds_cell(shard.cpu_seconds)});
  }
  return make_table("shards", {"shard", "blocks", "sentences", "tokens", "pairs", "seconds", "cpu_seconds"},
                    std::move(rows));
}

Table choices_table(const StudyPlan& plan) {
  std::vector<std::vector<Cell>> rows;
  for (const NodesPlan& choice : plan.choices) {
    rows.push_back({count_cell(choice.nodes), seconds_cell(choice.seconds), seconds_cell(choice.cpu_seconds),
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
    rows.push_back({count_cell(trial.size.number), std::string(trial.size.probe ? "probe" : "corpus"),
                    count_cell(trial.size.tokens), count_cell(trial.size.pairs), seconds_cell(trial.seconds),
                    seconds_cell(law), rounded(law / trial.seconds - 1)});
  }
  return make_table("trials", {"block", "of", "tokens", "pairs", "seconds", "law", "deviation"},
                    std::move(rows));
}

Record corpus_record(const StudyPlan& plan) {
  const CorpusCounts& counts = plan.survey.counts;
  std::uint64_t pairs = 0;
  for (const BlockSize& block : plan.survey.blocks) pairs += block.probe ? 0 : block.pairs;
  Record record;
  record.set("files", plan.files)
      .set("sentences", counts.sentences)
      .set("words", counts.words)
      .set("tokens", counts.tokens)
      .set("pairs", pairs)
      .set("skipped", counts.skipped)
      .set("blocks", plan.survey.blocks.size());
  return record;
}

Record cost_record(const StudyPlan& plan) {
  const StudyCost& cost = plan.cost;
  Record record;
  record.set("token", rounded(cost.law.token))
      .set("pair", rounded(cost.law.pair))
      .set("probe_token", rounded(cost.law.probe_token))
      .set("deviation", rounded(cost.law.deviation))
      .set("read", rounded(cost.read))
      .set("start", rounded(cost.start))
      .set("workers", plan.trial_workers);
  return record;
}

Record memory_record(const NodeMemory& memory) {
  Record record;
  record.set("process", memory.process)
      .set("weights", memory.weights)
      .set("worker", memory.worker)
      .set("workers", memory.workers)
      .set("node", memory.node());
  return record;
}

Record summary_record(const StudyPlan& plan) {
  Record record;
  record.set("nodes", plan.nodes)
      .set("seconds", rounded(plan.chosen.seconds))
      .set("cpu_seconds", rounded(plan.chosen.cpu_seconds))
      .set("imbalance", rounded(plan.chosen.imbalance))
      .set("efficiency", rounded(plan.chosen.efficiency))
      .set("blocks_per_worker", rounded(blocks_per_worker(plan, plan.nodes)))
      .set("suggested_nodes", plan.suggested);
  return record;
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
  std::vector<std::string> lines = {
      fmt::format("{} sentences, {} tokens in {} blocks", counts.sentences, counts.tokens,
                  plan.survey.blocks.size()),
      fmt::format("Time      {} for the slowest of {} nodes with {} threads; {} of processor time in all",
                  duration(plan.chosen.seconds), plan.nodes, memory.workers,
                  duration(plan.chosen.cpu_seconds)),
      fmt::format("Memory    {} per node: {} for the program, {} for weights, {} per thread",
                  mebibytes(memory.node()), mebibytes(memory.process), mebibytes(memory.weights),
                  mebibytes(memory.worker)),
      fmt::format(
          "Cost      {:.3g} ms per token, {:.3g} ns per pair of tokens, from {} trials (within {:.0f} %)",
          1e3 * plan.cost.law.token, 1e9 * plan.cost.law.pair, plan.trials.size(),
          100 * plan.cost.law.deviation),
      fmt::format("Each node {} to start, {} to read the corpus", duration(plan.cost.start),
                  duration(plan.cost.read)),
      fmt::format("Nodes     up to {} help; with more, each one works less than {:.0f} % of its time",
                  plan.suggested, 100 * ShardPlanner::least_efficiency)};
  std::vector<PageBlock> blocks;
  for (std::string& line : lines) blocks.emplace_back(TextLine{"", std::move(line)});
  return blocks;
}

}  // namespace

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
