#include "inspect/model_changes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/head_axes.hpp"
#include "analysis/model_summary.hpp"
#include "analysis/weights/weight_changes.hpp"
#include "base/text.hpp"
#include "inspect/describe.hpp"

namespace attnctl::inspect {
namespace {

using analysis::ChangeStatus;
using analysis::HeadChange;
using analysis::WeightChange;

constexpr auto kChangeDefinitions = std::to_array<Definition>({
    {"qk_change", "", "[0, 2]", "0", "2 |B - A| / (|A| + |B|), Frobenius norms of A and B = W_Q W_K^T"},
    {"ov_change", "", "[0, 2]", "0", "2 |B - A| / (|A| + |B|), Frobenius norms of A and B = W_V W_O"},
    {"qk_spectrum_change", "", "[0, 2]", "0",
     "as qk_change, of the singular values in descending order: 0 if the circuit is only rotated"},
    {"ov_spectrum_change", "", "[0, 2]", "0",
     "as ov_change, of the singular values in descending order: 0 if the circuit is only rotated"},
    {"qk_effective_rank_a", "", "from 1", "", "effective rank of W_Q W_K^T in model a",
     "Roy and Vetterli 2007"},
    {"qk_effective_rank_b", "", "from 1", "", "effective rank of W_Q W_K^T in model b",
     "Roy and Vetterli 2007"},
    {"ov_effective_rank_a", "", "from 1", "", "effective rank of W_V W_O in model a",
     "Roy and Vetterli 2007"},
    {"ov_effective_rank_b", "", "from 1", "", "effective rank of W_V W_O in model b",
     "Roy and Vetterli 2007"},
    {"heads.status", "", "", "identical",
     "identical; rounding: no weight differs by more than rounding it to float32, float16, bfloat16 or the "
     "blocks of a quantized type, as the two models store it, can change it; changed; moved: with "
     "--match, the circuits of the head of another name are equal within 0.02; changed_role: with --input, "
     "changed, and the head has a role in only one of the two models"},
    {"name_b", "", "", "the same name", "head of model b with which the head is compared"},
    {"weights.status", "", "", "identical", "identical, rounding or changed, as for heads"},
    {"projection", "", "w_q, w_k, w_v or w_o", "", "projection of the head"},
    {"projections.change", "", "[0, 2]", "0",
     "2 |B - A| / (|A| + |B|), Frobenius norms of the head's part of the projection"},
    {"weights.change", "", "[0, 2]", "0", "2 |B - A| / (|A| + |B|), Frobenius norms of the weight"},
    {"overlap", "", "[0, 1]", "1; for random subspaces sqrt(rank_a rank_b) / d",
     "|U_a^T U_b|_F^2 / sqrt(rank_a rank_b) of orthonormal bases of the two subspaces",
     "Hamm and Lee 2008, projection kernel"},
    {"largest_angle", "degrees", "[0, 90]", "0", "largest principal angle between the two subspaces",
     "Bjorck and Golub 1973"},
    {"rank_a", "", "from 0", "",
     "dimensions of the subspace in model a: the numerical rank of the projection"},
    {"rank_b", "", "from 0", "",
     "dimensions of the subspace in model b: the numerical rank of the projection"},
    {"weight", "", "", "", "the weight: query, mlp.up, final norm.gain, ..."},
    {"shape", "", "", "", "shape of the weight: [in, out], [rows, width] or [width]"},
    {"elements", "", "from 0", "0", "number of elements that differ"},
    {"largest_difference", "", "[0, inf)", "0", "largest |b - a| of an element"},
    {"rank", "", "from 1", "",
     "rank of B - A, if all but this number of its dimensions can be rounding errors; empty: more than 95",
     "Marchenko and Pastur 1967"},
    {"key", "", "", "", "key of the configuration whose value differs"},
    {"a", "", "", "", "value in the configuration of model a; empty: the key is missing"},
    {"b", "", "", "", "value in the configuration of model b; empty: the key is missing"},
});

const Definition& definition(std::string_view name) {
  return *std::ranges::find(kChangeDefinitions, name, &Definition::name);
}

Table heads_table(const std::vector<HeadChange>& heads, const model::ModelConfig& config) {
  TableRows rows{"heads", columns_of(kChangeDefinitions, {"component", "layer", "head", "name", "name_b"})};
  for (const char* const name :
       {"qk_change", "ov_change", "qk_spectrum_change", "ov_spectrum_change", "qk_effective_rank_a",
        "qk_effective_rank_b", "ov_effective_rank_a", "ov_effective_rank_b"})
    rows.columns.emplace_back(definition(name));
  rows.columns.emplace_back("status", definition("heads.status"));
  for (const HeadChange& head : heads) {
    const analysis::CircuitChange ov = head.ov.value_or(analysis::CircuitChange{});
    rows.add(analysis::head_cells(config, head.head), model::head_name(config, head.other), head.qk.change,
             ov.change, head.qk.spectrum, ov.spectrum, head.qk.rank_a, head.qk.rank_b, ov.rank_a, ov.rank_b,
             head.status);
  }
  return rows.table();
}

Table projections_table(const std::vector<HeadChange>& heads, const model::ModelConfig& config) {
  TableRows rows{"projections",
                 columns_of(kChangeDefinitions, {"projection", "component", "layer", "head", "name"})};
  rows.columns.emplace_back("change", definition("projections.change"));
  for (const char* const name : {"overlap", "largest_angle", "rank_a", "rank_b"})
    rows.columns.emplace_back(definition(name));
  for (const analysis::Projection projection : analysis::kAllProjections) {
    for (const HeadChange& head : heads) {
      const auto& change = head.projections.at(static_cast<std::size_t>(projection));
      if (!change) continue;
      double overlap = kUndefined, largest = kUndefined;
      if (!change->angles.empty()) {
        overlap = 0;
        for (const double angle : change->angles) overlap += std::cos(angle) * std::cos(angle);
        overlap /= std::sqrt(static_cast<double>(*change->rank_a) * static_cast<double>(*change->rank_b));
        largest = change->angles.back() * 180 / std::numbers::pi;
      }
      rows.add(projection, analysis::head_cells(config, head.head), change->change, overlap, largest,
               change->rank_a, change->rank_b);
    }
  }
  return rows.table();
}

Table weights_table(const std::vector<WeightChange>& weights, const model::ModelConfig& config) {
  TableRows rows{"weights", columns_of(kChangeDefinitions, {"component", "layer", "weight", "shape"})};
  rows.columns.emplace_back("status", definition("weights.status"));
  rows.columns.emplace_back("change", definition("weights.change"));
  for (const char* const name : {"largest_difference", "elements", "rank"})
    rows.columns.emplace_back(definition(name));
  for (const WeightChange& weight : weights)
    rows.add(analysis::component_cell(config, weight.layer), analysis::number_cell(config, weight.layer),
             weight.name, to_string(weight.shape), weight.status, weight.change, weight.largest,
             static_cast<std::size_t>(weight.elements), weight.rank);
  return rows.table();
}

/// Adds the texts of all values of a configuration, by JSON pointer.
void flatten(const nlohmann::ordered_json& json, const std::string& at,
             std::map<std::string, std::string>& values) {
  if (!json.is_object()) {
    values[at] = json.dump();
    return;
  }
  for (const auto& [key, value] : json.items())
    flatten(value, at.empty() ? key : fmt::format("{}/{}", at, key), values);
}

/// Returns the keys of the configurations whose values differ, and that can change what the model computes.
Table config_table(const model::Model& a, const model::Model& b) {
  static const std::set<std::string, std::less<>> kNotes = {
      "_name_or_path", "transformers_version", "torch_dtype", "dtype", "use_cache", "architectures"};
  std::map<std::string, std::string> of_a, of_b;
  flatten(a.source().config, "", of_a);
  flatten(b.source().config, "", of_b);
  std::set<std::string> keys;
  for (const auto* const values : {&of_a, &of_b})
    for (const auto& [key, value] : *values) keys.insert(key);
  TableRows rows{"config", columns_of(kChangeDefinitions, {"key", "a", "b"})};
  const auto cell = [](const std::map<std::string, std::string>& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? Cell() : Cell(found->second);
  };
  for (const std::string& key : keys) {
    if (kNotes.contains(key) || cell(of_a, key) == cell(of_b, key)) continue;
    rows.add(key, cell(of_a, key), cell(of_b, key));
  }
  return rows.table();
}

template <typename Item>
std::string counts_of(const std::vector<Item>& items) {
  std::map<ChangeStatus, std::size_t> counts;
  for (const Item& item : items) ++counts[item.status];
  std::vector<std::string> parts;
  for (const auto& [status, count] : counts)
    parts.push_back(fmt::format("{} {}", count,
                                status == ChangeStatus::rounding       ? "equal up to rounding"
                                : status == ChangeStatus::changed_role ? "with a changed role"
                                                                       : name_of(status)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// Returns the weights whose change has a low rank, by rank: "rank 8: query of layers 0, 1; value of layer
/// 0".
std::vector<std::string> low_ranks(const std::vector<WeightChange>& weights,
                                   const model::ModelConfig& config) {
  std::map<std::size_t, std::map<std::string, std::vector<std::string>>> found;  // layers, by rank and name
  for (const WeightChange& weight : weights) {
    // A LoRA changes all elements; a replaced head changes only its own.
    const bool most = weight.shape.size() == 2 && weight.elements * 2 > weight.shape[0] * weight.shape[1];
    if (!weight.rank || !most || *weight.rank * 4 > std::min(weight.shape[0], weight.shape[1])) continue;
    found[*weight.rank][weight.name].push_back(weight.layer ? model::layer_name(config, *weight.layer) : "");
  }
  std::vector<std::string> lines;
  for (const auto& [rank, by_name] : found) {
    std::vector<std::string> parts;
    for (const auto& [name, layers] : by_name) {
      const bool none = layers.front().empty();
      parts.push_back(none ? name
                           : fmt::format("{} of {} {}", name, layers.size() == 1 ? "layer" : "layers",
                                         fmt::join(layers, ", ")));
    }
    lines.push_back(fmt::format("rank {}: {}", rank, fmt::join(parts, "; ")));
  }
  return lines;
}

/// A column of a table, and its name in text.
using TextColumn = std::pair<std::string, std::string>;

/// Returns these columns of the rows that are not identical, with the largest numbers in the columns `by`
/// first.
Table largest_first(const Table& table, const std::vector<std::string>& by,
                    const std::vector<TextColumn>& columns) {
  std::vector<std::vector<Cell>> rows;
  std::vector<Cell> cells(table.columns.size());
  const std::size_t status = table.find("status").value();
  for (std::size_t i = 0; i < table.rows; ++i) {
    table.row(i, cells);
    if (cells[status] != Cell(std::string(name_of(ChangeStatus::identical)))) rows.push_back(cells);
  }
  const auto size = [&](const std::vector<Cell>& row) {
    double largest = 0;
    for (const std::string& column : by) {
      const double value = number_of(row[table.find(column).value()]);
      if (value > largest) largest = value;
    }
    return largest;
  };
  std::ranges::stable_sort(rows, std::ranges::greater(), size);
  std::vector<Column> titles;
  for (const auto& [column, title] : columns) titles.emplace_back(title);
  std::vector<std::vector<Cell>> shown;
  for (const std::vector<Cell>& row : rows) {
    std::vector<Cell>& to = shown.emplace_back();
    for (const auto& [column, title] : columns) to.push_back(row[table.find(column).value()]);
  }
  return make_table(table.name, std::move(titles), std::move(shown));
}

}  // namespace

std::span<const Definition> change_definitions() {
  return kChangeDefinitions;
}

void add_match(Results& results, const char* by, const analysis::HeadMatch& match) {
  results.document.head.set("match", Record()
                                         .set("by", by)
                                         .set("score", match.score)
                                         .set("random_mean", match.null_mean)
                                         .set("random_deviation", match.null_deviation)
                                         .set("p_value", match.p_value));
  results.text.insert(
      results.text.empty() ? results.text.end() : results.text.begin() + 1,
      TextLine{fmt::format("Match of heads by {}", by),
               fmt::format(": mean similarity {:.3f}; {} random matches have {:.3f} (standard deviation "
                           "{:.3f}), p = {:.3g}",
                           match.score, analysis::kRandomMatches, match.null_mean, match.null_deviation,
                           match.p_value)});
}

Results compare_models(const OpenModel& a, const OpenModel& b, const ChangesRequest& request, Pool& pool) {
  const model::ModelConfig& config = a.model.config();
  analysis::ModelChanges changes =
      analysis::compare_weights(a.model, b.model, request.selection, pool, request.partners);
  for (HeadChange& head : changes.heads)
    if (head.status == ChangeStatus::changed && head.other == head.head &&
        request.changed_roles.contains(model::head_name(config, head.head)))
      head.status = ChangeStatus::changed_role;
  Results results;
  results.subtitle = {"a: " + a.model.name(), "b: " + b.model.name()};
  Record models;
  for (const auto& [name, open] : {std::pair("a", &a), std::pair("b", &b)})
    models.set(name, Record().set("path", open->model.name()).set("family", open->model.config().family));
  results.document.head.set("models", std::move(models));
  const Table heads = heads_table(changes.heads, config), weights = weights_table(changes.weights, config),
              keys = config_table(a.model, b.model);
  results.add_table("head", heads);
  results.add_table("projection", projections_table(changes.heads, config));
  results.add_table("weight", weights);
  results.add_table("key", keys);

  results.text = {
      TextLine{fmt::format("{}", fmt::join(results.subtitle, ", "))},
      TextLine{"Heads", ": " + counts_of(changes.heads)},
      TextLine{"Weights", ": " + counts_of(changes.weights)},
  };
  for (const std::string& line : low_ranks(changes.weights, config))
    results.text.emplace_back(TextLine{"Changes of low rank", ", as of a LoRA: " + line});
  if (keys.rows > 0) results.text.emplace_back(TextTable{"Configuration", keys});
  const auto changed = [](const auto& each) { return each.status != ChangeStatus::identical; };
  if (keys.rows > 0 && std::ranges::none_of(changes.weights, changed))
    results.text.emplace_back(
        TextLine{"", "No weight differs, but the configurations do: the patterns can differ."});
  const auto add_largest = [&](const std::string& title, const Table& all, const char* record) {
    if (all.rows == 0) return;
    const Table shown = select_rows(all, "", request.top.value_or(10));
    results.text.emplace_back(TextTable{title, shown});
    if (shown.rows < all.rows)
      results.text.emplace_back(
          TextLine{"", counted(all.rows - shown.rows, fmt::format("more {}", record)) + ": --top all"});
  };
  add_largest("Heads that differ most",
              largest_first(heads, {"qk_change", "ov_change"},
                            {{"name", "head"},
                             {"name_b", "head of b"},
                             {"status", "status"},
                             {"qk_change", "QK change"},
                             {"ov_change", "OV change"},
                             {"qk_effective_rank_a", "QK rank a"},
                             {"qk_effective_rank_b", "QK rank b"},
                             {"ov_effective_rank_a", "OV rank a"},
                             {"ov_effective_rank_b", "OV rank b"}}),
              "head");
  std::vector<TextColumn> weight_columns = {{"layer", "layer"},
                                            {"weight", "weight"},
                                            {"status", "status"},
                                            {"change", "change"},
                                            {"largest_difference", "largest difference"},
                                            {"elements", "elements"},
                                            {"rank", "rank"}};
  if (config.decoder) weight_columns.insert(weight_columns.begin(), {"component", "component"});
  add_largest("Weights that differ most", largest_first(weights, {"change"}, weight_columns), "weight");

  HeatmapPage page = heads_page(results, "heads.qk_change", true);
  HeatmapPage ov = heads_page(results, "heads.ov_change", true);
  for (Heatmap& heatmap : page.heatmaps)
    heatmap.title = "QK = W_Q W_K^T" + (heatmap.title.empty() ? "" : ", " + heatmap.title);
  for (Heatmap& heatmap : ov.heatmaps) {
    heatmap.title = "OV = W_V W_O" + (heatmap.title.empty() ? "" : ", " + heatmap.title);
    page.heatmaps.push_back(std::move(heatmap));
  }
  page.title = "Changes of Heads from a to b";
  page.subtitle = results.subtitle;
  page.scale.label = "2 |B - A| / (|A| + |B|)";
  page.fit_scale();
  results.pictures.push_back({"heads", std::move(page)});
  return results;
}

}  // namespace attnctl::inspect
