#include "textbook/experiment.hpp"

#include <utility>
#include <variant>

namespace attnctl {
namespace {

/// Returns a table of the values of the summary that are not lists or records.
Table summary_table(const Record& summary) {
  CellRows rows;
  for (const auto& [name, value] : summary.fields) {
    if (const Cell* single = std::get_if<Cell>(&value.data)) rows.push_back({name, *single});
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

Chart line_chart(std::string title, std::string x, std::vector<std::string> y, Axes axes) {
  Chart chart{.title = std::move(title), .x = std::move(x), .y = std::move(y)};
  chart.x_axis = std::move(axes.x);
  chart.y_axis = std::move(axes.y);
  chart.log_x = axes.scale == Axes::log_x || axes.scale == Axes::log_log;
  chart.log_y = axes.scale == Axes::log_y || axes.scale == Axes::log_log;
  return chart;
}

Chart bar_chart(std::string title, std::string x, std::vector<std::string> y, Axes axes) {
  Chart chart = line_chart(std::move(title), std::move(x), std::move(y), std::move(axes));
  chart.bars = true;
  return chart;
}

Tensor array_of(MatrixView<const double> matrix) {
  std::vector<double> values;
  values.reserve(matrix.rows * matrix.cols);
  for (std::size_t r = 0; r < matrix.rows; ++r)
    values.insert(values.end(), matrix.row(r).begin(), matrix.row(r).end());
  return make_tensor({matrix.rows, matrix.cols}, std::move(values));
}

std::vector<std::string> number_labels(std::size_t count, const std::string& before) {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < count; ++i) labels.push_back(before + std::to_string(i));
  return labels;
}

}  // namespace attnctl
