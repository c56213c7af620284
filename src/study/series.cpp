#include "study/series.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "study/corpus.hpp"
#include "study/head_numbers.hpp"
#include "study/measure.hpp"

namespace attnctl::study {
namespace {

constexpr auto kSeriesDefinitions = std::to_array<Definition>({
    {"step", "", "", "",
     "step of the checkpoint: the last number in its name, or its place in the order given"},
    {"checkpoints.model", "", "", "", "path or name of the checkpoint"},
    {"table", "", "", "", "the table of the studies that has the number"},
    {"key", "", "", "",
     "the other cells that identify the row in this table, such as nsubj to_head or offset -1"},
    {"column", "", "", "", "the column of this table"},
    {"series.value", "", "", "", "the number at this step"},
    {"series.low", "", "", "", "lower end of its 95 % interval, if the table has one"},
    {"series.high", "", "", "", "upper end of its 95 % interval, if the table has one"},
    {"from_step", "", "", "", "last checkpoint before the change"},
    {"to_step", "", "", "", "first checkpoint after the change"},
    {"before", "", "", "", "mean of the values up to from_step"},
    {"after", "", "", "", "mean of the values from to_step on"},
    {"changes.difference", "", "", "0", "after - before"},
    {"explained", "", "[0, 1]", "",
     "share of the sum of squares around the mean that the two means explain; the change is the split for "
     "which it is largest",
     "Hinkley 1970"},
    {"changes.p_value", "", "[0.001, 1]", "",
     "share of 999 random orders of the values, with the given one, whose best split explains as much"},
    {"role", "", "", "", "a role that the head has at some checkpoint (docs/roles.md)"},
    {"detail", "", "", "", "what the role is about, such as an offset, a special token or a relation"},
    {"first_step", "", "", "", "first checkpoint at which the head has the role"},
    {"last_step", "", "", "", "last checkpoint at which the head has the role"},
    {"role_steps.checkpoints", "", "from 1", "", "number of checkpoints at which the head has the role"},
});

/// The values of one number of a head over the checkpoints.
struct HeadSeries {
  std::string table;
  HeadRow row;
  Column column;
  std::vector<Cell> values, low, high;  // [checkpoints]; undefined cells where a study does not have it

  [[nodiscard]] std::string name() const { return (table == "heads" ? "" : table + ".") + column.name; }
  /// The values that are numbers, and their checkpoints.
  [[nodiscard]] std::pair<std::vector<double>, std::vector<std::size_t>> numbers() const {
    std::pair<std::vector<double>, std::vector<std::size_t>> found;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!has_number(values[i])) continue;
      found.first.push_back(number_of(values[i]));
      found.second.push_back(i);
    }
    return found;
  }
};

bool is_about_heads(const Table& table) {
  return table.find("layer") && table.find("head") && table.find("name") && table.find("component");
}

std::vector<HeadSeries> collected(std::span<const SeriesCheckpoint> checkpoints) {
  constexpr auto kEnds = std::to_array<std::string_view>({"low", "high", "interval_low", "interval_high"});
  std::vector<HeadSeries> all;
  std::map<std::tuple<std::string, Cell, std::string, std::string>, std::size_t> places;
  for (std::size_t i = 0; i < checkpoints.size(); ++i) {
    for (const Table& table : checkpoints[i].study.tables) {
      if (!is_about_heads(table)) continue;
      std::vector<Cell> cells(table.columns.size());
      for (std::size_t r = 0; r < table.rows; ++r) {
        table.row(r, cells);
        const std::optional<HeadRow> row = head_row(table, cells);
        if (!row) continue;
        for (std::size_t c = 0; c < cells.size(); ++c) {
          const Column& column = table.columns[c];
          const bool real =
              std::holds_alternative<float>(cells[c]) || std::holds_alternative<double>(cells[c]);
          if (!real || !has_number(cells[c]) || is_one_of(kEnds, column.name)) continue;
          const auto [place, added] =
              places.try_emplace({table.name, row->head[3], row->key, column.name}, all.size());
          if (added) {
            const std::vector<Cell> none(checkpoints.size());
            all.push_back({table.name, *row, column, none, none, none});
          }
          HeadSeries& series = all[place->second];
          series.values[i] = cells[c];
          if (!has_interval(table.columns, c)) continue;
          series.low[i] = cells[c + 1];
          series.high[i] = cells[c + 2];
        }
      }
    }
  }
  return all;
}

