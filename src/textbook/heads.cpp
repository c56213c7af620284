#include "textbook/heads.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "analysis/weights/ranks.hpp"
#include "linalg/decompositions.hpp"
#include "model/accounting/accounting.hpp"
#include "model/families/presets.hpp"
#include "textbook/bare_layer.hpp"

namespace attnctl {
namespace {

constexpr double kSamePattern = 1e-6;

/// The measurements of one head.
struct HeadFigures {
  std::size_t score_rank = 0;
  std::size_t qk_rank = 0;
  double qk_effective_rank = 0;
  OwnedMatrix<double> pattern;
};

/// Returns the number of values above size * eps(float64) * the largest value. Uses float64 because the
/// weights are not rounded to float32.
std::size_t rank_of(std::span<const double> singular_values, std::size_t size) {
  const double largest = std::ranges::max(singular_values);
  const double least = static_cast<double>(size) * std::numeric_limits<double>::epsilon() * largest;
  return static_cast<std::size_t>(
      std::ranges::count_if(singular_values, [&](double value) { return value > least; }));
}

OwnedMatrix<double> copy_of(MatrixView<const double> view) {
  OwnedMatrix<double> copy(view.rows, view.cols);
  for (std::size_t r = 0; r < view.rows; ++r) std::ranges::copy(view.row(r), copy.view().row(r).begin());
  return copy;
}

HeadFigures measure_head(const BareLayer& layer, std::size_t head, MatrixView<const double> x) {
  const std::size_t k = layer.d_head();
  HeadFigures figures;
  figures.pattern = scores_of(layer, head, x);
  figures.score_rank = rank_of(singular_values(figures.pattern.view()), x.rows);
  softmax_rows(figures.pattern.view());
  OwnedMatrix<double> query = copy_of(layer.query.view().row_range(head * k, k));
  OwnedMatrix<double> key = copy_of(layer.key.view().row_range(head * k, k));
  const ProductSvd svd = svd_of_product(query.view(), key.view(), 0);
  figures.qk_rank = rank_of(svd.values, x.cols);
  figures.qk_effective_rank = effective_rank(svd.values).value_or(0);
  return figures;
}

/// Returns the mean over rows of the total variation, half the sum of absolute differences.
double distance(const OwnedMatrix<double>& a, const OwnedMatrix<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values().size(); ++i) sum += std::abs(a.values()[i] - b.values()[i]);
  return sum / 2 / static_cast<double>(a.rows());
}

bool alike(const OwnedMatrix<double>& a, const OwnedMatrix<double>& b) {
  return std::ranges::equal(a.values(), b.values(),
                            [](double x, double y) { return std::abs(x - y) <= kSamePattern; });
}

std::size_t count_distinct(const std::vector<HeadFigures>& heads) {
  std::vector<const OwnedMatrix<double>*> kept;
  for (const HeadFigures& head : heads) {
    const bool known =
        std::ranges::any_of(kept, [&](const auto* earlier) { return alike(*earlier, head.pattern); });
    if (!known) kept.push_back(&head.pattern);
  }
  return kept.size();
}

/// Returns the mean over pairs of heads. Undefined for one head.
Cell mean_distance(const std::vector<HeadFigures>& heads, Pool& pool) {
  if (heads.size() < 2) return {};
  std::vector<double> sums(heads.size());
  pool.run(heads.size(), [&](std::size_t i, std::size_t /*worker*/) {
    for (std::size_t j = 0; j < i; ++j) sums[i] += distance(heads[i].pattern, heads[j].pattern);
  });
  const double sum = std::accumulate(sums.begin(), sums.end(), 0.0);
  return sum / (static_cast<double>(heads.size() * (heads.size() - 1)) / 2);
}

std::vector<Cell> row_of(const HeadsOptions& options, std::size_t h, MatrixView<const double> x, Pool& pool) {
  const ModelConfig config = bare_config({.d_model = options.d, .heads = h});
  Random random(options.seed, h);
  const BareLayer layer = random_bare_layer(options.d, h, random);
  std::vector<HeadFigures> heads(h);
  pool.run(h, [&](std::size_t head, std::size_t /*worker*/) { heads[head] = measure_head(layer, head, x); });
  double effective = 0;
  for (const HeadFigures& head : heads) effective += head.qk_effective_rank;
  const std::size_t n = options.length;
  return {count_cell(h),
          count_cell(options.d / h),
          count_cell(count_parameters(config).all),
          count_cell(count_flops(config, n).all / 2),
          count_cell(count_pattern_memory(config, n).all),
          count_cell(std::min(n, options.d / h)),
          count_cell(std::ranges::max(heads, {}, &HeadFigures::score_rank).score_rank),
          count_cell(std::ranges::max(heads, {}, &HeadFigures::qk_rank).qk_rank),
          effective / static_cast<double>(h),
          count_cell(count_distinct(heads)),
          mean_distance(heads, pool)};
}

}  // namespace

ExperimentResult heads_experiment(const HeadsOptions& options, Pool& pool) {
  // Checks the options before computing.
  for (const std::size_t h : options.heads)
    static_cast<void>(bare_config({.d_model = options.d, .heads = h}));
  ExperimentResult result{.name = "heads", .seed = options.seed};
  result.parameters.set("d", options.d)
      .set("heads", List(options.heads.begin(), options.heads.end()))
      .set("length", options.length);
  Random random(options.seed);
  const OwnedMatrix<double> x = random_matrix(options.length, options.d, 1, random);
  CellRows rows;
  for (const std::size_t h : options.heads) rows.push_back(row_of(options, h, x.view(), pool));
  result.rows =
      make_table("rows",
                 {"heads", "d_head", "parameters", "multiply_adds", "pattern_bytes", "score_rank_bound",
                  "score_rank", "qk_rank", "qk_effective_rank", "distinct_patterns", "pattern_distance"},
                 std::move(rows));
  const FlopCount flops = count_flops(bare_config({.d_model = options.d, .heads = 1}), options.length);
  result.summary.set("parameters", 4 * options.d * options.d)
      .set("multiply_adds_projections", static_cast<std::size_t>(flops.projections / 2))
      .set("multiply_adds_scores", static_cast<std::size_t>(flops.scores / 2))
      .set("multiply_adds_values", static_cast<std::size_t>(flops.values / 2))
      .set("multiply_adds_output", static_cast<std::size_t>(flops.output / 2));
  result.charts = {
      line_chart("Rank of one head", "heads", {"score_rank_bound", "qk_rank", "qk_effective_rank"},
                 {"Heads", "Rank", Axes::log_log}),
      line_chart("Different patterns", "heads", {"distinct_patterns"}, {"Heads", "Patterns", Axes::log_log}),
      line_chart("Parameters and multiply-adds", "heads", {"parameters", "multiply_adds"},
                 {"Heads", "Count", Axes::log_log}),
      line_chart("Memory of the patterns", "heads", {"pattern_bytes"}, {"Heads", "Bytes", Axes::log_log})};
  return result;
}

}  // namespace attnctl
