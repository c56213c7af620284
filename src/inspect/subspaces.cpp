#include "analysis/similarity/subspaces.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/head_axes.hpp"
#include "analysis/weights/composition.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/describe.hpp"

namespace attnctl::inspect {
namespace {

using analysis::ProjectionAnalysis;

Table heads(const AnalysisInput& input, const std::vector<ProjectionAnalysis>& analyses,
            const std::vector<std::optional<double>>& copying) {
  TableRows rows{"subspaces", columns_of({}, {"component", "layer", "head", "name", "kv_head"})};
  for (const analysis::Projection projection : analysis::kAllProjections) {
    for (const Definition& rank : std::span(kSubspaceColumns).first(2))
      rows.columns.emplace_back(fmt::format("{}_{}", name_of(projection), rank.name), rank);
  }
  rows.columns.emplace_back(kSubspaceColumns[2]);  // ov_copying
  for (std::size_t i = 0; i < input.selection.heads.size(); ++i) {
    const model::HeadId head = input.selection.heads[i];
    std::vector<Cell>& row =
        rows.add(analysis::head_cells(input.config(), head), analysis::kv_head_of(input.config(), head));
    for (const analysis::Projection projection : analysis::kAllProjections) {
      const auto found = std::ranges::find(analyses, projection, &ProjectionAnalysis::projection);
      const bool has = found != analyses.end();
      row.push_back(has ? analysis::cell_of(found->heads[i].effective_rank) : Cell());
      row.push_back(has ? analysis::cell_of(found->heads[i].rank) : Cell());
    }
    row.push_back(analysis::cell_of(copying[i]));
  }
  return rows.table();
}

/// Adds the section of the projection kernels, and the table of principal cosines.
void add_kernels(Results& results, const AnalysisInput& input,
                 const std::vector<ProjectionAnalysis>& analyses) {
  List items;
  std::vector<LongBlock> blocks;
  for (const ProjectionAnalysis& analysis : analyses) {
    for (const analysis::SubspaceAngles& each : analysis.angles) {
      const std::size_t count = each.heads.size();
      const Tensor cosines = float_array({count, count, each.angles}, each.cosines);
      const auto pair_and_angle = [&config = input.config(), heads = each.heads](
                                      std::size_t row, std::size_t angle, std::span<Cell> cells) {
        const model::HeadId a = heads[row / heads.size()];
        std::ranges::copy(analysis::pair_cells(config, a, heads[row % heads.size()]), cells.begin());
        cells[7] = analysis::cell_of(angle);
      };
      blocks.push_back({row_of(analysis.projection), cosines, pair_and_angle});
      items.emplace_back(
          Record{{{"projection", std::string(name_of(analysis.projection))},
                  {"component", analysis::component_cell(input.config(), each.heads.front().layer)},
                  {"layer", analysis::number_cell(input.config(), each.layer)},
                  {"names", names_of(input.config(), each.heads)},
                  {"rank", each.ranks},
                  {"kernel", float_array(each.values)},
                  {"principal_cosines", cosines},
                  {"mean_off_diagonal", analysis::off_diagonal(each.values.view()).mean},
                  {"null_mean", each.null.mean},
                  {"null_deviation", each.null.deviation}}});
    }
  }
  results.document.sections.push_back({"projection_kernel", "projection_kernel", std::move(items)});
  results.tables.push_back(
      long_table("principal_cosines",
                 columns_of(kSubspaceColumns, {"projection", "component", "layer_a", "head_a", "name_a",
                                               "layer_b", "head_b", "name_b", "angle", "cosine"}),
                 std::move(blocks)));
}

Table kernel_table(const AnalysisInput& input, const std::vector<ProjectionAnalysis>& analyses) {
  TableRows rows{"projection_kernel",
                 columns_of(kSubspaceColumns, {"projection", "component", "layer_a", "head_a", "name_a",
                                               "layer_b", "head_b", "name_b", "rank_a", "rank_b", "kernel",
                                               "largest_cosine", "null_mean", "null_deviation"})};
  for (const ProjectionAnalysis& analysis : analyses) {
    for (const analysis::SubspaceAngles& each : analysis.angles) {
      rows.add_pairs(input.config(), name_of(analysis.projection), each, [&](std::size_t a, std::size_t b) {
        analysis::RandomNull null;
        if (a != b && each.ranks[a] && each.ranks[b] && each.dimension > 1)
          null = analysis::projection_kernel_null(each.dimension, *each.ranks[a], *each.ranks[b]);
        return row_of(each.ranks[a], each.ranks[b], each.values(a, b),
                      each.angles > 0 ? each.cosines_of(a, b).front() : kUndefined, null.mean,
                      null.deviation);
      });
    }
  }
  return rows.table();
}

void add_pair_arrays(const AnalysisInput& input, Results& results, const ProjectionAnalysis& analysis) {
  const std::string name(name_of(analysis.projection));
  std::vector<HeadPairs> kernels;
  std::vector<HeadPairs> cosines;
  std::vector<double> nulls;
  for (const analysis::SubspaceAngles& each : analysis.angles) {
    kernels.push_back({each.layer, each.heads, each.values.values()});
    cosines.push_back({each.layer, each.heads, each.cosines, each.angles});
    nulls.insert(nulls.end(), {each.null.mean, each.null.deviation});
  }
  results.arrays.push_back({name + "_projection_kernel", pairs_array(input.selection, kernels, false)});
  results.arrays.push_back({name + "_principal_cosines", pairs_array(input.selection, cosines, true)});
  results.arrays.push_back({name + "_projection_kernel_null", float_array({nulls.size() / 2, 2}, nulls)});
}

void add_arrays(const AnalysisInput& input, const std::vector<ProjectionAnalysis>& analyses, Results& results,
                const Table& heads) {
  const analysis::HeadAxes axes(input.selection.heads);
  const auto add = [&](const std::string& column) {
    results.arrays.push_back({column, column_array(heads, column, axes.shape())});
  };
  for (const ProjectionAnalysis& analysis : analyses) {
    for (const char* const rank : {"effective", "numerical"})
      add(fmt::format("{}_{}_rank", name_of(analysis.projection), rank));
    add_pair_arrays(input, results, analysis);
  }
  add("ov_copying");
}

Table kernel_text(const std::vector<ProjectionAnalysis>& analyses) {
  TableRows rows{"", {"projection", "layer", "mean", "random", "deviation"}};
  for (const ProjectionAnalysis& analysis : analyses) {
    for (const analysis::SubspaceAngles& each : analysis.angles)
      rows.add(analysis.projection, each.layer ? analysis::cell_of(each.layer) : Cell(std::string("all")),
               analysis::off_diagonal(each.values.view()).mean, each.null.mean, each.null.deviation);
  }
  return rows.table();
}

HeatmapPage picture(const AnalysisInput& input, const std::vector<ProjectionAnalysis>& analyses) {
  HeatmapPage page;
  page.title = "Projection Kernel of Heads";
  page.scale = {.diverging = false, .label = "Projection kernel"};
  page.columns = analyses.size();
  for (std::size_t i = 0; i < analyses.front().angles.size(); ++i) {
    for (const ProjectionAnalysis& analysis : analyses) {
      const analysis::SubspaceAngles& each = analysis.angles[i];
      const std::string layer =
          each.layer ? "Layer " + model::layer_name(input.config(), *each.layer) + " " : "";
      page.heatmaps.push_back(head_heatmap(input, layer + symbol_of(name_of(analysis.projection)), each));
    }
  }
  page.fit_scale();
  return page;
}

class SubspacesAnalysis final : public Analysis {
 public:
  using Analysis::Analysis;

