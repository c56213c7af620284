#include "textbook/gradients_charts.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

namespace attnctl::experiments {
namespace {

constexpr std::array kRoutes = {"query", "key", "value"};
constexpr const char* kMedian = "query_median";

std::size_t column_of(const std::string& name) {
  const std::vector<std::string> columns = gradient_columns();
  return static_cast<std::size_t>(std::find(columns.begin(), columns.end(), name) - columns.begin());
}

/// Returns a row of the chart table: a label, then the unscaled and the scaled value of each column of
/// `names`.
std::vector<Cell> side_by_side(const Cell& label, std::span<const std::string> names,
                               const std::vector<Cell>& unscaled, const std::vector<Cell>& scaled) {
  std::vector<Cell> line = {label};
  for (const std::string& name : names) {
    line.push_back(unscaled[column_of(name)]);
    line.push_back(scaled[column_of(name)]);
  }
  return line;
}

std::vector<std::string> header(const std::string& label, std::span<const std::string> names) {
  std::vector<std::string> columns = {label};
  for (const std::string& name : names) {
    columns.push_back(name);
    columns.push_back(name + ", scaled");
  }
  return columns;
}

Chart over_d_k(std::string title, std::span<const std::string> names) {
  std::vector<std::string> lines = header("d_k", names);
  lines.erase(lines.begin());
  return {.title = std::move(title),
          .x = "d_k",
          .y = std::move(lines),
          .x_axis = "d_k",
          .y_axis = "Norm of dL/dx",
          .log_x = true,
          .log_y = true};
}

Chart of_heads(std::string title, const std::string& suffix) {
  std::vector<std::string> lines;
  lines.reserve(kRoutes.size());
  for (const char* route : kRoutes) lines.push_back(route + suffix);
  return {.title = std::move(title),
          .x = "head",
          .y = std::move(lines),
          .x_axis = "Head",
          .y_axis = "Norm of dL/dx",
          .bars = true};
}

}  // namespace

std::vector<std::string> gradient_columns() {
  return {"d_k",   "scale", "head",         "path",           "query", "key",
          "value", "share", "query_median", "largest_weight", "error"};
}

void draw_gradients(std::span<const std::vector<Cell>> rows, std::size_t sizes, ExperimentResult& result) {
  const std::vector<std::string> names = {kRoutes[0], kRoutes[1], kRoutes[2], kMedian};
  const std::size_t half = rows.size() / sizes / 2;  // rows of one d_k and scale: the heads and the layer
  std::vector<std::vector<Cell>> lines;
  if (sizes == 1) {
    for (std::size_t h = 0; h + 1 < half; ++h)
      lines.push_back(side_by_side(rows[h][column_of("head")], names, rows[h], rows[half + h]));
    result.drawn = make_table("heads", header("head", names), std::move(lines));
    result.charts = {of_heads("Scores as they are", ""), of_heads("Scores divided by sqrt(d_k)", ", scaled")};
    return;
  }
  for (std::size_t i = 0; i < sizes; ++i) {
    const std::vector<Cell>& unscaled = rows[2 * half * i + half - 1];
    lines.push_back(side_by_side(unscaled.front(), names, unscaled, rows[2 * half * (i + 1) - 1]));
  }
  result.drawn = make_table("lines", header("d_k", names), std::move(lines));
  const std::span<const std::string> all = names;
  result.charts = {over_d_k("Through queries and keys", all.first(2)),
                   over_d_k("Of the median token and head, through the query", all.subspan(3)),
                   over_d_k("Through values", all.subspan(2, 1))};
}

}  // namespace attnctl::experiments
