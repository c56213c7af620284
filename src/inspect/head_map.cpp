#include "analysis/similarity/head_map.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/head_axes.hpp"
#include "analysis/similarity/subspaces.hpp"
#include "analysis/weights/weights.hpp"
#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/describe.hpp"

namespace attnctl::inspect {
namespace {

constexpr std::array<std::string_view, 6> kSimilarities = {"qk", "ov", "w_q", "w_k", "w_v", "w_o"};

std::vector<std::string_view> parse_similarities(std::string_view list) {
  std::vector<std::string_view> wanted;
  for (const std::string_view word : split(list, ',')) {
    const auto* found = std::ranges::find(kSimilarities, word);
    if (found == kSimilarities.end()) {
      fail(Status::usage, "--similarity: unsupported \"{}\"{}; known: {}", escaped(word),
           did_you_mean(word, kSimilarities), fmt::join(kSimilarities, ", "));
    }
    if (std::ranges::find(wanted, word) == wanted.end()) wanted.push_back(*found);
  }
  std::ranges::sort(wanted, {}, [](std::string_view name) { return std::ranges::find(kSimilarities, name); });
  return wanted;
}

struct Drawn {
  std::string similarity;
  analysis::HeadMatrix matrix;
  analysis::HeadMap map;
};

/// Returns the first (axis 0) or second coordinate of each head of the map.
Tensor coordinates(const Drawn& drawn, std::size_t axis) {
  std::vector<double> values;
  for (std::size_t i = 0; i < drawn.map.heads.size(); ++i) values.push_back(drawn.map.map.points(i, axis));
  return float_array({values.size()}, values);
}

Section section(const AnalysisInput& input, const std::vector<Drawn>& all) {
  List items;
  for (const Drawn& drawn : all) {
    List linkage;
    for (const analysis::ClusterMerge& merge : drawn.map.linkage.merges)
      linkage.emplace_back(List{merge.first, merge.second, static_cast<float>(merge.distance), merge.size});
    items.emplace_back(
        Record{{{"similarity", drawn.similarity},
                {"component", analysis::component_cell(input.config(), drawn.matrix.heads.front().layer)},
                {"layer", analysis::number_cell(input.config(), drawn.matrix.layer)},
                {"names", names_of(input.config(), drawn.map.heads)},
                {"undefined", names_of(input.config(), drawn.map.undefined)},
                {"order", names_of(input.config(), drawn.matrix.heads)},
                {"linkage", std::move(linkage)},
                {"x", coordinates(drawn, 0)},
                {"y", coordinates(drawn, 1)},
                {"stress", drawn.map.map.stress},
                {"eigenvalue_share", drawn.map.map.share}}});
  }
  return {"map", "map", std::move(items)};
}

/// Returns the coordinates of a head. Both are kUndefined if the head is not in the map.
std::array<double, 2> point_of(const Drawn& drawn, model::HeadId head) {
  const auto found = std::ranges::find(drawn.map.heads, head);
  if (found == drawn.map.heads.end()) return {kUndefined, kUndefined};
  const auto row = static_cast<std::size_t>(found - drawn.map.heads.begin());
  return {drawn.map.map.points(row, 0), drawn.map.map.points(row, 1)};
}

std::string title_of(const model::ModelConfig& config, const Drawn& drawn) {
  const std::optional<std::size_t>& layer = drawn.matrix.layer;
  return fmt::format("{} similarity, {}", symbol_of(drawn.similarity),
                     layer ? "layer " + model::layer_name(config, *layer) : "all layers");
}

/// The column `layer` holds the layer of the head, even if the map has heads of several layers.
Table table(const AnalysisInput& input, const std::vector<Drawn>& all) {
  TableRows rows{"map", columns_of(kMapColumns, {"similarity", "component", "layer", "head", "name", "order",
                                                 "x", "y", "stress", "eigenvalue_share"})};
  for (const Drawn& drawn : all) {
    const std::vector<model::HeadId>& order = drawn.matrix.heads;
    std::vector<model::HeadId> heads = order;
    std::ranges::sort(heads);
    for (const model::HeadId head : heads) {
      const auto place = static_cast<std::size_t>(std::ranges::find(order, head) - order.begin());
      rows.add(drawn.similarity, analysis::head_cells(input.config(), head), place, point_of(drawn, head),
               drawn.map.map.stress, drawn.map.map.share);
    }
  }
  return rows.table();
}

Table linkage_table(const AnalysisInput& input, const std::vector<Drawn>& all) {
  TableRows rows{"linkage", columns_of(kMapColumns, {"similarity", "component", "layer", "merge", "first",
                                                     "second", "distance", "size"})};
  for (const Drawn& drawn : all) {
    const std::vector<analysis::ClusterMerge>& merges = drawn.map.linkage.merges;
    for (std::size_t i = 0; i < merges.size(); ++i)
      rows.add(drawn.similarity, analysis::component_cell(input.config(), drawn.matrix.heads.front().layer),
               analysis::number_cell(input.config(), drawn.matrix.layer), i, merges[i].first,
               merges[i].second, merges[i].distance, merges[i].size);
  }
  return rows.table();
}

void add_arrays(const AnalysisInput& input, const std::vector<Drawn>& all, Results& results,
                std::string_view similarity) {
  const analysis::HeadAxes axes(input.selection.heads);
  const std::size_t heads = input.selection.heads.size();
  std::vector<double> points(heads * 2, kUndefined);
  std::vector<std::int64_t> order(heads);
  std::vector<double> quality;
  for (const Drawn& drawn : all) {
    if (drawn.similarity != similarity) continue;
    for (std::size_t i = 0; i < drawn.matrix.heads.size(); ++i) {
      const std::size_t at = axes.place(drawn.matrix.heads[i]).value();
      std::ranges::copy(point_of(drawn, drawn.matrix.heads[i]), &points[at * 2]);
      order[at] = static_cast<std::int64_t>(i);
    }
    quality.push_back(drawn.map.map.stress.value_or(kUndefined));
    quality.push_back(drawn.map.map.share.value_or(kUndefined));
    const std::string layer =
        drawn.matrix.layer ? fmt::format("_{}", input.config().layers[*drawn.matrix.layer].number) : "";
    std::vector<double> linkage;  // in the format of SciPy's linkage matrix
    for (const analysis::ClusterMerge& merge : drawn.map.linkage.merges) {
      linkage.insert(linkage.end(), {static_cast<double>(merge.first), static_cast<double>(merge.second),
                                     merge.distance, static_cast<double>(merge.size)});
    }
    results.arrays.push_back({fmt::format("{}_linkage{}", similarity, layer),
                              make_tensor({drawn.map.linkage.merges.size(), 4}, std::move(linkage))});
  }
  if (quality.empty()) return;
  results.arrays.push_back({fmt::format("{}_map", similarity), float_array(axes.shape({2}), points)});
  results.arrays.push_back({fmt::format("{}_cluster_order", similarity), make_tensor(axes.shape(), order)});
  results.arrays.push_back(
      {fmt::format("{}_map_quality", similarity), float_array({quality.size() / 2, 2}, quality)});
}

void add_text(const model::ModelConfig& config, Results& results, const Drawn& drawn) {
  constexpr std::size_t kMostColumns = 12;
  TableRows rows{"", {"head", "x", "y"}};
  const std::vector<model::HeadId>& order = drawn.matrix.heads;
  const bool with_values = order.size() <= kMostColumns;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::string name = model::head_name(config, order[i]);
    rows.add(name, point_of(drawn, order[i]));
    if (!with_values) continue;
    rows.columns.push_back(name);
    add_cells(rows.rows.back(), drawn.matrix.values.view().row(i));
  }
  const std::optional<double>& stress = drawn.map.map.stress;
  results.text.emplace_back(
      TextTable{fmt::format("Heads by {}: in cluster order, with map positions (stress {})",
                            title_of(config, drawn), stress ? fmt::format("{:.2f}", *stress) : "-"),
                rows.table(), 2});
}

ChartPage charts(const AnalysisInput& input, const std::vector<Drawn>& all) {
  ChartPage page;
  page.title = "Maps of Heads";
  std::vector<Column> columns;
  std::size_t most = 0;
  for (const Drawn& drawn : all) most = std::max(most, drawn.matrix.heads.size());
  std::vector<std::vector<Cell>> rows(most);
  for (const Drawn& drawn : all) {
    const std::string name = title_of(input.config(), drawn);
    const std::vector<model::HeadId>& heads = drawn.matrix.heads;
    std::set<std::size_t> layers;
    for (const model::HeadId head : heads) layers.insert(head.layer);
    for (std::size_t i = 0; i < heads.size(); ++i) {
      const auto [x, y] = point_of(drawn, heads[i]);
      rows[i].resize(columns.size());
      add_cells(rows[i], row_of(model::head_name(input.config(), heads[i]), x));
      for (const std::size_t layer : layers) rows[i].push_back(layer == heads[i].layer ? Cell(y) : Cell());
    }
    columns.insert(columns.end(), {name + " head", name + " x"});
    Chart& chart = page.charts.emplace_back(
        Chart{.title = name, .x = name + " x", .y = {}, .points = true, .labels = name + " head"});
    if (const std::optional<double>& stress = drawn.map.map.stress)
      chart.x_axis = fmt::format("Stress {:.2f}{}", *stress, *stress > 0.2 ? " (over 0.2: distorted)" : "");
    for (const std::size_t layer : layers)
      chart.y.push_back(
          fmt::format("layer {}, {}", model::layer_name(input.config(), layer), symbol_of(drawn.similarity)));
    columns.insert(columns.end(), chart.y.begin(), chart.y.end());
  }
  for (std::vector<Cell>& row : rows) row.resize(columns.size());
  page.table = make_table("map", std::move(columns), std::move(rows));
  return page;
}

class HeadMapAnalysis final : public Analysis {
 public:
  explicit HeadMapAnalysis(const AnalysisInput& input)
      : Analysis(input), wanted_(parse_similarities(input.request.similarity)) {}

