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
#include "report/text/table.hpp"
#include "report/text/text.hpp"

namespace attnctl::cli {
namespace {

Cell or_undefined(const std::optional<double>& value) {
  return value ? Cell(static_cast<float>(*value)) : Cell();
}

std::string table_text(const Table& table, TextOptions style, std::optional<int> digits) {
  std::string text;
  style.digits = digits;
  append_text_table(text, table, style);
  return text;
}

std::string heading(const std::string& text, const TextOptions& style) {
  return "\n" + strong(text, style) + "\n";
}

std::string title(const Results& results, const TextOptions& style) {
  const ModelConfig& config = results.model.config();
  const AttentionConfig& attention = config.layers.front().attention;
  const std::string shared =
      attention.kv_heads == attention.heads ? "" : fmt::format(" ({} key/value)", attention.kv_heads);
  const std::size_t stacked = config.layers_of(config.layers.front().component);
  const std::string layers =
      config.decoder ? fmt::format("{} + {} layers", stacked, config.layers_of(Component::decoder))
                     : fmt::format("{} layer{}", stacked, stacked == 1 ? "" : "s");
  return fmt::format("{}: {}, {} x {} heads{}, d_model {}, d_head {}, {} parameters\n",
                     strong(escaped(results.model.name()), style), config.family, layers, attention.heads,
                     shared, config.d_model, attention.d_head, results.model.parameters());
}

/// How many inputs and tokens, then each input's tokens on a line.
std::string inputs_lines(const Results& results, const TextOptions& style) {
  constexpr std::size_t most_inputs = 20;
  constexpr std::size_t most_tokens = 64;
  const std::vector<Sequence>& sequences = results.batch.sequences;
  if (sequences.empty()) return {};
  std::size_t tokens = 0;
  for (const Sequence& sequence : sequences) tokens += sequence.queries();
  std::string text = fmt::format("{} input{}, {} {}\n", sequences.size(), sequences.size() == 1 ? "" : "s",
                                 tokens, sequences.front().units > 0 ? "words" : "tokens");
  for (std::size_t s = 0; s < std::min(sequences.size(), most_inputs); ++s) {
    const Sequence& sequence = sequences[s];
    const auto add = [&](const Sequence& side, const std::string& name) {
      if (side.tokens.empty()) return;
      text += strong(escaped(name) + ":", style);
      for (std::size_t i = 0; i < std::min(side.tokens.size(), most_tokens); ++i) {
        text += ' ' + escaped(results.vocabulary.plain(side.tokens[i]));
      }
      if (side.tokens.size() > most_tokens) text += fmt::format(" ... ({} tokens)", side.tokens.size());
      text += '\n';
    };
    add(sequence, sequence.id);
    if (sequence.target) add(*sequence.target, sequence.id + " target");
  }
  if (sequences.size() > most_inputs)
    text += fmt::format("... and {} more\n", sequences.size() - most_inputs);
  return text;
}

/// A number, or "enc.0" of a model with components.
Cell layer_cell(const ModelConfig& config, std::size_t layer) {
  if (config.decoder) return layer_name(config, layer);
  return static_cast<std::int64_t>(layer);
}

/// Rows of layers, a column a head.
std::string effective_ranks(const CircuitAnalysis& circuit, const ModelConfig& config,
                            const std::string& name, const TextOptions& style) {
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
  return heading(fmt::format("Effective ranks of {} (1 to {})", name, most), style) +
         table_text(make_table("", std::move(columns), std::move(list)), style, 1);
}

std::string similarities(const WeightsAnalysis& weights, const ModelConfig& config,
                         const TextOptions& style) {
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
  return heading("Average pairwise similarity of heads (-1 to 1; mean and mean absolute value)", style) +
         table_text(make_table("", {"layer", "QK", "|QK|", "OV", "|OV|"}, std::move(rows)), style, 4);
}

/// All heads of a question: the strongest keys as words, then a column for each named one.
std::string answers(const Results& results, std::size_t number, const TextOptions& style) {
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
  const std::string about =
      fmt::format("What \"{}\" looks at (input \"{}\", position {})", escaped(question.from),
                  escaped(sequence.id), question.positions.from.front());
  return heading(about, style) + table_text(make_table("", std::move(columns), std::move(rows)), style, 3);
}

/// Whole patterns, a matrix a head: for short inputs.
std::string patterns(const Results& results, const OutputOptions& options, TextOptions style) {
  style.digits = options.digits;
  std::string text;
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
      const char* what = results.weighting == Weighting::weights ? "Pattern" : "Norm-based weights";
      text += heading(fmt::format("{} of {} (input \"{}\")", what, head_name(results.config(), heads[i]),
                                  escaped(results.batch.sequences[array.sequence].id)),
                      style);
      append_text_matrix(text,
                         {.corner = "query",
                          .row_labels = labels_of(sides.queries_of.tokens),
                          .column_labels = labels_of(sides.key_tokens()),
                          .values = item_of(array.array, i, 2)},
                         style);
    }
  }
  return text;
}

/// The columns of the heads table that are computed and that a person compares at a glance.
std::string heads(const Results& results, const OutputOptions& options, const TextOptions& style) {
  const Table all = results.heads(HeadColumns::named);
  std::vector<std::string> columns = {"head"};
  if (std::find(all.columns.begin(), all.columns.end(), "input") != all.columns.end())
    columns.insert(columns.begin(), "input");
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
  return heading("Heads", style) +
         table_text(select_columns(select_rows(all, rows), columns), style, options.digits);
}

}  // namespace

std::string summary_text(const Results& results, const OutputOptions& options, const TextOptions& style) {
  std::string text = title(results, style) + inputs_lines(results, style);
  if (results.weights) {
    text += effective_ranks(results.weights->qk, results.config(), "QK", style);
    if (results.weights->ov) text += effective_ranks(*results.weights->ov, results.config(), "OV", style);
    text += similarities(*results.weights, results.config(), style);
  }
  for (std::size_t i = 0; i < results.questions.size(); ++i) text += answers(results, i, style);
  if (results.show) {
    text += drawn_text(results, style);
  } else if (results.includes.patterns) {
    text += patterns(results, options, style);
  }
  if (results.has_heads()) text += heads(results, options, style);
  for (const PartResults& part : results.parts) {
    for (const TextTable& each : part.text) {
      text += heading(each.title, style) +
              table_text(each.table, style, options.digits ? options.digits : each.digits);
    }
  }
  return text;
}

}  // namespace attnctl::cli