/// The split with the largest explained share of the sum of squares.
struct Split {
  std::size_t first = 0;
  double explained = 0;
};
Split best_split(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double total = 0;
  for (const double value : values) total += (value - mean) * (value - mean);
  Split best;
  double sum = 0;  // of the values before the split, minus the mean
  for (std::size_t k = 1; k < values.size(); ++k) {
    sum += values[k - 1] - mean;
    const auto before = static_cast<double>(k);
    const double explained = sum * sum * n / (before * (n - before)) / total;
    if (explained > best.explained) best = {k, explained};
  }
  return best;
}

std::vector<Column> columns_with(std::vector<Column> columns, std::string_view table,
                                 std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const auto own =
        std::ranges::find(kSeriesDefinitions, fmt::format("{}.{}", table, name), &Definition::name);
    const auto shared = std::ranges::find(kSeriesDefinitions, std::string_view(name), &Definition::name);
    if (own != kSeriesDefinitions.end())
      columns.emplace_back(name, *own);
    else if (shared != kSeriesDefinitions.end())
      columns.emplace_back(*shared);
    else
      columns.emplace_back(name);
  }
  return columns;
}

Table series_table(std::span<const SeriesCheckpoint> checkpoints, std::vector<HeadSeries> all) {
  const auto shared = std::make_shared<const std::vector<HeadSeries>>(std::move(all));
  std::vector<Cell> steps;
  for (const SeriesCheckpoint& checkpoint : checkpoints) steps.emplace_back(checkpoint.step);
  const auto fill = [shared, steps](std::size_t index, std::span<Cell> cells) {
    const HeadSeries& series = (*shared)[index / steps.size()];
    const std::size_t i = index % steps.size();
    const std::vector<Cell> row = row_of(steps[i], series.table, series.row.head, text_cell(series.row.key),
                                         series.column.name, series.values[i], series.low[i], series.high[i]);
    std::ranges::copy(row, cells.begin());
  };
  return {"series",
          columns_with({}, "series",
                       {"step", "table", "component", "layer", "head", "name", "key", "column", "value",
                        "low", "high"}),
          shared->size() * steps.size(), fill};
}

/// The change of one series, and where it is from.
struct FoundChange {
  const HeadSeries* series = nullptr;
  std::int64_t from = 0, to = 0;  // steps
  ChangePoint point;

  [[nodiscard]] double difference() const { return point.after - point.before; }
};

std::vector<FoundChange> changes_of(std::span<const SeriesCheckpoint> checkpoints,
                                    const std::vector<HeadSeries>& all, std::uint64_t seed) {
  std::vector<FoundChange> changes;
  for (const HeadSeries& series : all) {
    const auto [values, places] = series.numbers();
    const auto point = change_point(values, seed);
    if (!point) continue;
    changes.push_back({&series, checkpoints[places[point->first - 1]].step,
                       checkpoints[places[point->first]].step, *point});
  }
  return changes;
}

Table changes_table(const std::vector<FoundChange>& changes) {
  std::vector<std::vector<Cell>> rows;
  for (const FoundChange& change : changes) {
    const HeadSeries& of = *change.series;
    rows.push_back(row_of(of.table, of.row.head, text_cell(of.row.key), of.column.name, Cell(change.from),
                          Cell(change.to), real_cell(change.point.before), real_cell(change.point.after),
                          real_cell(change.difference()), real_cell(change.point.explained),
                          real_cell(change.point.p_value)));
  }
  std::vector<Column> columns =
      columns_with({}, "series", {"table", "component", "layer", "head", "name", "key", "column"});
  return make_table(
      "changes",
      columns_with(std::move(columns), "changes",
                   {"from_step", "to_step", "before", "after", "difference", "explained", "p_value"}),
      std::move(rows));
}

/// The tables that text leaves out.
constexpr auto kNotShown = std::to_array<std::string_view>({"distributions", "distance", "roles"});

