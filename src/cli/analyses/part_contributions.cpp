#include <array>
#include <memory>
#include <string>
#include <utility>

#include "analysis/head_axes.hpp"
#include "analysis/mixing/contributions.hpp"
#include "analysis/weights/output_rank.hpp"
#include "base/undefined.hpp"
#include "cli/analyses/analysis_part.hpp"
#include "cli/analyses/shapes.hpp"
#include "results/results.hpp"

namespace attnctl::cli {
namespace {

Cell number(const std::optional<double>& value) {
  return value ? Cell(static_cast<float>(*value)) : Cell();
}

Cell integer(std::size_t value) {
  return static_cast<std::int64_t>(value);
}

/// A value of HeadContribution, with its name in columns and arrays.
struct Column {
  const char* name;
  std::optional<double> HeadContribution::*value;
};
constexpr std::array kColumns = {
    Column{"norm", &HeadContribution::norm},
    Column{"norm_share", &HeadContribution::norm_share},
    Column{"cosine", &HeadContribution::cosine},
    Column{"share", &HeadContribution::share},
    Column{"explained", &HeadContribution::explained},
    Column{"whole_norm", &HeadContribution::whole_norm},
    Column{"stream_norm", &HeadContribution::stream_norm},
};

class ContributionsPart final : public AnalysisPart {
 public:
  explicit ContributionsPart(const PartInput& input)
      : input_(input),
        contributions_(input.selection),
        ranks_(input.selection, input.request.output_ranks, input.session.pool) {}

  std::vector<Observer*> observers() override {
    if (!input_.request.output_rank) return {&contributions_};
    return {&contributions_, &ranks_};
  }
  HeadsSeen heads_seen() const override { return HeadsSeen::of_selected_layers; }
  Results finish() override;

 private:
  [[nodiscard]] Table heads_table(const std::vector<HeadContribution>& heads, bool named) const;
  [[nodiscard]] Table ranks_table(const std::vector<LayerOutputRank>& layers) const;
  void add_arrays(Results& results, const std::vector<HeadContribution>& heads) const;
  void add_arrays(Results& results, const std::vector<LayerOutputRank>& layers) const;
  [[nodiscard]] static ChartPage charts(Table named);

