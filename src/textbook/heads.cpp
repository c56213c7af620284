#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <xtensor/xmanipulation.hpp>
#include <xtensor/xnorm.hpp>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "linalg/decompositions.hpp"
#include "linalg/matrix.hpp"
#include "model/accounting/accounting.hpp"
#include "model/families/presets.hpp"
#include "textbook/experiments.hpp"
#include "textbook/parts.hpp"

namespace attnctl::textbook {
constexpr Definition kHeadsColumns[] = {
    {"heads", "", "", "", "number h of heads"},
    {"d_head", "", "", "", "width of a head, d / h"},
    {"parameters", "", "", "", "number of weights of the layer, 4 d^2"},
    {"multiply_adds", "", "", "", "multiply-adds of the layer for n tokens, n (4 d^2 + 2 n d)"},
    {"pattern_bytes", "bytes", "", "", "memory of the patterns, 4 h n^2"},
    {"score_rank_bound", "", "", "", "upper bound of score_rank, min(n, d / h)"},
    {"score_rank", "", "[0, score_rank_bound]", "", "rank of the scores of a head, largest over heads"},
    {"qk_rank", "", "[0, d_head]", "", "rank of QK = W_Q W_K^T of a head, largest over heads"},
    {"qk_effective_rank", "", "[1, d_head]", "", "mean effective rank of QK", "Roy and Vetterli 2007"},
    {"distinct_patterns", "", "[1, h]", "", "number of patterns that differ by more than 1e-6 in a weight"},
    {"pattern_distance", "", "[0, 1]", "", "mean total variation between the rows of two heads"},
};
constexpr Definition kAveragingColumns[] = {
    {"targets", "", "", "", "number t of tokens whose values the heads should return"},
    {"heads", "", "[1, t]", "", "number h of heads"},
    {"sum_error", "", "[0, inf)", "", "distance of the sum of the outputs from the sum of the values"},
    {"sum_error_by_descent", "", "[0, inf)", "", "sum_error with scores that mirror descent finds"},
    {"sum_error_closed_form", "", "[0, inf)", "", "smallest possible sum_error, (t - h) / sqrt(t)"},
    {"separate_error", "", "[0, inf)", "",
     "distance of the output from the values of all targets, concatenated"},
    {"separate_error_closed_form", "", "[0, inf)", "", "smallest possible separate_error, sqrt(t - h)"},
};

namespace {

// --- The heads experiment

constexpr double kSamePattern = 1e-6;

struct HeadFigures {
  std::size_t score_rank = 0;
  std::size_t qk_rank = 0;
  double qk_effective_rank = 0;
  OwnedMatrix<double> pattern;
};

/// Returns the numerical rank of a matrix [size, size]. The tolerance uses the epsilon of float64, because
/// the matrix was computed in float64.
std::size_t rank_of(std::span<const double> singular_values, std::size_t size) {
  return linalg::numerical_rank(singular_values, size, size, std::numeric_limits<double>::epsilon()).value();
}

HeadFigures measure_head(const BareLayer& layer, std::size_t head, MatrixView<const double> x) {
  const std::size_t k = layer.d_head();
  HeadFigures figures;
  figures.pattern = scores_of(layer, head, x);
  figures.score_rank = rank_of(linalg::singular_values(figures.pattern.view()), x.rows);
  softmax_rows(figures.pattern.view());
  const auto copy_rows = [&](const OwnedMatrix<double>& weight) {
    return linalg::to_owned(linalg::to_matrix(weight.view().row_range(head * k, k)));
  };
  OwnedMatrix<double> query = copy_rows(layer.query);
  OwnedMatrix<double> key = copy_rows(layer.key);
  const linalg::ProductSvd svd = linalg::svd_of_product(query.view(), key.view(), 0);
  figures.qk_rank = rank_of(svd.values, x.cols);
  figures.qk_effective_rank = linalg::effective_rank(svd.values).value_or(0);
  return figures;
}

/// Returns the mean over rows of the total variation of two patterns: half the sum of absolute differences.
double distance(const OwnedMatrix<double>& a, const OwnedMatrix<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values().size(); ++i) sum += std::abs(a.values()[i] - b.values()[i]);
  return sum / 2 / static_cast<double>(a.rows());
}

std::size_t count_distinct(const std::vector<HeadFigures>& heads) {
  std::vector<const OwnedMatrix<double>*> kept;
  for (const HeadFigures& head : heads) {
    const bool known = std::ranges::any_of(kept, [&](const auto* earlier) {
      return std::ranges::equal(earlier->values(), head.pattern.values(),
                                [](double x, double y) { return std::abs(x - y) <= kSamePattern; });
    });
    if (!known) kept.push_back(&head.pattern);
  }
  return kept.size();
}

Cell mean_distance(const std::vector<HeadFigures>& heads, Pool& pool) {
  if (heads.size() < 2) return {};
  std::vector<double> sums(heads.size());
  pool.run(heads.size(), [&](std::size_t i, std::size_t /*worker*/) {
    for (std::size_t j = 0; j < i; ++j) sums[i] += distance(heads[i].pattern, heads[j].pattern);
  });
  const double sum = std::accumulate(sums.begin(), sums.end(), 0.0);
  return sum / (static_cast<double>(heads.size() * (heads.size() - 1)) / 2);
}

// --- The averaging experiment

using linalg::Matrix;
using linalg::Vector;

Matrix normal_matrix(std::size_t rows, std::size_t cols, Random& random) {
  return linalg::to_matrix(random_matrix(rows, cols, 1, random).view());
}

/// Returns random orthonormal rows (Gram-Schmidt, applied twice).
Matrix orthonormal_rows(std::size_t rows, std::size_t cols, Random& random) {
  Matrix matrix = normal_matrix(rows, cols, random);
  for (std::size_t r = 0; r < rows; ++r) {
    auto row = xt::view(matrix, r);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t s = 0; s < r; ++s) {
        const auto earlier = xt::view(matrix, s);
        const double part = xt::sum(row * earlier)();
        row -= part * earlier;
      }
    }
    const double length = xt::norm_l2(row)();
    row /= length;
  }
  return matrix;
}

