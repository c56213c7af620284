#include "cli/commands/plan_document.hpp"

#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "study/results.hpp"

namespace attnctl::cli {
namespace {

/// To so many digits: what is behind them is noise.
double rounded(double value) {
  if (value == 0) return 0;
  constexpr double digits = 4;
  const double scale = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

Cell seconds_cell(double value) {
  return rounded(value);
}

double blocks_per_worker(const PlanResults& plan, std::size_t nodes) {
  return static_cast<double>(plan.survey.blocks.size()) / static_cast<double>(nodes * plan.memory.workers);
}

Table shards_table(const PlanResults& plan) {
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

Table choices_table(const PlanResults& plan) {
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

Table trials_table(const PlanResults& plan) {
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

Record corpus_record(const PlanResults& plan) {
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

Record cost_record(const PlanResults& plan) {
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

Record summary_record(const PlanResults& plan) {
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

std::string head_text(const PlanResults& plan) {
  const CorpusCounts& counts = plan.survey.counts;
  const NodeMemory& memory = plan.memory;
  std::string text = fmt::format("{} sentences, {} tokens in {} blocks\n", counts.sentences, counts.tokens,
                                 plan.survey.blocks.size());
  text += fmt::format("Time      {} for the slowest of {} nodes of {} threads; {} of processor time in all\n",
                      duration(plan.chosen.seconds), plan.nodes, memory.workers,
                      duration(plan.chosen.cpu_seconds));
  text += fmt::format("Memory    {} a node: {} for the program, {} of weights, {} a thread\n",
                      mebibytes(memory.node()), mebibytes(memory.process), mebibytes(memory.weights),
                      mebibytes(memory.worker));
  text += fmt::format(
      "Cost      {:.3g} ms a token, {:.3g} ns a pair of tokens, from {} trials (within {:.0f} %)\n",
      1e3 * plan.cost.law.token, 1e9 * plan.cost.law.pair, plan.trials.size(), 100 * plan.cost.law.deviation);
  text += fmt::format("Each node {} to start, {} to read the corpus\n", duration(plan.cost.start),
                      duration(plan.cost.read));
  text += fmt::format("Nodes     up to {} help: with more, each does less than {:.0f} % for its time\n",
                      plan.suggested, 100 * ShardPlanner::least_efficiency);
  return text;
}

}  // namespace

Document plan_document(const PlanResults& plan, const Session& session) {
  Document document;
  document.head.set("schema", "attnctl.plan/1")
      .set("attnctl", tool_record(session))
      .set("model", plan.model)
      .set("corpus", corpus_record(plan))
      .set("settings", plan.settings)
      .set("summary", summary_record(plan))
      .set("memory", memory_record(plan.memory))
      .set("cost", cost_record(plan));
  document.sections.push_back({"shards", "shard", shards_table(plan)});
  document.sections.push_back({"choices", "choice", choices_table(plan)});
  document.sections.push_back({"trials", "trial", trials_table(plan)});
  document.sections.push_back(warnings_section(session.warnings));
  return document;
}

Table plan_table(const PlanResults& plan, const std::string& name) {
  if (name == "shards") return shards_table(plan);
  if (name == "choices") return choices_table(plan);
  if (name == "trials") return trials_table(plan);
  fail(Status::usage, "--table: unsupported \"{}\"; there are shards, choices, trials", escaped(name));
}

std::string plan_text(const PlanResults& plan, const TextOptions& style) {
  std::string text = head_text(plan);
  const auto add = [&](const char* title, const Table& table) {
    text += "\n" + strong(title, style) + "\n";
    append_text_table(text, table, style);
  };
  add("Shards", shards_table(plan));
  add("Numbers of nodes", choices_table(plan));
  add("Trials, and what the law says of them", trials_table(plan));
  return text;
}

}  // namespace attnctl::cli