  std::uint64_t values() const override {
    std::uint64_t count = 14 * input_.selection.heads.size();  // 14 columns
    for (const analysis::Projection projection : analysis::kAllProjections) {
      if (!have_projections(input_, {projection})) continue;
      for (const std::span<const model::HeadId> heads : compared_heads(input_)) {
        std::uint64_t angles = 0;
        for (const model::HeadId head : heads) {
          const auto shape = analysis::projection_shape(input_.config(), head.layer, projection).value();
          angles = std::max<std::uint64_t>(angles, std::min(shape.dimension, shape.width));
        }
        count += 6 + 2 * heads.size() + heads.size() * heads.size() * (1 + angles);
      }
    }
    return count;
  }

  Results finish() override {
    const analysis::WeightsOptions& options = input_.request.weights;
    const forward::RunContext& context = input_.context;
    const std::vector<ProjectionAnalysis> analyses =
        analysis::analyze_subspaces(input_.model, input_.selection, options, context.pool, context.warnings);
    const std::vector<std::optional<double>> copying = analysis::ov_copying(
        input_.model, input_.selection, options.fold_norm, context.pool, context.warnings);

    Results results;
    const Table table = heads(input_, analyses, copying);
    Table ranks = select_columns(table, {"name", "w_q_effective_rank", "w_k_effective_rank",
                                         "w_v_effective_rank", "w_o_effective_rank", "ov_copying"});
    ranks.columns = {"head", "W_Q", "W_K", "W_V", "W_O", "OV copying"};
    results.add_table("subspaces", table);
    results.tables.push_back(kernel_table(input_, analyses));
    add_kernels(results, input_, analyses);
    add_arrays(input_, analyses, results, table);
    results.text.emplace_back(
        TextTable{"Effective ranks of the projections, and OV copying (-1 to 1)", ranks, 2});
    results.text.emplace_back(
        TextTable{"Projection kernels of heads (0 to 1; mean of all pairs, and of random subspaces)",
                  kernel_text(analyses), 4});
    results.pictures.push_back({"subspaces", picture(input_, analyses)});
    return results;
  }
};

}  // namespace

constexpr std::array<Definition, 12> kSubspaceColumns = {
    {{"effective_rank", "", "[1, rank]", "Gaussian projection: 63.3 at d 768, d_head 64",
      "exp of the entropy of s_i / sum(s), for the singular values s_i of a projection",
      "Roy and Vetterli 2007"},
     {"numerical_rank", "", "[0, rank]", "rank for random weights",
      "number of singular values above max(rows, columns) eps(float32) max(s)", "numpy.linalg.matrix_rank"},
     {"ov_copying", "", "[-1, 1]", "about 0 for random weights",
      "Re(sum l) / sum abs(l) over the eigenvalues l of W_E OV W_U", "Elhage et al. 2021, copying heads"},
     {"projection", "", "w_q, w_k, w_v or w_o", "", "matrix whose column space (W_O: row space) is compared"},
     {"rank_a", "", "[0, rank]", "", "dimension of the subspace U_a of the first head: its numerical rank"},
     {"rank_b", "", "[0, rank]", "", "dimension of the subspace U_b of the second head"},
     {"kernel", "", "[0, 1]", "null_mean, standard deviation null_deviation",
      "normalised projection kernel |U_a^T U_b|^2 / sqrt(rank_a rank_b)", "Hamm and Lee 2008"},
     {"largest_cosine", "", "[0, 1]", "", "cosine of the smallest principal angle", "Bjorck and Golub 1973"},
     {"angle", "", "from 0", "", "place of the principal angle, the smallest first"},
     {"cosine", "", "[0, 1]", "",
      "cosine of the principal angle; undefined from the smaller of the two ranks on",
      "Bjorck and Golub 1973"},
     {"null_mean", "", "[0, 1]", "", "mean kernel of random subspaces: sqrt(rank_a rank_b) / d"},
     {"null_deviation", "", "[0, inf)", "", "standard deviation of the kernel of random subspaces"}}};

std::unique_ptr<Analysis> make_subspaces(const AnalysisInput& input) {
  return std::make_unique<SubspacesAnalysis>(input);
}

}  // namespace attnctl::inspect
