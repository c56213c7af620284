#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "results/results.hpp"

namespace attnctl {
namespace {

/// Joins the first 12 names, and says how many more there are.
std::string first_names(std::vector<std::string> names) {
  constexpr std::size_t most = 12;
  if (names.size() > most) {
    names[most] = fmt::format("and {} more", names.size() - most);
    names.resize(most + 1);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Returns whether the rows of one head differ in this column.
bool is_row_key(const Column& column) {
  return column == "offset" || column == "position" || column == "first" || column == "last" ||
         column == "model" || column == "name" || column == "name_b" || column == "writer";
}

/// A column of a table with rows about heads.
struct HeadColumn {
  const Table* table = nullptr;
  std::size_t column = 0;
};

/// Returns the first column with this name, which may be TABLE.COLUMN.
HeadColumn head_column(const std::vector<Table>& tables, const std::string& name) {
  std::set<std::string> known;
  for (const Table& table : tables) {
    for (std::size_t i = table.find("head").value_or(table.columns.size()) + 1; i < table.columns.size();
         ++i) {
      if (is_row_key(table.columns[i])) continue;
      const std::string full = table.name + "." + table.columns[i].name;
      if (name == full || name == table.columns[i].name) return {&table, i};
      known.insert(name.find('.') == std::string::npos ? table.columns[i].name : full);
    }
  }
  const auto rows_of = std::ranges::find(tables, name.substr(0, name.find('.')), &Table::name);
  if (rows_of != tables.end() && !rows_of->find("head"))
    fail(Status::usage,
         "--plot {}: the table {} has {}; need a column of a table with a row per head, such as entropy or "
         "contributions.share",
         escaped(name), rows_of->name,
         rows_of->find("head_a")  ? "a row per pair of heads"
         : rows_of->find("layer") ? "rows per layer"
                                  : "no rows per head");
  if (known.empty())
    fail(Status::usage,
         "--plot {}: this run has no table with one number per head; need a column of such a table, such as "
         "entropy or contributions.share",
         escaped(name));
  fail(Status::usage, "--plot {}: this run has no such column of heads{}; it has {}", escaped(name),
       did_you_mean(name, known), first_names({known.begin(), known.end()}));
}

/// The layers and heads of a component.
struct GridAxes {
  std::set<std::int64_t> layers, heads;
};

/// The numbers of a heatmap by layer and head.
struct Panel {
  std::string title;
  Cell component;
  double count = 0;  // largest number in the column `count`, if the table has it
  std::map<std::pair<std::int64_t, std::int64_t>, double> numbers = {};
};

/// Returns the texts and row keys before a column: "nsubj to_head", "input 0 offset -1".
std::string panel_title(const std::vector<Column>& columns, std::span<const Cell> cells, std::size_t column) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < column; ++i) {
    const auto* const number = std::get_if<std::int64_t>(&cells[i]);
    const auto* const text = std::get_if<std::string>(&cells[i]);
    const bool key = is_row_key(columns[i]);
    if (text != nullptr && !key) words.push_back(columns[i] == "input" ? "input " + *text : *text);
    if (number != nullptr && key) words.push_back(fmt::format("{} {}", columns[i].name, *number));
  }
  return fmt::format("{}", fmt::join(words, " "));
}

/// Returns the panels with a number (with `keep_undefined` also those without) and fills `axes` with the
/// layers and heads of all rows of each component.
std::vector<Panel> panels_of(const HeadColumn& drawn, bool keep_undefined, std::map<Cell, GridAxes>& axes) {
  const auto& [table, column] = drawn;
  const std::size_t layer_column = table->find("layer").value(), head_column = table->find("head").value();
  const auto component_column = table->find("component"), count_column = table->find("count");
  std::vector<Panel> panels;
  std::vector<Cell> cells(table->columns.size());
  for (std::size_t row = 0; row < table->rows; ++row) {
    table->row(row, cells);
    const auto* const layer = std::get_if<std::int64_t>(&cells[layer_column]);
    const auto* const head = std::get_if<std::int64_t>(&cells[head_column]);
    if (layer == nullptr || head == nullptr) continue;
    const Cell component = component_column ? cells[*component_column] : Cell();
    axes[component].layers.insert(*layer);
    axes[component].heads.insert(*head);
    const double number = number_of(cells[column]);
    if (is_undefined(number) && !keep_undefined) continue;
    std::string title = panel_title(table->columns, cells, column);
    auto panel = std::ranges::find(panels, title, &Panel::title);
    if (panel == panels.end()) panel = panels.insert(panel, {std::move(title), component});
    panel->numbers[{*layer, *head}] = number;
    if (count_column) panel->count = std::fmax(panel->count, number_of(cells[*count_column]));
  }
  return panels;
}

/// Keeps the panels whose titles have each of these words. An underscore is equal to a space.
void keep_panels_with(std::vector<Panel>& panels, const std::string& plot, const std::string& words) {
  const auto with_spaces = [](std::string text) {
    std::ranges::replace(text, '_', ' ');
    return text;
  };
  const std::vector<std::string> titles = texts_of(panels, &Panel::title);
  const std::string wanted = with_spaces(words);
  std::erase_if(panels, [&](const Panel& panel) {
    const std::string title = with_spaces(panel.title);
    const std::vector<std::string_view> has = split(title, ' ');
    return !std::ranges::all_of(split(wanted, ' '), [&has](std::string_view word) {
      return word.empty() || std::ranges::find(has, word) != has.end();
    });
  });
  if (panels.empty())
    fail(Status::usage, "--plot {}: no heatmap has a title with each word of {}; the titles are {}",
         escaped(plot), in_quotes(words), first_names(titles));
}

/// Keeps at most kMaxPanels panels: those with the largest counts, or else the first ones. Returns a line
/// that says so; empty if all panels are kept. `name` is the column that is drawn.
std::string limit_panels(std::vector<Panel>& panels, const std::string& name) {
  constexpr std::size_t kMaxPanels = 24;
  const std::size_t all = panels.size();
  if (all <= kMaxPanels) return {};
  std::ranges::stable_sort(panels, std::ranges::greater(), &Panel::count);
  panels.resize(kMaxPanels);
  return fmt::format("{} of {} heatmaps{}; --plot \"{}={}\" draws one", kMaxPanels, all,
                     panels[0].count > 0 ? ", those with the largest count" : "", name, panels[0].title);
}

}  // namespace

HeatmapPage heads_page(const Results& results, const std::string& plot, bool draw_undefined) {
  const std::string name = plot.substr(0, plot.find('='));
  const std::string words = plot.substr(std::min(name.size() + 1, plot.size()));
  const HeadColumn found = head_column(results.tables, name);
  std::map<Cell, GridAxes> axes;
  std::vector<Panel> panels = panels_of(found, draw_undefined, axes);
  if (panels.empty())
    fail(Status::usage, "--plot {}: this run has no numbers for this column", escaped(name));
  keep_panels_with(panels, plot, words);
  const std::string left_out = limit_panels(panels, name);
  const Column& drawn = found.table->columns[found.column];
  HeatmapPage page;
  page.small_values = true;
  page.subtitle = results.subtitle;
  page.scale.label = found.table->name == "heads" ? drawn.name : found.table->name + " " + drawn.name;
  std::ranges::replace(page.scale.label, '_', ' ');
  if (!words.empty() && panels.size() == 1) page.scale.label += ", " + panels[0].title;
  page.title = "Heads: " + page.scale.label;
  if (drawn.definition != nullptr) {
    page.subtitle.emplace_back(drawn.definition->meaning);
    if (!drawn.definition->unit.empty()) page.scale.label += fmt::format(" ({})", drawn.definition->unit);
  }
  if (!left_out.empty()) page.subtitle.push_back(left_out);
  double least = std::numeric_limits<double>::infinity();
  for (Panel& panel : panels) {
    std::vector<double> values;
    const auto& [layers, heads] = axes[panel.component];
    for (const std::int64_t layer : layers) {
      for (const std::int64_t head : heads) {
        values.push_back(panel.numbers.try_emplace({layer, head}, kUndefined).first->second);
        least = std::fmin(least, values.back());
      }
    }
    constexpr auto text = [](std::int64_t number) { return std::to_string(number); };
    page.heatmaps.push_back({panel.title, "Head", "Layer", texts_of(heads, text), texts_of(layers, text),
                             make_tensor({layers.size(), heads.size()}, std::move(values))});
  }
  page.scale.diverging = least < 0;
  const bool share = drawn.definition != nullptr && drawn.definition->range == "[0, 1]";
  page.fit_scale(!page.scale.diverging && !share);
  return page;
}

}  // namespace attnctl
