#include "analysis/weights/composition.hpp"

#include <algorithm>
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

/// A pair of heads. `earlier` and `later` are indices into Composition::heads.
struct HeadPair {
  const Composition* composition = nullptr;
  std::size_t earlier = 0;
  std::size_t later = 0;

  [[nodiscard]] double score() const { return composition->scores(earlier, later); }
  [[nodiscard]] double excess() const { return composition->excess(earlier, later); }
};

std::vector<HeadPair> pairs_of(const Composition& composition) {
  std::vector<HeadPair> pairs;
  for (std::size_t a = 0; a < composition.heads.size(); ++a) {
    for (std::size_t b = 0; b < composition.heads.size(); ++b) {
      if (std::isfinite(composition.scores(a, b))) pairs.push_back({&composition, a, b});
    }
  }
  return pairs;
}

Section section(const AnalysisInput& input, const std::vector<Composition>& compositions,
                const analysis::CompositionOptions& options) {
  List items;
  for (const Composition& each : compositions) {
    const analysis::RandomNull null = each.null.value_or(analysis::RandomNull());
    Record record;
    record.set("kind", std::string(name_of(each.kind)))
        .set("component", analysis::component_cell(input.config(), each.heads.front().layer))
        .set("heads", names_of(input.config(), each.heads))
        .set("values", float_array(each.scores))
        .set("excess", float_array(each.excess))
        .set("mean", or_null(each.mean))
        .set("null_mean", null.mean)
        .set("null_deviation", null.deviation)
        .set("null_draws", options.draws)
        .set("null_seed", static_cast<std::int64_t>(options.seed));
    items.emplace_back(std::move(record));
  }
  return {"composition", "composition", std::move(items)};
}

Table table(const AnalysisInput& input, const std::vector<Composition>& compositions) {
  std::vector<std::vector<Cell>> rows;
  for (const Composition& each : compositions) {
    for (const HeadPair& pair : pairs_of(each)) {
      const model::HeadId earlier = each.heads[pair.earlier];
      const model::HeadId later = each.heads[pair.later];
      rows.push_back({std::string(name_of(each.kind)),
                      analysis::component_cell(input.config(), earlier.layer),
                      analysis::number_cell(input.config(), earlier.layer), analysis::cell_of(earlier.head),
                      analysis::number_cell(input.config(), later.layer), analysis::cell_of(later.head),
                      analysis::cell_of(pair.score()), analysis::cell_of(pair.score() - pair.excess()),
                      analysis::cell_of(pair.excess())});
    }
  }
  return make_table(
      "composition",
      {"kind", "component", "layer_a", "head_a", "layer_b", "head_b", "score", "null_mean", "excess"},
      std::move(rows));
}

Table means_text(const std::vector<Composition>& compositions) {
  std::vector<std::vector<Cell>> rows;
  for (const Composition& each : compositions) {
    const analysis::RandomNull null = each.null.value_or(analysis::RandomNull());
    rows.push_back({std::string(name_of(each.kind)), analysis::cell_of(pairs_of(each).size()),
                    analysis::cell_of(each.mean), analysis::cell_of(null.mean),
                    analysis::cell_of(null.deviation)});
  }
  return make_table("", {"kind", "pairs", "mean", "random", "deviation"}, std::move(rows));
}

/// Returns, for each kind of composition, the pairs with the largest excess over the random baseline. Pairs
/// with equal excess keep the order of pairs_of().
Table strongest_text(const AnalysisInput& input, const std::vector<Composition>& compositions) {
  const std::size_t most = input.request.top.value_or(5);
  std::vector<std::vector<Cell>> rows;
  for (const Composition& each : compositions) {
    std::vector<HeadPair> pairs = pairs_of(each);
    std::ranges::stable_sort(pairs, std::greater<>(), &HeadPair::excess);
    for (std::size_t i = 0; i < std::min(most, pairs.size()); ++i) {
      rows.push_back({std::string(name_of(each.kind)),
                      model::head_name(input.config(), each.heads[pairs[i].earlier]),
                      model::head_name(input.config(), each.heads[pairs[i].later]),
                      analysis::cell_of(pairs[i].score()), analysis::cell_of(pairs[i].excess())});
    }
  }
  return make_table("", {"kind", "earlier", "later", "score", "over random"}, std::move(rows));
}

/// Returns a heatmap of scores minus their random baseline, with earlier heads as rows and later heads as
/// columns. The heads of the last layer have no row and the heads of the first layer have no column, because
/// they have no pairs. If all heads are in one layer, the heatmap has all heads and no values.
Heatmap heatmap_of(const model::ModelConfig& config, const Composition& composition) {
  const std::vector<model::HeadId>& heads = composition.heads;
  const bool cut = heads.front().layer != heads.back().layer;
  Heatmap heatmap{
      symbol_of(name_of(composition.kind)) + "-Composition", "Later Head", "Earlier Head", {}, {}, {}};
  std::vector<double> values;
  for (std::size_t a = 0; a < heads.size(); ++a) {
    if (cut && heads[a].layer == heads.back().layer) continue;
    heatmap.y_labels.push_back(model::head_name(config, heads[a]));
    for (std::size_t b = 0; b < heads.size(); ++b) {
      if (!cut || heads[b].layer != heads.front().layer) values.push_back(composition.excess(a, b));
    }
  }
  for (const model::HeadId head : heads) {
    if (!cut || head.layer != heads.front().layer) heatmap.x_labels.push_back(model::head_name(config, head));
  }
  heatmap.values = make_tensor({heatmap.y_labels.size(), heatmap.x_labels.size()}, std::move(values));
  return heatmap;
}

HeatmapPage picture(const AnalysisInput& input, const std::vector<Composition>& compositions) {
  HeatmapPage page;
  page.title = "Composition of Heads";
  page.columns = compositions.size();
  double most = 0;
  for (const Composition& each : compositions) {
    for (const HeadPair& pair : pairs_of(each)) most = std::max(most, std::abs(pair.excess()));
    page.heatmaps.push_back(heatmap_of(input.config(), each));
  }
  if (most == 0) most = 1;
  page.scale = {.diverging = true, .low = -most, .high = most, .label = "Score Over Random"};
  return page;
}

/// The composition of heads: how much of the output of an earlier head a later head reads.
class CompositionAnalysis final : public Analysis {
 public:
  using Analysis::Analysis;

  std::uint64_t values() const override {
    return 2 * analysis::kAllCompositions.size() * input_.selection.heads.size() *
           input_.selection.heads.size();
  }

  Results finish() override {
    const analysis::CompositionOptions options{.fold_norm = input_.request.fold_norm};
    const std::vector<Composition> compositions =
        analysis::analyze_composition(input_.model, input_.selection, options, input_.context.pool);
    Results results;
    results.document.sections.push_back(section(input_, compositions, options));
    results.tables.push_back(table(input_, compositions));
    for (const Composition& each : compositions) {
      const std::string name = fmt::format("{}_composition", name_of(each.kind));
      results.arrays.push_back({name, float_array(each.scores)});
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

std::unique_ptr<Analysis> make_composition(const AnalysisInput& input) {
  return std::make_unique<CompositionAnalysis>(input);
}

}  // namespace attnctl::inspect