/// Tokens with orthonormal keys and values, [tokens, width] each. The targets are the first tokens.
struct Tokens {
  Matrix keys;
  Matrix values;
};

/// Returns z of a head, the sum of the values of all tokens, weighted by attention. The query has the score
/// `sharpness` for the tokens [first, first + count) and 0 for the others.
Vector attend(const Tokens& tokens, std::size_t first, std::size_t count, double sharpness) {
  const Vector query = xt::sum(sharpness * xt::view(tokens.keys, xt::range(first, first + count)), {0});
  Vector weights = xt::sum(tokens.keys * query, {1});
  softmax({weights.data(), weights.size()});
  return xt::sum(xt::view(weights, xt::all(), xt::newaxis()) * tokens.values, {0});
}

/// Returns the distance between the sum of the heads' outputs and the sum of the targets' values, if every
/// head attends equally to all targets.
double error_of_sum(const Tokens& tokens, std::size_t targets, std::size_t heads, double sharpness) {
  const Vector z = attend(tokens, 0, targets, sharpness);
  const Vector wanted = xt::sum(xt::view(tokens.values, xt::range(std::size_t{0}, targets)), {0});
  return xt::norm_l2(wanted - static_cast<double>(heads) * z)();
}

/// Returns the error if the heads return the value of each target separately. Head i attends to target i, and
/// W_O writes the head's output to row i of the result. Rows without a head are 0. The error is the distance
/// between the result and the values of the targets.
double error_of_all(const Tokens& tokens, std::size_t targets, std::size_t heads, double sharpness) {
  Matrix off = xt::view(tokens.values, xt::range(std::size_t{0}, targets));
  for (std::size_t i = 0; i < heads; ++i) xt::view(off, i) -= attend(tokens, i, 1, sharpness);
  return xt::norm_l2(xt::flatten(off))();
}

