#include "cli/analyses/summary.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "cli/analyses/shapes.hpp"
#include "cli/analyses/show.hpp"
#include "results/results.hpp"

namespace attnctl::cli {
namespace {

Cell or_undefined(const std::optional<double>& value) {
  return value ? Cell(static_cast<float>(*value)) : Cell();
}

using Blocks = std::vector<PageBlock>;

TextLine title(const RunResults& results) {
  const ModelConfig& config = results.model.config();
  const AttentionConfig& attention = config.layers.front().attention;
  const std::string shared =
      attention.kv_heads == attention.heads ? "" : fmt::format(" ({} key/value)", attention.kv_heads);
  const std::size_t stacked = config.layers_of(config.layers.front().component);
  const std::string layers =
      config.decoder ? fmt::format("{} + {} layers", stacked, config.layers_of(Component::decoder))
                     : fmt::format("{} layer{}", stacked, stacked == 1 ? "" : "s");
  return {results.model.source().given,
          fmt::format(": {}, {} x {} heads{}, d_model {}, d_head {}, {} parameters", config.family, layers,
                      attention.heads, shared, config.d_model, attention.d_head, results.model.parameters())};
}

/// Appends the numbers of inputs and tokens, and one line with the tokens of each input.
void append_inputs(Blocks& blocks, const RunResults& results) {
  constexpr std::size_t most_inputs = 20;
  constexpr std::size_t most_tokens = 64;
  const std::vector<Sequence>& sequences = results.batch.sequences;
  if (sequences.empty()) return;
  std::size_t tokens = 0;
  for (const Sequence& sequence : sequences) tokens += sequence.queries();
  const auto add = [&](const Sequence& side, const std::string& name) {
    if (side.tokens.empty()) return;
    TextLine line{name + ":"};
    for (std::size_t i = 0; i < std::min(side.tokens.size(), most_tokens); ++i)
      line.plain += ' ' + results.vocabulary.plain(side.tokens[i]);
    if (side.tokens.size() > most_tokens) line.plain += fmt::format(" ... ({} tokens)", side.tokens.size());
    blocks.emplace_back(std::move(line));
  };
  blocks.emplace_back(
      TextLine{"", fmt::format("{} input{}, {} {}", sequences.size(), sequences.size() == 1 ? "" : "s",
                               tokens, sequences.front().units > 0 ? "words" : "tokens")});
  for (std::size_t s = 0; s < std::min(sequences.size(), most_inputs); ++s) {
    add(sequences[s], sequences[s].id);
    if (sequences[s].target) add(*sequences[s].target, sequences[s].id + " target");
  }
  if (sequences.size() > most_inputs)
    blocks.emplace_back(TextLine{"", fmt::format("... and {} more", sequences.size() - most_inputs)});
}

/// Returns the number of a layer, or "enc.0" for a model with components.
Cell layer_cell(const ModelConfig& config, std::size_t layer) {
  if (config.decoder) return layer_name(config, layer);
  return static_cast<std::int64_t>(layer);
}

/// Returns a table with one row per layer and one column per head.
TextTable effective_ranks(const CircuitAnalysis& circuit, const ModelConfig& config,
                          const std::string& name) {
  std::set<std::size_t> numbers;
  for (const HeadSpectrum& head : circuit.heads) numbers.insert(head.head.head);
  std::vector<std::string> columns = {"layer"};
  std::map<std::size_t, std::size_t> place;
  for (const std::size_t number : numbers) {
    place[number] = columns.size();
    columns.push_back("head " + std::to_string(number));
  }
  std::map<std::size_t, std::vector<Cell>> rows;
  std::size_t most = 0;
  for (const HeadSpectrum& head : circuit.heads) {
    std::vector<Cell>& row = rows[head.head.layer];
    row.resize(columns.size());
    row[0] = layer_cell(config, head.head.layer);
    row[place[head.head.head]] = or_undefined(head.effective_rank);
    most = std::max(most, head.singular_values.size());
  }
  std::vector<std::vector<Cell>> list;
  list.reserve(rows.size());
  for (auto& [layer, row] : rows) list.push_back(std::move(row));
  return {fmt::format("Effective ranks of {} (1 to {})", name, most),
          make_table("", std::move(columns), std::move(list)), 1};
}

TextTable similarities(const WeightsAnalysis& weights, const ModelConfig& config) {
  std::vector<std::vector<Cell>> rows;
  const std::vector<SubspaceSimilarity>& qk = weights.qk.similarity;
  for (std::size_t i = 0; i < qk.size(); ++i) {
    std::vector<Cell> row = {qk[i].layer ? layer_cell(config, *qk[i].layer) : Cell(std::string("all")),
                             or_undefined(qk[i].off_diagonal.mean), or_undefined(qk[i].off_diagonal.mean_abs),
                             Cell(), Cell()};
    if (weights.ov) {
      for (const SubspaceSimilarity& ov : weights.ov->similarity) {
        if (ov.layer != qk[i].layer) continue;
        row[3] = or_undefined(ov.off_diagonal.mean);
        row[4] = or_undefined(ov.off_diagonal.mean_abs);
      }
    }
    rows.push_back(std::move(row));
  }
  return {"Average pairwise similarity of heads (-1 to 1; mean and mean absolute value)",
          make_table("", {"layer", "QK", "|QK|", "OV", "|OV|"}, std::move(rows)), 4};
}

/// Returns one row per head for a question: the strongest keys as words, and one column per word of --to.
TextTable answers(const RunResults& results, std::size_t number) {
  const Question& question = results.questions[number];
  const Sequence& sequence = results.batch.sequences[question.positions.sequence];
  const Sides sides = results.sides(results.components.front().component, question.positions.sequence);
  const auto word = [&](std::size_t position) {
    const std::vector<std::string>& tokens = sides.keys_of.tokens;
    return position < tokens.size() ? results.vocabulary.plain(tokens[position]) : std::to_string(position);
  };
  std::vector<std::string> columns = {"head", "strongest keys (position:token weight)"};
  columns.insert(columns.end(), question.to.begin(), question.to.end());
  std::vector<std::vector<Cell>> rows;
  const auto add = [&](std::string head, const AttentionAnswer& answer) {
    std::string keys;
    for (const KeyWeight& key : answer.top) {
      keys += fmt::format("{}{}:{} {:.2f}", keys.empty() ? "" : "  ", key.key, word(key.key), key.weight);
    }
    std::vector<Cell> row = {std::move(head), std::move(keys)};
    for (const std::optional<float>& weight : answer.to) row.push_back(weight ? Cell(*weight) : Cell());
    rows.push_back(std::move(row));
  };
  for (auto first = results.answers.begin(); first != results.answers.end();) {
    const auto last = std::find_if(first, results.answers.end(), [&](const AttentionAnswer& answer) {
      return answer.question != first->question || answer.head.layer != first->head.layer;
    });
    if (first->question == number) {
      add(layer_name(results.config(), first->head.layer) + " mean",
          mean_of(std::span(first, last), question.positions));
      for (auto answer = first; answer != last; ++answer)
        add(head_name(results.config(), answer->head), *answer);
    }
    first = last;
  }
  return {fmt::format("What \"{}\" looks at (input \"{}\", position {})", question.from, sequence.id,
                      question.positions.from.front()),
          make_table("", std::move(columns), std::move(rows)), 3};
}

/// Appends the whole pattern of each head as a matrix, for short inputs.
void append_patterns(Blocks& blocks, const RunResults& results) {
  const char* const what = results.weighting == Weighting::weights ? "Pattern" : "Norm-based weights";
  for (const InputArray& array : results.arrays) {
    if (array.name != "pattern") continue;
    const Sides sides = results.sides(array);
    const auto labels_of = [&](std::span<const std::string> tokens) {
      std::vector<std::string> labels;
      for (const std::string& token : tokens) labels.push_back(results.vocabulary.plain(token));
      return labels;
    };
    const std::vector<HeadId>& heads = results.heads_of(array);
    for (std::size_t i = 0; i < heads.size(); ++i) {
      blocks.emplace_back(
          TextMatrices{fmt::format("{} of {} (input \"{}\")", what, head_name(results.config(), heads[i]),
                                   results.batch.sequences[array.sequence].id),
                       {{.corner = "query",
                         .row_labels = labels_of(sides.queries_of.tokens),
                         .column_labels = labels_of(sides.key_tokens()),
                         .values = item_of(array.array, i, 2)}}});
    }
  }
}

/// Returns the main columns of the heads table: pattern metrics if there are any, otherwise ranks.
TextTable heads(const RunResults& results, const OutputOptions& options) {
  const Table all = results.heads(HeadColumns::named);
  std::vector<std::string> columns = {"head"};
  if (all.find("input")) columns.insert(columns.begin(), "input");
  if (!results.pattern_metrics.empty()) {
    columns.insert(columns.end(),
                   {"entropy", "confidence", "distance", "self", "previous_token", "next_token",
                    "first_token", "special_token", "best_offset", "best_offset_share"});
  } else {
    columns.insert(columns.end(), {"qk_effective_rank", "qk_stable_rank", "qk_numerical_rank",
                                   "ov_effective_rank", "ov_stable_rank", "ov_numerical_rank"});
  }
  if (!options.sort.empty() && std::find(columns.begin(), columns.end(), options.sort) == columns.end()) {
    columns.push_back(options.sort);
  }
  RowSelection rows{.sort = {}, .ascending = false, .top = options.top};
  if (!options.sort.empty()) rows.sort = options.sort;
  return {"Heads", select_columns(select_rows(all, rows), columns)};
}

}  // namespace

std::vector<PageBlock> summary_blocks(const RunResults& results, const OutputOptions& options) {
  Blocks blocks = {title(results)};
  append_inputs(blocks, results);
  if (results.weights) {
    blocks.emplace_back(effective_ranks(results.weights->qk, results.config(), "QK"));
    if (results.weights->ov)
      blocks.emplace_back(effective_ranks(*results.weights->ov, results.config(), "OV"));
    blocks.emplace_back(similarities(*results.weights, results.config()));
  }
  for (std::size_t i = 0; i < results.questions.size(); ++i) blocks.emplace_back(answers(results, i));
  if (results.show) {
    append_drawn(blocks, results);
  } else if (results.includes.patterns) {
    append_patterns(blocks, results);
  }
  if (results.has_heads()) blocks.emplace_back(heads(results, options));
  for (const Results& part : results.parts) blocks.insert(blocks.end(), part.text.begin(), part.text.end());
  return blocks;
}

}  // namespace attnctl::cli