/// The largest changes of each metric of the table `heads`, and of the first column of each other table.
Table largest_changes(const std::vector<FoundChange>& changes, std::size_t top) {
  std::map<std::string, std::string> first_columns;  // by table
  std::map<std::string, std::vector<const FoundChange*>> by_column;
  std::vector<std::string> order;
  for (const FoundChange& change : changes) {
    const HeadSeries& of = *change.series;
    const Definition* const about = of.column.definition;
    if (about == nullptr || !about->name.ends_with(of.column.name) || is_one_of(kNotShown, of.table))
      continue;
    const auto first = first_columns.try_emplace(of.table, of.column.name).first;
    if (of.table != "heads" && first->second != of.column.name) continue;
    std::vector<const FoundChange*>& list = by_column[of.name()];
    if (list.empty()) order.push_back(of.name());
    list.push_back(&change);
  }
  std::vector<std::vector<Cell>> rows;
  for (const std::string& column : order) {
    std::vector<const FoundChange*>& list = by_column[column];
    std::ranges::stable_sort(list, std::ranges::greater(),
                             [](const FoundChange* change) { return std::abs(change->difference()); });
    for (std::size_t i = 0; i < std::min(top, list.size()); ++i) {
      const FoundChange& change = *list[i];
      rows.push_back({column, text_cell(change.series->row.key), change.series->row.head[3],
                      Cell(change.from), Cell(change.to), real_cell(change.point.before),
                      real_cell(change.point.after), real_cell(change.point.explained),
                      real_cell(change.point.p_value)});
    }
  }
  return make_table("largest", {"column", "key", "head", "from", "to", "before", "after", "explained", "p"},
                    std::move(rows));
}

Table role_steps_table(std::span<const SeriesCheckpoint> checkpoints) {
  struct Held {
    std::vector<Cell> head;
    std::int64_t first = 0, last = 0;
    std::size_t count = 0;
  };
  std::map<std::tuple<Cell, std::string, std::string>, Held> held;  // by head, role and detail
  for (const SeriesCheckpoint& checkpoint : checkpoints) {
    for (const Table& table : checkpoint.study.tables) {
      if (table.name != "roles") continue;
      std::vector<Cell> cells(table.columns.size());
      for (std::size_t r = 0; r < table.rows; ++r) {
        table.row(r, cells);
        const auto* const role = std::get_if<std::string>(&cells[table.find("role").value()]);
        const std::optional<HeadRow> row = head_row(table, cells);
        if (role == nullptr || !row) continue;
        const auto* const detail = std::get_if<std::string>(&cells[table.find("detail").value()]);
        const auto [found, added] = held.try_emplace({row->head[3], *role, detail == nullptr ? "" : *detail},
                                                     Held{row->head, 0, 0, 0});
        Held& one = found->second;
        if (added) one.first = checkpoint.step;
        one.last = checkpoint.step;
        ++one.count;
      }
    }
  }
  std::vector<std::vector<Cell>> rows;
  for (const auto& [key, one] : held)
    rows.push_back(row_of(one.head, std::get<1>(key), text_cell(std::get<2>(key)), Cell(one.first),
                          Cell(one.last), one.count));
  std::ranges::stable_sort(rows, {}, [](const std::vector<Cell>& row) {
    return std::pair(std::get<std::string>(row[4]), std::get<std::int64_t>(row[6]));
  });
  return make_table("role_steps",
                    columns_with({}, "role_steps",
                                 {"component", "layer", "head", "name", "role", "detail", "first_step",
                                  "last_step", "checkpoints"}),
                    std::move(rows));
}

/// Returns the series of a column, by key: those whose keys contain each of the words after "=". Throws
/// Error(usage) if there are none.
std::map<std::string, std::vector<const HeadSeries*>> series_named(const std::vector<HeadSeries>& all,
                                                                   const std::string& option,
                                                                   std::string_view given) {
  std::string_view name = given.substr(0, given.find('='));
  if (name.starts_with("heads.")) name.remove_prefix(6);
  const std::vector<std::string_view> words =
      name.size() < given.size() && given.find('=') != std::string_view::npos
          ? split(given.substr(given.find('=') + 1), ' ')
          : std::vector<std::string_view>();
  std::map<std::string, std::vector<const HeadSeries*>> found;
  std::set<std::string> names;
  for (const HeadSeries& series : all) {
    names.insert(series.name());
    const bool has_words = std::ranges::all_of(
        words, [&](std::string_view word) { return series.row.key.find(word) != std::string::npos; });
    if (series.name() == name && has_words) found[series.row.key].push_back(&series);
  }
  if (found.empty() && names.contains(std::string(name)))
    fail(Status::usage, "{} {}: no row has all words after =", option, escaped(given));
  if (found.empty())
    fail(Status::usage, "{} {}: no number of a head has this name{}; there are: {}", option, escaped(name),
         did_you_mean(name, names, std::identity()), fmt::join(names, ", "));
  return found;
}

constexpr std::size_t kMostDrawn = 24;

