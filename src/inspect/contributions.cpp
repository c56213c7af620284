#include "analysis/mixing/contributions.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include "analysis/head_axes.hpp"
#include "base/numbers.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/describe.hpp"

namespace attnctl::inspect {
namespace {

using analysis::HeadContribution;

/// The columns of the values of a HeadContribution. Their names are also in the names of arrays.
constexpr auto kHeadColumns = std::span(kContributionColumns).first<7>();

Table heads_of(const AnalysisInput& input, const std::vector<HeadContribution>& heads) {
  TableRows rows{"contributions", columns_of({}, {"input", "component", "layer", "head", "name", "rows"})};
  rows.columns.insert(rows.columns.end(), kHeadColumns.begin(), kHeadColumns.end());
  for (const HeadContribution& of : heads)
    rows.add(input.shown.sequences[of.input].id, analysis::head_cells(input.config(), of.head), of.rows,
             of.norm, of.norm_share, of.cosine, of.share, of.explained, of.whole_norm, of.stream_norm);
  return rows.table();
}

Table ranks_table(const AnalysisInput& input, const std::vector<analysis::LayerOutputRank>& layers) {
  TableRows rows{"output_rank", columns_of(kContributionColumns, {"input", "component", "layer", "output",
                                                                  "rank", "full_rank", "change"})};
  for (const analysis::LayerOutputRank& layer : layers) {
    const auto add = [&](const char* output, std::optional<std::size_t> rank, std::optional<double> change) {
      rows.add(input.shown.sequences[layer.input].id, analysis::component_cell(input.config(), layer.layer),
               analysis::number_cell(input.config(), layer.layer), output, rank, layer.full_rank, change);
    };
    for (const analysis::OutputRankChange& cut : layer.cuts) add("cut", cut.rank, cut.change);
    add("removed", std::nullopt, layer.removed);
  }
  return rows.table();
}

/// Adds the arrays contributions_NAME_I of each input I, with the axes of HeadAxes.
void add_arrays(const AnalysisInput& input, Results& results, const std::vector<HeadContribution>& heads,
                const Table& table) {
  const analysis::HeadAxes axes(input.selection.heads);
  for (std::size_t first = 0; first < heads.size(); first += input.selection.heads.size()) {
    for (const Definition& column : kHeadColumns) {
      results.arrays.push_back({fmt::format("contributions_{}_{}", column.name, heads[first].input),
                                column_array(table, column.name, axes.shape(), first)});
    }
  }
}

/// Adds the array output_ranks [ranks] and, for each input I, the arrays output_rank_change_I [layers, ranks]
/// and output_removed_I [layers]. Adds nothing if the default ranks differ between layers.
void add_arrays(Results& results, const std::vector<analysis::LayerOutputRank>& layers) {
  if (layers.empty()) return;
  std::vector<std::int64_t> ranks;
  for (const analysis::OutputRankChange& cut : layers.front().cuts)
    ranks.push_back(static_cast<std::int64_t>(cut.rank));
  for (const analysis::LayerOutputRank& layer : layers) {
    if (layer.cuts.size() != ranks.size()) return;
  }
  analysis::for_each_group(
      layers, &analysis::LayerOutputRank::input, [&](std::span<const analysis::LayerOutputRank> of_input) {
        std::vector<float> changes;
        std::vector<float> removed;
        for (const analysis::LayerOutputRank& layer : of_input) {
          for (const analysis::OutputRankChange& cut : layer.cuts)
            changes.push_back(static_cast<float>(cut.change.value_or(kUndefined)));
          removed.push_back(static_cast<float>(layer.removed.value_or(kUndefined)));
        }
        const std::size_t input = of_input.front().input;
        results.arrays.push_back({fmt::format("output_rank_change_{}", input),
                                  make_tensor({of_input.size(), ranks.size()}, std::move(changes))});
        results.arrays.push_back(
            {fmt::format("output_removed_{}", input), make_tensor({of_input.size()}, std::move(removed))});
      });
  results.arrays.push_back({"output_ranks", make_tensor({ranks.size()}, ranks)});
}

class ContributionsAnalysis final : public Analysis {
 public:
  explicit ContributionsAnalysis(const AnalysisInput& input)
      : Analysis(input),
        contributions_(input.selection),
        ranks_(input.selection, input.request.output_ranks, input.context.pool) {}

