#include "study/measure.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "analysis/head_axes.hpp"
#include "base/error.hpp"
#include "forward/block.hpp"
#include "study/measures/measures.hpp"

namespace attnctl {
namespace {

constexpr std::array kCatalogue = {
    MeasureRow{"metrics", "the metrics of analyze: entropy, confidence, distance, previous token, ...", 1,
               make_metrics_measure, metrics_metrics},
    MeasureRow{"positional", "weight and largest weights at each offset of key and query, -8 to 8", 1,
               make_positional_measure, positional_metrics},
    MeasureRow{"special", "weight on each special token, and on position 0", 1, make_special_measure,
               special_metrics},
    MeasureRow{.name = "repeats",
               .description = "weight on the previous token, on duplicates, and behind them (induction)",
               .version = 1,
               .make = make_repeats_measure,
               .metrics = repeats_metrics,
               .of_order = true},
    MeasureRow{.name = "rare",
               .description = "weight on the rarest token of the sentence, by frequency in the corpus",
               .version = 1,
               .make = make_rare_measure,
               .metrics = rare_metrics,
               .gives_evidence = true,
               .of_order = true,
               .needs_frequencies = true},
    MeasureRow{"distance", "weight by the distance of key and query, in bins that double", 1,
               make_distance_measure, distance_metrics},
    MeasureRow{"pairs", "how alike any two heads are: Jensen-Shannon divergence, cosine, CKA of outputs", 1,
               make_pairs_measure, pairs_metrics, false, false, kMostPairedHeads},
    MeasureRow{"rollout", "what reaches special tokens through all layers up to each", 1,
               make_rollout_measure, rollout_metrics},
    MeasureRow{.name = "syntax",
               .description = "of a treebank: relations that heads follow, trees",
               .version = 1,
               .make = make_syntax_measure,
               .metrics = syntax_metrics,
               .gives_evidence = true,
               .of_order = true},
    MeasureRow{.name = "coreference",
               .description = "of a corpus with mentions: heads that lead to antecedents",
               .version = 1,
               .make = make_coreference_measure,
               .metrics = coreference_metrics,
               .gives_evidence = true,
               .of_order = true},
    MeasureRow{"probe", "random tokens said twice: induction, duplicate and previous token, with a control",
               1, make_probe_measure, probe_metrics, true, true},
    MeasureRow{"roles", "what each head is, by what these measures found, with evidence and null", 1,
               make_roles_measure, roles_metrics, false, true},
};

}  // namespace

std::vector<std::string> StudyShape::head_columns() {
  return {"component", "layer", "head"};
}

std::vector<Cell> StudyShape::head_cells(std::size_t head) const {
  const StudyHead& of = heads.at(head);
  return {of.component, static_cast<std::int64_t>(of.layer), static_cast<std::int64_t>(of.id.head)};
}

TextTable StudyShape::grid(std::string title, const std::vector<Cell>& cells) const {
  std::set<std::size_t> numbers;
  for (const StudyHead& head : heads) numbers.insert(head.id.head);
  std::vector<std::string> columns = {"layer"};
  for (const std::size_t number : numbers) columns.push_back(std::to_string(number));
  std::vector<std::vector<Cell>> rows;
  for (std::size_t h = 0; h < heads.size(); ++h) {
    if (h == 0 || heads[h].id.layer != heads[h - 1].id.layer) {
      const std::string& name = heads[h].name;
      rows.emplace_back(columns.size());
      rows.back().front() = name.substr(0, name.rfind('.'));
    }
    const auto place = std::distance(numbers.begin(), numbers.find(heads[h].id.head));
    rows.back()[1 + static_cast<std::size_t>(place)] = cells.at(h);
  }
  return {std::move(title), make_table("grid", std::move(columns), std::move(rows))};
}

StudyShape shape_of(const Selection& selection, const ModelConfig& config, std::uint64_t seed) {
  StudyShape shape{.heads = {}, .seed = seed};
  for (const HeadId id : selection.heads) {
    shape.heads.push_back({id, head_name(config, id), component_cell(config, id.layer),
                           config.layers.at(id.layer).number, kv_head_of(config, id)});
  }
  return shape;
}

StudyBlock::StudyBlock(const Model& the_model, const Vocabulary& the_vocabulary,
                       const CorpusBlock& the_corpus, const StudyShape& the_shape)
    : model(the_model), vocabulary(the_vocabulary), corpus(the_corpus), shape(the_shape) {
  const std::vector<Sequence>& sequences = corpus.batch.sequences;
  for (const Sequence& sequence : sequences) marks_.push_back(marks_of({sequence, sequence}));
  std::vector<const AttentionConfig*> rules;
  for (const StudyHead& head : shape.heads) {
    if (rule_of_layer_.contains(head.id.layer)) continue;
    const AttentionConfig& config = model.config().layers.at(head.id.layer).attention;
    const auto same = std::ranges::find_if(rules, [&](const AttentionConfig* rule) {
      return rule->kind == config.kind && rule->causal == config.causal;
    });
    rule_of_layer_[head.id.layer] = static_cast<std::size_t>(same - rules.begin());
    if (same != rules.end()) continue;
    rules.push_back(&config);
    std::vector<VisibleKeys>& visible = visible_.emplace_back();
    for (const Sequence& sequence : sequences) visible.emplace_back(config, sequence);
  }
}

std::span<const MeasureRow> measure_catalogue() {
  return kCatalogue;
}

std::vector<const MeasureRow*> parse_measures(std::string_view list) {
  std::vector<const MeasureRow*> rows;
  if (list.empty()) {
    for (const MeasureRow& row : kCatalogue) rows.push_back(&row);
    return rows;
  }
  for (const std::string_view word : split(list, ',')) {
    const auto* const row = std::ranges::find(kCatalogue, word, &MeasureRow::name);
    if (row == kCatalogue.end()) {
      std::string names;
      for (const MeasureRow& each : kCatalogue) names += (names.empty() ? "" : ", ") + std::string(each.name);
      fail(Status::usage, "--measures: unsupported \"{}\"; known: {}", escaped(word), names);
    }
    rows.push_back(row);
  }
  std::ranges::sort(rows);  // the pointers point into one array
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

std::vector<const MeasureRow*> within_limit(const std::vector<const MeasureRow*>& rows, std::size_t heads,
                                            Warnings& warnings) {
  std::vector<const MeasureRow*> kept;
  for (const MeasureRow* const row : rows) {
    if (row->most_heads == 0 || heads <= row->most_heads) {
      kept.push_back(row);
    } else {
      warnings.add("measure_left_out",
                   fmt::format("{}: got {} heads, it takes {} at most; choose some with --heads or --layers",
                               row->name, heads, row->most_heads));
    }
  }
  return kept;
}

}  // namespace attnctl
