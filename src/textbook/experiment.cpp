#include "textbook/experiment.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace attnctl {
namespace {

/// Returns the scalar values of the summary as a table. The values have different units, so each one gets
/// its own precision.
Table summary_table(const Record& summary) {
  std::vector<std::vector<Cell>> rows;
  for (const auto& [name, value] : summary.fields) {
    const Cell* const single = std::get_if<Cell>(&value.data);
    if (single == nullptr) continue;
    const double* const number = std::get_if<double>(single);
    const bool small = number != nullptr && *number != 0 && std::abs(*number) < 0.1;
    rows.push_back({name, small ? Cell(fmt::format("{:.3g}", *number)) : *single});
  }
  return make_table("summary", {"summary", "value"}, std::move(rows));
}

}  // namespace

Results results_of(const ExperimentResult& result, bool with_charts) {
  Results results;
  results.document.head.set("name", result.name)
      .set("seed", static_cast<std::size_t>(result.seed))
      .set("parameters", result.parameters)
      .set("summary", result.summary);
  results.document.sections.push_back({"rows", "row", result.rows});
  results.tables.push_back(result.rows);
  results.text.emplace_back(TextTable{"Experiment " + result.name, result.rows});
  Table summary = summary_table(result.summary);
  if (summary.rows > 0) results.text.emplace_back(TextTable{"", std::move(summary)});
  if (!result.charts.empty()) {
    const ChartPage page{"Experiment: " + result.name,
                         result.drawn.columns.empty() ? result.rows : result.drawn, result.charts};
    if (with_charts) results.text.emplace_back(page);
    results.pictures.push_back({"charts", page});
  }
  for (const NamedHeatmaps& each : result.heatmaps) results.pictures.push_back({each.name, each.page});
  return results;
}

}  // namespace attnctl
