#include "study/measure.hpp"

#include <set>

#include <fmt/format.h>

#include "base/error.hpp"
#include "forward/block.hpp"
#include "study/plan.hpp"

namespace attnctl::study {
namespace {

/// The columns that several tables have, and the columns of the list of the strongest heads.
constexpr auto kStudyDefinitions = std::to_array<Definition>({
    {"rows", "", "from 0", "", "number of rows (queries) that were counted"},
    {"rows_without", "", "from 0", "", "number of rows left out, because they may not attend to such a key"},
    {"count", "", "from 0", "", "number of rows (queries) with a value"},
    {"variance", "", "from 0", "", "mean squared difference of the values of rows from their mean"},
    {"uniform", "", "[0, 1]", "", "the value for uniform attention over the visible keys"},
    {"shuffled", "", "[0, 1]", "", "the same value with shuffled tokens (--null-shuffle)"},
    {"low", "", "[0, 1]", "", "lower end of the 95 % interval of score (docs/roles.md)"},
    {"high", "", "[0, 1]", "", "upper end of the 95 % interval of score (docs/roles.md)"},
    {"interval_low", "", "[0, 1]", "", "lower end of the 95 % interval of accuracy (docs/roles.md)"},
    {"interval_high", "", "[0, 1]", "", "upper end of the 95 % interval of accuracy (docs/roles.md)"},
    {"kind", "", "", "",
     "the measured key: previous token, duplicate of the query's token, or token after it (induction)"},
    {"best", "", "true or false", "", "whether this head has the highest accuracy in even blocks"},
    {"held_out", "", "", "", "the value over odd blocks, which were not used to choose the best head"},
    {"shuffled_held_out", "", "[0, 1]", "", "accuracy_held_out with shuffled tokens (--null-shuffle)"},
    {"what", "", "", "", "the measured keys: a special token, position 0, previous, duplicate, ..."},
    {"value", "", "[0, 1]", "", "share of the weight on these keys"},
    {"null", "", "", "", "value or score without the behaviour, for example of uniform attention"},
});

/// The columns of the tables of `attnctl compare`.
constexpr auto kComparisonDefinitions = std::to_array<Definition>({
    {"differences.table", "", "", "", "the table of both studies that has the number"},
    {"differences.key", "", "", "",
     "the other cells that identify the row in this table, such as nsubj to_head or offset -1"},
    {"differences.column", "", "", "", "the column of this table"},
    {"differences.a", "", "", "", "the number in the first study"},
    {"differences.b", "", "", "", "the number in the second study"},
    {"difference", "", "", "0", "b - a"},
    {"differences.low", "", "", "",
     "lower end of the 95 % interval of the difference, from the intervals of both studies as if these were "
     "independent, which makes it too wide if both have the same sentences",
     "Zou and Donner 2008"},
    {"differences.high", "", "", "", "upper end of the 95 % interval of the difference, as low"},
    {"differences.clear", "", "", "",
     "true: the interval of confidence 1 - 0.05 / m, where m is the number of differences with an interval, "
     "does not contain 0",
     "Bonferroni"},
    {"roles.score", "", "", "", "score of the head in the study in which it has the role"},
    {"roles.low", "", "", "", "lower end of the 95 % interval of this score"},
    {"roles.high", "", "", "", "upper end of the 95 % interval of this score"},
    {"change", "", "gained or lost", "",
     "gained: the head has the role only in the second study; lost: only in the first study"},
});

}  // namespace

HeadGrid::HeadGrid(const StudyShape& shape) {
  std::set<std::size_t> indices;
  for (const StudyHead& head : shape.heads) indices.insert(head.id.head);
  for (const std::size_t index : indices) columns.push_back(std::to_string(index));
  for (std::size_t h = 0; h < shape.heads.size(); ++h) {
    const StudyHead& head = shape.heads[h];
    if (h == 0 || head.id.layer != shape.heads[h - 1].id.layer)
      layers.push_back(head.name.substr(0, head.name.rfind('.')));
    const auto column = static_cast<std::size_t>(std::distance(indices.begin(), indices.find(head.id.head)));
    cells.push_back((layers.size() - 1) * columns.size() + column);
  }
}

TextTable head_grid(const StudyShape& shape, const std::string& title, const std::vector<Cell>& cells) {
  const HeadGrid grid(shape);
  const std::size_t width = grid.columns.size();
  std::vector<Column> columns = {"layer"};
  columns.insert(columns.end(), grid.columns.begin(), grid.columns.end());
  std::vector<std::vector<Cell>> rows;
  for (const std::string& layer : grid.layers) rows.emplace_back(1 + width).front() = layer;
  for (std::size_t h = 0; h < grid.cells.size(); ++h)
    rows[grid.cells[h] / width][1 + grid.cells[h] % width] = cells.at(h);
  return {title + " by layer and head", make_table("grid", std::move(columns), std::move(rows)), {}, true};
}

Cell score_text(const std::optional<double>& share, const std::optional<ShareEstimate>& estimate) {
  if (!share) return {};
  if (!estimate) return fmt::format("{:.3f}", *share);
  const ConfidenceInterval interval = estimate->interval();
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", *share, interval.low, interval.high);
}

void StudyResults::append(StudyResults&& other) {
  const auto move = [](auto& from, auto& to) { std::ranges::move(from, std::back_inserter(to)); };
  move(other.evidence, evidence);
  move(other.head_columns, head_columns);
  head_rows.resize(std::max(head_rows.size(), other.head_rows.size()));
  for (std::size_t h = 0; h < other.head_rows.size(); ++h) move(other.head_rows[h], head_rows[h]);
  move(other.strongest, strongest);
  if (!other.ablated.empty()) ablated = std::move(other.ablated);
  if (!other.first_weights.empty()) first_weights = std::move(other.first_weights);
  move(other.summary.fields, summary.fields);
  Results::append(std::move(other));
}

StudyBlock::StudyBlock(const model::Model& the_model, const CorpusBlock& the_corpus,
                       const StudyShape& the_shape)
    : model(the_model), corpus(the_corpus), shape(the_shape) {
  const std::vector<input::Sequence>& sequences = corpus.batch.sequences;
  for (const input::Sequence& sequence : sequences)
    marks_.push_back(analysis::marks_of({sequence, sequence}));
  std::map<std::tuple<model::AttentionKind::Rule, std::size_t, bool>, std::size_t> rules;
  for (const StudyHead& head : shape.heads) {
    const model::AttentionConfig& config = model.config().layers.at(head.id.layer).attention;
    const auto [rule, added] =
        rules.try_emplace({config.kind.rule, config.kind.size, config.causal}, rules.size());
    rule_of_layer_[head.id.layer] = rule->second;
    if (!added) continue;
    for (const input::Sequence& sequence : sequences) visible_.emplace_back(config, sequence);
  }
}

PositionsOf special_positions(const input::Sequence& sequence, std::size_t first, TokenNames& names) {
  PositionsOf positions;
  for (std::size_t i = first; i < sequence.ids.size(); ++i) {
    if (sequence.special[i] == 0) continue;
    positions[sequence.ids[i]].push_back(i);
    names.add(sequence, i);
  }
  return positions;
}

std::span<const MeasureRow> measure_catalogue() {
  static const std::array rows = {metrics_measure(), positional_measure(),  special_measure(),
                                  repeats_measure(), rare_measure(),        distance_measure(),
                                  pairs_measure(),   rollout_measure(),     residual_measure(),
                                  syntax_measure(),  coreference_measure(), probe_measure(),
                                  roles_measure(),   ablation_measure(),    probe_ablation_measure()};
  return rows;
}

std::vector<NamedDefinitions> definitions() {
  std::vector<NamedDefinitions> all = {{"study", kStudyDefinitions}, {"plan", kPlanDefinitions}};
  for (const MeasureRow& row : measure_catalogue()) all.push_back({row.name, row.definitions});
  all.push_back({"compare", kComparisonDefinitions});
  return all;
}

const Definition* definition_of(std::string name) {
  std::vector<NamedDefinitions> all = definitions();
  all.push_back({"", key_definitions()});
  while (true) {
    for (const NamedDefinitions& each : all) {
      const auto found = std::ranges::find(each.definitions, name, &Definition::name);
      if (found != each.definitions.end()) return &*found;
    }
    const std::size_t end = name.find_first_of("._");
    if (end == std::string::npos) return nullptr;
    name.erase(0, end + 1);
  }
}

Table with_definitions(Table table) {
  for (Column& column : table.columns)
    if (const Definition* const found = definition_of(table.name + "." + column.name))
      column.definition = found;
  return table;
}

void add_table(Results& results, const std::string& record, std::string name, std::vector<Column> columns,
               std::vector<std::vector<Cell>> rows) {
  results.add_table(record,
                    with_definitions(make_table(std::move(name), std::move(columns), std::move(rows))));
}

Measures make_measures(const std::vector<const MeasureRow*>& rows, const StudyShape& shape) {
  Measures measures;
  for (const MeasureRow* const row : rows) {
    if (row->max_heads > 0 && shape.heads.size() > row->max_heads) {
      fail(Status::limit,
           "--measures {}: got {} heads, the limit is {}; select fewer with --heads or --layers", row->name,
           shape.heads.size(), row->max_heads);
    }
    measures.push_back(row->make(shape));
  }
  return measures;
}

std::vector<const MeasureRow*> parse_measures(std::string_view list) {
  const std::span<const MeasureRow> catalogue = measure_catalogue();
  std::vector<std::string_view> wanted;  // empty: all
  if (!list.empty()) wanted = split(list, ',');
  for (const std::string_view name : wanted) {
    if (std::ranges::count(catalogue, name, &MeasureRow::name) == 0)
      fail(Status::usage, "--measures: unsupported \"{}\"{}; known: {}", escaped(name),
           did_you_mean(name, catalogue, &MeasureRow::name), join_texts(catalogue, &MeasureRow::name));
  }
  std::vector<const MeasureRow*> rows;
  for (const MeasureRow& row : catalogue) {
    if (wanted.empty() ? !row.on_request : std::ranges::count(wanted, row.name) > 0) rows.push_back(&row);
  }
  return rows;
}

std::vector<const MeasureRow*> within_limit(std::vector<const MeasureRow*> rows, std::size_t heads,
                                            Warnings& warnings) {
  std::erase_if(rows, [&](const MeasureRow* row) {
    if (row->max_heads == 0 || heads <= row->max_heads) return false;
    warnings.add(
        "measure_left_out",
        fmt::format("skipped the measure {}: it supports at most {} heads, but {} are selected; select "
                    "fewer with --heads or --layers",
                    row->name, row->max_heads, heads));
    return true;
  });
  return rows;
}

}  // namespace attnctl::study
