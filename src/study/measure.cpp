#include "study/measure.hpp"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "forward/block.hpp"

namespace attnctl {

StudyBlock::StudyBlock(const Model& the_model, const CorpusBlock& the_corpus, const StudyShape& the_shape)
    : model(the_model), corpus(the_corpus), shape(the_shape) {
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
  static const std::array rows = {metrics_measure(),     positional_measure(), special_measure(),
                                  repeats_measure(),     rare_measure(),       distance_measure(),
                                  pairs_measure(),       rollout_measure(),    syntax_measure(),
                                  coreference_measure(), probe_measure(),      roles_measure()};
  return rows;
}

Measures make_measures(const std::vector<const MeasureRow*>& rows, const StudyShape& shape) {
  Measures measures;
  for (const MeasureRow* const row : rows) measures.push_back(row->make(shape));
  return measures;
}

std::vector<const MeasureRow*> parse_measures(std::string_view list) {
  const std::span<const MeasureRow> catalogue = measure_catalogue();
  std::vector<std::string_view> names;
  for (const MeasureRow& row : catalogue) names.push_back(row.name);
  const std::vector<std::string_view> wanted = list.empty() ? names : split(list, ',');
  for (const std::string_view name : wanted) {
    if (std::ranges::find(names, name) == names.end())
      fail(Status::usage, "--measures: unsupported \"{}\"; known: {}", escaped(name), fmt::join(names, ", "));
  }
  std::vector<const MeasureRow*> rows;
  for (const MeasureRow& row : catalogue) {
    if (std::ranges::find(wanted, row.name) != wanted.end()) rows.push_back(&row);
  }
  return rows;
}

std::vector<const MeasureRow*> within_limit(const std::vector<const MeasureRow*>& rows, std::size_t heads,
                                            Warnings& warnings) {
  std::vector<const MeasureRow*> kept;
  for (const MeasureRow* const row : rows) {
    if (row->max_heads == 0 || heads <= row->max_heads) {
      kept.push_back(row);
    } else {
      warnings.add("measure_left_out",
                   fmt::format("{}: got {} heads, at most {} are supported; select fewer with --heads or "
                               "--layers",
                               row->name, heads, row->max_heads));
    }
  }
  return kept;
}

}  // namespace attnctl
