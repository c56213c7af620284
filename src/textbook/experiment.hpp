#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/matrix_view.hpp"
#include "results/results.hpp"

namespace attnctl::textbook {

/// The rows, summary and pictures of one textbook experiment. The same seed and parameters give the same
/// numbers for any number of threads.
struct ExperimentResult {
  std::string name;
  std::uint64_t seed = 0;
  Record parameters = {};
  Table rows = {};
  Record summary = {};
  std::vector<Chart> charts = {};
  Table drawn = {};  // the table that the charts show; if it has no columns, the charts show `rows`
  std::vector<View> heatmaps = {};  // shown after the charts
};

/// Converts the result to a document, tables and pictures. `with_charts` also draws the charts in text
/// output.
[[nodiscard]] Results results_of(const ExperimentResult& result, bool with_charts);

using CellRows = std::vector<std::vector<Cell>>;

[[nodiscard]] inline Cell count_cell(std::size_t count) {
  return static_cast<std::int64_t>(count);
}
[[nodiscard]] inline Cell cell_of(const std::optional<double>& value) {
  return value ? Cell(*value) : Cell();
}

/// The labels of a chart's axes, and how the chart is drawn: as lines with linear or logarithmic axes, or as
/// bars.
struct ChartAxes {
  std::string x, y;
  enum Drawing { lines, log_x, log_y, log_log, bars } drawing = lines;
};

/// Returns a chart of the table columns `y` over the table column `x`.
[[nodiscard]] Chart make_chart(std::string title, std::string x, std::vector<std::string> y, ChartAxes axes);

/// Copies the matrix to an array [rows, cols].
[[nodiscard]] Tensor array_of(MatrixView<const double> matrix);

/// Returns `count` labels "0", "1", ..., with `before` in front of each number.
[[nodiscard]] std::vector<std::string> number_labels(std::size_t count, const std::string& before = "");

}  // namespace attnctl::textbook