/// One chart for each key and layer, with a line for each head.
ChartPage lines_page(std::span<const SeriesCheckpoint> checkpoints, const std::vector<HeadSeries>& all,
                     const std::string& plot) {
  const std::string column = plot.substr(0, plot.find('='));
  ChartPage page{.title = column + " of Each Head over Training", .table = {}, .charts = {}};
  std::vector<Column> columns = {"step"};
  std::vector<const HeadSeries*> drawn;
  for (const auto& [key, of_key] : series_named(all, "--plot", plot)) {
    std::map<std::string, std::vector<const HeadSeries*>> layers;
    std::vector<std::string> order;
    for (const HeadSeries* series : of_key) {
      const std::string name = std::get<std::string>(series->row.head[3]);
      const std::string layer = name.substr(0, name.rfind('.'));
      if (!layers.contains(layer)) order.push_back(layer);
      layers[layer].push_back(series);
    }
    for (const std::string& layer : order) {
      if (page.charts.size() == kMostDrawn) continue;
      Chart chart{
          .title = fmt::format("{}layer {}", key.empty() ? "" : key + ", ", layer), .x = "step", .y = {}};
      for (const HeadSeries* series : layers[layer]) {
        const std::string name = std::get<std::string>(series->row.head[3]);
        chart.y.push_back(key.empty() ? name : fmt::format("{} {}", key, name));
        columns.emplace_back(chart.y.back());
        drawn.push_back(series);
      }
      chart.x_axis = "step";
      chart.y_axis = column;
      page.charts.push_back(std::move(chart));
    }
  }
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < checkpoints.size(); ++i) {
    std::vector<Cell>& row = rows.emplace_back(std::vector<Cell>{Cell(checkpoints[i].step)});
    for (const HeadSeries* series : drawn) row.push_back(series->values[i]);
  }
  page.table = make_table("series", std::move(columns), std::move(rows));
  return page;
}

/// One heatmap [layers, steps] for each key, of the mean over the heads of a layer.
HeatmapPage map_page(std::span<const SeriesCheckpoint> checkpoints, const std::vector<HeadSeries>& all,
                     const std::string& plot) {
  const std::string column = plot.substr(0, plot.find('='));
  HeatmapPage page{.title = "Mean of " + column + " over the Heads of a Layer",
                   .scale = {.diverging = false, .low = 0, .high = 1, .label = column},
                   .heatmaps = {}};
  std::vector<std::string> steps;
  for (const SeriesCheckpoint& checkpoint : checkpoints) steps.push_back(std::to_string(checkpoint.step));
  for (const auto& [key, of_key] : series_named(all, "--map", plot)) {
    if (page.heatmaps.size() == kMostDrawn) break;
    std::vector<std::string> layers;
    std::vector<std::vector<double>> sums, counts;  // [layers][steps]
    for (const HeadSeries* series : of_key) {
      const std::string name = std::get<std::string>(series->row.head[3]);
      const std::string layer = name.substr(0, name.rfind('.'));
      const auto place = static_cast<std::size_t>(std::ranges::find(layers, layer) - layers.begin());
      if (place == layers.size()) {
        layers.push_back(layer);
        sums.emplace_back(steps.size(), 0.0);
        counts.emplace_back(steps.size(), 0.0);
      }
      for (std::size_t i = 0; i < steps.size(); ++i) {
        if (!has_number(series->values[i])) continue;
        sums[place][i] += number_of(series->values[i]);
        ++counts[place][i];
      }
    }
    std::vector<double> values;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      for (std::size_t i = 0; i < steps.size(); ++i) {
        values.push_back(counts[layer][i] == 0 ? kUndefined : sums[layer][i] / counts[layer][i]);
        if (values.back() < 0) page.scale.diverging = true;
      }
    }
    const std::size_t count = layers.size();
    page.heatmaps.push_back({.title = key,
                             .x_axis = "step",
                             .y_axis = "layer",
                             .x_labels = steps,
                             .y_labels = std::move(layers),
                             .values = make_tensor({count, steps.size()}, std::move(values))});
  }
  page.fit_scale();
  return page;
}

}  // namespace

std::span<const Definition> series_definitions() {
  return kSeriesDefinitions;
}

std::optional<std::int64_t> step_in_name(std::string_view model) {
  while (model.ends_with('/')) model.remove_suffix(1);
  const std::string_view name = model.substr(model.rfind('/') + 1);
  const std::size_t last = name.find_last_of("0123456789");
  if (last == std::string_view::npos) return std::nullopt;
  const std::size_t before = name.find_last_not_of("0123456789", last);
  const auto number = parse_number(name.substr(before + 1, last - before));
  constexpr std::size_t largest = std::size_t{1} << 60U;
  return number && *number < largest ? std::optional(static_cast<std::int64_t>(*number)) : std::nullopt;
}