/// Returns the error of the sum after gradient descent on the heads' scores from a random start. With
/// orthonormal values, the error is the distance between the heads' summed weights and the vector that is 1
/// for targets and 0 for other tokens. Each step moves the scores along the negative gradient with respect to
/// the weights (mirror descent), so a saturated softmax does not stop the descent.
double error_by_descent(const AveragingOptions& options, std::size_t targets, std::size_t heads,
                        Random& random) {
  const std::size_t tokens = options.targets + options.others;
  const double rate = 1 / static_cast<double>(heads);
  Vector wanted = xt::zeros<double>({tokens});
  xt::view(wanted, xt::range(std::size_t{0}, targets)) = 1;
  Matrix scores = normal_matrix(heads, tokens, random);
  for (std::size_t step = 0;; ++step) {
    Matrix weights = scores;
    softmax_rows({weights.data(), heads, tokens});
    Vector off = wanted;
    for (std::size_t h = 0; h < heads; ++h) off -= xt::view(weights, h);
    if (step == options.steps) return xt::norm_l2(off)();
    scores += rate * off;
  }
}

struct AveragingCase {
  std::size_t targets = 0, heads = 0;
  double sum = 0, sum_by_descent = 0, sum_least = 0, all = 0, all_least = 0;
};

/// Returns a heatmap of errors by targets (rows) and heads (columns); undefined for more heads than targets.
Heatmap map_of(const std::vector<AveragingCase>& cases, std::size_t most, double AveragingCase::*field,
               const char* title) {
  std::vector<double> values(most * most, kUndefined);
  for (const AveragingCase& each : cases) values[(each.targets - 1) * most + each.heads - 1] = each.*field;
  std::vector<std::string> labels;
  for (std::size_t i = 1; i <= most; ++i) labels.push_back(std::to_string(i));
  return {title, "Heads", "Targets", labels, labels, make_tensor({most, most}, std::move(values))};
}

}  // namespace

ExperimentResult heads_experiment(const HeadsOptions& options, Pool& pool) {
  // Checks all numbers of heads before computing.
  for (const std::size_t h : options.heads)
    static_cast<void>(model::bare_config({.d_model = options.d, .heads = h}));
  ExperimentResult result{.name = "heads", .seed = options.seed, .x = "heads", .x_axis = "Heads"};
  result.parameters.set("d", options.d).set("heads", options.heads).set("length", options.length);
  Random random(options.seed);
  const OwnedMatrix<double> x = random_matrix(options.length, options.d, 1, random);
  CellRows rows;
  for (const std::size_t h : options.heads) {
    const model::ModelConfig config = model::bare_config({.d_model = options.d, .heads = h});
    Random draw(options.seed, h);
    const BareLayer layer = random_bare_layer(options.d, h, draw);
    std::vector<HeadFigures> heads(h);
    pool.run(h, [&](std::size_t head, std::size_t /*worker*/) {
      heads[head] = measure_head(layer, head, x.view());
    });
    double effective = 0;
    for (const HeadFigures& head : heads) effective += head.qk_effective_rank;
    const std::size_t n = options.length;
    rows.push_back(
        {count_cell(h), count_cell(options.d / h), count_cell(model::count_parameters(config).all),
         count_cell(model::count_flops(config, n).all / 2),
         count_cell(model::count_pattern_memory(config, n).all), count_cell(std::min(n, options.d / h)),
         count_cell(std::ranges::max(heads, {}, &HeadFigures::score_rank).score_rank),
         count_cell(std::ranges::max(heads, {}, &HeadFigures::qk_rank).qk_rank),
         effective / static_cast<double>(h), count_cell(count_distinct(heads)), mean_distance(heads, pool)});
  }
  result.rows = make_table("rows", {std::begin(kHeadsColumns), std::end(kHeadsColumns)}, rows);
  result.conclusion = fmt::format(
      "From {} to {} heads, the rank of the scores of a head goes from {} to {}.", options.heads.front(),
      options.heads.back(), std::get<std::int64_t>(rows.front()[6]), std::get<std::int64_t>(rows.back()[6]));
  const model::FlopCount flops =
      model::count_flops(model::bare_config({.d_model = options.d, .heads = 1}), options.length);
  result.summary.set("parameters", 4 * options.d * options.d)
      .set("multiply_adds_projections", static_cast<std::size_t>(flops.projections / 2))
      .set("multiply_adds_scores", static_cast<std::size_t>(flops.scores / 2))
      .set("multiply_adds_values", static_cast<std::size_t>(flops.values / 2))
      .set("multiply_adds_output", static_cast<std::size_t>(flops.output / 2));
  result.add_chart("Rank of one head", {"score_rank_bound", "qk_rank", "qk_effective_rank"}, "Rank",
                   Drawing::log_log);
  result.add_chart("Distinct patterns", {"distinct_patterns"}, "Patterns", Drawing::log_log);
  result.add_chart("Parameters and multiply-adds", {"parameters", "multiply_adds"}, "Count",
                   Drawing::log_log);
  result.add_chart("Memory of the patterns", {"pattern_bytes"}, "Bytes", Drawing::log_log);
  return result;
}

