#include "textbook/parts.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "linalg/gemm.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::textbook {
namespace {

// The names in the summary of each experiment, and column names that are put together.
constexpr Definition kAveragingSummary[] = {
    {"largest_difference_from_closed_form", "", "[0, inf)", "",
     "largest difference of an error with constructed heads from its closed form"},
    {"descent_over_closed_form_least", "", "", "", "smallest sum_error_by_descent - sum_error_closed_form"},
    {"descent_over_closed_form_most", "", "", "", "largest sum_error_by_descent - sum_error_closed_form"},
};
constexpr Definition kDiversitySummary[] = {
    {"random_effective_rank", "", "[1, d_head]", "", "effective_rank of random heads"},
    {"random_similarity", "", "[-1, 1]", "", "similarity of random heads"},
    {"random_absolute_similarity", "", "[0, 1]", "", "absolute_similarity of random heads"},
    {"random_effective_rank_deviation", "", "[0, inf)", "",
     "standard deviation of random_effective_rank over draws"},
    {"random_similarity_deviation", "", "[0, inf)", "", "standard deviation of random_similarity over draws"},
    {"random_absolute_similarity_deviation", "", "[0, inf)", "",
     "standard deviation of random_absolute_similarity over draws"},
    {"random_mean_similarity", "", "[-1, 1]", "", "similarity of random heads, mean over heads"},
    {"random_mean_similarity_deviation", "", "[0, inf)", "",
     "standard deviation of random_mean_similarity over draws"},
    {"random_mean_absolute_similarity", "", "[0, 1]", "",
     "absolute_similarity of random heads, mean over heads"},
    {"random_mean_absolute_similarity_deviation", "", "[0, inf)", "",
     "standard deviation of random_mean_absolute_similarity over draws"},
    {"specialised_effective_rank", "", "[1, d_head]", "", "effective_rank of specialised heads"},
    {"specialised_effective_rank_deviation", "", "[0, inf)", "",
     "standard deviation of specialised_effective_rank over draws"},
    {"specialised_similarity", "", "[-1, 1]", "", "similarity of specialised heads"},
    {"specialised_absolute_similarity", "", "[0, 1]", "", "absolute_similarity of specialised heads"},
    {"specialised_mean_similarity", "", "[-1, 1]", "", "similarity of specialised heads, mean over heads"},
    {"specialised_mean_similarity_deviation", "", "[0, inf)", "",
     "standard deviation of specialised_mean_similarity over draws"},
    {"specialised_mean_absolute_similarity", "", "[0, 1]", "",
     "absolute_similarity of specialised heads, mean over heads"},
    {"specialised_mean_absolute_similarity_deviation", "", "[0, inf)", "",
     "standard deviation of specialised_mean_absolute_similarity over draws"},
};
constexpr Definition kHullSummary[] = {
    {"duplicates", "", "from 0", "", "number of keys that equal another key"},
    {"on_the_boundary", "", "from 0", "", "number of keys on the boundary of the hull that are no vertices"},
    {"inside", "", "from 0", "", "number of keys inside the hull"},
    {"axis_heads", "", "from 1", "", "number of heads that read one coordinate each: the size of a key"},
    {"keys", "", "", "", "the proof for each key, with exact numbers"},
};
constexpr Definition kHeadsSummary[] = {
    {"multiply_adds_projections", "", "", "", "multiply-adds of W_Q, W_K and W_V, for any number of heads"},
    {"multiply_adds_scores", "", "", "", "multiply-adds of the scores, for any number of heads"},
    {"multiply_adds_values", "", "", "", "multiply-adds of the weighted values, for any number of heads"},
    {"multiply_adds_output", "", "", "", "multiply-adds of W_O, for any number of heads"},
};
constexpr Definition kPositionsSummary[] = {
    {"smallest_distance", "", "[0, inf)", "", "smallest distance between the vectors of two positions"},
    {"learned_smallest_distance", "", "[0, inf)", "",
     "smallest distance between the learned vectors of two positions of the model"},
    {"permutation_error", "", "[0, inf)", "",
     "largest change of the output of a random layer, in the same order, if its tokens are reordered"},
    {"permutation_error_with_positions", "", "[0, inf)", "",
     "permutation_error of the layer if positions are added to its tokens"},
};
constexpr Definition kScalingSummary[] = {
    {"variance_relative_error", "", "[0, inf)", "", "largest |score_variance / d_k - 1|"},
    {"uniform_entropy", "nats", "", "", "entropy of a row of equal weights, ln keys"},
    {"jacobian_ratio", "", "(0, inf)", "1", "scaled_jacobian_norm / jacobian_norm for the last d_k"},
    {"heads", "", "from 1", "", "number of heads"},
    {"heads_with_temperature", "", "from 0", "", "number of heads with a defined temperature"},
    {"heads_below_1", "", "from 0", "", "number of heads with a temperature below 1"},
    {"sharpest_head", "", "", "", "name of the head with the lowest temperature"},
    {"lowest_temperature", "", "[0.001, 1000]", "1", "temperature of the sharpest head"},
};
constexpr Definition kKindsSummary[] = {
    {"closest_to_full", "", "", "",
     "kind with the lowest total_variation, of those that differ from full attention"},
};
constexpr Definition kGradientsSummary[] = {
    {"largest_error", "", "[0, inf)", "", "largest error of all rows"},
    {"target", "", "from 0", "", "id of the token whose logit is differentiated"},
    {"target_token", "", "", "", "the token whose logit is differentiated"},
    {"logit", "", "", "", "logit of the target token at `position`"},
    {"targets", "", "", "", "with several inputs: input, position, target, target_token and logit of each"},
};
constexpr Definition kDistanceSummary[] = {
    {"weight_from_n_to_1", "", "[0, 1]", "", "weight of the last of the n tokens on the first"},
    {"steps", "", "", "", "number of layers in which the last of the n tokens reaches the first: 1"},
    {"score_margin_for_0.9", "", "", "",
     "score, above that of all other keys, that gives a key of n the weight 0.9: ln(9 (n - 1))"},
};

/// Returns the queries, keys or values of a head, [n, d_head]. `weight` is the matrix of all heads.
OwnedMatrix<double> project(const OwnedMatrix<double>& weight, std::size_t head, std::size_t d_head,
                            MatrixView<const double> x) {
  return linalg::product_nt(x, weight.view().row_range(head * d_head, d_head));
}

/// Returns the table without the column `name`, and without `component` if it has no value. A row over all
/// heads has the head "all".
Table text_table(const Table& table) {
  std::vector<Cell> cells(table.columns.size());
  if (table.rows > 0) table.row(0, cells);
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string& name = table.columns[i].name;
    if (name != "name" && (name != "component" || cells[i] != Cell())) shown.push_back(name);
  }
  Table text = select_columns(table, shown);
  const auto head = text.find("head");
  const auto layer = text.find("layer");  // undefined in rows of tokens
  if (!head) return text;
  text.row = [row = std::move(text.row), head = *head, layer](std::size_t index,
                                                              std::span<Cell> cells_of_row) {
    row(index, cells_of_row);
    if (cells_of_row[head] == Cell() && !(layer && cells_of_row[*layer] == Cell()))
      cells_of_row[head] = "all";
  };
  return text;
}

