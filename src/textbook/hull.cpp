#include "textbook/hull.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.hpp"
#include "textbook/convex_hull.hpp"

namespace attnctl {
namespace {

std::string place_of(const HullPoint& key) {
  if (key.vertex) return "vertex";
  if (key.twin) return "duplicate";
  return key.support.values.empty() ? "inside" : "boundary";
}

/// Formats a vector as "(10, 0)". Truncates long vectors.
std::string text_of(std::span<const double> vector) {
  constexpr std::size_t most = 4;
  std::string text = "(";
  for (std::size_t i = 0; i < std::min(vector.size(), most); ++i) {
    text += fmt::format("{}{:.6g}", i == 0 ? "" : ", ", vector[i]);
  }
  return text + (vector.size() > most ? fmt::format(", ... {} in all)", vector.size()) : ")");
}

Cell text_of(const HullQuery& query) {
  if (query.values.empty()) return {};
  return text_of(std::span<const double>(query.values));
}

/// Formats a combination as "1/2 [0] + 1/2 [1]".
Cell text_of(const std::vector<HullWeight>& combination) {
  constexpr std::size_t most = 4;
  constexpr std::size_t longest = 9;  // characters of a fraction
  if (combination.empty()) return {};
  std::string text;
  for (std::size_t i = 0; i < std::min(combination.size(), most); ++i) {
    const HullWeight& part = combination[i];
    text += i == 0 ? "" : " + ";
    if (part.exact != "1")
      text += part.exact.size() <= longest ? part.exact + " " : fmt::format("{:.6g} ", part.weight);
    text += fmt::format("[{}]", part.point);
  }
  return text + (combination.size() > most ? fmt::format(" + ... {} in all", combination.size()) : "");
}

Cell text_of(const std::vector<std::size_t>& keys) {
  constexpr std::size_t most = 8;
  if (keys.empty()) return {};
  std::string text;
  for (std::size_t i = 0; i < std::min(keys.size(), most); ++i) {
    text += fmt::format("{}[{}]", i == 0 ? "" : " ", keys[i]);
  }
  return text + (keys.size() > most ? fmt::format(" ... {} in all", keys.size()) : "");
}

Value record_of(const HullQuery& query) {
  if (query.values.empty()) return {};
  Record record;
  record.set("values", make_array({query.values.size()}, query.values));
  if (!query.exact.empty()) record.set("exact", List(query.exact.begin(), query.exact.end()));
  return record;
}

Value record_of(const std::vector<HullWeight>& combination) {
  if (combination.empty()) return {};
  List parts;
  for (const HullWeight& part : combination) {
    parts.push_back(Record().set("key", part.point).set("weight", part.weight).set("exact", part.exact));
  }
  return parts;
}

/// Returns the complete proof of a key.
Record proof_of(std::size_t index, const HullPoint& key) {
  Record record;
  record.set("key", index).set("place", place_of(key)).set("reachable", key.vertex);
  record.set("query", record_of(key.witness));
  record.set("margin", key.margin ? Value(*key.margin) : Value());
  record.set("duplicate_of", key.twin ? Value(*key.twin) : Value());
  record.set("combination", record_of(key.combination));
  record.set("tie_query", record_of(key.support));
  record.set("ties_with", List(key.ties.begin(), key.ties.end()));
  return record;
}

/// Results of a construction with one head per coordinate: each key's lowest score over the heads, and the
/// only key with the highest such score, if there is one.
struct AxisHeads {
  std::vector<double> lowest;
  std::optional<std::size_t> picked;
};

AxisHeads axis_heads(MatrixView<const double> keys) {
  AxisHeads heads;
  for (std::size_t j = 0; j < keys.rows; ++j) {
    const auto key = keys.row(j);
    heads.lowest.push_back(*std::min_element(key.begin(), key.end()));
  }
  const auto best = std::max_element(heads.lowest.begin(), heads.lowest.end());
  if (std::count(heads.lowest.begin(), heads.lowest.end(), *best) == 1)
    heads.picked = static_cast<std::size_t>(best - heads.lowest.begin());
  return heads;
}

Table rows_of(MatrixView<const double> keys, const std::vector<HullPoint>& places, const AxisHeads& heads) {
  std::vector<std::vector<Cell>> rows;
  for (std::size_t j = 0; j < keys.rows; ++j) {
    const HullPoint& place = places[j];
    rows.push_back({static_cast<std::int64_t>(j), text_of(keys.row(j)), place_of(place), place.vertex,
                    text_of(place.witness), place.margin ? Cell(*place.margin) : Cell(),
                    text_of(place.combination), text_of(place.support), text_of(place.ties), heads.lowest[j],
                    heads.picked == j});
  }
  return make_table("rows",
                    {"key", "vector", "place", "reachable", "query", "margin", "combination", "tie_query",
                     "ties_with", "axis_heads_lowest", "axis_heads_pick"},
                    std::move(rows));
}

/// Draws keys in the plane, grouped by whether a head can select them.
void draw_plane(MatrixView<const double> keys, const std::vector<HullPoint>& places,
                ExperimentResult& result) {
  std::vector<std::vector<Cell>> rows;
  for (std::size_t j = 0; j < keys.rows; ++j) {
    const Cell y = keys(j, 1);
    rows.push_back(
        {text_of(keys.row(j)), keys(j, 0), places[j].vertex ? y : Cell(), places[j].vertex ? Cell() : y});
  }
  result.drawn = make_table("keys", {"key", "x", "reachable", "unreachable"}, std::move(rows));
  result.charts = {{.title = "Keys that one head can pick",
                    .x = "x",
                    .y = {"reachable", "unreachable"},
                    .x_axis = "First component",
                    .y_axis = "Second component",
                    .points = true,
                    .labels = "key"}};
}

/// Draws the largest margin of each key, for dimensions other than 2.
void draw_margins(ExperimentResult& result) {
  result.charts = {{.title = "Largest margin of a key over all others",
                    .x = "key",
                    .y = {"margin"},
                    .x_axis = "Key",
                    .y_axis = "Margin",
                    .bars = true}};
}

}  // namespace

ExperimentResult hull_experiment(MatrixView<const double> keys, Pool& pool) {
  if (keys.empty()) fail(Status::bad_input, "keys: got none; need at least one of one component");
  const std::vector<HullPoint> places = hull_points(keys, pool);
  const AxisHeads heads = axis_heads(keys);
  ExperimentResult result;
  result.name = "hull";
  std::vector<double> values;
  for (std::size_t j = 0; j < keys.rows; ++j)
    values.insert(values.end(), keys.row(j).begin(), keys.row(j).end());
  result.parameters.set("keys", make_array({keys.rows, keys.cols}, std::move(values)));
  result.rows = rows_of(keys, places, heads);
  keys.cols == 2 ? draw_plane(keys, places, result) : draw_margins(result);
  const auto count = [&](const char* place) {
    return static_cast<std::size_t>(std::count_if(
        places.begin(), places.end(), [&](const HullPoint& key) { return place_of(key) == place; }));
  };
  List proofs;
  for (std::size_t j = 0; j < keys.rows; ++j) proofs.emplace_back(proof_of(j, places[j]));
  result.summary.set("reachable", count("vertex"))
      .set("duplicates", count("duplicate"))
      .set("on_the_boundary", count("boundary"))
      .set("inside", count("inside"))
      .set("axis_heads", keys.cols)
      .set("axis_heads_pick", heads.picked ? Value(*heads.picked) : Value())
      .set("keys", std::move(proofs));
  return result;
}

}  // namespace attnctl
