#include "textbook/parts.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "linalg/gemm.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::textbook {
namespace {

/// Returns the queries, keys or values of a head, [n, d_head]. `weight` is the matrix of all heads.
OwnedMatrix<double> project(const OwnedMatrix<double>& weight, std::size_t head, std::size_t d_head,
                            MatrixView<const double> x) {
  return linalg::product_nt(x, weight.view().row_range(head * d_head, d_head));
}

/// Returns the table without the column `name`, and without `component` if it has no value.
Table without_names(const Table& table) {
  std::vector<Cell> cells(table.columns.size());
  if (table.rows > 0) table.row(0, cells);
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string& name = table.columns[i].name;
    if (name != "name" && (name != "component" || cells[i] != Cell())) shown.push_back(name);
  }
  return select_columns(table, shown);
}

}  // namespace

std::vector<NamedDefinitions> definitions() {
  return {{"averaging", kAveragingColumns}, {"diversity", kDiversityColumns}, {"hull", kHullColumns},
          {"heads", kHeadsColumns},         {"positions", kPositionsColumns}, {"scaling", kScalingColumns},
          {"kinds", kKindsColumns},         {"gradients", kGradientsColumns}, {"distance", kDistanceColumns}};
}

Results results_of(const ExperimentResult& result, bool with_charts) {
  Results results;
  results.document.head.set("name", result.name)
      .set("seed", static_cast<std::size_t>(result.seed))
      .set("parameters", result.parameters)
      .set("summary", result.summary);
  results.add_table("row", result.rows);
  const Table shown = without_names(result.rows);
  results.text.emplace_back(TextTable{"Experiment " + result.name, shown});
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
  results.text.insert(results.text.end(), {TextLine{}, TextLine{"", result.conclusion}, TextLine{}});
  for (const auto& [name, about] : shown.columns)
    results.text.emplace_back(TextLine{
        name, fmt::format(": {}{}{}", about->meaning, about->unit.empty() ? "" : ", in ", about->unit)});
  results.pictures.insert(results.pictures.end(), result.heatmaps.begin(), result.heatmaps.end());
  return results;
}

Tensor array_of(MatrixView<const double> matrix) {
  std::vector<double> values;
  for (std::size_t r = 0; r < matrix.rows; ++r)
    values.insert(values.end(), matrix.row(r).begin(), matrix.row(r).end());
  return make_tensor({matrix.rows, matrix.cols}, std::move(values));
}

void softmax(std::span<double> row) {
  const double largest = *std::ranges::max_element(row);
  double sum = 0;
  for (double& value : row) sum += value = std::exp(value - largest);
  for (double& value : row) value /= sum;
}

void softmax_rows(MatrixView<double> scores) {
  for (std::size_t r = 0; r < scores.rows; ++r) softmax(scores.row(r));
}

BareLayer random_bare_layer(std::size_t d, std::size_t heads, Random& random) {
  const double deviation = 1 / std::sqrt(static_cast<double>(d));
  BareLayer layer;
  layer.heads = heads;
  for (OwnedMatrix<double>* weight : {&layer.query, &layer.key, &layer.value, &layer.output})
    *weight = random_matrix(d, d, deviation, random);
  return layer;
}

OwnedMatrix<double> scores_of(const BareLayer& layer, std::size_t head, MatrixView<const double> x) {
  const std::size_t k = layer.d_head();
  const OwnedMatrix<double> queries = project(layer.query, head, k, x);
  const OwnedMatrix<double> keys = project(layer.key, head, k, x);
  return linalg::product_nt(queries.view(), keys.view(), 1 / std::sqrt(static_cast<double>(k)));
}

OwnedMatrix<double> output_of(const BareLayer& layer, MatrixView<const double> x) {
  const std::size_t k = layer.d_head();
  OwnedMatrix<double> z(x.rows, x.cols);
  for (std::size_t head = 0; head < layer.heads; ++head) {
    OwnedMatrix<double> pattern = scores_of(layer, head, x);
    softmax_rows(pattern.view());
    const OwnedMatrix<double> values = project(layer.value, head, k, x);
    linalg::gemm_nn(pattern.view(), values.view(), z.view().col_range(head * k, k));
  }
  return linalg::product_nt(z.view(), layer.output.view());
}

}  // namespace attnctl::textbook