/// Returns the definition of a name in the summary. Throws std::invalid_argument if there is none.
const Definition& summary_definition(std::string_view experiment, const std::string& name) {
  for (const NamedDefinitions& group : definitions()) {
    const auto found = std::ranges::find(group.definitions, name, &Definition::name);
    if (group.where == experiment && found != group.definitions.end()) return *found;
  }
  return *columns_of({}, {name}).front().definition;
}

}  // namespace

std::vector<NamedDefinitions> definitions() {
  return {
      {"averaging", kAveragingColumns}, {"averaging", kAveragingSummary}, {"diversity", kDiversityColumns},
      {"diversity", kDiversitySummary}, {"hull", kHullColumns},           {"hull", kHullSummary},
      {"heads", kHeadsColumns},         {"heads", kHeadsSummary},         {"positions", kPositionsColumns},
      {"positions", kPositionsSummary}, {"scaling", kScalingColumns},     {"scaling", kScalingSummary},
      {"kinds", kKindsColumns},         {"kinds", kKindsSummary},         {"gradients", kGradientsColumns},
      {"gradients", kGradientsSummary}, {"distance", kDistanceColumns},   {"distance", kDistanceSummary}};
}

Results results_of(const ExperimentResult& result, bool with_charts) {
  Results results;
  results.document.head.set("name", result.name)
      .set("seed", static_cast<std::size_t>(result.seed))
      .set("parameters", result.parameters)
      .set("summary", result.summary);
  results.add_table("row", result.rows);
  const Table shown = text_table(result.rows);
  results.text.emplace_back(TextTable{"Experiment " + result.name, shown});
  CellRows summary;  // without lists and records
  for (const auto& [name, value] : result.summary.fields) {
    if (const Cell* single = std::get_if<Cell>(&value.data)) summary.push_back({name, *single});
  }
  if (!summary.empty())
    results.text.emplace_back(TextTable{"", make_table("summary", {"summary", "value"}, std::move(summary))});
  if (!result.charts.empty()) {
    const ChartPage page{"Experiment: " + result.name,
                         result.drawn.columns.empty() ? result.rows : result.drawn, result.charts,
                         result.subtitle};
    if (with_charts) results.text.emplace_back(page);
    results.pictures.push_back({"charts", page});
  }
  results.text.insert(results.text.end(), {TextLine{}, TextLine{"", result.conclusion}, TextLine{}});
  const auto add_meaning = [&results](const std::string& name, const Definition& about) {
    results.text.emplace_back(TextLine{
        name, fmt::format(": {}{}{}", about.meaning, about.unit.empty() ? "" : ", in ", about.unit)});
  };
  for (const Column& column : shown.columns) add_meaning(column.name, *column.definition);
  for (const auto& [name, value] : result.summary.fields)
    if (std::holds_alternative<Cell>(value.data) && !shown.find(name))
      add_meaning(name, summary_definition(result.name, name));
  for (const View& view : result.heatmaps) {
    View& added = results.pictures.emplace_back(view);
    std::visit([&](auto& page) { page.subtitle = result.subtitle; }, added.page);
  }
  return results;
}