  std::vector<forward::Observer*> observers() override {
    if (!input_.request.output_rank) return {&contributions_};
    return {&contributions_, &ranks_};
  }
  HeadsSeen heads_seen() const override { return HeadsSeen::of_selected_layers; }

  std::uint64_t values() const override {
    constexpr std::uint64_t kRankColumns = 7;
    std::uint64_t count = input_.selection.heads.size() * (6 + kHeadColumns.size());
    const std::vector<std::size_t>& ranks = input_.request.output_ranks;
    for (const std::size_t layer : input_.selection.layers()) {
      const model::AttentionConfig& attention = input_.config().layers[layer].attention;
      if (!input_.request.output_rank || !attention.output.weight) continue;
      const std::size_t full_rank = std::min(attention.heads * attention.d_value, input_.config().d_output);
      const auto powers_of_two = static_cast<std::size_t>(std::bit_width(full_rank - 1));  // below full_rank
      count += kRankColumns * (1 + (ranks.empty() ? powers_of_two : ranks.size()));
    }
    return count * input_.batch.sequences.size();
  }

  Results finish() override {
    const std::vector<HeadContribution> heads = contributions_.finish();
    const Table table = heads_of(input_, heads);
    Results results;
    results.add_table("contribution", table);
    results.text.emplace_back(
        TextTable{"Contributions z W_O of heads to the attention output of their layer (without b_O)",
                  text_columns(table, {"input", "name", "norm", "norm_share", "cosine", "share", "explained",
                                       "whole_norm", "stream_norm"}),
                  3});
    add_arrays(input_, results, heads, table);
    if (input_.request.form == Form::pictures)
      results.pictures.push_back({"contributions", heads_page(results, "contributions.norm", true)});
    if (!input_.request.output_rank) return results;
    const std::vector<analysis::LayerOutputRank> layers = ranks_.finish();
    const Table ranks = ranks_table(input_, layers);
    results.add_table("output_rank", ranks);
    results.text.emplace_back(
        TextTable{"Relative change of a layer's output with W_O cut to a rank, or removed",
                  select_columns(ranks, {"input", "layer", "output", "rank", "full_rank", "change"}), 4});
    add_arrays(results, layers);
    return results;
  }

 private:
  analysis::Contributions contributions_;
  analysis::OutputRank ranks_;
};

}  // namespace

constexpr std::array<Definition, 11> kContributionColumns = {
    {{"norm", "", "[0, inf)", "", "mean over positions of |w_i|, with w = z W_O of the head",
      "Kobayashi et al. 2020"},
     {"norm_share", "", "[0, 1]", "1 / heads",
      "sum of |w_i| over positions / the same sum for all heads of the layer"},
     {"cosine", "", "[-1, 1]", "1 / sqrt(heads)",
      "<w, t> / (|w| |t|); w = z W_O of the head, t is the sum of w over the heads"},
     {"share", "", "(-inf, inf)", "1 / heads",
      "<w, t> / |t|^2, w and t as in cosine: projection of w on t; sums to 1 over heads"},
     {"explained", "", "(-inf, 1]", "1 / heads",
      "1 - |t - w|^2 / |t|^2, w and t as in cosine: part of t that the head explains"},
     {"whole_norm", "", "[0, inf)", "", "mean over positions of |t_i|, t as in cosine"},
     {"stream_norm", "", "[0, inf)", "",
      "mean norm of the residual stream to which the attention output is added"},
     {"output", "", "cut or removed", "",
      "cut: W_O has a lower rank, by its SVD; removed: the output is z, without W_O"},
     {"rank", "", "from 1", "", "rank to which W_O is cut; undefined if it is removed"},
     {"full_rank", "", "from 1", "", "the smaller dimension of W_O"},
     {"change", "", "[0, inf)", "",
      "|y' - y| / |y| for y = z W_O of the layer; y' has the cut W_O, or none (y' = z)"}}};

std::unique_ptr<Analysis> make_contributions(const AnalysisInput& input) {
  require_values(input, "contributions");
  return std::make_unique<ContributionsAnalysis>(input);
}

}  // namespace attnctl::inspect