  PartInput input_;
  Contributions contributions_;
  OutputRank ranks_;
};

/// Returns the table of heads. If `named`, adds the column "head" with "L.H" and calls the head number
/// `index` (JSON). Otherwise the head number is `head` (CSV).
Table ContributionsPart::heads_table(const std::vector<HeadContribution>& heads, bool named) const {
  std::vector<std::string> columns = {"input"};
  if (named) columns.emplace_back("head");
  for (const char* name : {"component", "layer", named ? "index" : "head", "rows"})
    columns.emplace_back(name);
  for (const Column& column : kColumns) columns.emplace_back(column.name);
  std::vector<std::vector<Cell>> rows;
  for (const HeadContribution& of : heads) {
    std::vector<Cell>& row = rows.emplace_back();
    row.emplace_back(input_.shown.sequences[of.input].id);
    if (named) row.emplace_back(head_name(input_.open.model.config(), of.head));
    row.push_back(component_cell(input_.open.model.config(), of.head.layer));
    row.push_back(number_cell(input_.open.model.config(), of.head.layer));
    row.push_back(integer(of.head.head));
    row.push_back(integer(of.rows));
    for (const Column& column : kColumns) row.push_back(number(of.*column.value));
  }
  return make_table("contributions", std::move(columns), std::move(rows));
}

/// Returns one row per rank, and one row for the removed W_O with an undefined rank.
Table ContributionsPart::ranks_table(const std::vector<LayerOutputRank>& layers) const {
  std::vector<std::vector<Cell>> rows;
  for (const LayerOutputRank& layer : layers) {
    const auto add = [&](const char* output, Cell rank, const std::optional<double>& change) {
      rows.push_back({input_.shown.sequences[layer.input].id,
                      component_cell(input_.open.model.config(), layer.layer),
                      number_cell(input_.open.model.config(), layer.layer), std::string(output),
                      std::move(rank), integer(layer.full_rank), number(change)});
    };
    for (const OutputRankChange& cut : layer.cuts) add("cut", integer(cut.rank), cut.change);
    add("removed", Cell(), layer.removed);
  }
  return make_table("output_rank", {"input", "component", "layer", "output", "rank", "full_rank", "change"},
                    std::move(rows));
}

/// Adds contribution_NAME_I with the axes of the selected heads.
void ContributionsPart::add_arrays(Results& results, const std::vector<HeadContribution>& heads) const {
  const HeadAxes axes(input_.selection.heads);
  const std::size_t count = input_.selection.heads.size();
  for (std::size_t first = 0; first < heads.size(); first += count) {
    for (const Column& column : kColumns) {
      std::vector<float> values;
      for (std::size_t i = first; i < first + count; ++i) {
        values.push_back(static_cast<float>((heads[i].*column.value).value_or(kUndefined)));
      }
      results.arrays.push_back({fmt::format("contribution_{}_{}", column.name, heads[first].input),
                                make_array(axes.shape({}), std::move(values))});
    }
  }
}

/// Adds output_rank_change_I [layers, ranks], output_ranks [ranks] and output_removed_I [layers]. Adds
/// nothing if the default ranks differ between layers.
void ContributionsPart::add_arrays(Results& results, const std::vector<LayerOutputRank>& layers) const {
  if (layers.empty()) return;
  std::vector<std::int64_t> ranks;
  for (const OutputRankChange& cut : layers.front().cuts)
    ranks.push_back(static_cast<std::int64_t>(cut.rank));
  for (const LayerOutputRank& layer : layers) {
    if (layer.cuts.size() != ranks.size()) return;
  }
  for (auto first = layers.begin(); first != layers.end();) {
    std::vector<float> changes;
    std::vector<float> removed;
    auto last = first;
    for (; last != layers.end() && last->input == first->input; ++last) {
      for (const OutputRankChange& cut : last->cuts)
        changes.push_back(static_cast<float>(cut.change.value_or(kUndefined)));
      removed.push_back(static_cast<float>(last->removed.value_or(kUndefined)));
    }
    const std::size_t count = removed.size();
    results.arrays.push_back({fmt::format("output_rank_change_{}", first->input),
                              make_array({count, ranks.size()}, std::move(changes))});
    results.arrays.push_back(
        {fmt::format("output_removed_{}", first->input), make_array({count}, std::move(removed))});
    first = last;
  }
  Shape shape{ranks.size()};
  results.arrays.push_back({"output_ranks", make_array(std::move(shape), std::move(ranks))});
}

/// Returns bar charts of the heads. The heads of several inputs are listed input by input.
ChartPage ContributionsPart::charts(Table named) {
  const auto bars = [](const char* title, std::vector<std::string> columns, const char* axis) {
    return Chart{
        .title = title, .x = "head", .y = std::move(columns), .x_axis = "Head", .y_axis = axis, .bars = true};
  };
  return {"Contributions of Heads",
          std::move(named),
          {bars("Norm of what a head writes", {"norm"}, "Norm"),
           bars("Share of the layer's output", {"share", "explained"}, "Share")}};
}

Results ContributionsPart::finish() {
  const std::vector<HeadContribution> heads = contributions_.finish();
  Results results;
  results.document.sections.push_back({"contributions", "contribution", heads_table(heads, true)});
  results.tables.push_back(heads_table(heads, false));
  results.text.emplace_back(
      TextTable{"Contributions of heads to the output of their layer (write z W_O, without b_O)",
                select_columns(heads_table(heads, true), {"input", "head", "norm", "norm_share", "cosine",
                                                          "share", "explained", "whole_norm", "stream_norm"}),
                3});
  add_arrays(results, heads);
  results.pictures.push_back({"contributions", charts(heads_table(heads, true))});
  if (!input_.request.output_rank) return results;
  const std::vector<LayerOutputRank> layers = ranks_.finish();
  const Table ranks = ranks_table(layers);
  results.document.sections.push_back({"output_rank", "output_rank", ranks});
  results.tables.push_back(ranks);
  results.text.emplace_back(
      TextTable{"Relative change of a layer's output with W_O cut to a rank, or removed",
                select_columns(ranks, {"input", "layer", "output", "rank", "full_rank", "change"}), 4});
  add_arrays(results, layers);
  return results;
}

}  // namespace

std::unique_ptr<AnalysisPart> make_contributions(const PartInput& input) {
  require_values(input, "contributions");
  return std::make_unique<ContributionsPart>(input);
}

}  // namespace attnctl::cli
