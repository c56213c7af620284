#include "textbook/experiment.hpp"

#include <utility>
#include <variant>

namespace attnctl::textbook {
Results results_of(const ExperimentResult& result, bool with_charts) {
  Results results;
  results.document.head.set("name", result.name)
      .set("seed", static_cast<std::size_t>(result.seed))
      .set("parameters", result.parameters)
      .set("summary", result.summary);
  results.document.sections.push_back({"rows", "row", result.rows});
  results.tables.push_back(result.rows);
  results.text.emplace_back(TextTable{"Experiment " + result.name, result.rows});
  CellRows summary;  // without lists and records
  for (const auto& [name, value] : result.summary.fields) {
    if (const Cell* single = std::get_if<Cell>(&value.data)) summary.push_back({name, *single});
  }
  if (!summary.empty())
    results.text.emplace_back(TextTable{"", make_table("summary", {"summary", "value"}, std::move(summary))});
  if (!result.charts.empty()) {
    const ChartPage page{"Experiment: " + result.name,
                         result.drawn.columns.empty() ? result.rows : result.drawn, result.charts};
    if (with_charts) results.text.emplace_back(page);
    results.pictures.push_back({"charts", page});
  }
  results.pictures.insert(results.pictures.end(), result.heatmaps.begin(), result.heatmaps.end());
  return results;
}

Chart make_chart(std::string title, std::string x, std::vector<std::string> y, ChartAxes axes) {
  return {.title = std::move(title),
          .x = std::move(x),
          .y = std::move(y),
          .x_axis = std::move(axes.x),
          .y_axis = std::move(axes.y),
          .log_x = axes.drawing == ChartAxes::log_x || axes.drawing == ChartAxes::log_log,
          .log_y = axes.drawing == ChartAxes::log_y || axes.drawing == ChartAxes::log_log,
          .bars = axes.drawing == ChartAxes::bars};
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

}  // namespace attnctl::textbook
