#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "textbook/distance.hpp"

namespace attnctl {
namespace {

/// The series of one chart line: a head, or all heads of a layer together.
struct Line {
  std::size_t layer = 0;
  std::optional<std::size_t> head;
  std::uint64_t rows = 0;
  bool finite = true;
  bool has_values = true;
  std::vector<DistanceSums> bins;

  void add(const HeadDistances& other) {
    rows += other.rows;
    finite = finite && other.finite;
    has_values = has_values && other.has_values;
    bins.resize(other.bins.size());
    for (std::size_t b = 0; b < bins.size(); ++b) bins[b] += other.bins[b];
  }
  [[nodiscard]] std::string name() const {
    return head ? "head " + to_string(HeadId{layer, *head}) : "layer " + std::to_string(layer);
  }
};

std::vector<Line> lines_of(std::span<const HeadDistances> heads, bool by_head) {
  std::vector<Line> lines;
  for (const HeadDistances& each : heads) {
    if (by_head || lines.empty() || lines.back().layer != each.head.layer) {
      Line& line = lines.emplace_back();
      line.layer = each.head.layer;
      if (by_head) line.head = each.head.head;
    }
    lines.back().add(each);
  }
  return lines;
}

/// The table cells of one bin of a line.
struct Means {
  Cell weight, uniform, share, uniform_share, influence, influence_share;
};

Means means_of(const Line& line, std::size_t bin) {
  Means means;
  const DistanceSums& sums = line.bins[bin];
  if (sums.pairs == 0) return means;
  if (!line.finite) {
    const Cell lost = std::numeric_limits<double>::quiet_NaN();
    return {lost, lost, lost, lost, line.has_values ? lost : Cell(), line.has_values ? lost : Cell()};
  }
  const auto pairs = static_cast<double>(sums.pairs);
  const auto rows = static_cast<double>(line.rows);
  means.weight = sums.weight / pairs;
  means.uniform = sums.uniform / pairs;
  means.share = sums.weight / rows;
  means.uniform_share = sums.uniform / rows;
  if (!line.has_values) return means;
  double whole = 0;
  for (const DistanceSums& each : line.bins) whole += each.influence;
  means.influence = sums.influence / pairs;
  if (whole > 0) means.influence_share = sums.influence / whole;
  return means;
}

Table table_of(std::span<const Line> lines, std::span<const DistanceBin> bins) {
  std::vector<std::vector<Cell>> rows;
  for (const Line& line : lines) {
    for (std::size_t b = 0; b < bins.size(); ++b) {
      const Means means = means_of(line, b);
      rows.push_back({static_cast<std::int64_t>(line.layer),
                      line.head ? Cell(static_cast<std::int64_t>(*line.head)) : Cell(),
                      static_cast<std::int64_t>(bins[b].first), static_cast<std::int64_t>(bins[b].last),
                      static_cast<std::int64_t>(line.bins[b].pairs), means.weight, means.uniform, means.share,
                      means.uniform_share, means.influence, means.influence_share});
    }
  }
  return make_table("rows",
                    {"layer", "head", "from", "to", "pairs", "weight", "uniform", "share", "uniform_share",
                     "influence", "influence_share"},
                    std::move(rows));
}

/// Returns the table of the charts, with one column per line and quantity. Rows are the ends of the bins.
Table drawn_table(std::span<const Line> lines, std::span<const DistanceBin> bins) {
  std::vector<std::string> columns = {"distance"};
  for (const Line& line : lines) columns.push_back(line.name());
  for (const Line& line : lines) columns.push_back("influence, " + line.name());
  std::vector<std::vector<Cell>> rows;
  for (std::size_t b = 0; b < bins.size(); ++b) {
    std::vector<Cell> row = {static_cast<std::int64_t>(bins[b].last)};
    for (const Line& line : lines) row.push_back(means_of(line, b).weight);
    for (const Line& line : lines) row.push_back(means_of(line, b).influence);
    rows.push_back(std::move(row));
  }
  return make_table("lines", std::move(columns), std::move(rows));
}

/// Returns pairs of charts for weight and influence: one pair for all layers, or one pair per layer for its
/// heads.
std::vector<Chart> charts_of(std::span<const Line> lines) {
  std::vector<Chart> charts;
  const auto chart = [](std::string title, std::string y_axis) {
    return Chart{.title = std::move(title),
                 .x = "distance",
                 .y = {},
                 .x_axis = "Distance (end of the bin)",
                 .y_axis = std::move(y_axis),
                 .log_x = true,
                 .log_y = true};
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool by_head = lines[i].head.has_value();
    if (i == 0 || (by_head && lines[i].layer != lines[i - 1].layer)) {
      const std::string of = by_head ? " in layer " + std::to_string(lines[i].layer) : "";
      charts.push_back(chart("Weight by distance" + of, "Mean weight of a pair"));
      charts.push_back(chart("Influence by distance" + of, "Mean a |f(x)| of a pair"));
    }
    charts[charts.size() - 2].y.push_back(lines[i].name());
    charts[charts.size() - 1].y.push_back("influence, " + lines[i].name());
  }
  return charts;
}

}  // namespace

ExperimentResult distance_of_model(std::span<const HeadDistances> heads, std::span<const DistanceBin> bins,
                                   bool by_head) {
  ExperimentResult result;
  result.name = "distance";
  const std::vector<Line> lines = lines_of(heads, by_head);
  result.rows = table_of(lines, bins);
  result.drawn = drawn_table(lines, bins);
  result.charts = charts_of(lines);
  return result;
}

}  // namespace attnctl