ExperimentResult averaging_experiment(const AveragingOptions& options, Pool& pool) {
  const std::size_t count = options.targets + options.others;
  if (options.d_value < count) {
    fail(Status::usage, "--d-value: got {}, need at least {}, the number of tokens (--targets plus --others)",
         options.d_value, count);
  }
  Random random(options.seed);
  const Tokens tokens{orthonormal_rows(count, count, random),
                      orthonormal_rows(count, options.d_value, random)};
  std::vector<AveragingCase> cases;
  for (std::size_t targets = 1; targets <= options.targets; ++targets) {
    for (std::size_t heads = 1; heads <= targets; ++heads)
      cases.push_back({.targets = targets, .heads = heads});
  }
  pool.run(cases.size(), [&](std::size_t task, std::size_t /*worker*/) {
    AveragingCase& each = cases[task];
    const auto missing = static_cast<double>(each.targets - each.heads);
    Random descent(options.seed, 1 + each.targets * options.targets + each.heads);
    each.sum = error_of_sum(tokens, each.targets, each.heads, options.sharpness);
    each.sum_by_descent = error_by_descent(options, each.targets, each.heads, descent);
    each.sum_least = missing / std::sqrt(static_cast<double>(each.targets));
    each.all = error_of_all(tokens, each.targets, each.heads, options.sharpness);
    each.all_least = std::sqrt(missing);
  });

  ExperimentResult result{.name = "averaging", .seed = options.seed};
  result.parameters.set("targets", options.targets)
      .set("others", options.others)
      .set("d_value", options.d_value)
      .set("sharpness", options.sharpness)
      .set("steps", options.steps);
  CellRows rows;
  double largest = 0;
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -lowest;
  for (const AveragingCase& each : cases) {
    rows.push_back({count_cell(each.targets), count_cell(each.heads), each.sum, each.sum_by_descent,
                    each.sum_least, each.all, each.all_least});
    largest = std::max({largest, std::abs(each.sum - each.sum_least), std::abs(each.all - each.all_least)});
    lowest = std::min(lowest, each.sum_by_descent - each.sum_least);
    highest = std::max(highest, each.sum_by_descent - each.sum_least);
  }
  result.rows = make_table("rows", {std::begin(kAveragingColumns), std::end(kAveragingColumns)}, rows);
  result.summary.set("largest_difference_from_closed_form", largest)
      .set("descent_over_closed_form_least", lowest)
      .set("descent_over_closed_form_most", highest);
  result.conclusion = fmt::format(
      "The error of {} is {:.3f} with 1 head and {:.3f} with {}.", counted(options.targets, "separate value"),
      cases[cases.size() - options.targets].all, cases.back().all, options.targets);
  const double high = std::max(1.0, std::sqrt(static_cast<double>(options.targets)));
  result.heatmaps = {
      {"errors",
       HeatmapPage{
           .title = "Error of several targets by number of heads",
           .scale = {.diverging = false, .low = 0, .high = high, .label = "Error"},
           .columns = 2,
           .heatmaps = {map_of(cases, options.targets, &AveragingCase::sum, "Sum of all targets"),
                        map_of(cases, options.targets, &AveragingCase::all, "Every target separately")}}}};
  return result;
}

}  // namespace attnctl::textbook