  std::uint64_t values() const override {
    std::uint64_t of_similarity = 0;
    for (const std::span<const model::HeadId> heads : compared_heads(input_))
      of_similarity += 1 + 8 * heads.size();
    return of_similarity * static_cast<std::uint64_t>(
                               std::ranges::count_if(wanted_, [&](auto name) { return exists(name); }));
  }

  Results finish() override {
    collect();
    Results results;
    results.document.sections.push_back(section(input_, all_));
    results.tables = {table(input_, all_), linkage_table(input_, all_)};
    for (const std::string_view similarity : wanted_) add_arrays(input_, all_, results, similarity);
    for (const Drawn& drawn : all_) add_text(input_.config(), results, drawn);
    if (!all_.empty()) results.pictures.push_back({"map", charts(input_, all_)});
    return results;
  }

 private:
  void add(std::string_view similarity, const analysis::HeadMatrix& matrix) {
    if (!wants(similarity)) return;
    analysis::HeadMap map = analysis::map_heads(matrix.heads, matrix.values.view());
    all_.push_back({std::string(similarity), reordered(matrix, map.order()), std::move(map)});
  }
  [[nodiscard]] bool wants(std::string_view name) const {
    return std::ranges::find(wanted_, name) != wanted_.end();
  }
  /// Returns whether all selected layers have the weights of this similarity.
  [[nodiscard]] bool exists(std::string_view similarity) const {
    using analysis::Projection;
    if (similarity == "ov") return have_projections(input_, {Projection::value, Projection::output});
    for (const Projection each : analysis::kAllProjections)
      if (similarity == name_of(each)) return have_projections(input_, {each});
    return true;
  }
  void collect();

