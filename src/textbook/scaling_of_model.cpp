#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "textbook/scaling.hpp"

namespace attnctl {
namespace {

Cell cell_of(const std::optional<double>& value) {
  return value ? Cell(*value) : Cell();
}

/// Returns the chart table: the lowest, mean and highest temperature of the heads of each layer.
Table by_layer(std::span<const HeadTemperature> heads) {
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < heads.size();) {
    const std::size_t layer = heads[i].head.layer;
    std::vector<double> temperatures;
    for (; i < heads.size() && heads[i].head.layer == layer; ++i) {
      if (heads[i].temperature) temperatures.push_back(*heads[i].temperature);
    }
    if (temperatures.empty()) continue;
    double sum = 0;
    for (const double each : temperatures) sum += each;
    const auto [low, high] = std::minmax_element(temperatures.begin(), temperatures.end());
    rows.push_back(
        {static_cast<std::int64_t>(layer), *low, sum / static_cast<double>(temperatures.size()), *high});
  }
  return make_table("lines", {"layer", "sharpest head", "mean of the heads", "softest head"},
                    std::move(rows));
}

void summarise(std::span<const HeadTemperature> heads, Record& summary) {
  const HeadTemperature* sharpest = nullptr;
  std::size_t sharper = 0;
  std::size_t known = 0;
  for (const HeadTemperature& each : heads) {
    if (!each.temperature) continue;
    ++known;
    if (*each.temperature < 1) ++sharper;
    if (sharpest == nullptr || *each.temperature < *sharpest->temperature) sharpest = &each;
  }
  summary.set("heads", heads.size()).set("heads_with_temperature", known).set("heads_below_1", sharper);
  if (sharpest == nullptr) return;
  summary.set("sharpest_head", to_string(sharpest->head)).set("lowest_temperature", *sharpest->temperature);
}

}  // namespace

ExperimentResult scaling_of_model(std::span<const HeadTemperature> heads) {
  ExperimentResult result;
  result.name = "scaling";
  std::vector<std::vector<Cell>> rows;
  for (const HeadTemperature& each : heads) {
    rows.push_back({static_cast<std::int64_t>(each.head.layer), static_cast<std::int64_t>(each.head.head),
                    static_cast<std::int64_t>(each.rows), cell_of(each.score_variance), cell_of(each.entropy),
                    cell_of(each.temperature), cell_of(each.saturated)});
  }
  result.rows =
      make_table("rows", {"layer", "head", "rows", "score_variance", "entropy", "temperature", "saturated"},
                 std::move(rows));
  summarise(heads, result.summary);
  result.drawn = by_layer(heads);
  result.charts = {{.title = "Effective temperature",
                    .x = "layer",
                    .y = {"sharpest head", "mean of the heads", "softest head"},
                    .x_axis = "Layer",
                    .y_axis = "Temperature (1: unit-variance scores)",
                    .log_y = true}};
  return result;
}

}  // namespace attnctl
