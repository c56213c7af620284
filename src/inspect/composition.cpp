#include "analysis/weights/composition.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/head_axes.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/describe.hpp"

namespace attnctl::inspect {
namespace {

using analysis::Composition;

struct HeadPair {
  model::HeadId earlier;
  model::HeadId later;
  double score;
  double excess;
};

std::vector<HeadPair> pairs_of(const Composition& composition) {
  const std::vector<model::HeadId>& heads = composition.heads;
  std::vector<HeadPair> pairs;
  for (std::size_t a = 0; a < heads.size(); ++a) {
    for (std::size_t b = 0; b < heads.size(); ++b) {
      if (std::isfinite(composition.scores(a, b)))
        pairs.push_back({heads[a], heads[b], composition.scores(a, b), composition.excess(a, b)});
    }
  }
  return pairs;
}

Section section(const AnalysisInput& input, const std::vector<Composition>& compositions,
                const analysis::CompositionOptions& options) {
  List items;
  for (const Composition& each : compositions) {
    items.emplace_back(
        Record{{{"kind", std::string(name_of(each.kind))},
                {"component", analysis::component_cell(input.config(), each.heads.front().layer)},
                {"names", names_of(input.config(), each.heads)},
                {"score", float_array(each.scores)},
                {"excess", float_array(each.excess)},
                {"mean", each.mean},
                {"null_mean", each.null.mean},
                {"null_deviation", each.null.deviation},
                {"null_draws", options.draws},
                {"null_seed", static_cast<std::int64_t>(options.seed)}}});
  }
  return {"composition", "composition", std::move(items)};
}

Table table(const AnalysisInput& input, const std::vector<Composition>& compositions) {
  TableRows rows{"composition", columns_of(kCompositionColumns,
                                           {"kind", "component", "layer_a", "head_a", "name_a", "layer_b",
                                            "head_b", "name_b", "score", "null_mean", "excess"})};
  for (const Composition& each : compositions) {
    for (const auto& [earlier, later, score, excess] : pairs_of(each))
      rows.add(each.kind, analysis::pair_cells(input.config(), earlier, later), score, score - excess,
               excess);
  }
  return rows.table();
}

Table means_text(const std::vector<Composition>& compositions) {
  TableRows rows{"", {"kind", "pairs", "mean", "random", "deviation"}};
  for (const Composition& each : compositions)
    rows.add(each.kind, pairs_of(each).size(), each.mean, each.null.mean, each.null.deviation);
  return rows.table();
}

Table strongest_text(const AnalysisInput& input, const std::vector<Composition>& compositions) {
  TableRows rows{"", {"kind", "earlier", "later", "score", "over random"}};
  for (const Composition& each : compositions) {
    std::vector<HeadPair> pairs = pairs_of(each);
    std::ranges::stable_sort(pairs, std::greater<>(), &HeadPair::excess);
    pairs.resize(std::min(pairs.size(), input.request.top.value_or(5)));
    for (const auto& [earlier, later, score, excess] : pairs)
      rows.add(each.kind, model::head_name(input.config(), earlier), model::head_name(input.config(), later),
               score, excess);
  }
  return rows.table();
}

/// Returns a heatmap of scores minus their random baseline, with earlier heads as rows and later heads as
/// columns. The heads of the last layer have no row and the heads of the first layer have no column, because
/// they have no pairs. If all heads are in one layer, the heatmap has all heads and no values.
Heatmap heatmap_of(const model::ModelConfig& config, const Composition& composition) {
  const std::vector<model::HeadId>& heads = composition.heads;
  const bool cut = heads.front().layer != heads.back().layer;
  const auto is_row = [&](model::HeadId head) { return !cut || head.layer != heads.back().layer; };
  const auto is_column = [&](model::HeadId head) { return !cut || head.layer != heads.front().layer; };
  Heatmap heatmap{
      symbol_of(name_of(composition.kind)) + "-Composition", "Later Head", "Earlier Head", {}, {}, {}};
  std::vector<double> values;
  for (std::size_t a = 0; a < heads.size(); ++a) {
    const std::string name = model::head_name(config, heads[a]);
    if (is_column(heads[a])) heatmap.x_labels.push_back(name);
    if (!is_row(heads[a])) continue;
    heatmap.y_labels.push_back(name);
    for (std::size_t b = 0; b < heads.size(); ++b) {
      if (is_column(heads[b])) values.push_back(composition.excess(a, b));
    }
  }
  heatmap.values = make_tensor({heatmap.y_labels.size(), heatmap.x_labels.size()}, std::move(values));
  return heatmap;
}

HeatmapPage picture(const AnalysisInput& input, const std::vector<Composition>& compositions) {
  HeatmapPage page{"Composition of Heads", {}, 0, {}};
  for (const Composition& each : compositions) page.heatmaps.push_back(heatmap_of(input.config(), each));
  page.scale.label = "Score over random";
  page.fit_scale();
  return page;
}

class CompositionAnalysis final : public Analysis {
 public:
  using Analysis::Analysis;

  std::uint64_t values() const override {
    const std::size_t heads = input_.selection.heads.size();
    return analysis::kAllCompositions.size() * (7 + heads + 2 * heads * heads);
  }

  Results finish() override {
    const analysis::CompositionOptions options{.fold_norm = input_.request.weights.fold_norm};
    const std::vector<Composition> compositions =
        analysis::analyze_composition(input_.model, input_.selection, options, input_.context.pool);
    Results results;
    results.document.sections.push_back(section(input_, compositions, options));
    results.tables.push_back(table(input_, compositions));
    for (const Composition& each : compositions) {
      const std::string name = fmt::format("{}_composition", name_of(each.kind));
      results.arrays.push_back({name + "_score", float_array(each.scores)});
      results.arrays.push_back({name + "_excess", float_array(each.excess)});
    }
    results.text.emplace_back(
        TextTable{fmt::format("Composition (0 to 1; random: mean and deviation of {} pairs of random heads)",
                              options.draws),
                  means_text(compositions), 4});
    results.text.emplace_back(TextTable{"Strongest composition", strongest_text(input_, compositions), 4});
    results.pictures.push_back({"composition", picture(input_, compositions)});
    return results;
  }
};

}  // namespace

constexpr std::array<Definition, 4> kCompositionColumns = {
    {{"kind", "", "q, k or v", "", "what the later head computes from the output of the earlier head"},
     {"score", "", "[0, 1]", "null_mean, about 1 / sqrt(d)",
      "|W_OV M| / (|W_OV| |M|), W_OV of the earlier head, M = QK, QK^T or OV of the later head",
      "Elhage et al. 2021, composition"},
     {"null_mean", "", "[0, 1]", "", "mean score of pairs of heads with random weights of the same shapes"},
     {"excess", "", "[-1, 1]", "0", "score - null_mean"}}};

std::unique_ptr<Analysis> make_composition(const AnalysisInput& input) {
  return std::make_unique<CompositionAnalysis>(input);
}

}  // namespace attnctl::inspect