  std::vector<std::string_view> wanted_;
  std::vector<Drawn> all_;
};

void HeadMapAnalysis::collect() {
  const InspectRequest& request = input_.request;
  const forward::RunContext& context = input_.context;
  analysis::WeightsOptions options = request.weights;
  options.directions = 0;
  if (wants("qk") || wants("ov")) {
    std::optional<analysis::WeightsAnalysis> own;
    if (!input_.weights)
      own =
          analysis::analyze_weights(input_.model, input_.selection, options, context.pool, context.warnings);
    const analysis::WeightsAnalysis& weights = own ? *own : *input_.weights;
    for (const analysis::CircuitAnalysis* circuit : weights.circuits()) {
      for (const analysis::HeadMatrix& each : circuit->similarity) add(name_of(circuit->circuit), each);
    }
  }
  const auto wanted = [&](analysis::Projection each) { return wants(name_of(each)); };
  if (std::ranges::none_of(analysis::kAllProjections, wanted)) return;
  Warnings told;  // not output, because the subspaces analysis adds the same warnings
  const bool twice = request.includes.has("subspaces");
  for (const analysis::ProjectionAnalysis& analysis : analysis::analyze_subspaces(
           input_.model, input_.selection, options, context.pool, twice ? told : context.warnings)) {
    for (const analysis::SubspaceAngles& each : analysis.angles) add(name_of(analysis.projection), each);
  }
}

}  // namespace

constexpr std::array<Definition, 11> kMapColumns = {
    {{"similarity", "", "qk, ov, w_q, ...", "", "circuits or projections of the heads that are compared"},
     {"order", "", "from 0", "", "place of the head among the leaves of the cluster tree",
      "Sokal and Michener 1958"},
     {"x", "", "(-inf, inf)", "", "first coordinate in a plane in which distances approximate 1 - similarity",
      "Torgerson 1952"},
     {"y", "", "(-inf, inf)", "", "second coordinate in the plane of x", "Torgerson 1952"},
     {"stress", "", "[0, inf)", "0: exact distances",
      "sqrt(sum (given - drawn)^2 / sum given^2) over the distances of all pairs", "Kruskal 1964"},
     {"eigenvalue_share", "", "[0, 1]", "1: exact distances",
      "sum of the two eigenvalues of the plane / sum of the magnitudes of all eigenvalues", "Mardia 1978"},
     {"merge", "", "from 0", "", "place of a merge of two clusters by ascending distance"},
     {"first", "", "from 0", "",
      "cluster: n heads are 0 to n - 1, in the order of `names`; merge i makes n + i"},
     {"second", "", "from 0", "", "the other cluster, numbered as in first"},
     {"distance", "", "[0, 2]", "", "mean of 1 - similarity over the pairs of heads of the two clusters",
      "Sokal and Michener 1958"},
     {"size", "", "from 2", "", "number of heads of the new cluster"}}};

std::unique_ptr<Analysis> make_head_map(const AnalysisInput& input) {
  return std::make_unique<HeadMapAnalysis>(input);
}

}  // namespace attnctl::inspect