std::optional<ChangePoint> change_point(std::span<const double> values, std::uint64_t seed) {
  if (values.size() < 3 || std::ranges::adjacent_find(values, std::not_equal_to()) == values.end())
    return std::nullopt;
  const Split split = best_split(values);
  if (split.first == 0) return std::nullopt;  // a value is not finite
  ChangePoint point{.first = split.first, .explained = std::min(split.explained, 1.0)};
  const auto mean = [](std::span<const double> part) {
    return std::accumulate(part.begin(), part.end(), 0.0) / static_cast<double>(part.size());
  };
  point.before = mean(values.first(split.first));
  point.after = mean(values.subspan(split.first));
  Random random(seed);
  std::vector<double> shuffled(values.begin(), values.end());
  std::size_t reached = 1;
  constexpr double rounding = 1e-9;
  for (std::size_t i = 0; i < kShuffles; ++i) {
    shuffle(shuffled.size(), random,
            [&](std::size_t x, std::size_t y) { std::swap(shuffled[x], shuffled[y]); });
    if (best_split(shuffled).explained >= split.explained - rounding) ++reached;
  }
  point.p_value = static_cast<double>(reached) / static_cast<double>(kShuffles + 1);
  return point;
}

Results series_results(std::span<const SeriesCheckpoint> checkpoints, const SeriesRequest& request) {
  std::vector<HeadSeries> all = collected(checkpoints);
  if (all.empty())
    fail(Status::bad_input,
         "series: these measures have no numbers of single heads; use other --measures, such as metrics");
  Results results;
  results.subtitle = {fmt::format("{}: steps {} to {}", counted(checkpoints.size(), "checkpoint"),
                                  checkpoints.front().step, checkpoints.back().step)};
  if (!request.plot.empty()) {
    ChartPage page = lines_page(checkpoints, all, request.plot);
    page.subtitle = results.subtitle;
    results.pictures.push_back({"lines", std::move(page)});
  }
  if (!request.map.empty()) {
    HeatmapPage page = map_page(checkpoints, all, request.map);
    page.subtitle = results.subtitle;
    results.pictures.push_back({"map", std::move(page)});
  }
  results.picture_hint = "give --plot COLUMN or --map COLUMN, such as --plot entropy";

  std::vector<std::vector<Cell>> models;
  for (const SeriesCheckpoint& checkpoint : checkpoints)
    models.push_back({Cell(checkpoint.step), checkpoint.model});
  results.add_table(
      "checkpoint",
      make_table("checkpoints", columns_with({}, "checkpoints", {"step", "model"}), std::move(models)));
  const std::vector<FoundChange> changes = changes_of(checkpoints, all, request.seed);
  const Table roles = role_steps_table(checkpoints);
  results.text = {TextLine{results.subtitle.front(),
                           fmt::format(", {} to {}", checkpoints.front().model, checkpoints.back().model)}};
  const std::size_t top = request.top.value_or(12);
  if (roles.rows > 0) {
    std::vector<std::vector<Cell>> rows;
    std::vector<Cell> cells(roles.columns.size());
    for (std::size_t i = 0; i < roles.rows; ++i) {
      roles.row(i, cells);
      rows.push_back({cells[4], cells[5], cells[3], cells[6], cells[7], cells[8]});
    }
    const Table shown =
        make_table("roles", {"role", "detail", "head", "first", "last", "checkpoints"}, std::move(rows));
    const Table first = select_rows(shown, "", request.top.value_or(24));
    results.text.emplace_back(
        TextTable{"Roles, with the first and last step at which a head has them", first});
    if (first.rows < shown.rows)
      results.text.emplace_back(TextLine{"", counted(shown.rows - first.rows, "more role") + ": --top all"});
  }
  if (changes.empty())
    results.text.emplace_back(TextLine{"", checkpoints.size() < 3
                                               ? "A change needs at least three checkpoints."
                                               : "No number of a head changes."});
  else
    results.text.emplace_back(TextTable{"Largest changes, and the steps between which they are",
                                        largest_changes(changes, request.top ? top : 1), 3});
  const Table table_of_changes = changes_table(changes);
  results.add_table("series", series_table(checkpoints, std::move(all)));
  results.add_table("change", table_of_changes);
  results.add_table("role", roles);
  return results;
}

}  // namespace attnctl::study