Tensor array_of(MatrixView<const double> matrix) {
  std::vector<double> values;
  for (std::size_t r = 0; r < matrix.rows; ++r)
    values.insert(values.end(), matrix.row(r).begin(), matrix.row(r).end());
  return make_tensor({matrix.rows, matrix.cols}, std::move(values));
}

void softmax(std::span<double> row) {
  const double largest = *std::ranges::max_element(row);
  double sum = 0;
  for (double& value : row) sum += value = std::exp(value - largest);
  for (double& value : row) value /= sum;
}

void softmax_rows(MatrixView<double> scores) {
  for (std::size_t r = 0; r < scores.rows; ++r) softmax(scores.row(r));
}

BareLayer random_bare_layer(std::size_t d, std::size_t heads, Random& random) {
  const double deviation = 1 / std::sqrt(static_cast<double>(d));
  BareLayer layer;
  layer.heads = heads;
  for (OwnedMatrix<double>* weight : {&layer.query, &layer.key, &layer.value, &layer.output})
    *weight = random_matrix(d, d, deviation, random);
  return layer;
}

OwnedMatrix<double> scores_of(const BareLayer& layer, std::size_t head, MatrixView<const double> x) {
  const std::size_t k = layer.d_head();
  const OwnedMatrix<double> queries = project(layer.query, head, k, x);
  const OwnedMatrix<double> keys = project(layer.key, head, k, x);
  return linalg::product_nt(queries.view(), keys.view(), 1 / std::sqrt(static_cast<double>(k)));
}

OwnedMatrix<double> output_of(const BareLayer& layer, MatrixView<const double> x) {
  const std::size_t k = layer.d_head();
  OwnedMatrix<double> z(x.rows, x.cols);
  for (std::size_t head = 0; head < layer.heads; ++head) {
    OwnedMatrix<double> pattern = scores_of(layer, head, x);
    softmax_rows(pattern.view());
    const OwnedMatrix<double> values = project(layer.value, head, k, x);
    linalg::gemm_nn(pattern.view(), values.view(), z.view().col_range(head * k, k));
  }
  return linalg::product_nt(z.view(), layer.output.view());
}

}  // namespace attnctl::textbook
